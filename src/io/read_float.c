/* Tensors as float32. A matrix of few bits has its factors within (docs/quantized.md); kernels get them as a vector. */
#include "io/io.h"

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

DIT_INTERNAL dit_result diti_checkpoint_read_range(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                                   uint64_t first, float *out, uint64_t count, dit_error *err) {
    unsigned char some[4096], *blocks = some;
    uint32_t block = diti_type_block(tensor->type), bytes = diti_type_block_bytes(tensor->type);
    uint64_t done = 0, fit;
    dit_result result = diti_checkpoint_refuse_type(checkpoint, tensor, err);
    DITI_TRY(result);
    if (!block) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: tensor '%s' is stored as %s, which only matrices may be",
                         diti_file_name(checkpoint->files[tensor->file]), tensor->name, tensor->type_name);
    }
    if (tensor->iq4) {
        result = diti_iq4_read(checkpoint, tensor, true, first * sizeof *out, (unsigned char *)out,
                               (size_t)count * sizeof *out, err);
        done = count;
    }
    fit = sizeof some / bytes;
    if ((tensor->strides || tensor->made || tensor->nvfp4) && count / block > fit) {
        fit = count / block; /* in pieces a long stretch would be read again for each */
        blocks = (unsigned char *)diti_alloc_array(&checkpoint->env, (size_t)fit, bytes);
        if (!blocks) return diti_no_memory(diti_file_name(checkpoint->files[tensor->file]), err);
    }
    while (done < count && result >= 0) {
        uint64_t left = (count - done) / block, take = left < fit ? left : fit;
        result =
            diti_checkpoint_read(checkpoint, tensor, (first + done) / block * bytes, blocks, (size_t)take * bytes, err);
        if (result >= 0) diti_type_to_float(tensor->type, blocks, take * block, out + done);
        done += take * block;
    }
    if (blocks != some) diti_free(&checkpoint->env, blocks);
    return result >= 0 ? diti_factor_apply(checkpoint, tensor, first, count, out, err) : result;
}

DIT_INTERNAL dit_result diti_checkpoint_read_float(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                                   float *out, uint64_t count, dit_error *err) {
    uint64_t all = diti_stored_tensor_elements(tensor);
    if (count == all || !diti_type_block(tensor->type))
        return diti_checkpoint_read_range(checkpoint, tensor, 0, out, count, err);
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor '%s' has %llu elements, expected %llu",
                     diti_file_name(checkpoint->files[tensor->file]), tensor->name, (unsigned long long)all,
                     (unsigned long long)count);
}
