#include "vk/vk.h"

/* The text form. Four bytes (little endian) are five base85 digits, least significant first; digits are the characters
   from '#' on without '?' (trigraphs) and '\\'. The bytes are a range coder's: each bit is coded with the odds of its
   kind and place, which follow what came before. The bits say, until the bytes are full: a literal byte, or a copy of
   earlier bytes: from as far back as the last copy or not, how many, how far back. These bytes are the module's words
   as LEB128. tools/spirv.c writes it. */
enum {
    DITI_SPIRV_NUMBER = 16 + 16 * 20, /* odds that one kind of number takes: its size, then its bits by size */
    DITI_SPIRV_COPY = 0,              /* by context */
    DITI_SPIRV_AGAIN = 8,             /* by context */
    DITI_SPIRV_LENGTH = 16,           /* length of a copy from elsewhere, then of one from as far back again */
    DITI_SPIRV_BACK = DITI_SPIRV_LENGTH + 2 * DITI_SPIRV_NUMBER,  /* by length 2, 3, 4, more */
    DITI_SPIRV_LITERAL = DITI_SPIRV_BACK + 4 * DITI_SPIRV_NUMBER, /* by whether a word goes on, by the guess's bit */
    DITI_SPIRV_ODDS = DITI_SPIRV_LITERAL + 2 * 3 * 256
};

typedef struct diti_spirv_reader {
    const char *const *piece;
    const char *at;       /* inside *piece */
    uint32_t group, left; /* decoded bytes not yet taken */
    uint32_t range, code;
    bool failed;
    uint16_t odds[DITI_SPIRV_ODDS]; /* odds of a 0, in 4096 */
} diti_spirv_reader;

static bool diti_spirv_digit(char c, uint32_t *out) {
    if (c < '#' || c > 'y' || c == '?' || c == '\\') return false;
    *out = (uint32_t)(c - '#') - (c > '?') - (c > '\\');
    return true;
}

static bool diti_spirv_group(diti_spirv_reader *reader) {
    uint64_t value = 0, power = 1;
    uint32_t i, digit;
    for (i = 0; i < 5; i++) {
        while (*reader->piece && !*reader->at) {
            reader->piece++;
            reader->at = *reader->piece;
        }
        if (!*reader->piece || !diti_spirv_digit(*reader->at++, &digit)) return false;
        value += digit * power;
        power *= 85;
    }
    reader->group = (uint32_t)value;
    reader->left = 4;
    return value <= UINT32_MAX;
}

/* Past the end or damaged: 0, and the reader has failed. */
static uint32_t diti_spirv_byte(diti_spirv_reader *reader) {
    uint32_t byte;
    if (!reader->left && !diti_spirv_group(reader)) {
        reader->failed = true;
        return 0;
    }
    byte = reader->group & 255u;
    reader->group >>= 8;
    reader->left--;
    return byte;
}

static void diti_spirv_begin(diti_spirv_reader *reader, const char *const *pieces) {
    uint32_t i;
    reader->piece = pieces;
    reader->at = *pieces;
    reader->range = UINT32_MAX;
    for (i = 0; i < 4; i++) reader->code = reader->code << 8 | diti_spirv_byte(reader);
    for (i = 0; i < DITI_SPIRV_ODDS; i++) reader->odds[i] = 2048;
}

static uint32_t diti_spirv_bit(diti_spirv_reader *reader, uint32_t which) {
    uint32_t odds = reader->odds[which], zero = (reader->range >> 12) * odds, bit = reader->code >= zero;
    if (bit) {
        reader->code -= zero;
        reader->range -= zero;
        odds -= odds >> 4;
    } else {
        reader->range = zero;
        odds += (4096 - odds) >> 4;
    }
    reader->odds[which] = (uint16_t)odds;
    while (reader->range < 1u << 24) {
        reader->range <<= 8;
        reader->code = reader->code << 8 | diti_spirv_byte(reader);
    }
    return bit;
}

