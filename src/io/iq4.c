/* IQ4_NL and IQ4_XS of ggml's files: numbers of 4 bits that stand for one of 16 values of 8 bits. The tensors are read
   as Q8_0, whose quants hold these values: IQ4_NL exactly, scales of IQ4_XS rounded to F16 (docs/models.md 9.2). */
#include "io/io.h"

enum { DITI_IQ4_NL_BYTES = 18, DITI_IQ4_XS_BYTES = 136, DITI_IQ4_Q8_BYTES = 34 };
#define DITI_IQ4_RUN 2048u /* blocks of Q8_0 that are made at a time: 256 of IQ4_XS */

DIT_INTERNAL void diti_iq4_name(diti_stored_tensor *tensor) {
    bool line = diti_equal(tensor->type_name, "IQ4_NL");
    if (!line && !diti_equal(tensor->type_name, "IQ4_XS")) return;
    tensor->iq4 = line ? 32 : 256;
    tensor->type = DIT_TYPE_Q8_0;
    tensor->size =
        tensor->size / (line ? DITI_IQ4_NL_BYTES : DITI_IQ4_XS_BYTES) * (tensor->iq4 / 32) * DITI_IQ4_Q8_BYTES;
}

/* Blocks of Q8_0 have 16 bits of scale, then 32 quants; low halves of the bytes come first. */
static void diti_iq4_block(uint16_t scale, const unsigned char *nibbles, unsigned char *out) {
    static const int8_t values[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    uint32_t i;
    out[0] = (unsigned char)scale;
    out[1] = (unsigned char)(scale >> 8);
    for (i = 0; i < 16; i++) {
        out[2 + i] = (unsigned char)values[nibbles[i] & 15];
        out[18 + i] = (unsigned char)values[nibbles[i] >> 4];
    }
}

/* A block of 256: a scale, of each 32 a factor of 6 bits, whose upper two lie in 16 bits and whose lower four in 4
   bytes, then the nibbles. */
static void diti_iq4_xs_block(const unsigned char *block, unsigned char *out) {
    float scale = diti_half_to_float((uint16_t)(block[0] | block[1] << 8));
    uint32_t upper = (uint32_t)block[2] | (uint32_t)block[3] << 8, i;
    for (i = 0; i < 8; i++) {
        uint32_t factor = (block[4 + i / 2] >> (4 * (i % 2)) & 15u) | (upper >> (2 * i) & 3u) << 4;
        diti_iq4_block(diti_float_to_half(scale * (float)((int)factor - 32)), block + 8 + 16 * i,
                       out + DITI_IQ4_Q8_BYTES * i);
    }
}

/* Blocks [first, first + count) of Q8_0, whole ones of the file's; room has the file's. */
static dit_result diti_iq4_blocks(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, uint64_t first,
                                  uint64_t count, unsigned char *room, unsigned char *out, dit_error *err) {
    const uint64_t each = tensor->iq4 / 32, bytes = each == 1 ? DITI_IQ4_NL_BYTES : DITI_IQ4_XS_BYTES;
    uint64_t i;
    DITI_TRY(diti_file_read(checkpoint->files[tensor->file], tensor->offset + first / each * bytes, room,
                            (size_t)(count / each * bytes), err));
    for (i = 0; i < count; i += each, room += bytes, out += each * DITI_IQ4_Q8_BYTES) {
        if (each == 1)
            diti_iq4_block((uint16_t)(room[0] | room[1] << 8), room + 2, out);
        else
            diti_iq4_xs_block(room, out);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_iq4_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                      uint64_t offset, unsigned char *out, size_t size, dit_error *err) {
    const uint64_t each = tensor->iq4 / 32, end = offset + size, all = tensor->size / DITI_IQ4_Q8_BYTES;
    const size_t room = DITI_IQ4_RUN * DITI_IQ4_NL_BYTES;
    unsigned char *run, *made;
    uint64_t block, count;
    dit_result result = DIT_OK;
    if (!size) return DIT_OK;
    run = (unsigned char *)diti_alloc(&checkpoint->env, room + DITI_IQ4_RUN * DITI_IQ4_Q8_BYTES);
    if (!run) return diti_fail_memory(err, "tensor %.200s", tensor->name);
    made = run + room;
    for (block = offset / DITI_IQ4_Q8_BYTES / each * each; block * DITI_IQ4_Q8_BYTES < end && result >= 0;
         block += count) {
        uint64_t begin = block * DITI_IQ4_Q8_BYTES, from = begin > offset ? begin : offset, to;
        count = all - block < DITI_IQ4_RUN ? all - block : DITI_IQ4_RUN;
        to = begin + count * DITI_IQ4_Q8_BYTES < end ? begin + count * DITI_IQ4_Q8_BYTES : end;
        result = diti_iq4_blocks(checkpoint, tensor, block, count, run, made, err);
        if (result >= 0) memcpy(out + (from - offset), made + (from - begin), (size_t)(to - from));
    }
    diti_free(&checkpoint->env, run);
    return result;
}
