/* Deltas that modules add to weights, as numbers: row by row, or as the product of two thin matrices. LoHa's and LoKr's
   deltas are such products, too: the rows of down are products of rows of the two factors, and so are columns of up. */
#include "weights/lora.h"

static dit_result diti_lora_read_slot(const diti_lora_file *file, diti_lora_module *module, uint32_t slot,
                                      dit_error *err) {
    const diti_stored_tensor *tensor = module->tensors[slot];
    uint64_t i, count = diti_stored_tensor_elements(tensor);
    float *values =
        count <= SIZE_MAX / sizeof(float) ? (float *)diti_alloc_array(&file->env, (size_t)count, sizeof(float)) : NULL;
    if (!values) return diti_fail_memory(err, "tensor %.200s", tensor->name);
    module->values[slot] = values;
    DITI_TRY(diti_checkpoint_read_float(file->checkpoint, tensor, values, count, err));
    for (i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor %.200s holds values that are not finite",
                             diti_checkpoint_name(file->checkpoint), tensor->name);
    return DIT_OK;
}

DIT_INTERNAL diti_lora_slot diti_lora_diff_slot(const diti_lora_module *module) {
    if (!module->bias) return DITI_LORA_DIFF;
    return module->tensors[DITI_LORA_DIFF_BIAS] ? DITI_LORA_DIFF_BIAS : DITI_LORA_UP_BIAS;
}

DIT_INTERNAL const diti_stored_tensor *diti_lora_tucker(const diti_lora_module *module, uint32_t b, uint32_t *taps) {
    const diti_stored_tensor *tensor = b == DITI_LORA_DOWN ? module->tensors[DITI_LORA_MID]
                                       : b == DITI_LOHA_1B ? module->tensors[DITI_LOHA_T1]
                                       : b == DITI_LOHA_2B ? module->tensors[DITI_LOHA_T2]
                                       : b == DITI_LOKR_2B ? module->tensors[DITI_LOKR_T2]
                                                           : NULL;
    uint32_t i;
    *taps = 1;
    for (i = 2; tensor && i < tensor->rank; i++) *taps *= (uint32_t)tensor->shape[i];
    return tensor;
}

static uint32_t diti_lora_rank(const diti_lora_module *module, uint32_t slot) { /* rows of b */
    return (uint32_t)module->tensors[slot]->shape[0];
}

/* values [rows, columns] become [columns, rows]. */
static dit_result diti_lora_turn(const diti_lora_file *file, float **values, uint32_t rows, uint32_t columns,
                                 dit_error *err) {
    float *out = (float *)diti_alloc_array(&file->env, (size_t)rows * columns, sizeof *out);
    uint32_t r, c;
    if (!out) return diti_fail_memory(err, "a module of a LoRA");
    for (r = 0; r < rows; r++)
        for (c = 0; c < columns; c++) out[(size_t)c * rows + r] = (*values)[(size_t)r * columns + c];
    diti_free(&file->env, *values);
    *values = out;
    return DIT_OK;
}

/* b [r, channels] becomes [r, channels, taps], the sum over its rows with the Tucker factor's weights for each tap. */
static dit_result diti_lora_contract(const diti_lora_file *file, diti_lora_module *module, uint32_t b, uint32_t mid,
                                     dit_error *err) {
    uint32_t rank = diti_lora_rank(module, b), taps, i, j, c, k;
    uint32_t channels = (uint32_t)(diti_stored_tensor_elements(module->tensors[b]) / rank);
    const float *rows = module->values[b], *weights = module->values[mid];
    float *out;
    diti_lora_tucker(module, b, &taps);
    out = (float *)diti_alloc_array(&file->env, (size_t)rank * channels * taps, sizeof *out);
    if (!out) return diti_fail_memory(err, "module %.200s", module->name);
    for (i = 0; i < rank; i++)
        for (c = 0; c < channels; c++)
            for (k = 0; k < taps; k++) {
                double sum = 0;
                for (j = 0; j < rank; j++)
                    sum += (double)weights[((size_t)i * rank + j) * taps + k] * (double)rows[(size_t)j * channels + c];
                out[((size_t)i * channels + c) * taps + k] = (float)sum;
            }
    diti_free(&file->env, module->values[b]);
    module->values[b] = out;
    return DIT_OK;
}

