/* The proof that products and convolutions compute right on a device: what is left over on every side of tiles,
   fragments and slices of K, epilogues as models fuse them, and as many tiles as make a GPU choose its widest parts;
   against a reference in double precision. */
#include "job/job.h"

typedef struct diti_product {
    uint32_t m, n, k;       /* sizes of a product; a convolution: pixels, channels that come out, channels that go in */
    uint32_t height, width; /* size of a convolution's picture, kernel 3 x 3; 0: a linear layer */
    bool half;              /* operands in F16, weights too; else F32 */
    dit_type type; /* type of the weights: rows or blocks of int8, or 8-bit floats; DIT_TYPE_STORED: as half says */
    bool out_f32;
    bool bias, gelu, multiply, gate, residual;
    float *x, *w, *bias_values, *multiply_values, *gate_values, *residual_values, *out;
} diti_product;

static float diti_product_round(float value) { return diti_half_to_float(diti_float_to_half(value)); }

/* Between -0.5 and 0.5; different for every array. */
static void diti_product_fill(float *values, size_t count, uint32_t seed, bool half) {
    size_t i;
    for (i = 0; i < count; i++) {
        values[i] = (float)((((uint32_t)i + seed * 97001u) * 2654435761u) >> 20) / 4096.0f - 0.5f;
        if (half) values[i] = diti_product_round(values[i]);
    }
}

static uint32_t diti_product_taps(const diti_product *p) { return p->height ? 9u : 1u; }

static bool diti_product_is_float8(const diti_product *p) {
    return p->type == DIT_TYPE_F8_E4M3 || p->type == DIT_TYPE_F8_E5M2;
}

/* The inputs as products of 8-bit floats round them: the largest of a row to 448. */
static void diti_product_round_rows(const diti_product *p) {
    uint32_t r, c;
    for (r = 0; r < p->m; r++) {
        float *row = p->x + (size_t)r * p->k, most = 0;
        for (c = 0; c < p->k; c++)
            if (fabsf(row[c]) > most) most = fabsf(row[c]);
        for (c = 0; c < p->k; c++)
            row[c] = diti_e4m3_to_float(diti_float_to_e4m3(row[c] * (448.0f / most))) * (most / 448.0f);
    }
}

/* Rounds the weights, and gives their bytes. */
static uint32_t diti_product_store_float8(const diti_product *p, unsigned char *out) {
    const size_t count = (size_t)p->n * p->k;
    size_t i;
    for (i = 0; i < count; i++) {
        if (p->type == DIT_TYPE_F8_E4M3) {
            out[i] = diti_float_to_e4m3(p->w[i]);
            p->w[i] = diti_e4m3_to_float(out[i]);
        } else {
            out[i] = (unsigned char)(diti_float_to_half(p->w[i]) >> 8);
            p->w[i] = diti_e5m2_to_float(out[i]);
        }
    }
    return (uint32_t)count;
}

/* Blocks of 32: a scale as F16, and bytes. */
static uint32_t diti_product_store_q8_0(const diti_product *p, unsigned char *out) {
    const float scale = 1.0f / 256.0f; /* exact in F16 */
    const uint16_t half = diti_float_to_half(scale);
    const size_t count = (size_t)p->n * p->k;
    size_t i;
    for (i = 0; i < count; i++) {
        unsigned char *block = out + i / 32 * 34;
        int8_t step = (int8_t)(p->w[i] * 254.0f);
        memcpy(block, &half, sizeof half);
        memcpy(block + 2 + i % 32, &step, 1);
        p->w[i] = (float)step * scale;
    }
    return (uint32_t)(count / 32 * 34);
}

/* The weights as the device stores them, in out; rows of int8 change the values to what they stand for. */
static uint32_t diti_product_store(const diti_product *p, unsigned char *out) {
    const float scale = 1.0f / 254.0f;
    const uint32_t k = p->k * diti_product_taps(p);
    const bool i8 = p->type == DIT_TYPE_I8_ROW;
    const uint32_t pitch = i8 ? diti_i8_pitch(k) : k * (p->half ? 2u : 4u);
    uint32_t r, c;
    if (diti_product_is_float8(p)) return diti_product_store_float8(p, out);
    if (p->type == DIT_TYPE_Q8_0) return diti_product_store_q8_0(p, out);
    for (r = 0; r < p->n; r++) {
        unsigned char *to = out + (size_t)r * pitch;
        float *row = p->w + (size_t)r * k;
        memset(to, 0, pitch);
        for (c = 0; c < k; c++) {
            uint16_t half = diti_float_to_half(row[c]);
            int8_t step = (int8_t)(row[c] * 254.0f);
            if (i8) row[c] = (float)step * scale;
            if (i8)
                memcpy(to + c, &step, 1);
            else
                memcpy(to + (size_t)c * (p->half ? 2u : 4u), p->half ? (const void *)&half : (const void *)&row[c],
                       p->half ? 2u : 4u);
        }
        if (i8) memcpy(to + diti_align_up(k, 16), &scale, sizeof scale);
    }
    return p->n * pitch;
}

