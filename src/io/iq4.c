/* IQ4_NL and IQ4_XS of ggml's files: numbers of 4 bits that stand for one of 16 values of 8 bits. The tensors are read
   as floats, or as Q8_0, whose quants hold these values: IQ4_NL exactly, scales of IQ4_XS rounded to F16
   (docs/models.md 9.2). */
#include "io/io.h"

/* Bytes: the files' blocks of 32 and 256 values, then 32 values as they are read. */
enum { DITI_IQ4_NL_BYTES = 18, DITI_IQ4_XS_BYTES = 136, DITI_IQ4_Q8_BYTES = 34, DITI_IQ4_FLOAT_BYTES = 128 };
#define DITI_IQ4_RUN 2048u /* times 32 values are made at a time: 256 blocks of IQ4_XS */

DIT_INTERNAL void diti_iq4_name(diti_stored_tensor *tensor) {
    bool line = diti_equal(tensor->type_name, "IQ4_NL");
    if (!line && !diti_equal(tensor->type_name, "IQ4_XS")) return;
    tensor->iq4 = line ? 32 : 256;
    tensor->type = DIT_TYPE_Q8_0;
    tensor->size =
        tensor->size / (line ? DITI_IQ4_NL_BYTES : DITI_IQ4_XS_BYTES) * (tensor->iq4 / 32) * DITI_IQ4_Q8_BYTES;
}

/* A block's 32 quants; low halves of the bytes come first. */
static void diti_iq4_quants(const unsigned char *nibbles, int8_t *out) {
    static const int8_t values[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    uint32_t i;
    for (i = 0; i < 16; i++) {
        out[i] = values[nibbles[i] & 15];
        out[16 + i] = values[nibbles[i] >> 4];
    }
}

/* The scale of 32 values. A block of 256 has one of its own and for each 32 a factor of 6 bits, whose upper two lie in
   16 bits and whose lower four in 4 bytes. */
static float diti_iq4_scale(const unsigned char *block, uint64_t each, uint32_t i) {
    float scale = diti_half_to_float((uint16_t)(block[0] | block[1] << 8));
    uint32_t upper, factor;
    if (each == 1) return scale;
    upper = (uint32_t)block[2] | (uint32_t)block[3] << 8;
    factor = (block[4 + i / 2] >> (4 * (i % 2)) & 15u) | (upper >> (2 * i) & 3u) << 4;
    return scale * (float)((int)factor - 32);
}

/* 32 values as floats, or as a block of Q8_0: 16 bits of scale, then the quants. */
static void diti_iq4_put(float scale, const int8_t *quants, bool floats, unsigned char *out) {
    uint16_t half = diti_float_to_half(scale);
    uint32_t i;
    for (i = 0; i < 32 && floats; i++) {
        float value = scale * (float)quants[i];
        memcpy(out + 4 * i, &value, sizeof value);
    }
    if (floats) return;
    out[0] = (unsigned char)half;
    out[1] = (unsigned char)(half >> 8);
    memcpy(out + 2, quants, 32);
}

/* Values [32 * first, 32 * (first + count)), of whole blocks of the file's; room has these. */
static dit_result diti_iq4_blocks(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, uint64_t first,
                                  uint64_t count, bool floats, unsigned char *room, unsigned char *out,
                                  dit_error *err) {
    const uint64_t each = tensor->iq4 / 32, bytes = each == 1 ? DITI_IQ4_NL_BYTES : DITI_IQ4_XS_BYTES;
    uint64_t n;
    int8_t quants[32];
    DITI_TRY(diti_file_read(checkpoint->files[tensor->file], tensor->offset + first / each * bytes, room,
                            (size_t)(count / each * bytes), err));
    for (n = 0; n < count; n++, out += floats ? DITI_IQ4_FLOAT_BYTES : DITI_IQ4_Q8_BYTES) {
        const unsigned char *block = room + n / each * bytes;
        uint32_t i = (uint32_t)(n % each);
        diti_iq4_quants(block + (each == 1 ? 2 : 8 + 16 * i), quants);
        diti_iq4_put(diti_iq4_scale(block, each, i), quants, floats, out);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_iq4_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, bool floats,
                                      uint64_t offset, unsigned char *out, size_t size, dit_error *err) {
    const uint64_t unit = floats ? DITI_IQ4_FLOAT_BYTES : DITI_IQ4_Q8_BYTES, each = tensor->iq4 / 32;
    const uint64_t end = offset + size, all = tensor->size / DITI_IQ4_Q8_BYTES;
    const size_t room = DITI_IQ4_RUN * DITI_IQ4_NL_BYTES;
    unsigned char *run, *made;
    uint64_t block, count;
    dit_result result = DIT_OK;
    if (!size) return DIT_OK;
    run = (unsigned char *)diti_alloc(&checkpoint->env, (size_t)(room + DITI_IQ4_RUN * unit));
    if (!run) return diti_fail_memory(err, "tensor %.200s", tensor->name);
    made = run + room;
    for (block = offset / unit / each * each; block * unit < end && result >= 0; block += count) {
        uint64_t begin = block * unit, from = begin > offset ? begin : offset, to;
        count = all - block < DITI_IQ4_RUN ? all - block : DITI_IQ4_RUN;
        to = begin + count * unit < end ? begin + count * unit : end;
        result = diti_iq4_blocks(checkpoint, tensor, block, count, floats, run, made, err);
        if (result >= 0) memcpy(out + (from - offset), made + (from - begin), (size_t)(to - from));
    }
    diti_free(&checkpoint->env, run);
    return result;
}