/* 1..65535: how many bits follow the leading one, then those. */
static uint32_t diti_spirv_number(diti_spirv_reader *reader, uint32_t odds) {
    uint32_t size = 1, number = 1, left;
    while (size < 16) size = size << 1 | diti_spirv_bit(reader, odds + size);
    odds += 16 + (size - 16) * 20;
    for (left = size - 16; left; left--)
        number = number << 1 | diti_spirv_bit(reader, odds + (number < 8 ? number : 7 + left));
    return number;
}

/* guess: what the last copy would have gone on with, or NULL; it counts as long as its bits come true. */
static uint32_t diti_spirv_literal(diti_spirv_reader *reader, uint32_t odds, const unsigned char *guess) {
    uint32_t byte = 1, left, guessed, bit;
    for (left = 8; left; left--) {
        guessed = guess ? *guess >> (left - 1) & 1u : 0u;
        bit = diti_spirv_bit(reader, odds + (guess ? 256 + 256 * guessed : 0u) + byte);
        if (bit != guessed) guess = NULL;
        byte = byte << 1 | bit;
    }
    return byte & 255u;
}

static bool diti_spirv_unfold(diti_spirv_reader *reader, unsigned char *out, uint32_t size) {
    uint32_t at = 0, back = 0, length, history = 0; /* history: whether the last two were copies, the last in bit 0 */
    while (at < size && !reader->failed) {
        uint32_t goes_on = at ? out[at - 1] >> 7 : 0u, context = history | goes_on << 2;
        history = history << 1 & 3u;
        if (!diti_spirv_bit(reader, DITI_SPIRV_COPY + context)) {
            const unsigned char *guess = history & 2u ? out + at - back : NULL;
            out[at++] = (unsigned char)diti_spirv_literal(reader, DITI_SPIRV_LITERAL + 768 * goes_on, guess);
            continue;
        }
        history |= 1u;
        if (diti_spirv_bit(reader, DITI_SPIRV_AGAIN + context)) {
            length = diti_spirv_number(reader, DITI_SPIRV_LENGTH + DITI_SPIRV_NUMBER);
        } else {
            length = 1 + diti_spirv_number(reader, DITI_SPIRV_LENGTH);
            back = diti_spirv_number(reader, DITI_SPIRV_BACK + DITI_SPIRV_NUMBER * (length < 5 ? length - 2 : 3));
        }
        if (!back || back > at || length > size - at) return false;
        for (; length; length--, at++) out[at] = out[at - back];
    }
    return !reader->failed;
}

/* The word at *at, which moves on; false past the end. */
static bool diti_spirv_word(const unsigned char *bytes, uint32_t size, uint32_t *at, uint32_t *out) {
    uint32_t shift;
    *out = 0;
    for (shift = 0; shift < 35 && *at < size; shift += 7) {
        uint32_t byte = bytes[(*at)++];
        *out |= (byte & 127u) << shift;
        if (byte < 128u) return true;
    }
    return false;
}

static bool diti_spirv_words(const diti_spirv_module *entry, unsigned char *bytes, uint32_t *words) {
    diti_spirv_reader reader = DITI_ZERO;
    uint32_t i, at = 0;
    diti_spirv_begin(&reader, entry->pieces);
    if (!diti_spirv_unfold(&reader, bytes, entry->byte_count)) return false;
    for (i = 0; i < entry->word_count; i++) {
        if (!diti_spirv_word(bytes, entry->byte_count, &at, &words[i])) return false;
    }
    return at == entry->byte_count;
}

DIT_INTERNAL const char *diti_kernel_name(diti_kernel kernel) {
    return kernel < DITI_KERNELS ? diti_spirv_table()[kernel].name : "?";
}

DIT_INTERNAL uint64_t diti_spirv_hash(void) {
    const char *const *piece;
    uint64_t parts[2] = {0, 0};
    uint32_t i;
    for (i = 0; i < DITI_KERNELS; i++) {
        for (piece = diti_spirv_table()[i].pieces; *piece; piece++) {
            parts[1] = diti_hash(*piece, strlen(*piece));
            parts[0] = diti_hash(parts, sizeof parts);
        }
    }
    return parts[0];
}

