/* NVFP4 as ComfyUI's files hold it: pairs of floats of 4 bits in bytes [rows, columns / 2], the first of a pair in the
   high half, and a scale of 8 bits for each 16 columns in the order of cuBLAS: blocks of 128 rows and 4 scales. Reading
   makes ggml's blocks of both (docs/quantized.md). */
#include "io/io.h"

#define DITI_NVFP4_BLOCK 64u /* columns that share four scales */
#define DITI_NVFP4_BYTES 36u
#define DITI_NVFP4_ROWS 128u /* rows of a block of scales, which has 512 bytes */

DITI_ONCE_BEGIN

static dit_result diti_nvfp4_fail(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                  const char *problem, dit_error *err) {
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor '%.200s' is ComfyUI's nvfp4 and %s",
                     diti_checkpoint_name(checkpoint), tensor->name, problem);
}

static dit_result diti_nvfp4_check(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                   const diti_stored_tensor *scales, dit_error *err) {
    const bool whole = tensor->rank == 2 && tensor->shape[1] && tensor->shape[1] % (DITI_NVFP4_BLOCK / 2) == 0;
    char wanted[160];
    uint64_t tall, wide;
    if (!whole || tensor->strides)
        return diti_nvfp4_fail(checkpoint, tensor, "has rows that are not whole blocks of 64 columns, 32 bytes", err);
    if (diti_stored_sibling(checkpoint, tensor, ".weight", ".pre_quant_scale"))
        return diti_nvfp4_fail(checkpoint, tensor, "has a pre_quant_scale, which dit.h does not apply", err);
    if (!scales) return diti_nvfp4_fail(checkpoint, tensor, "lacks its scales, weight_scale", err);
    tall = (tensor->shape[0] + DITI_NVFP4_ROWS - 1) / DITI_NVFP4_ROWS * DITI_NVFP4_ROWS;
    wide = tensor->shape[1] * 2 / 16;
    if (scales->size == tall * wide && !scales->strides &&
        (scales->type == DIT_TYPE_F8_E4M3 || diti_equal(scales->type_name, "U8")))
        return DIT_OK;
    diti_format(wanted, sizeof wanted, "its weight_scale is not F8_E4M3 [%llu, %llu], blocks of 128 x 4",
                (unsigned long long)tall, (unsigned long long)wide);
    return diti_nvfp4_fail(checkpoint, tensor, wanted, err);
}

DIT_INTERNAL dit_result diti_nvfp4_name(diti_checkpoint *checkpoint, diti_stored_tensor *tensor, dit_error *err) {
    const diti_stored_tensor *scales = diti_stored_sibling(checkpoint, tensor, ".weight", ".weight_scale");
    diti_nvfp4_pair *pair;
    DITI_TRY(diti_nvfp4_check(checkpoint, tensor, scales, err));
    pair = (diti_nvfp4_pair *)diti_checkpoint_keep(checkpoint, sizeof *pair);
    if (!pair) return diti_no_memory(diti_checkpoint_name(checkpoint), err);
    pair->columns = tensor->shape[1] * 2;
    pair->scales_file = scales->file;
    pair->scales = scales->offset;
    tensor->nvfp4 = pair;
    tensor->type = DIT_TYPE_NVFP4;
    tensor->type_name = diti_type_name(tensor->type);
    tensor->shape[1] = pair->columns;
    tensor->size = tensor->shape[0] * (pair->columns / DITI_NVFP4_BLOCK) * DITI_NVFP4_BYTES;
    if (diti_factor_find(checkpoint, tensor)) return diti_factor_check(checkpoint, tensor, err);
    return diti_nvfp4_fail(checkpoint, tensor, "lacks its factor, weight_scale_2", err);
}

DITI_REGION_END

/* A block of its four scales and 32 pairs; of 16 columns the first eight are in the low halves of eight bytes. false
   for a scale that is negative or no number. */
static bool diti_nvfp4_block(const unsigned char *scales, const unsigned char *pairs, unsigned char *out) {
    unsigned char *to = out + 4;
    bool good = true;
    uint32_t group, i;
    for (group = 0; group < 4; group++, pairs += 8, to += 8) {
        out[group] = scales[group];
        good = good && scales[group] < 127;
        for (i = 0; i < 4; i++) {
            to[2 * i] = (unsigned char)(pairs[i] >> 4 | (pairs[4 + i] & 0xf0));
            to[2 * i + 1] = (unsigned char)((pairs[i] & 15) | pairs[4 + i] << 4);
        }
    }
    return good;
}

/* Rows [row, row + rows), all of one block of scales; room has their pairs, and the scales behind them. */
static dit_result diti_nvfp4_rows(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, uint64_t row,
                                  uint64_t rows, unsigned char *room, unsigned char *out, dit_error *err) {
    const diti_nvfp4_pair *pair = tensor->nvfp4;
    const uint64_t blocks = pair->columns / DITI_NVFP4_BLOCK, bytes = pair->columns / 2;
    unsigned char *scales = room + DITI_NVFP4_ROWS * bytes;
    uint64_t i, k;
    DITI_TRY(diti_file_read(checkpoint->files[tensor->file], tensor->offset + row * bytes, room, (size_t)(rows * bytes),
                            err));
    DITI_TRY(diti_file_read(checkpoint->files[pair->scales_file],
                            pair->scales + row / DITI_NVFP4_ROWS * blocks * (4 * DITI_NVFP4_ROWS), scales,
                            (size_t)(blocks * (4 * DITI_NVFP4_ROWS)), err));
    for (i = 0; i < rows; i++) {
        uint64_t n = (row + i) % DITI_NVFP4_ROWS;
        for (k = 0; k < blocks; k++, out += DITI_NVFP4_BYTES)
            if (!diti_nvfp4_block(scales + (k * 32 + n % 32) * 16 + n / 32 * 4, room + i * bytes + k * 32, out))
                return diti_nvfp4_fail(checkpoint, tensor, "has a scale that is negative or no number", err);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_nvfp4_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                        uint64_t offset, unsigned char *out, size_t size, dit_error *err) {
    const uint64_t blocks = tensor->nvfp4->columns / DITI_NVFP4_BLOCK, pitch = blocks * DITI_NVFP4_BYTES;
    const uint64_t end = offset + size, room = DITI_NVFP4_ROWS * blocks * (DITI_NVFP4_BLOCK / 2 + 4);
    unsigned char *run = (unsigned char *)diti_alloc(&checkpoint->env, (size_t)(room + DITI_NVFP4_ROWS * pitch));
    unsigned char *made = run + room;
    dit_result result = run ? DIT_OK : diti_fail_memory(err, "tensor %.200s", tensor->name);
    uint64_t row, rows, last = (end + pitch - 1) / pitch;
    for (row = offset / pitch; row < last && result >= 0; row += rows) {
        uint64_t begin = row * pitch, from = begin > offset ? begin : offset, to;
        rows = DITI_NVFP4_ROWS - row % DITI_NVFP4_ROWS;
        if (rows > last - row) rows = last - row;
        to = begin + rows * pitch < end ? begin + rows * pitch : end;
        result = diti_nvfp4_rows(checkpoint, tensor, row, rows, run, made, err);
        if (result >= 0) memcpy(out + (from - offset), made + (from - begin), (size_t)(to - from));
    }
    diti_free(&checkpoint->env, run);
    return result;
}