/* Values as an input of the plan holds them; scratch: as many halves. */
static dit_result diti_product_write(diti_plan *plan, diti_tensor tensor, const float *values, size_t count, bool half,
                                     uint16_t *scratch, dit_error *err) {
    size_t i;
    for (i = 0; half && i < count; i++) scratch[i] = diti_float_to_half(values[i]);
    return diti_plan_write(plan, tensor, half ? (const void *)scratch : (const void *)values, count * (half ? 2u : 4u),
                           err);
}

typedef struct diti_product_tensors {
    diti_tensor x, multiply, gate, residual, y; /* 0: the product has none */
    bool halves;                                /* activations are F16 */
} diti_product_tensors;

/* weights: of the product and its bias. */
static void diti_product_emit(const diti_product *p, const diti_weight weights[2], diti_graph *graph,
                              diti_product_tensors *t) {
    diti_linear_desc linear = DITI_ZERO;
    diti_conv_desc conv = DITI_ZERO;
    memset(t, 0, sizeof *t);
    diti_guard_begin(graph); /* as jobs do, whose pipelines have guards */
    t->halves = graph->activation == DITI_F16;
    diti_graph_segment(graph, "self-test", true);
    diti_graph_scope(graph, "block", 0);
    t->x = diti_tensor_input(graph, p->half ? DITI_F16 : DITI_F32, p->m, p->k, "self-test input");
    if (p->multiply) t->multiply = diti_tensor_input(graph, graph->activation, p->m, p->n, "self-test multiplier");
    if (p->gate) t->gate = diti_tensor_input(graph, DITI_F32, 1, p->n, "self-test gate");
    if (p->residual)
        t->residual =
            diti_tensor_input(graph, p->out_f32 ? DITI_F32 : graph->activation, p->m, p->n, "self-test residual");
    t->y = diti_tensor_state(graph, p->out_f32 ? DITI_F32 : graph->activation, p->m, p->n, "self-test output");
    linear.name = conv.name = "self-test";
    linear.bias = conv.bias = p->bias ? &weights[1] : NULL;
    linear.activation = conv.activation = p->gelu ? DITI_ACTIVATION_GELU_TANH : DITI_ACTIVATION_NONE;
    linear.multiply = t->multiply;
    linear.gate = t->gate;
    linear.residual = conv.residual = t->residual;
    linear.out = conv.out = t->y;
    conv.batch = 1;
    conv.height = p->height;
    conv.width = p->width;
    conv.pad_before = conv.pad_after = 1;
    if (p->height)
        diti_conv(graph, t->x, &weights[0], &conv);
    else
        diti_linear(graph, t->x, &weights[0], &linear);
}

static dit_result diti_product_plan(diti_device *device, const diti_product *p, const diti_weight weights[2],
                                    uint16_t *scratch, dit_error *err) {
    const size_t inputs = (size_t)p->m * p->k, outputs = (size_t)p->m * p->n;
    diti_product_tensors t;
    diti_graph graph;
    diti_plan *plan = NULL;
    dit_result result;
    size_t i;
    diti_graph_init(&graph, device);
    diti_product_emit(p, weights, &graph, &t);
    result = diti_plan_create(&graph, NULL, &plan, err);
    diti_graph_free(&graph);
    if (result >= 0) result = diti_guard_write(plan, 0, err);
    if (result >= 0) result = diti_product_write(plan, t.x, p->x, inputs, p->half, scratch, err);
    if (result >= 0 && t.multiply)
        result = diti_product_write(plan, t.multiply, p->multiply_values, outputs, t.halves, scratch, err);
    if (result >= 0 && t.gate) result = diti_product_write(plan, t.gate, p->gate_values, p->n, false, scratch, err);
    if (result >= 0 && t.residual)
        result =
            diti_product_write(plan, t.residual, p->residual_values, outputs, !p->out_f32 && t.halves, scratch, err);
    if (result >= 0) result = diti_plan_run(plan, 0, 1, err);
    if (result >= 0 && !p->out_f32 && t.halves) {
        result = diti_plan_read(plan, t.y, scratch, outputs * 2, err);
        for (i = 0; i < outputs && result >= 0; i++) p->out[i] = diti_half_to_float(scratch[i]);
    } else if (result >= 0) {
        result = diti_plan_read(plan, t.y, p->out, outputs * sizeof *p->out, err);
    }
    diti_plan_destroy(plan);
    return result;
}

