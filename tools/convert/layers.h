/* Layers that are rounded as a whole, by what calibration has shown of their inputs. */
#ifndef CONVERT_LAYERS_H
#define CONVERT_LAYERS_H
#include "blocks.h"
#include "collect.h"
#include "methods.h"

/* --- a layer --- */

typedef struct rounded_layer {
    grouped q;
    double *w, *work;  /* W, which becomes what is left of it, and room for [rows + 1, columns] */
    double *up, *down; /* [rank, rows], [rank, columns]; rank 0: none */
    uint32_t rank;
} rounded_layer;

static void rounded_layer_free(rounded_layer *layer) {
    free(layer->q.codes);
    free(layer->q.scale);
    free(layer->q.least);
    free(layer->w);
    free(layer->work);
    free(layer->up);
    free(layer->down);
    memset(layer, 0, sizeof *layer);
}

/* An element of the matrix that the rounded layer stands for. */
static double layer_value(const rounded_layer *layer, size_t row, size_t column) {
    double value = grouped_value(&layer->q, (uint32_t)row, (uint32_t)column);
    for (uint32_t i = 0; i < layer->rank; i++)
        value += layer->up[(size_t)i * layer->q.rows + row] * layer->down[(size_t)i * layer->q.columns + column];
    return value;
}

static bool layer_begin(rounded_layer *layer, uint32_t rows, uint32_t columns, uint32_t rank) {
    const size_t count = (size_t)rows * columns;
    memset(layer, 0, sizeof *layer);
    layer->q.rows = rows;
    layer->q.columns = columns;
    layer->rank = rank;
    layer->q.codes = (uint8_t *)malloc(count);
    layer->q.scale = (uint16_t *)malloc(count / GROUP * sizeof(uint16_t));
    layer->q.least = (uint16_t *)malloc(count / GROUP * sizeof(uint16_t));
    layer->w = (double *)malloc(count * sizeof(double));
    layer->work = (double *)malloc((count + columns) * sizeof(double));
    layer->up = rank ? (double *)malloc((size_t)rank * rows * sizeof(double)) : NULL;
    layer->down = rank ? (double *)malloc((size_t)rank * columns * sizeof(double)) : NULL;
    return layer->q.codes && layer->q.scale && layer->q.least && layer->w && layer->work &&
           (!rank || (layer->up && layer->down));
}

/* --- folded scales: a layer's outputs are divided by what the next one multiplies its columns with --- */

static bool is_folded(const out_tensor *tensor) { return tensor->row_divisors || tensor->column_factors; }

/* values: elements [first, first + count) of the tensor. */
static void fold(const out_tensor *tensor, uint64_t first, float *values, size_t count) {
    const uint64_t columns = row_length(tensor->stored);
    for (size_t i = 0; i < count && is_folded(tensor); i++) {
        const uint64_t row = (first + i) / columns, column = (first + i) % columns;
        if (tensor->row_divisors) values[i] /= tensor->row_divisors[row];
        if (tensor->column_factors) values[i] *= tensor->column_factors[column];
    }
}

/* A tensor's values, folded scales within. */
static dit_result read_layer(converter *convert, const out_tensor *tensor, double *out) {
    const size_t columns = (size_t)row_length(tensor->stored);
    const uint32_t block = diti_type_block(tensor->stored->type), bytes = diti_type_block_bytes(tensor->stored->type);
    uint8_t *stored = (uint8_t *)malloc(columns * 8);
    float *values = (float *)malloc(columns * sizeof *values);
    dit_result result = stored && values ? DIT_OK : no_memory(convert);
    for (size_t row = 0; row < tensor->stored->shape[0] && result >= 0; row++) {
        const size_t size = columns / block * bytes;
        result = diti_checkpoint_read(tensor->from, tensor->stored, row * size, stored, size, convert->err);
        if (result < 0) break;
        diti_type_to_float(tensor->stored->type, stored, columns, values);
        result = diti_factor_apply(tensor->from, tensor->stored, row * columns, columns, values, convert->err);
        fold(tensor, row * columns, values, columns);
        for (size_t i = 0; i < columns && result >= 0; i++) {
            out[row * columns + i] = (double)values[i];
            if (!(fabsf(values[i]) <= 65504.0f))
                result = diti_fail(convert->err, DIT_ERROR_NOT_FINITE, "%s: tensor '%s': %g does not fit I4_GROUP",
                                   convert->input, tensor->stored->name, (double)values[i]);
        }
    }
    free(stored);
    free(values);
    return result;
}

