/* Factors beside matrices of few bits (docs/quantized.md): one for each row, or one for all, which a tensor of floats
   holds. Whoever reads such a matrix as floats has them within; kernels get them as a vector. */
#include "io/io.h"

DIT_INTERNAL bool diti_type_has_factors(dit_type type) {
    return type == DIT_TYPE_F8_E4M3 || type == DIT_TYPE_F8_E5M2 || type == DIT_TYPE_NVFP4;
}

DIT_INTERNAL const diti_stored_tensor *diti_factor_find(const diti_checkpoint *checkpoint,
                                                        const diti_stored_tensor *tensor) {
    static const struct {
        bool fours; /* the matrix is NVFP4 */
        const char *ending, *other;
    } names[] = {{false, "", DITI_SCALE_SUFFIX},
                 {false, ".weight", ".scale_weight"},
                 {true, "", DITI_FACTOR_SUFFIX},
                 {true, ".weight", ".weight_scale_2"},
                 {true, ".weight", ".scale"}};
    const diti_stored_tensor *found = NULL;
    size_t i;
    for (i = 0; i < DITI_COUNT(names) && !found && tensor->rank > 1 && diti_type_has_factors(tensor->type); i++)
        if (names[i].fours == (tensor->type == DIT_TYPE_NVFP4))
            found = diti_stored_sibling(checkpoint, tensor, names[i].ending, names[i].other);
    return found;
}

static bool diti_factor_fits(const diti_stored_tensor *factors, uint64_t rows) {
    uint64_t count = diti_stored_tensor_elements(factors);
    if (factors->type != DIT_TYPE_F32 && factors->type != DIT_TYPE_F16 && factors->type != DIT_TYPE_BF16) return false;
    return count == 1 || (count == rows && factors->shape[0] == rows);
}

DIT_INTERNAL dit_result diti_factor_check(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                          dit_error *err) {
    const diti_stored_tensor *factors = diti_factor_find(checkpoint, tensor);
    uint64_t rows = tensor->shape[0];
    if (!factors || diti_factor_fits(factors, rows)) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s: tensor '%.200s' should hold factors of '%.200s': one float for all rows, or one for each in "
                     "the shape [%llu] or [%llu, 1]",
                     diti_checkpoint_name(checkpoint), factors->name, tensor->name, (unsigned long long)rows,
                     (unsigned long long)rows);
}

/* A factor of 0 or one that is not finite is damage: it would make a layer of nothing, or of noise. */
static dit_result diti_factor_judge(const diti_checkpoint *checkpoint, const diti_stored_tensor *factors,
                                    uint64_t first, const float *values, uint64_t count, dit_error *err) {
    uint64_t i;
    for (i = 0; i < count; i++) {
        if (values[i] != 0 && values[i] - values[i] == 0) continue;
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor '%.200s': factor %llu is %g; it must be finite and not 0",
                         diti_checkpoint_name(checkpoint), factors->name, (unsigned long long)(first + i),
                         (double)values[i]);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_factor_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                         uint64_t first, uint64_t count, float *out, dit_error *err) {
    const diti_stored_tensor *factors = diti_factor_find(checkpoint, tensor);
    bool one = diti_stored_tensor_elements(factors) == 1;
    uint64_t i, from = one ? 0 : first, wanted = one ? 1 : count;
    uint32_t bytes = diti_type_block_bytes(factors->type);
    unsigned char *stored;
    dit_result result;
    DITI_TRY(diti_factor_check(checkpoint, tensor, err));
    stored = (unsigned char *)diti_alloc_array(&checkpoint->env, (size_t)wanted, bytes);
    if (!stored) return diti_fail_memory(err, "tensor %.200s", factors->name);
    result = diti_checkpoint_read(checkpoint, factors, from * bytes, stored, (size_t)wanted * bytes, err);
    if (result >= 0) {
        diti_type_to_float(factors->type, stored, wanted, out);
        result = diti_factor_judge(checkpoint, factors, from, out, wanted, err);
    }
    for (i = 1; i < count && one && result >= 0; i++) out[i] = out[0];
    diti_free(&checkpoint->env, stored);
    return result;
}

DIT_INTERNAL dit_result diti_factor_apply(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                          uint64_t first, uint64_t count, float *values, dit_error *err) {
    uint64_t columns, row, rows, i, end = first + count;
    float *factors;
    dit_result result;
    if (!count || !diti_factor_find(checkpoint, tensor)) return DIT_OK;
    columns = diti_stored_tensor_elements(tensor) / tensor->shape[0];
    rows = (end - 1) / columns - first / columns + 1;
    factors = (float *)diti_alloc_array(&checkpoint->env, (size_t)rows, sizeof *factors);
    if (!factors) return diti_fail_memory(err, "tensor %.200s", tensor->name);
    result = diti_factor_read(checkpoint, tensor, first / columns, rows, factors, err);
    for (row = 0; row < rows && result >= 0; row++) {
        uint64_t begin = (first / columns + row) * columns, stop = begin + columns < end ? begin + columns : end;
        for (i = begin > first ? begin : first; i < stop; i++) values[i - first] *= factors[row];
    }
    diti_free(&checkpoint->env, factors);
    return result;
}