DITI_ONCE_BEGIN

/* Leaves the plain products that Tucker factors stand for. */
static dit_result diti_lora_contract_all(const diti_lora_file *file, diti_lora_module *module, dit_error *err) {
    static const struct {
        diti_lora_slot a, b, mid;
    } products[] = {{DITI_LORA_UP, DITI_LORA_DOWN, DITI_LORA_MID},
                    {DITI_LOHA_1A, DITI_LOHA_1B, DITI_LOHA_T1},
                    {DITI_LOHA_2A, DITI_LOHA_2B, DITI_LOHA_T2},
                    {DITI_LOKR_2A, DITI_LOKR_2B, DITI_LOKR_T2}};
    uint32_t i;
    for (i = 0; i < DITI_COUNT(products); i++) {
        diti_lora_slot a = products[i].a, b = products[i].b, mid = products[i].mid;
        if (!module->values[mid]) continue;
        DITI_TRY(diti_lora_contract(file, module, b, mid, err));
        if (a != DITI_LORA_UP) {
            uint32_t rank = diti_lora_rank(module, b);
            uint32_t rows = (uint32_t)(diti_stored_tensor_elements(module->tensors[a]) / rank);
            DITI_TRY(diti_lora_turn(file, &module->values[a], rank, rows, err));
        }
        diti_free(&file->env, module->values[mid]);
        module->values[mid] = NULL;
    }
    return DIT_OK;
}

/* Down's rows get zeros behind them where the model's layer has more columns. */
static dit_result diti_lora_widen(const diti_lora_file *file, diti_lora_module *module, dit_error *err) {
    uint32_t rank = module->rank, taps, r;
    size_t narrow;
    float *out, *down = module->values[DITI_LORA_DOWN];
    diti_lora_tucker(module, DITI_LORA_DOWN, &taps);
    narrow = (size_t)(diti_stored_tensor_elements(module->tensors[DITI_LORA_DOWN]) / rank) * taps;
    if (narrow == module->columns) return DIT_OK;
    out = (float *)diti_alloc_array(&file->env, (size_t)rank * module->columns, sizeof *out);
    if (!out) return diti_fail_memory(err, "module %.200s", module->name);
    for (r = 0; r < rank; r++) memcpy(out + (size_t)r * module->columns, down + r * narrow, narrow * sizeof *out);
    diti_free(&file->env, down);
    module->values[DITI_LORA_DOWN] = out;
    return DIT_OK;
}

DITI_REGION_END

/* A factor of LoKr as a whole, [rows, columns], where it is a product. */
static dit_result diti_lokr_multiply(const diti_lora_file *file, diti_lora_module *module, uint32_t whole,
                                     uint32_t rows, uint32_t columns, dit_error *err) {
    uint32_t r, k, c, rank;
    float *out;
    const float *a = module->values[whole + 1], *b = module->values[whole + 2];
    if (module->values[whole]) return DIT_OK;
    rank = diti_lora_rank(module, whole + 2);
    out = module->values[whole] = (float *)diti_alloc_array(&file->env, (size_t)rows * columns, sizeof(float));
    if (!out) return diti_fail_memory(err, "module %.200s", module->name);
    for (r = 0; r < rows; r++)
        for (c = 0; c < columns; c++) {
            double sum = 0;
            for (k = 0; k < rank; k++) sum += (double)a[(size_t)r * rank + k] * (double)b[(size_t)k * columns + c];
            out[(size_t)r * columns + c] = (float)sum;
        }
    return DIT_OK;
}

DITI_ONCE_BEGIN

