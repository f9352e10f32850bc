/* From a checkpoint to bytes as the device holds them: copied, or converted on the way. */
#include "weights/lora.h"

DITI_ONCE_BEGIN

DIT_INTERNAL uint64_t diti_upload_bytes(const diti_upload *upload) {
    return upload->floats ? upload->floats * (uint64_t)sizeof(float) : upload->size;
}

DIT_INTERNAL uint64_t diti_upload_minimum(const diti_upload *upload) {
    uint64_t row = 16u;
    if (upload->floats) return diti_upload_bytes(upload);
    if (upload->merges) diti_weight_bytes(upload->merged, 1, upload->columns, &row);
    if (upload->merges) return row;
    if (upload->i8) diti_weight_bytes(upload->i8, 1, upload->columns, &row);
    return row;
}

DIT_INTERNAL uint64_t diti_upload_piece(const diti_upload *upload, uint64_t done, uint64_t most) {
    uint64_t left = diti_upload_bytes(upload) - done, least = diti_upload_minimum(upload);
    if (upload->floats || left <= most) return left;
    return most > least ? most / least * least : least;
}

DIT_INTERNAL uint64_t diti_upload_kept_piece(const diti_upload *upload) {
    return diti_upload_piece(upload, 0, (uint64_t)64 << 10);
}

static dit_result diti_upload_read_i8(const diti_env *env, const diti_checkpoint *checkpoint, const diti_upload *upload,
                                      uint64_t done, uint64_t size, void *out, dit_error *err) {
    uint64_t pitch = diti_upload_minimum(upload);
    diti_i8_source source = DITI_ZERO;
    source.env = env;
    source.checkpoint = checkpoint;
    source.tensor = upload->tensor;
    source.type = upload->i8;
    source.columns = upload->columns;
    source.smooth = upload->smooth;
    source.merges = upload->merges;
    return diti_i8_rows(&source, upload->first + (uint32_t)(done / pitch), (uint32_t)(size / pitch),
                        (unsigned char *)out, err);
}

DITI_REGION_END

/* F32, or F16, which a value may be too large for: then false. */
static bool diti_upload_put_floats(dit_type type, const float *values, uint32_t count, unsigned char *out) {
    bool fits = true;
    uint32_t i;
    for (i = 0; i < count; i++) {
        uint16_t half = diti_float_to_half(values[i]);
        if (type == DIT_TYPE_F32)
            memcpy(out + 4 * (size_t)i, &values[i], 4);
        else
            memcpy(out + 2 * (size_t)i, &half, 2);
        fits = fits && (type == DIT_TYPE_F32 || fabsf(values[i]) < 65520.0f);
    }
    return fits;
}

/* A row of floats or blocks with adapters added. */
static dit_result diti_upload_merge_row(const diti_checkpoint *checkpoint, const diti_upload *upload, uint64_t place,
                                        const unsigned char *stored, const float *smooth, float *values,
                                        unsigned char *out, dit_error *err) {
    uint32_t i;
    diti_type_to_float(upload->tensor->type, stored, upload->columns, values);
    DITI_TRY(diti_factor_apply(checkpoint, upload->tensor, place * upload->columns, upload->columns, values, err));
    for (i = 0; smooth && i < upload->columns; i++) values[i] *= smooth[i];
    diti_lora_merges_add(upload->merges, upload->tensor, (uint32_t)place, values);
    if (diti_upload_put_floats(upload->merged, values, upload->columns, out)) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "tensor %.200s has values beyond F16 with LoRAs merged into it; have them beside it",
                     upload->tensor->name);
}

/* Whole rows of them, read together, since a tensor may be made of stretches of many rows. */
static dit_result diti_upload_read_merged(const diti_env *env, const diti_checkpoint *checkpoint,
                                          const diti_upload *upload, uint64_t done, uint64_t size, unsigned char *out,
                                          dit_error *err) {
    uint64_t stored_bytes = 0, row_bytes = 0, i, rows, first;
    float *values = (float *)diti_alloc_array(env, upload->columns, sizeof *values), *smooth = NULL;
    unsigned char *stored = NULL;
    dit_result result;
    diti_type_bytes(upload->tensor->type, 1, upload->columns, &stored_bytes);
    diti_weight_bytes(upload->merged, 1, upload->columns, &row_bytes);
    rows = size / row_bytes;
    first = upload->first + done / row_bytes;
    stored = (unsigned char *)diti_alloc_array(env, (size_t)rows, (size_t)stored_bytes);
    result = values && stored ? DIT_OK : diti_fail_memory(err, "tensor %.200s", upload->tensor->name);
    if (result >= 0) result = diti_smooth_read(env, checkpoint, upload->smooth, &smooth, err);
    if (result >= 0)
        result = diti_checkpoint_read(checkpoint, upload->tensor, first * stored_bytes, stored,
                                      (size_t)(rows * stored_bytes), err);
    for (i = 0; i < rows && result >= 0; i++)
        result = diti_upload_merge_row(checkpoint, upload, first + i, stored + i * stored_bytes, smooth, values,
                                       out + i * row_bytes, err);
    diti_free(env, smooth);
    diti_free(env, stored);
    diti_free(env, values);
    return result;
}

