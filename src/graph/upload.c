/* From a checkpoint to bytes as the device holds them: copied, or converted on the way. */
#include "graph/graph.h"

DIT_INTERNAL uint64_t diti_upload_bytes(const diti_upload *upload) {
    return upload->floats ? upload->floats * (uint64_t)sizeof(float) : upload->size;
}

DIT_INTERNAL uint64_t diti_upload_least(const diti_upload *upload) {
    if (upload->floats) return diti_upload_bytes(upload);
    return upload->i8 ? diti_i8_pitch(upload->columns) : 16u;
}

DIT_INTERNAL uint64_t diti_upload_piece(const diti_upload *upload, uint64_t done, uint64_t most) {
    uint64_t left = diti_upload_bytes(upload) - done, least = diti_upload_least(upload);
    if (upload->floats || left <= most) return left;
    return most > least ? most / least * least : least;
}

static dit_result diti_upload_read_i8(const diti_env *env, const diti_checkpoint *checkpoint, const diti_upload *upload,
                                      uint64_t done, uint64_t size, void *out, dit_error *err) {
    uint32_t pitch = diti_i8_pitch(upload->columns);
    diti_i8_source source = DITI_ZERO;
    source.env = env;
    source.checkpoint = checkpoint;
    source.tensor = upload->tensor;
    source.type = upload->i8;
    source.columns = upload->columns;
    return diti_i8_rows(&source, upload->first + (uint32_t)(done / pitch), (uint32_t)(size / pitch),
                        (unsigned char *)out, err);
}

static dit_result diti_upload_read_turned(const diti_env *env, const diti_checkpoint *checkpoint,
                                          const diti_upload *upload, float *out, dit_error *err) {
    float *values = (float *)diti_alloc_array(env, upload->floats, sizeof(float));
    uint32_t r, c;
    dit_result result;
    if (!values)
        return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for tensor %.200s",
                         upload->tensor->name);
    result = diti_checkpoint_read_float(checkpoint, upload->tensor, values, upload->floats, err);
    for (r = 0; r < upload->rows && result == DIT_OK; r++)
        for (c = 0; c < upload->columns; c++)
            out[(size_t)r * upload->columns + c] = values[(size_t)c * upload->rows + r];
    diti_free(env, values);
    return result;
}

DIT_INTERNAL dit_result diti_upload_read(const diti_env *env, const diti_checkpoint *checkpoint,
                                         const diti_upload *upload, uint64_t done, uint64_t size, void *out,
                                         dit_error *err) {
    if (upload->turned) return diti_upload_read_turned(env, checkpoint, upload, (float *)out, err);
    if (upload->floats)
        return diti_checkpoint_read_float(checkpoint, upload->tensor, (float *)out, upload->floats, err);
    if (upload->i8) return diti_upload_read_i8(env, checkpoint, upload, done, size, out, err);
    return diti_checkpoint_read(checkpoint, upload->tensor, upload->offset + done, out, (size_t)size, err);
}
