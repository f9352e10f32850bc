/* int8 weights with one scale per row, plain or rotated (ConvRot, arXiv:2512.03673): how a float row becomes one, and
   how files hold them. */
#include "io/io.h"

#define DITI_I8_SMALLEST 1e-30f /* rows below it count as zero: their scale's inverse would leave float's range */

/* y = H x in four elements `stride` apart, H = [1 1 1 -1; 1 1 -1 1; 1 -1 1 1; -1 1 1 1] / 2. Halving is exact, so that
   no compiler's contraction changes a bit. */
static void diti_rotate_four(float *x, uint32_t stride) {
    float a = x[0], b = x[stride], c = x[2 * stride], d = x[3 * stride];
    float half = ((a + b) + (c + d)) * 0.5f;
    x[0] = half - d;
    x[stride] = half - c;
    x[2 * stride] = half - b;
    x[3 * stride] = half - a;
}

DIT_INTERNAL void diti_rotate_row(float *values, uint32_t count) {
    uint32_t first, stride, i;
    for (first = 0; first < count; first += DITI_ROTATION_GROUP) {
        for (stride = 1; stride < DITI_ROTATION_GROUP; stride *= 4) {
            for (i = 0; i < DITI_ROTATION_GROUP; i++) {
                if (i / stride % 4 == 0) diti_rotate_four(values + first + i, stride);
            }
        }
    }
}

/* The scale and its inverse that make a row's largest magnitude so many steps. */
static bool diti_row_scale(const float *values, uint32_t count, float steps, float *scale, float *inverse) {
    float most = 0;
    uint32_t i;
    for (i = 0; i < count; i++) {
        if (!(values[i] - values[i] == 0)) return false;
        if (fabsf(values[i]) > most) most = fabsf(values[i]);
    }
    *scale = most < DITI_I8_SMALLEST ? 0 : most / steps;
    *inverse = most < DITI_I8_SMALLEST ? 0 : steps / most;
    return true;
}

DIT_INTERNAL bool diti_quantize_row(const float *values, uint32_t count, int8_t *out, float *scale) {
    float inverse;
    uint32_t i;
    if (!diti_row_scale(values, count, 127, scale, &inverse)) return false;
    for (i = 0; i < count; i++) out[i] = (int8_t)rintf(values[i] * inverse);
    return true;
}

DIT_INTERNAL bool diti_quantize_row_4(float *values, uint32_t count, float *scale) {
    float inverse;
    uint32_t i;
    if (!diti_row_scale(values, count, 7, scale, &inverse)) return false;
    for (i = 0; i < count; i++) values[i] = rintf(values[i] * inverse);
    return true;
}

DIT_INTERNAL dit_type diti_i8_type(dit_type wanted, uint32_t columns) {
    return diti_type_is_rotated(wanted) && columns % DITI_ROTATION_GROUP ? DIT_TYPE_I8_ROW : wanted;
}

DIT_INTERNAL bool diti_type_is_rotated(dit_type type) {
    return type == DIT_TYPE_I8_ROW_ROTATED || type == DIT_TYPE_I4_ROW_ROTATED;
}
DIT_INTERNAL bool diti_type_is_i8(dit_type type) { return type == DIT_TYPE_I8_ROW || diti_type_is_rotated(type); }

DIT_INTERNAL dit_result diti_i8_stored_type(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                            dit_type *out, dit_error *err) {
    char key[600];
    const diti_meta *group = NULL;
    *out = tensor->type;
    if (tensor->type == DIT_TYPE_I8_ROW && diti_format(key, sizeof key, DITI_ROTATION_KEY "%s", tensor->name))
        group = diti_metadata_find(&checkpoint->metadata, key);
    if (!group) return DIT_OK;
    *out = DIT_TYPE_I8_ROW_ROTATED;
    if (group->text && diti_equal(group->text, "256") && tensor->rank == 2 &&
        tensor->shape[1] % DITI_ROTATION_GROUP == 0)
        return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s: tensor '%.200s' is rotated in groups of %.20s; dit.h knows groups of 256 that fill the rows",
                     diti_checkpoint_name(checkpoint), tensor->name, group->text ? group->text : "several sizes");
}

static bool diti_i8_are_scales(const diti_stored_tensor *scales, uint32_t rows) {
    if (diti_type_is_i8(scales->type) || scales->rank > 2) return false;
    if (diti_stored_tensor_elements(scales) == 1) return true; /* one for all rows */
    return scales->rank > 0 && scales->shape[0] == rows && (scales->rank == 1 || scales->shape[1] == 1);
}

DIT_INTERNAL dit_result diti_i8_find_scales(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                            uint32_t rows, const diti_stored_tensor **out, dit_error *err) {
    const char *file = diti_checkpoint_name(checkpoint);
    char name[600];
    *out = NULL;
    if (diti_format(name, sizeof name, "%s" DITI_SCALE_SUFFIX, tensor->name))
        *out = diti_checkpoint_find(checkpoint, name);
    if (*out && diti_i8_are_scales(*out, rows)) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s: tensor '%.200s' is I8 and needs its scales in '%.200s', floats of shape [%u]%s", file,
                     tensor->name, name, rows, *out ? "; what has that name is something else" : "");
}

DIT_INTERNAL dit_result diti_i8_read_scales(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                            uint32_t first, float *out, uint32_t rows, dit_error *err) {
    const diti_stored_tensor *scales;
    bool one;
    uint32_t i;
    DITI_TRY(diti_i8_find_scales(checkpoint, tensor, (uint32_t)tensor->shape[0], &scales, err));
    one = diti_stored_tensor_elements(scales) == 1;
    DITI_TRY(diti_checkpoint_read_range(checkpoint, scales, one ? 0 : first, out, one && rows ? 1 : rows, err));
    for (i = 1; i < rows && one; i++) out[i] = out[0];
    for (i = 0; i < rows; i++) {
        if (out[i] >= 0 && out[i] - out[i] == 0) continue;
        return diti_fail(err, DIT_ERROR_BAD_FILE,
                         "%s: tensor '%s': the scale of row %u is %g; it must be finite and not negative",
                         diti_checkpoint_name(checkpoint), scales->name, first + i, (double)out[i]);
    }
    return DIT_OK;
}