static dit_result diti_upload_read_turned(const diti_env *env, const diti_checkpoint *checkpoint,
                                          const diti_upload *upload, float *out, dit_error *err) {
    float *values = (float *)diti_alloc_array(env, upload->floats, sizeof(float));
    uint32_t r, c;
    dit_result result;
    if (!values) return diti_fail_memory(err, "tensor %.200s", upload->tensor->name);
    result = diti_checkpoint_read_float(checkpoint, upload->tensor, values, upload->floats, err);
    if (result >= 0 && upload->merges) diti_lora_merges_add_vector(upload->merges, upload->tensor, values);
    for (r = 0; r < upload->rows && result >= 0; r++)
        for (c = 0; c < upload->columns; c++)
            out[(size_t)r * upload->columns + c] = values[(size_t)c * upload->rows + r];
    diti_free(env, values);
    return result;
}

static dit_result diti_upload_read_made(const diti_env *env, const diti_checkpoint *checkpoint,
                                        const diti_upload *upload, float *out, dit_error *err) {
    float *values = (float *)diti_alloc_array(env, upload->made[0], sizeof *values);
    dit_result result;
    if (!values) return diti_fail_memory(err, "tensor %.200s", upload->tensor->name);
    result = diti_checkpoint_read_float(checkpoint, upload->tensor, values, upload->made[0], err);
    if (result >= 0) upload->make(upload->made, values, out);
    diti_free(env, values);
    return result;
}

static uint16_t diti_narrow_value(uint16_t stored, bool *fits) {
    const uint32_t size = stored & 0x7fffu, bits = (uint32_t)stored << 16, beyond = 0x4780, infinite = 0x7f80;
    float value;
    if (size >= beyond && size < infinite) *fits = false;
    memcpy(&value, &bits, sizeof value);
    return diti_float_to_half(value);
}

#define DITI_NARROW_RUN 16u

/* Rounds values to F16, to nearest even; false where a finite one is too large, which becomes infinite. out may be
   from. Runs of values between 2^-14 and 4, which nearly all are, take two additions and a shift that compilers do for
   several at once: 8 GB/s of a core in place of 3. */
static bool diti_upload_narrow(const uint16_t *from, size_t count, uint16_t *out) {
    const uint16_t least = 0x3880; /* 2^-14, whose exponent is 1 in F16; 4 is 0x800 more */
    uint16_t stored[DITI_NARROW_RUN], half[DITI_NARROW_RUN];
    bool fits = true;
    size_t i, k;
    for (i = 0; i + DITI_NARROW_RUN <= count; i += DITI_NARROW_RUN) {
        uint16_t any = 0;
        memcpy(stored, from + i, sizeof stored);
        for (k = 0; k < DITI_NARROW_RUN; k++) {
            uint16_t above = (uint16_t)((stored[k] & 0x7fffu) - least);
            any |= above;
            half[k] = (uint16_t)(((stored[k] & 0x8000u) | (uint16_t)(above << 3)) + 0x400u);
        }
        for (k = 0; (any & 0xf800u) && k < DITI_NARROW_RUN; k++) half[k] = diti_narrow_value(stored[k], &fits);
        memcpy(out + i, half, sizeof half);
    }
    for (; i < count; i++) out[i] = diti_narrow_value(from[i], &fits);
    return fits;
}

DIT_INTERNAL dit_result diti_upload_read(const diti_env *env, const diti_checkpoint *checkpoint,
                                         const diti_upload *upload, uint64_t done, uint64_t size, void *out,
                                         dit_error *err) {
    if (upload->turned) return diti_upload_read_turned(env, checkpoint, upload, (float *)out, err);
    if (upload->make) return diti_upload_read_made(env, checkpoint, upload, (float *)out, err);
    if (upload->factors)
        return diti_factor_read(checkpoint, upload->tensor, upload->first, upload->floats, (float *)out, err);
    if (upload->floats) {
        dit_result result = diti_checkpoint_read_float(checkpoint, upload->tensor, (float *)out, upload->floats, err);
        uint32_t i;
        if (result >= 0 && upload->merges) diti_lora_merges_add_vector(upload->merges, upload->tensor, (float *)out);
        for (i = 0; i < upload->floats && result >= 0 && upload->added != 0; i++) ((float *)out)[i] += upload->added;
        if (result >= 0 && upload->inverse && !diti_smooth_invert((float *)out, upload->floats))
            return diti_smooth_fail(checkpoint, upload->tensor, err);
        return result;
    }
    if (upload->i8) return diti_upload_read_i8(env, checkpoint, upload, done, size, out, err);
    if (upload->merges) return diti_upload_read_merged(env, checkpoint, upload, done, size, (unsigned char *)out, err);
    DITI_TRY(diti_checkpoint_read(checkpoint, upload->tensor, upload->offset + done, out, (size_t)size, err));
    if (upload->halves) diti_upload_narrow((const uint16_t *)out, (size_t)(size / 2), (uint16_t *)out);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_upload_read_halves(const diti_env *env, const diti_checkpoint *checkpoint,
                                                const diti_upload *upload, uint64_t done, uint64_t size, uint16_t *out,
                                                bool *wide, dit_error *err) {
    const uint64_t most = (uint64_t)1 << 20;
    uint16_t *stored = (uint16_t *)diti_alloc(env, (size_t)(size < most ? size : most));
    dit_result result = DIT_OK;
    uint64_t at, piece;
    if (!stored) return diti_fail_memory(err, "tensor %.200s", upload->tensor->name);
    for (at = 0; at < size && result >= 0; at += piece) {
        piece = size - at < most ? size - at : most;
        result =
            diti_checkpoint_read(checkpoint, upload->tensor, upload->offset + done + at, stored, (size_t)piece, err);
        if (result < 0 || diti_upload_narrow(stored, (size_t)(piece / 2), out + at / 2)) continue;
        *wide = true;
        result =
            diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "tensor %.200s has values beyond F16", upload->tensor->name);
    }
    diti_free(env, stored);
    return result;
}
