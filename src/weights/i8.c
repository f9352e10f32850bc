/* Rows of int8 and int4 weights as the device holds them (DITI_I8), from I8 tensors or made from any other stored type;
   also rows of I4_GROUP that are made. */
#include "weights/lora.h"

DIT_INTERNAL uint32_t diti_i8_pitch(uint32_t columns) { return (uint32_t)diti_align_up(columns, 16) + 16u; }

DIT_INTERNAL uint32_t diti_i8_bytes(dit_type type, uint32_t columns) {
    return type == DIT_TYPE_I4_ROW_ROTATED ? columns / 2 : columns;
}

DIT_INTERNAL bool diti_weight_bytes(dit_type type, uint64_t rows, uint32_t columns, uint64_t *out) {
    if (!diti_type_is_i8(type)) return diti_type_bytes(type, rows, columns, out);
    return diti_mul_u64(rows, diti_i8_pitch(diti_i8_bytes(type, columns)), out);
}

static dit_result diti_i8_no_memory(const diti_stored_tensor *tensor, dit_error *err) {
    return diti_fail_memory(err, "tensor %.200s", tensor->name);
}

/* Bytes from row to row on the device. */
static uint32_t diti_i8_source_pitch(const diti_i8_source *source) {
    uint64_t bytes = 0;
    diti_weight_bytes(source->type, 1, source->columns, &bytes);
    return (uint32_t)bytes;
}

static void diti_i8_put_scale(const diti_i8_source *source, unsigned char *row, float scale) {
    if (source->type == DIT_TYPE_I4_ROW_ROTATED) scale /= 16; /* see diti_i8_bytes */
    memcpy(row + diti_i8_source_pitch(source) - 16, &scale, sizeof scale);
}

/* Files have column 2 b in the low half of byte b and the next one in its high half; the device has the first four of
   eight columns in the low halves of four bytes. */
static void diti_i4_reorder(unsigned char *row, uint32_t columns) {
    uint32_t i, word;
    for (i = 0; i < columns / 2; i += 4) {
        unsigned char from[4];
        memcpy(from, row + i, 4);
        for (word = 0; word < 4; word++) {
            unsigned char low = from[word / 2], high = from[2 + word / 2];
            row[i + word] = (unsigned char)(word % 2 ? low >> 4 | (high & 0xf0) : (low & 15) | high << 4);
        }
    }
}

#define DITI_I8_SCALES 256u /* scales read at a time: a multiple of all types' blocks */

static dit_result diti_i8_copy_rows(const diti_i8_source *source, uint32_t first, uint32_t rows, unsigned char *out,
                                    dit_error *err) {
    uint64_t all = diti_stored_tensor_elements(source->tensor) / source->columns;
    uint32_t i, pitch = diti_i8_source_pitch(source), bytes = diti_i8_bytes(source->type, source->columns);
    float scales[DITI_I8_SCALES];
    for (i = first; i < first + rows; i++, out += pitch) {
        uint32_t place = i % DITI_I8_SCALES, begin = i - place,
                 count = all - begin < DITI_I8_SCALES ? (uint32_t)(all - begin) : DITI_I8_SCALES;
        if (i == first || !place)
            DITI_TRY(diti_i8_read_scales(source->checkpoint, source->tensor, begin, scales, count, err));
        DITI_TRY(diti_checkpoint_read(source->checkpoint, source->tensor, (uint64_t)i * bytes, out, bytes, err));
        if (source->type == DIT_TYPE_I4_ROW_ROTATED) diti_i4_reorder(out, source->columns);
        diti_i8_put_scale(source, out, scales[place]);
    }
    return DIT_OK;
}

/* Value of a column of a row as the device has it, without its scale. */
static float diti_i8_value(dit_type type, const unsigned char *row, uint32_t column) {
    unsigned char byte = row[type == DIT_TYPE_I4_ROW_ROTATED ? column / 8 * 4 + column % 4 : column];
    if (type == DIT_TYPE_I4_ROW_ROTATED) byte = (unsigned char)(column & 4 ? byte & 0xf0 : byte << 4);
    return (float)(int8_t)byte;
}