/* Weights of convolutions are stored as [output][input][tap]. */
static double diti_product_sum(const diti_product *p, uint32_t r, uint32_t c) {
    const float *w = p->w + (size_t)c * p->k * diti_product_taps(p);
    double sum = 0;
    uint32_t k, tap;
    for (tap = 0; tap < diti_product_taps(p); tap++) {
        const float *x = p->x + (size_t)r * p->k;
        if (p->height) {
            int64_t row = (int64_t)(r / p->width) + tap / 3 - 1, column = (int64_t)(r % p->width) + tap % 3 - 1;
            if (row < 0 || column < 0 || row >= p->height || column >= p->width) continue;
            x = p->x + (size_t)(row * p->width + column) * p->k;
        }
        for (k = 0; k < p->k; k++) sum += (double)x[k] * (double)w[k * diti_product_taps(p) + tap];
    }
    return sum;
}

static double diti_product_value(const diti_product *p, uint32_t r, uint32_t c) {
    double v = diti_product_sum(p, r, c);
    if (p->bias) v += p->bias_values[c];
    if (p->gelu) v = 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
    if (p->multiply) v *= p->multiply_values[(size_t)r * p->n + c];
    if (p->gate) v *= p->gate_values[c];
    if (p->residual) v += p->residual_values[(size_t)r * p->n + c];
    return v;
}

/* Relative L2 error of what the device computed, of some 2500 results. The rungs promise 1e-5 (fp32) and 1.4e-2 (fp16,
   int8); a broken driver misses by far more. */
static bool diti_product_agrees(const diti_product *p) {
    const uint32_t rows = 1 + p->m / 39, columns = 1 + p->n / 63;
    double error = 0, norm = 0;
    uint32_t r, c;
    for (r = 0; r < p->m; r += rows) {
        for (c = r % columns; c < p->n; c += columns) {
            double exact = diti_product_value(p, r, c), off = exact - (double)p->out[(size_t)r * p->n + c];
            error += off * off;
            norm += exact * exact;
        }
    }
    return error <= norm * 2e-4; /* also false for NaN */
}

/* The weights of the product and its bias, in these blocks. */
static void diti_product_weights(const diti_product *p, const diti_weight_block blocks[2], diti_weight weights[2]) {
    diti_weight *weight = &weights[0], *bias = &weights[1];
    memset(weights, 0, 2 * sizeof *weights);
    weight->name = "self-test weight";
    weight->type = p->type ? p->type : p->half ? DIT_TYPE_F16 : DIT_TYPE_F32;
    weight->rows = p->n;
    weight->columns = p->k * diti_product_taps(p);
    weight->kernel = p->height ? 3 : 1;
    weight->part_count = 1;
    weight->parts[0].block = &blocks[0];
    weight->parts[0].rows = p->n;
    bias->type = DIT_TYPE_F32;
    bias->rows = 1;
    bias->columns = p->n;
    bias->kernel = 1;
    bias->part_count = 1;
    bias->parts[0].block = &blocks[1];
    bias->parts[0].rows = 1;
}

/* Only lists the pipelines. */
static dit_result diti_product_want(diti_device *device, const diti_product *p, dit_error *err) {
    diti_weight_block blocks[2];
    diti_weight weights[2];
    diti_product_tensors t;
    diti_graph graph;
    dit_result result;
    memset(blocks, 0, sizeof blocks);
    diti_product_weights(p, blocks, weights);
    diti_graph_init(&graph, device);
    diti_product_emit(p, weights, &graph, &t);
    result = diti_graph_want(&graph, err);
    diti_graph_free(&graph);
    return result;
}

