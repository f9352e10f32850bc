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

DIT_INTERNAL const diti_stored_tensor *diti_loader_find_smooth(diti_loader *loader, const diti_stored_tensor *tensor,
                                                               uint32_t columns) {
    const diti_stored_tensor *smooth = diti_stored_sibling(loader->checkpoint, tensor, "", DITI_LOW_RANK_SMOOTH);
    if (!smooth || loader->error.result) return NULL;
    diti_loader_use(loader, smooth);
    if (diti_type_is_i8(tensor->type))
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL,
                  "%s: tensor %.200s is %s and has smoothing factors beside it, which need another type",
                  diti_checkpoint_name(loader->checkpoint), tensor->name, tensor->type_name);
    else if (smooth->rank != 1 || smooth->shape[0] != columns || !diti_type_block(smooth->type))
        diti_fail(&loader->error, DIT_ERROR_BAD_FILE, "%s: tensor %.200s is not floats [%u], a factor for each column",
                  diti_checkpoint_name(loader->checkpoint), smooth->name, (unsigned)columns);
    return loader->error.result ? NULL : smooth;
}

/* Matrices that are asked for one after the other have the same factors where they have the same x. */
static diti_smooth *diti_smooth_known(const diti_weights *weights, const diti_stored_tensor *smooth) {
    diti_smooth *last = weights->smooth_count ? weights->smooths[weights->smooth_count - 1] : NULL;
    return last && last->file == smooth->file && last->offset == smooth->offset ? last : NULL;
}

DIT_INTERNAL const diti_weight *diti_loader_add_smooth(diti_loader *loader, const diti_stored_tensor *smooth) {
    diti_weights *weights = &loader->weights;
    diti_smooth *made = diti_smooth_known(weights, smooth);
    void *array = weights->smooths;
    if (made) return &made->weight;
    made = (diti_smooth *)diti_alloc_zero(loader->env, sizeof *made);
    if (!made || !diti_grow(loader->env, &array, &weights->smooth_capacity, weights->smooth_count, sizeof made)) {
        diti_free(loader->env, made);
        diti_fail_memory(&loader->error, "loading %s", loader->what);
        return NULL;
    }
    weights->smooths = (diti_smooth **)array;
    weights->smooths[weights->smooth_count++] = made;
    made->file = smooth->file;
    made->offset = smooth->offset;
    diti_load_inverse(loader, &made->weight, smooth);
    diti_loader_discount(loader, &made->weight, 0, made->weight.columns); /* no parameters of the model */
    return &made->weight;
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