DIT_INTERNAL dit_result diti_spirv_decode(const diti_env *env, diti_kernel kernel, uint32_t **words, size_t *count,
                                          dit_error *err) {
    const diti_spirv_module *entry;
    unsigned char *bytes;
    uint32_t *out;
    bool good;
    *words = NULL;
    *count = 0;
    if (kernel >= DITI_KERNELS) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "no SPIR-V module %u", (uint32_t)kernel);
    }
    entry = &diti_spirv_table()[kernel];
    out = (uint32_t *)diti_alloc_array(env, entry->word_count, sizeof *out);
    bytes = (unsigned char *)diti_alloc(env, entry->byte_count);
    good = out && bytes && diti_spirv_words(entry, bytes, out);
    diti_free(env, bytes);
    if (good) {
        *words = out;
        *count = entry->word_count;
        return diti_spirv_variant(env, kernel, words, count, err);
    }
    diti_free(env, out);
    if (!out || !bytes) return diti_fail_memory(err, "SPIR-V module %s", entry->name);
    return diti_fail(err, DIT_ERROR_BAD_FILE, "embedded SPIR-V module %s is damaged", entry->name);
}

DITI_ONCE_BEGIN

DIT_INTERNAL bool diti_spirv_is_coop(const uint32_t *words, size_t count) {
    const uint32_t op_capability = 2u << 16 | 17u, cooperative_matrix = 6022;
    size_t i;
    for (i = 5; i + 1 < count && words[i] == op_capability; i += 2)
        if (words[i + 1] == cooperative_matrix) return true;
    return false;
}

/* A type of elements takes two capabilities, an extension, and a number that says which float it is. */
typedef struct diti_spirv_float {
    uint32_t capabilities[2], extension[5], extension_words;
    uint32_t bits, encodings[2]; /* numbers for the first operand, and for the second */
} diti_spirv_float;

static const diti_spirv_float *diti_spirv_float_of(diti_matrix_kind kind) {
    static const diti_spirv_float brain = {
        {5116, 5118}, {0x5f565053, 0x5f52484b, 0x6f6c6662, 0x36317461, 0}, 5, 16, {0, 0}}; /* SPV_KHR_bfloat16 */
    static const diti_spirv_float e4m3 = {
        {4212, 4213}, {0x5f565053, 0x5f545845, 0x616f6c66, 0x00003874, 0}, 4, 8, {4214, 4214}}; /* SPV_EXT_float8 */
    static const diti_spirv_float e5m2 = {
        {4212, 4213}, {0x5f565053, 0x5f545845, 0x616f6c66, 0x00003874, 0}, 4, 8, {4214, 4215}};
    if (kind == DITI_MATRIX_BRAIN) return &brain;
    if (kind == DITI_MATRIX_E4M3) return &e4m3;
    return kind == DITI_MATRIX_E5M2 ? &e5m2 : NULL;
}

static bool diti_spirv_is_one(const uint32_t *words, size_t count, uint32_t id) {
    size_t i;
    for (i = 5; i < count && words[i] >> 16; i += words[i] >> 16)
        if (words[i] == (4u << 16 | 43u) && words[i + 2] == id) return words[i + 3] == 1; /* OpConstant */
    return false;
}

/* Matrices of halves become matrices of another type: two capabilities, an extension and a type, or two, beside
   float16, which results still need. */