/* The values of a stored row, of floats or blocks that stand in stored, or of int8 or int4, which is read to there. */
static dit_result diti_i8_read_row(const diti_i8_source *source, uint32_t index, unsigned char *stored, float *values,
                                   dit_error *err) {
    uint32_t i, scale_at = diti_i8_source_pitch(source) - 16;
    dit_type type = source->tensor->type;
    float scale;
    if (!diti_type_is_i8(type)) {
        diti_type_to_float(type, stored, source->columns, values);
        return diti_factor_apply(source->checkpoint, source->tensor, (uint64_t)index * source->columns, source->columns,
                                 values, err);
    }
    DITI_TRY(diti_i8_copy_rows(source, index, 1, stored, err));
    memcpy(&scale, stored + scale_at, sizeof scale);
    for (i = 0; i < source->columns; i++) values[i] = scale * diti_i8_value(source->type, stored, i);
    if (diti_type_is_rotated(source->type))
        diti_rotate_row(values, source->columns); /* a rotation is its own inverse */
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_i8_floats(const diti_i8_source *source, uint32_t index, float *values, dit_error *err) {
    uint64_t bytes = 0;
    bool is_i8 = diti_type_is_i8(source->tensor->type);
    unsigned char *stored;
    float *smooth = NULL;
    dit_result result = DIT_OK;
    uint32_t c;
    if (is_i8)
        bytes = diti_i8_source_pitch(source);
    else
        diti_type_bytes(source->tensor->type, 1, source->columns, &bytes);
    stored = (unsigned char *)diti_alloc_array(source->env, 1, (size_t)bytes);
    if (!stored) return diti_i8_no_memory(source->tensor, err);
    if (!is_i8)
        result = diti_checkpoint_read(source->checkpoint, source->tensor, index * bytes, stored, (size_t)bytes, err);
    if (result >= 0) result = diti_i8_read_row(source, index, stored, values, err);
    if (result >= 0) result = diti_smooth_read(source->env, source->checkpoint, source->smooth, &smooth, err);
    for (c = 0; result >= 0 && smooth && c < source->columns; c++) values[c] *= smooth[c];
    diti_free(source->env, smooth);
    diti_free(source->env, stored);
    return result;
}

/* Quants that are floats. */
static void diti_i4_pack_row(const float *quants, uint32_t columns, unsigned char *out) {
    uint32_t c;
    for (c = 0; c < columns; c++) out[c / 8 * 4 + c % 4] |= (unsigned char)(((int)quants[c] & 15) << (c & 4));
}

/* A row of the source's type from floats, which are lost; out is zeros. false for values that are not finite. */
static bool diti_i8_encode(const diti_i8_source *source, float *values, unsigned char *out) {
    float scale = 0;
    uint32_t c;
    if (source->type == DIT_TYPE_I4_GROUP) {
        for (c = 0; c < source->columns; c += DITI_I4_GROUP)
            if (!diti_i4_group_encode(values + c, out + c / DITI_I4_GROUP * DITI_I4_GROUP_BYTES)) return false;
        return true;
    }
    if (diti_type_is_rotated(source->type)) diti_rotate_row(values, source->columns);
    if (source->type != DIT_TYPE_I4_ROW_ROTATED) {
        if (!diti_quantize_row(values, source->columns, (int8_t *)(void *)out, &scale)) return false;
    } else {
        if (!diti_quantize_row_4(values, source->columns, &scale)) return false;
        diti_i4_pack_row(values, source->columns, out);
    }
    diti_i8_put_scale(source, out, scale);
    return true;
}

static dit_result diti_i8_make_row(const diti_i8_source *source, uint32_t index, unsigned char *stored,
                                   const float *smooth, float *values, unsigned char *out, dit_error *err) {
    uint32_t c;
    DITI_TRY(diti_i8_read_row(source, index, stored, values, err));
    for (c = 0; smooth && c < source->columns; c++) values[c] *= smooth[c];
    if (source->merges) diti_lora_merges_add(source->merges, source->tensor, index, values);
    if (diti_i8_encode(source, values, out)) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor %.200s: row %u holds values that are not finite",
                     diti_checkpoint_name(source->checkpoint), source->tensor->name, index);
}

DIT_INTERNAL dit_result diti_i8_rows(const diti_i8_source *source, uint32_t first, uint32_t rows, unsigned char *out,
                                     dit_error *err) {
    const uint32_t pitch = diti_i8_source_pitch(source);
    const bool is_i8 = diti_type_is_i8(source->tensor->type);
    unsigned char *stored; /* a row of int8, or all rows, since a tensor may be made of stretches of many rows */
    float *values, *smooth = NULL;
    uint64_t bytes = pitch;
    dit_result result = DIT_OK;
    uint32_t i;
    memset(out, 0, (size_t)rows * pitch);
    if (is_i8 && !source->merges) return diti_i8_copy_rows(source, first, rows, out, err);
    if (!is_i8) diti_type_bytes(source->tensor->type, 1, source->columns, &bytes);
    stored = (unsigned char *)diti_alloc_array(source->env, is_i8 ? 1 : rows, (size_t)bytes);
    values = (float *)diti_alloc_array(source->env, source->columns, sizeof(float));
    if (!stored || !values) result = diti_i8_no_memory(source->tensor, err);
    if (result >= 0) result = diti_smooth_read(source->env, source->checkpoint, source->smooth, &smooth, err);
    if (result >= 0 && !is_i8)
        result = diti_checkpoint_read(source->checkpoint, source->tensor, first * bytes, stored, (size_t)(rows * bytes),
                                      err);
    for (i = 0; i < rows && result >= 0; i++)
        result = diti_i8_make_row(source, first + i, stored + (is_i8 ? 0 : i * bytes), smooth, values,
                                  out + (size_t)i * pitch, err);
    diti_free(source->env, smooth);
    diti_free(source->env, stored);
    diti_free(source->env, values);
    return result;
}