DIT_INTERNAL dit_result diti_lora_read(const diti_lora_file *file, diti_lora_module *module, dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t i;
    for (i = 0; i < DITI_LORA_ALPHA; i++)
        if (module->values[i]) return DIT_OK; /* the module has been read */
    for (i = 0; i < DITI_LORA_ALPHA && result >= 0; i++)
        if (module->tensors[i]) result = diti_lora_read_slot(file, module, i, err);
    if (result >= 0) result = diti_lora_contract_all(file, module, err);
    if (result >= 0 && module->kind == DITI_KIND_LORA) result = diti_lora_widen(file, module, err);
    if (result >= 0 && module->kind == DITI_KIND_LOKR) {
        result = diti_lokr_multiply(file, module, DITI_LOKR_1, module->rows / module->rows2,
                                    module->columns / module->columns2, err);
        if (result >= 0) result = diti_lokr_multiply(file, module, DITI_LOKR_2, module->rows2, module->columns2, err);
    }
    if (result < 0) diti_lora_forget(file, module);
    return result;
}

DIT_INTERNAL void diti_lora_forget(const diti_lora_file *file, diti_lora_module *module) {
    uint32_t i;
    for (i = 0; i < DITI_LORA_SLOTS; i++) {
        diti_free(&file->env, module->values[i]);
        module->values[i] = NULL;
    }
    diti_free(&file->env, module->norms);
    module->norms = NULL;
}

DITI_REGION_END

/* --- rows --- */

static double diti_loha_at(const diti_lora_module *module, uint32_t a, uint32_t row, uint32_t column) {
    uint32_t k, rank = diti_lora_rank(module, a + 1);
    const float *left = module->values[a] + (size_t)row * rank, *right = module->values[a + 1] + column;
    double sum = 0;
    for (k = 0; k < rank; k++) sum += (double)left[k] * (double)right[(size_t)k * module->columns];
    return sum;
}

DIT_INTERNAL float diti_lora_value(const diti_lora_module *module, uint32_t index) {
    return (float)(module->scale * (double)module->values[diti_lora_diff_slot(module)][index]);
}

DIT_INTERNAL void diti_lora_add_row(const diti_lora_module *module, uint32_t row, double weight, float *out) {
    uint32_t k, c, columns = module->columns;
    double scale = weight * module->scale;
    if (module->kind == DITI_KIND_LORA) {
        for (k = 0; k < module->rank; k++) {
            float factor = (float)(scale * (double)module->values[DITI_LORA_UP][(size_t)row * module->rank + k]);
            const float *down = module->values[DITI_LORA_DOWN] + (size_t)k * columns;
            for (c = 0; c < columns; c++) out[c] += factor * down[c];
        }
    } else if (module->kind == DITI_KIND_LOHA) {
        for (c = 0; c < columns; c++)
            out[c] += (float)(scale * diti_loha_at(module, DITI_LOHA_1A, row, c) *
                              diti_loha_at(module, DITI_LOHA_2A, row, c));
    } else if (module->kind == DITI_KIND_DIFF) {
        const float *diff = module->values[diti_lora_diff_slot(module)];
        for (c = 0; c < columns; c++) out[c] += (float)(scale * (double)diff[(size_t)row * columns + c]);
    } else {
        uint32_t wide = columns / module->columns2;
        const float *one = module->values[DITI_LOKR_1] + (size_t)(row / module->rows2) * wide;
        const float *two = module->values[DITI_LOKR_2] + (size_t)(row % module->rows2) * module->columns2;
        for (k = 0; k < wide; k++)
            for (c = 0; c < module->columns2; c++)
                out[(size_t)k * module->columns2 + c] += (float)(scale * (double)one[k] * (double)two[c]);
    }
}