DIT_INTERNAL dit_result diti_spirv_elements(const diti_env *env, diti_matrix_kind kind, uint32_t **words, size_t *count,
                                            dit_error *err) {
    const diti_spirv_float *to = diti_spirv_float_of(kind);
    const uint32_t capability = 2u << 16 | 17u, float16 = 3u << 16 | 22u, first = (*words)[3];
    const uint32_t *from = *words, types = to && to->encodings[0] != to->encodings[1] ? 2 : 1;
    uint32_t *out, half = 0, k;
    size_t i, used = 5;
    if (!to) return DIT_OK;
    out = (uint32_t *)diti_alloc_array(env, *count + 18, sizeof *out);
    if (!out) return diti_fail_memory(err, "a SPIR-V module");
    memcpy(out, from, 5 * sizeof *out);
    out[3] += types;
    for (i = 5; i < *count && from[i] >> 16; i += from[i] >> 16) {
        uint32_t length = from[i] >> 16;
        memcpy(out + used, from + i, length * sizeof *out);
        if ((from[i] & 0xffffu) == 4456 && from[i + 2] == half) /* OpTypeCooperativeMatrixKHR; use 1: second operand */
            out[used + 2] = first + (types > 1 && diti_spirv_is_one(from, *count, from[i + 6]));
        used += length;
        if (from[i] == capability && from[i + 2] != capability) { /* the last one; extensions are next */
            for (k = 0; k < 2; k++) {
                out[used++] = capability;
                out[used++] = to->capabilities[k];
            }
            out[used++] = (to->extension_words + 1) << 16 | 10u;
            memcpy(out + used, to->extension, to->extension_words * sizeof *out);
            used += to->extension_words;
        }
        for (k = 0; k < types && from[i] == float16 && from[i + 2] == 16; k++) {
            half = from[i + 1];
            out[used++] = 4u << 16 | 22u;
            out[used++] = first + k;
            out[used++] = to->bits;
            out[used++] = to->encodings[k];
        }
    }
    diti_free(env, *words);
    *words = out;
    *count = used;
    return DIT_OK;
}

/* An optional feature of modules. Its declarations are left out where the device has it not: extension, capabilities
   and execution mode. */
typedef struct diti_spirv_option {
    uint32_t extension[4]; /* how its name begins; one that begins otherwise stays */
    uint32_t capabilities[2];
    uint32_t execution_mode; /* 0: none */
} diti_spirv_option;

static void diti_spirv_leave_out(const diti_spirv_option *option, uint32_t *words, size_t *count) {
    size_t i, length, used = 5;
    for (i = 5; i < *count && words[i] >> 16; i += length) {
        const uint32_t op = words[i] & 0xffffu, *extension = option->extension;
        length = words[i] >> 16;
        if (op == 17 && (words[i + 1] == option->capabilities[0] || words[i + 1] == option->capabilities[1])) continue;
        if (op == 10 && length > 4 && !memcmp(&words[i + 1], extension, sizeof option->extension)) continue;
        if (op == 16 && words[i + 2] == option->execution_mode) continue;
        memmove(words + used, words + i, length * sizeof *words);
        used += length;
    }
    *count = used;
}

/* The integer dot product: OpSDot becomes OpIMul, which has no format of packed words, in code that is never run. */
DIT_INTERNAL void diti_spirv_no_dot(uint32_t *words, size_t *count) {
    static const diti_spirv_option dot = {
        {0x5f565053, 0x5f52484b, 0x65746e69, 0x5f726567}, {6018, 6019}, 0}; /* SPV_KHR_integer_ */
    size_t i, used = 5, length;
    diti_spirv_leave_out(&dot, words, count);
    for (i = 5; i < *count && words[i] >> 16; i += length) {
        length = words[i] >> 16;
        memmove(words + used, words + i, length * sizeof *words);
        if ((words[used] & 0xffffu) == 4450) words[used] = 5u << 16 | 132u;
        used += words[used] >> 16;
    }
    *count = used;
}

/* The mixed dot product: its sum alone is left, in code that is never run. */
DIT_INTERNAL void diti_spirv_no_mixed(uint32_t *words, size_t *count) {
    static const diti_spirv_option mixed = {
        {0x5f565053, 0x564c4156, 0x696d5f45, 0x5f646578}, {6912, 6912}, UINT32_MAX}; /* SPV_VALVE_mixed_ */
    size_t i, used = 5, length;
    diti_spirv_leave_out(&mixed, words, count);
    for (i = 5; i < *count && words[i] >> 16; i += length) {
        uint32_t *at = words + used;
        length = words[i] >> 16;
        memmove(at, words + i, length * sizeof *words);
        if ((at[0] & 0xffffu) == 6916) {
            at[0] = 4u << 16 | 83u; /* OpCopyObject */
            at[3] = at[5];
        }
        used += at[0] >> 16;
    }
    *count = used;
}