static out_tensor *find_tensor(const converter *convert, const char *name, size_t length, const char *suffix) {
    for (size_t i = 0; i < convert->tensor_count; i++) {
        const char *other = convert->tensors[i].name;
        if (strncmp(other, name, length) == 0 && strcmp(other + length, suffix) == 0) return &convert->tensors[i];
    }
    return NULL;
}

/* Finds the factors of a matrix's columns, by SmoothQuant or AWQ. */
static dit_result choose_factors(converter *convert, const out_tensor *out, const layer_statistics *s,
                                 double *factors) {
    const uint32_t rows = (uint32_t)out->stored->shape[0], n = s->columns;
    rounded_layer layer;
    dit_result result = layer_begin(&layer, rows, n, 0) ? read_layer(convert, out, layer.w) : no_memory(convert);
    for (size_t k = 0; k < n && result >= 0; k++) layer.work[k] = 0;
    for (size_t i = 0; i < (size_t)rows * n && result >= 0; i++)
        if (fabs(layer.w[i]) > layer.work[i % n]) layer.work[i % n] = fabs(layer.w[i]);
    if (result >= 0 && convert->smoothing > 0)
        smooth_factors(s->most, layer.work, n, convert->smoothing, factors);
    else if (result >= 0)
        awq_search(layer.w, s->mean, s->h, layer.work, factors, &layer.q);
    rounded_layer_free(&layer);
    return result;
}

/* A layer before can hold the factors where the graph is linear between the two: attention's values are, so that
 * dividing the rows of to_v, and its bias, divides the inputs of to_out. Joint attention mixes the values of two
 * layers, and is left alone. */
static dit_result fold_into_values(converter *convert, out_tensor *out, out_tensor *values, out_tensor *bias) {
    const uint32_t n = (uint32_t)row_length(out->stored);
    layer_statistics s;
    double *factors = (double *)malloc(n * sizeof *factors);
    dit_result result = factors ? DIT_OK : no_memory(convert);
    if (!statistics_of(convert->calibration, out->rest, &s)) return free(factors), result;
    if (result >= 0) result = choose_factors(convert, out, &s, factors);
    out->column_factors = (float *)diti_alloc_array(&convert->env, n, sizeof(float));
    values->row_divisors = (float *)diti_alloc_array(&convert->env, n, sizeof(float));
    if (bias) bias->row_divisors = (float *)diti_alloc_array(&convert->env, n, sizeof(float));
    if (!out->column_factors || !values->row_divisors || (bias && !bias->row_divisors)) result = no_memory(convert);
    for (uint32_t k = 0; k < n && result >= 0; k++) {
        out->column_factors[k] = values->row_divisors[k] = (float)factors[k];
        if (bias) bias->row_divisors[k] = (float)factors[k];
    }
    free(factors);
    statistics_free(&s);
    return result;
}

static dit_result fold_scales(converter *convert) {
    static const char ending[] = ".to_out.0.weight";
    const bool folds = convert->smoothing > 0 || convert->method == ROUND_AWQ;
    for (size_t i = 0; i < convert->tensor_count && folds; i++) {
        out_tensor *out = &convert->tensors[i], *values;
        size_t length = strlen(out->name) - (strlen(out->name) < sizeof ending ? 0 : sizeof ending - 1);
        if (!diti_ends_with(out->name, ending) || !is_calibrated(convert->calibration, out->rest)) continue;
        values = find_tensor(convert, out->name, length, ".to_v.weight");
        if (!values || find_tensor(convert, out->name, length, ".add_v_proj.weight") ||
            values->stored->shape[0] != row_length(out->stored) || diti_type_is_i8(values->stored->type) ||
            diti_type_is_i8(out->stored->type))
            continue;
        DITI_TRY(fold_into_values(convert, out, values, find_tensor(convert, out->name, length, ".to_v.bias")));
    }
    return DIT_OK;
}