DIT_INTERNAL void diti_dora_apply_row(const diti_lora_module *module, uint32_t row, double weight, float *values) {
    const float *magnitudes = module->values[DITI_LORA_MAGNITUDE];
    const double least = 1.1920928955078125e-7; /* added to norms: the distance from 1 to the next F32 */
    double sum = 0, factor = 0;
    uint32_t c;
    diti_lora_add_row(module, row, 1, values);
    for (c = 0; c < module->columns; c++) sum += (double)values[c] * (double)values[c];
    for (c = 0; c < module->columns; c++) {
        uint32_t k = module->share ? c / module->share : row;
        if (module->share ? c % module->share == 0 : c == 0)
            factor = (double)magnitudes[k] / (sqrt(module->share ? module->norms[k] : sum) + least);
        values[c] = (float)((weight * factor + 1 - weight) * (double)values[c]);
    }
    if (weight != 1) diti_lora_add_row(module, row, weight - 1, values); /* the share of the weight as it was */
}

/* --- two thin matrices --- */

DITI_ONCE_BEGIN

/* A factor of LoKr, [rows, columns], as left [rows, rank] * right [rank, columns], one of which may be 1. */
typedef struct diti_lokr_split {
    const float *left, *right; /* NULL: 1 */
    uint32_t rows, rank, columns;
} diti_lokr_split;

static diti_lokr_split diti_lokr_split_of(const diti_lora_module *module, bool second) {
    uint32_t whole = second ? DITI_LOKR_2 : DITI_LOKR_1;
    diti_lokr_split split;
    split.rows = second ? module->rows2 : module->rows / module->rows2;
    split.columns = second ? module->columns2 : module->columns / module->columns2;
    split.left = split.right = NULL;
    split.rank = split.rows < split.columns ? split.rows : split.columns;
    if (module->tensors[whole + 2] && !module->tensors[whole] && diti_lora_rank(module, whole + 2) < split.rank) {
        split.left = module->values[whole + 1];
        split.right = module->values[whole + 2];
        split.rank = diti_lora_rank(module, whole + 2);
    } else if (split.rows < split.columns) {
        split.right = module->values[whole];
    } else {
        split.left = module->values[whole];
    }
    return split;
}

DIT_INTERNAL uint32_t diti_lora_thin(const diti_lora_module *module) {
    uint64_t thin = module->rank;
    if (module->kind == DITI_KIND_LOHA)
        thin = (uint64_t)diti_lora_rank(module, DITI_LOHA_1B) * diti_lora_rank(module, DITI_LOHA_2B);
    if (module->kind == DITI_KIND_LOKR)
        thin = (uint64_t)diti_lokr_split_of(module, false).rank * diti_lokr_split_of(module, true).rank;
    return thin * ((uint64_t)module->rows + module->columns) < (uint64_t)module->rows * module->columns ? (uint32_t)thin
                                                                                                        : 0;
}

DITI_REGION_END

static float diti_lokr_left(const diti_lokr_split *split, uint32_t row, uint32_t k) {
    return split->left ? split->left[(size_t)row * split->rank + k] : row == k ? 1.0f : 0.0f;
}

static float diti_lokr_right(const diti_lokr_split *split, uint32_t k, uint32_t column) {
    return split->right ? split->right[(size_t)k * split->columns + column] : column == k ? 1.0f : 0.0f;
}

/* Column k of up belongs to row k of down: of LoHa and LoKr (i, j), a row of either factor. */
DIT_INTERNAL void diti_lora_up(const diti_lora_module *module, uint32_t first, uint32_t rows, uint32_t pitch,
                               float *out) {
    uint32_t r, i, j, inner;
    for (r = first; r < first + rows; r++, out += pitch) {
        if (module->kind == DITI_KIND_LORA) {
            memcpy(out, module->values[DITI_LORA_UP] + (size_t)r * module->rank, module->rank * sizeof *out);
        } else if (module->kind == DITI_KIND_LOHA) {
            uint32_t outer = diti_lora_rank(module, DITI_LOHA_1B);
            inner = diti_lora_rank(module, DITI_LOHA_2B);
            for (i = 0; i < outer; i++)
                for (j = 0; j < inner; j++)
                    out[i * inner + j] = module->values[DITI_LOHA_1A][(size_t)r * outer + i] *
                                         module->values[DITI_LOHA_2A][(size_t)r * inner + j];
        } else {
            diti_lokr_split one = diti_lokr_split_of(module, false), two = diti_lokr_split_of(module, true);
            for (i = 0; i < one.rank; i++)
                for (j = 0; j < two.rank; j++)
                    out[i * two.rank + j] =
                        diti_lokr_left(&one, r / two.rows, i) * diti_lokr_left(&two, r % two.rows, j);
        }
    }
}