/* OpCapability SignedZeroInfNanPreserve, the first one of a module that has it. */
static const uint32_t diti_spirv_keeps[2] = {2u << 16 | 17u, 4466};

/* RoundingModeRTE of F16. Such modules look at DITI_CONSTANT_ROUNDS, too. The extension stays with a module that has
   another capability of it. */
DIT_INTERNAL void diti_spirv_no_rounding(uint32_t *words, size_t *count) {
    diti_spirv_option rounding = {
        {0x5f565053, 0x5f52484b, 0x616f6c66, 0x6f635f74}, {4467, 4467}, 4462}; /* SPV_KHR_float_co */
    if (!memcmp(&words[5], diti_spirv_keeps, sizeof diti_spirv_keeps)) rounding.extension[0] = 0;
    diti_spirv_leave_out(&rounding, words, count);
}

DIT_INTERNAL dit_result diti_spirv_keep_infinity(const diti_env *env, uint32_t **words, size_t *count, dit_error *err) {
    static const uint32_t size[2] = {16, 32};
    const uint32_t *from = *words;
    uint32_t *out = (uint32_t *)diti_alloc_array(env, *count + 10, sizeof *out);
    size_t i, used = 7, length, k;
    if (!out) return diti_fail_memory(err, "a SPIR-V module");
    memcpy(out, from, 5 * sizeof *out);
    memcpy(out + 5, diti_spirv_keeps, sizeof diti_spirv_keeps);
    for (i = 5; i < *count && from[i] >> 16; i += length) {
        length = from[i] >> 16;
        memcpy(out + used, from + i, length * sizeof *out);
        used += length;
        for (k = 0; k < 2 && (from[i] & 0xffffu) == 16 && from[i + 2] == 4462; k++) { /* beside RoundingModeRTE */
            const uint32_t mode[4] = {4u << 16 | 16u, from[i + 1], 4461, size[k]};
            memcpy(out + used, mode, sizeof mode);
            used += 4;
        }
    }
    diti_free(env, *words);
    *words = out;
    *count = used;
    return DIT_OK;
}

/* --- a module of two kernels --- */

static bool diti_spirv_marked(const bool *marks, uint32_t bound, const uint32_t *ids, uint32_t count) {
    uint32_t i;
    for (i = 0; i < count; i++)
        if (ids[i] < bound && marks[ids[i]]) return true;
    return false;
}

/* Whether an instruction declares a type of float16, or a constant or variable of such a type; its id is at *result. */
static bool diti_spirv_declares_half(const uint32_t *at, const bool *marks, uint32_t bound, uint32_t *result) {
    const uint32_t length = at[0] >> 16;
    *result = length > 1 ? at[1] : 0;
    if (length < 3) return false;
    switch (at[0] & 0xffffu) {
    case 22: return at[2] == 16; /* OpTypeFloat */
    case 23:                     /* OpTypeVector, OpTypeArray, OpTypeRuntimeArray */
    case 28:
    case 29: return diti_spirv_marked(marks, bound, at + 2, 1);
    case 32: return diti_spirv_marked(marks, bound, at + 3, length > 3); /* OpTypePointer */
    case 30:                                                             /* OpTypeStruct, OpTypeFunction */
    case 33: return diti_spirv_marked(marks, bound, at + 2, length - 2);
    default: break;
    }
    *result = at[2];
    return ((at[0] & 0xffffu) == 59 ||
            ((at[0] & 0xffffu) >= 41 && (at[0] & 0xffffu) <= 52)) && /* OpVariable, OpConstant… */
           diti_spirv_marked(marks, bound, at + 1, 1);
}

