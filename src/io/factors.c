/* Factors beside matrices of few bits (docs/quantized.md): one for each row, or one for all, which a tensor of floats
   holds. Here they are found; read_float.c reads them. */
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