static void diti_loha_down(const diti_lora_module *module, float *out) {
    uint32_t i, j, c, outer = diti_lora_rank(module, DITI_LOHA_1B), inner = diti_lora_rank(module, DITI_LOHA_2B);
    for (i = 0; i < outer; i++)
        for (j = 0; j < inner; j++)
            for (c = 0; c < module->columns; c++)
                *out++ = module->values[DITI_LOHA_1B][(size_t)i * module->columns + c] *
                         module->values[DITI_LOHA_2B][(size_t)j * module->columns + c];
}

DIT_INTERNAL void diti_lora_down(const diti_lora_module *module, float *out) {
    diti_lokr_split one, two;
    uint32_t i, j, a, b;
    if (module->kind == DITI_KIND_LORA) {
        memcpy(out, module->values[DITI_LORA_DOWN], (size_t)module->rank * module->columns * sizeof *out);
        return;
    }
    if (module->kind == DITI_KIND_LOHA) {
        diti_loha_down(module, out);
        return;
    }
    one = diti_lokr_split_of(module, false);
    two = diti_lokr_split_of(module, true);
    for (i = 0; i < one.rank; i++)
        for (j = 0; j < two.rank; j++)
            for (a = 0; a < one.columns; a++)
                for (b = 0; b < two.columns; b++) *out++ = diti_lokr_right(&one, i, a) * diti_lokr_right(&two, j, b);
}

/* --- magnitudes --- */

DIT_INTERNAL float diti_lora_largest(const float *values, uint64_t count) {
    float most = 0;
    uint64_t i;
    for (i = 0; i < count; i++)
        if (fabsf(values[i]) > most) most = fabsf(values[i]);
    return most;
}

DITI_ONCE_BEGIN

static float diti_lora_slot_largest(const diti_lora_module *module, uint32_t slot) {
    uint32_t taps;
    diti_lora_tucker(module, slot, &taps);
    return diti_lora_largest(module->values[slot], taps * diti_stored_tensor_elements(module->tensors[slot]));
}

DIT_INTERNAL void diti_lora_bounds(const diti_lora_module *module, float *up, float *down) {
    uint32_t i;
    *up = *down = 1;
    if (module->kind == DITI_KIND_LORA) {
        *up = diti_lora_slot_largest(module, DITI_LORA_UP);
        *down = diti_lora_largest(module->values[DITI_LORA_DOWN], (uint64_t)module->rank * module->columns);
    } else if (module->kind == DITI_KIND_LOHA) {
        *up = diti_lora_slot_largest(module, DITI_LOHA_1A) * diti_lora_slot_largest(module, DITI_LOHA_2A);
        *down = diti_lora_slot_largest(module, DITI_LOHA_1B) * diti_lora_slot_largest(module, DITI_LOHA_2B);
    }
    for (i = 0; i < 2 && module->kind == DITI_KIND_LOKR; i++) {
        diti_lokr_split split = diti_lokr_split_of(module, i == 1);
        if (split.left) *up *= diti_lora_largest(split.left, (uint64_t)split.rows * split.rank);
        if (split.right) *down *= diti_lora_largest(split.right, (uint64_t)split.rank * split.columns);
    }
}

DITI_REGION_END