/* float16 in a module whose functions do not use it: types, what is declared with them, and the capability. */
static dit_result diti_spirv_no_halves(const diti_env *env, uint32_t *words, size_t *count, dit_error *err) {
    const uint32_t bound = words[3];
    bool *marks = (bool *)diti_alloc_zero(env, bound);
    size_t i, used = 5, length;
    uint32_t result, k;
    if (!marks) return diti_fail_memory(err, "a SPIR-V module");
    for (i = 5; i < *count && words[i] >> 16 && (words[i] & 0xffffu) != 54; i += words[i] >> 16) /* OpFunction */
        if (diti_spirv_declares_half(words + i, marks, bound, &result) && result < bound) marks[result] = true;
    for (i = 5; i < *count && words[i] >> 16; i += length) {
        uint32_t *at = words + used;
        const uint32_t op = words[i] & 0xffffu;
        length = words[i] >> 16;
        memmove(at, words + i, length * sizeof *words);
        if (op == 17 && at[1] == 9) continue;                                               /* Float16 */
        if ((op == 71 || op == 72) && diti_spirv_marked(marks, bound, at + 1, 1)) continue; /* OpDecorate… */
        if (diti_spirv_declares_half(at, marks, bound, &result)) continue;
        used += length;
        if (op != 15) continue; /* OpEntryPoint: behind the words of its name stand variables */
        for (k = 3; k < length && at[k] >> 24; k++) continue;
        if (k == length) continue;
        for (used -= length - ++k; k < length; k++) {
            if (diti_spirv_marked(marks, bound, at + k, 1))
                at[0] -= 1u << 16;
            else
                words[used++] = at[k];
        }
    }
    *count = used;
    diti_free(env, marks);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_spirv_settle(const diti_env *env, diti_kernel kernel, uint32_t id, uint32_t value,
                                          uint32_t **words, size_t *count, dit_error *err) {
    const VkSpecializationMapEntry entry = {id, 0, sizeof value};
    const VkSpecializationInfo given = {1, &entry, sizeof value, &value};
    bool folded = false;
    DITI_TRY(diti_spirv_fold(env, &given, false, words, count, &folded, err));
    if (folded) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE, "embedded SPIR-V module %s is damaged", diti_kernel_name(kernel));
}

/* gemm_gpu needs no float16 on the device, which gemm_half computes with. Both are in one module, which is smaller than
   two: all but the arithmetic is the same. */
DIT_INTERNAL dit_result diti_spirv_variant(const diti_env *env, diti_kernel kernel, uint32_t **words, size_t *count,
                                           dit_error *err) {
    const bool half = kernel == DITI_KERNEL_GEMM_HALF;
    dit_result result;
    if (kernel != DITI_KERNEL_GEMM_GPU && kernel != DITI_KERNEL_GEMM_HALF) return DIT_OK;
    result = diti_spirv_settle(env, kernel, DITI_CONSTANT_HALF, half, words, count, err);
    if (result >= 0 && !half) {
        diti_spirv_no_mixed(*words, count);
        diti_spirv_no_rounding(*words, count);
        result = diti_spirv_no_halves(env, *words, count, err);
    }
    if (result >= 0) return DIT_OK;
    diti_free(env, *words);
    *words = NULL;
    *count = 0;
    return result;
}

/* --- pipelines that multiply no bytes --- */

enum { DITI_SPIRV_MATRICES = 16 };
typedef struct diti_spirv_matrices {               /* ids; 0: the module has no such thing */
    uint32_t byte, integer, half, single, zero;    /* types of 8, 32, 16 and 32 bits; 0.0 */
    uint32_t types[DITI_SPIRV_MATRICES][6], count; /* declarations without their first words */
    uint32_t sums[DITI_SPIRV_MATRICES], sum_count; /* matrices of integers */
    uint32_t twin[2];                              /* a type that has become the same as another one, and that */
} diti_spirv_matrices;

static void diti_spirv_raise(uint32_t *words, size_t to, size_t from) {
    uint32_t moved[4];
    const size_t length = words[from] >> 16;
    if (from <= to || length > DITI_COUNT(moved)) return;
    memcpy(moved, words + from, length * sizeof *words);
    memmove(words + to + length, words + to, (from - to) * sizeof *words);
    memcpy(words + to, moved, length * sizeof *words);
}