/* blocks: of the weights and the bias. */
static dit_result diti_product_upload(diti_device *device, const diti_product *p, unsigned char *stored,
                                      diti_weight_block *blocks, dit_error *err) {
    uint32_t bytes = diti_product_store(p, stored);
    DITI_TRY(diti_buffer_create(device, bytes, DITI_MEMORY_DEVICE, "self-test weights", &blocks[0].buffer, err));
    DITI_TRY(diti_buffer_write(device, &blocks[0].buffer, 0, stored, bytes, err));
    if (!p->bias) return DIT_OK;
    DITI_TRY(diti_buffer_create(device, p->n * 4, DITI_MEMORY_DEVICE, "self-test bias", &blocks[1].buffer, err));
    return diti_buffer_write(device, &blocks[1].buffer, 0, p->bias_values, p->n * 4, err);
}

static dit_result diti_product_compute(diti_device *device, diti_product *p, bool *agrees, dit_error *err) {
    const size_t inputs = (size_t)p->m * p->k, outputs = (size_t)p->m * p->n;
    const size_t weights = (size_t)p->n * p->k * diti_product_taps(p);
    const size_t most = inputs > outputs ? inputs : outputs;
    float *values = (float *)diti_alloc_array(&device->env, inputs + 2 * weights + 3 * outputs + 2 * (size_t)p->n + 64,
                                              sizeof *values);
    uint16_t *scratch = (uint16_t *)diti_alloc_array(&device->env, most, sizeof *scratch);
    diti_weight_block blocks[2];
    diti_weight described[2];
    dit_result result;
    memset(blocks, 0, sizeof blocks);
    *agrees = false;
    if (values && scratch) {
        p->x = values;
        p->w = p->x + inputs; /* behind it what is stored: rows of int8 are not longer, but for very short ones */
        p->out = p->w + 2 * weights + 64;
        p->multiply_values = p->residual_values = p->out + outputs;
        if (p->multiply) p->residual_values += outputs;
        p->bias_values = p->out + 3 * outputs;
        p->gate_values = p->bias_values + p->n;
        diti_product_fill(p->x, inputs, 0, p->half);
        diti_product_fill(p->w, weights, 1, p->half);
        diti_product_fill(p->bias_values, p->n, 2, false);
        diti_product_fill(p->gate_values, p->n, 3, false);
        if (p->multiply) diti_product_fill(p->multiply_values, outputs, 4, true);
        if (p->residual) diti_product_fill(p->residual_values, outputs, 5, true);
        result = diti_product_upload(device, p, (unsigned char *)(p->w + weights), blocks, err);
        diti_product_weights(p, blocks, described);
        if (result >= 0) result = diti_product_plan(device, p, described, scratch, err);
        if (diti_product_is_float8(p)) diti_product_round_rows(p);
        *agrees = result >= 0 && diti_product_agrees(p);
    } else {
        result = diti_fail_memory(err, "the device self-test");
    }
    diti_buffer_destroy(device, &blocks[0].buffer);
    diti_buffer_destroy(device, &blocks[1].buffer);
    diti_free(&device->env, values);
    diti_free(&device->env, scratch);
    return result;
}

static dit_result diti_product_run(diti_device *device, diti_product *p, bool *agrees, dit_error *err) {
    *agrees = true;
    return device->wanted ? diti_product_want(device, p, err) : diti_product_compute(device, p, agrees, err);
}

DIT_INTERNAL dit_result diti_probe_product(diti_device *device, diti_probe which, dit_type type, bool *agrees,
                                           dit_error *err) {
    diti_product p = DITI_ZERO;
    p.type = type;
    if (which == DITI_PROBE_PLAIN) {
        p.m = 191;
        p.n = 188;
        p.k = diti_product_is_float8(&p) ? 208 : type == DIT_TYPE_Q8_0 ? 224 : 200;
        p.out_f32 = true;
        return diti_product_run(device, &p, agrees, err);
    }
    p.half = p.bias = true;
    p.m = device->is_cpu ? 97 : 1500; /* at least 128 tiles of 128 x 128 */
    p.n = device->is_cpu ? 92 : 1404;
    p.k = diti_product_is_float8(&p) ? 80 : type == DIT_TYPE_Q8_0 ? 96 : 72;
    if (which == DITI_PROBE_HIDDEN) {
        p.gelu = p.multiply = true;
    } else if (which == DITI_PROBE_RESIDUAL) {
        p.gate = p.residual = p.out_f32 = true;
    } else {
        p.height = device->is_cpu ? 11 : 96;
        p.width = device->is_cpu ? 9 : 90;
        p.m = p.height * p.width;
        p.n = device->is_cpu ? 36 : 96;
        p.k = 40;
        p.residual = true;
    }
    return diti_product_run(device, &p, agrees, err);
}
