/* Rows of int8 weights as the device holds them (DITI_I8), from I8 tensors or made from any other stored type. */
#include "weights/lora.h"

DIT_INTERNAL uint32_t diti_i8_pitch(uint32_t columns) { return (uint32_t)diti_align_up(columns, 16) + 16u; }

DIT_INTERNAL bool diti_weight_bytes(dit_type type, uint64_t rows, uint32_t columns, uint64_t *out) {
    if (!diti_type_is_i8(type)) return diti_type_bytes(type, rows, columns, out);
    return diti_mul_u64(rows, diti_i8_pitch(columns), out);
}

static dit_result diti_i8_no_memory(const diti_stored_tensor *tensor, dit_error *err) {
    return diti_fail_memory(err, "tensor %.200s", tensor->name);
}

static void diti_i8_put_scale(unsigned char *row, uint32_t columns, float scale) {
    memcpy(row + diti_i8_pitch(columns) - 16, &scale, sizeof scale);
}

static dit_result diti_i8_copy_rows(const diti_i8_source *source, uint32_t first, uint32_t rows, unsigned char *out,
                                    dit_error *err) {
    uint32_t i, all = (uint32_t)source->tensor->shape[0], pitch = diti_i8_pitch(source->columns);
    float *scales = (float *)diti_alloc_array(source->env, all, sizeof(float));
    dit_result result;
    if (!scales) return diti_i8_no_memory(source->tensor, err);
    result = diti_i8_read_scales(source->checkpoint, source->tensor, scales, all, err);
    for (i = 0; i < rows && result >= 0; i++) {
        unsigned char *row = out + (size_t)i * pitch;
        result = diti_checkpoint_read(source->checkpoint, source->tensor, (uint64_t)(first + i) * source->columns, row,
                                      source->columns, err);
        diti_i8_put_scale(row, source->columns, scales[first + i]);
    }
    diti_free(source->env, scales);
    return result;
}

/* The values of a stored row, of floats, blocks or int8, which values and stored have room for. */
static dit_result diti_i8_read_row(const diti_i8_source *source, uint32_t index, unsigned char *stored, size_t bytes,
                                   float *values, dit_error *err) {
    uint32_t i, scale_at = diti_i8_pitch(source->columns) - 16;
    dit_type type = source->tensor->type;
    float scale;
    if (!diti_type_is_i8(type)) {
        DITI_TRY(diti_checkpoint_read(source->checkpoint, source->tensor, (uint64_t)index * bytes, stored, bytes, err));
        diti_type_to_float(type, stored, source->columns, values);
        return DIT_OK;
    }
    DITI_TRY(diti_i8_copy_rows(source, index, 1, stored, err));
    memcpy(&scale, stored + scale_at, sizeof scale);
    for (i = 0; i < source->columns; i++) values[i] = scale * (float)((const int8_t *)(const void *)stored)[i];
    if (source->type == DIT_TYPE_I8_ROW_ROTATED)
        diti_rotate_row(values, source->columns); /* a rotation is its own inverse */
    return DIT_OK;
}

static dit_result diti_i8_make_row(const diti_i8_source *source, uint32_t index, unsigned char *stored, size_t bytes,
                                   float *values, unsigned char *out, dit_error *err) {
    float scale = 0;
    DITI_TRY(diti_i8_read_row(source, index, stored, bytes, values, err));
    if (source->merges) diti_lora_merges_add(source->merges, source->tensor, index, values);
    if (source->type == DIT_TYPE_I8_ROW_ROTATED) diti_rotate_row(values, source->columns);
    if (!diti_quantize_row(values, source->columns, (int8_t *)(void *)out, &scale)) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor %.200s: row %u holds values that are not finite",
                         diti_checkpoint_name(source->checkpoint), source->tensor->name, index);
    }
    diti_i8_put_scale(out, source->columns, scale);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_i8_rows(const diti_i8_source *source, uint32_t first, uint32_t rows, unsigned char *out,
                                     dit_error *err) {
    uint32_t i, pitch = diti_i8_pitch(source->columns);
    unsigned char *stored;
    float *values;
    uint64_t bytes = 0;
    dit_result result = DIT_OK;
    memset(out, 0, (size_t)rows * pitch);
    if (diti_type_is_i8(source->tensor->type) && !source->merges)
        return diti_i8_copy_rows(source, first, rows, out, err);
    bytes = pitch;
    if (!diti_type_is_i8(source->tensor->type)) diti_type_bytes(source->tensor->type, 1, source->columns, &bytes);
    stored = (unsigned char *)diti_alloc(source->env, (size_t)bytes);
    values = (float *)diti_alloc_array(source->env, source->columns, sizeof(float));
    if (!stored || !values) result = diti_i8_no_memory(source->tensor, err);
    for (i = 0; i < rows && result >= 0; i++) {
        result = diti_i8_make_row(source, first + i, stored, (size_t)bytes, values, out + (size_t)i * pitch, err);
    }
    diti_free(source->env, stored);
    diti_free(source->env, values);
    return result;
}