/* Types and constants that matrices of bytes are to be declared with instead come first. */
static void diti_spirv_look(uint32_t *words, size_t count, diti_spirv_matrices *out) {
    size_t i, first = 0, length;
    memset(out, 0, sizeof *out);
    for (i = 5; i < count && words[i] >> 16; i += length) {
        const uint32_t head = words[i], id = words[i + 1];
        bool comes_first = head == (3u << 16 | 22u);
        length = head >> 16;
        if (!first && (head & 0xffffu) == 19) first = i; /* OpTypeVoid */
        if (head == (4u << 16 | 21u) && words[i + 2] == 8) out->byte = id;
        if (head == (4u << 16 | 21u) && words[i + 2] == 32 && words[i + 3]) out->integer = id;
        if (head == (3u << 16 | 22u) && words[i + 2] == 16) out->half = id;
        if (head == (3u << 16 | 22u) && words[i + 2] == 32) out->single = id;
        if (head == (4u << 16 | 43u) && id == out->single && !words[i + 3]) {
            out->zero = words[i + 2];
            comes_first = true;
        }
        if (!first || !comes_first) continue;
        diti_spirv_raise(words, first, i);
        first += length;
    }
}

/* Takes over a matrix type, of other elements where it was one of integers; false: there is such a type already. */
static bool diti_spirv_declare(diti_spirv_matrices *m, uint32_t *at) {
    uint32_t i;
    if (at[2] == m->integer && m->sum_count < DITI_SPIRV_MATRICES) m->sums[m->sum_count++] = at[1];
    if (at[2] == m->byte) at[2] = m->half;
    if (at[2] == m->integer) at[2] = m->single;
    for (i = 0; i < m->count; i++) {
        if (memcmp(&m->types[i][1], at + 2, 5 * sizeof *at) != 0) continue;
        m->twin[0] = at[1];
        m->twin[1] = m->types[i][0];
        return false;
    }
    if (m->count < DITI_SPIRV_MATRICES) memcpy(m->types[m->count++], at + 1, sizeof m->types[0]);
    return true;
}

static void diti_spirv_replace_twin(const diti_spirv_matrices *m, uint32_t *at) {
    const uint32_t op = at[0] & 0xffffu, length = at[0] >> 16;
    uint32_t i, last = op == 28 ? 2 : op == 32 ? 3 : op == 33 ? length - 1 : 1; /* arrays, pointers and functions */
    for (i = 1; m->twin[0] && i < length && i <= last; i++)
        if (at[i] == m->twin[0]) at[i] = m->twin[1];
}

DIT_INTERNAL void diti_spirv_no_bytes(uint32_t *words, size_t *count) {
    diti_spirv_matrices m;
    size_t i, used = 5, length;
    uint32_t k;
    diti_spirv_look(words, *count, &m);
    if (!m.byte) return;
    for (i = 5; i < *count && words[i] >> 16; i += length) {
        const uint32_t op = words[i] & 0xffffu;
        uint32_t *at = words + used;
        bool sum = false, matrix = false;
        length = words[i] >> 16;
        if ((op == 17 && words[i + 1] == 39) || (op == 21 && words[i + 2] == 8)) continue; /* capability and type */
        memmove(at, words + i, length * sizeof *words);
        if (op == 4456 && !diti_spirv_declare(&m, at)) continue;
        for (k = 0; k < m.sum_count; k++) sum = sum || at[1] == m.sums[k];
        for (k = 0; k < m.count; k++) matrix = matrix || at[1] == m.types[k][0];
        if (sum && (op == 44 || op == 51 || op == 80)) /* a matrix of zeros */
            for (k = 3; k < length; k++) at[k] = m.zero;
        if (sum && op == 4459) at[0] = 6u << 16 | op;    /* OpCooperativeMatrixMulAddKHR: without signs */
        if (matrix && op == 111) at[0] = 4u << 16 | 83u; /* OpConvertSToF: OpCopyObject */
        diti_spirv_replace_twin(&m, at);
        used += at[0] >> 16;
    }
    *count = used;
}

DITI_REGION_END