/* --- rounding --- */

/* The low-rank part of W diag(r), with r the root mean square of what comes through a column; W becomes the rest. Its
 * halves are rounded to F16 first, as the file holds them. */
static void take_low_rank(rounded_layer *layer, const layer_statistics *s) {
    const size_t rows = layer->q.rows, columns = layer->q.columns;
    double mean = 0;
    for (size_t k = 0; s->h && k < columns; k++) mean += s->h[k * columns + k] / (double)columns;
    for (size_t i = 0; i < rows * columns; i++) {
        const size_t k = i % columns;
        layer->work[i] = layer->w[i] * (s->h ? sqrt(s->h[k * columns + k] + 1e-6 * mean) : 1);
    }
    low_rank(layer->work, layer->q.rows, layer->q.columns, layer->rank, layer->up, layer->down);
    for (size_t i = 0; i < layer->rank * columns; i++) {
        const size_t k = i % columns;
        const double r = s->h ? sqrt(s->h[k * columns + k] + 1e-6 * mean) : 1;
        layer->down[i] = half_value(diti_float_to_half((float)(layer->down[i] / r)));
    }
    for (size_t i = 0; i < layer->rank * rows; i++) layer->up[i] = half_value(diti_float_to_half((float)layer->up[i]));
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < layer->rank; i++)
            for (size_t k = 0; k < columns; k++)
                layer->w[row * columns + k] -= layer->up[i * rows + row] * layer->down[i * columns + k];
}

static bool round_gptq(rounded_layer *layer, const layer_statistics *s) {
    const size_t n = layer->q.columns;
    double *u = (double *)malloc((n * n + n) * sizeof *u);
    bool good = u && gptq_factor(s->h, layer->q.columns, u, u + n * n);
    memcpy(layer->work, layer->w, layer->q.rows * n * sizeof *layer->w);
    if (good) gptq_round(layer->work, u, &layer->q);
    free(u);
    return good;
}

/* The folded factors are divided out of H in place. */
static void round_awq(rounded_layer *layer, const out_tensor *tensor, layer_statistics *s) {
    const size_t n = layer->q.columns;
    const float *f = tensor->column_factors;
    for (size_t i = 0; i < n * n && f; i++) s->h[i] /= (double)f[i / n] * (double)f[i % n];
    awq_round(layer->w, s->h, &layer->q);
}

/* The tensors behind a layer get what was made. */
static void hand_over(const out_tensor *tensor, const rounded_layer *layer) {
    const size_t rows = layer->q.rows, columns = layer->q.columns, rank = layer->rank;
    if (tensor->made_count != 2) return;
    for (size_t i = 0; i < rank * columns; i++) tensor[1].made[i] = (float)layer->down[i];
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < rank; i++) tensor[2].made[row * rank + i] = (float)layer->up[i * rows + row];
}

/* Call rounded_layer_free in any case. */
static dit_result round_layer(converter *convert, const out_tensor *tensor, rounded_layer *layer) {
    const bool low = tensor->method == ROUND_SVD || tensor->method == ROUND_SVD_GPTQ;
    layer_statistics s;
    bool known = statistics_of(convert->calibration, tensor->rest, &s), good;
    dit_result result = layer_begin(layer, (uint32_t)tensor->stored->shape[0], (uint32_t)row_length(tensor->stored),
                                    low ? convert->rank : 0)
                            ? read_layer(convert, tensor, layer->w)
                            : no_memory(convert);
    if (result >= 0) {
        if (low) take_low_rank(layer, &s);
        good = known && (tensor->method == ROUND_GPTQ || tensor->method == ROUND_SVD_GPTQ) && round_gptq(layer, &s);
        if (known && tensor->method == ROUND_AWQ)
            round_awq(layer, tensor, &s);
        else if (!good)
            round_groups(layer->w, &layer->q);
        hand_over(tensor, layer);
    }
    statistics_free(&s);
    return result;
}

#endif
