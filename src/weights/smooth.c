/* Smoothing factors beside a matrix (docs/quantized.md): the matrix is for x divided by one for each column. Dividing
   its columns comes to the same, and is done where they are expanded, or when rows are made of other types. */
#include "weights/lora.h"

DIT_INTERNAL bool diti_smooth_invert(float *factors, uint64_t count) {
    uint64_t i;
    for (i = 0; i < count; i++) {
        factors[i] = 1.0f / factors[i];
        if (factors[i] == 0 || !(factors[i] - factors[i] == 0)) return false;
    }
    return true;
}

DIT_INTERNAL dit_result diti_smooth_fail(const diti_checkpoint *checkpoint, const diti_stored_tensor *smooth,
                                         dit_error *err) {
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor %.200s holds a factor that nothing can be divided by",
                     diti_checkpoint_name(checkpoint), smooth->name);
}

DIT_INTERNAL dit_result diti_smooth_read(const diti_env *env, const diti_checkpoint *checkpoint,
                                         const diti_stored_tensor *smooth, float **out, dit_error *err) {
    uint64_t count = smooth ? diti_stored_tensor_elements(smooth) : 0;
    *out = NULL;
    if (!smooth) return DIT_OK;
    *out = (float *)diti_alloc_array(env, (size_t)count, sizeof **out);
    if (!*out) return diti_fail_memory(err, "tensor %.200s", smooth->name);
    DITI_TRY(diti_checkpoint_read_float(checkpoint, smooth, *out, count, err));
    return diti_smooth_invert(*out, count) ? DIT_OK : diti_smooth_fail(checkpoint, smooth, err);
}
