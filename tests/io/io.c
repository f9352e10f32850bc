/* io: stored types bit for bit, safetensors (sharded too), GGUF (split too), packages; from paths, memory and
 * callbacks. `io DIR...` opens everything below other folders of fixtures instead and reads every tensor. */
#include "library.h"
#include "test.h"
#include "files.h"
#include "model_files.h"
#include <dirent.h>

static test_memory memory;
static diti_env env;

static diti_checkpoint *open_source(const dit_source *source) {
    dit_error err = {0};
    diti_checkpoint *checkpoint = NULL;
    CHECK_MESSAGE(diti_checkpoint_open(&env, source, &checkpoint, &err) == DIT_OK, "%s", err.message);
    return checkpoint;
}

static diti_checkpoint *open_path(const char *path) {
    dit_source source = {0};
    source.path = path;
    return open_source(&source);
}

/* --- types --- */

static const dit_type quantized[] = {DIT_TYPE_Q8_0, DIT_TYPE_Q4_0, DIT_TYPE_Q4_1, DIT_TYPE_Q5_0,
                                     DIT_TYPE_Q5_1, DIT_TYPE_Q2_K, DIT_TYPE_Q3_K, DIT_TYPE_Q4_K,
                                     DIT_TYPE_Q5_K, DIT_TYPE_Q6_K, DIT_TYPE_MXFP4};

/* Whether a value is right; of IQ4_XS as Q8_0, whose scales are rounded to halves, to 2^-11. */
static bool is_near(const diti_stored_tensor *tensor, float value, float expected) {
    double most = strcmp(tensor->type_name, "IQ4_XS") ? 0 : ldexp(fabs((double)expected), -11);
    return fabs((double)value - (double)expected) <= most;
}

/* One tensor of ggml's fixture: read whole, block-wise from an odd address, and in pieces of any size. */
static void check_decoded(const diti_checkpoint *types, const diti_stored_tensor *tensor, const float *expected) {
    static float values[2560], shifted[2560];
    static unsigned char stored[10241], piece[10240];
    dit_error err = {0};
    uint64_t at = 0, size;
    int i, wrong = 0;
    CHECK_MESSAGE(diti_checkpoint_read_float(types, tensor, values, 2560, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(memcmp(values, expected, sizeof values) == 0, "%s is not bit-exact", tensor->name);
    CHECK(tensor->size <= 10240 &&
          diti_checkpoint_read(types, tensor, 0, stored + 1, (size_t)tensor->size, &err) == DIT_OK);
    diti_type_to_float(tensor->type, stored + 1, 2560, shifted);
    for (i = 0; i < 2560; i++) wrong += !is_near(tensor, shifted[i], expected[i]);
    CHECK_MESSAGE(!wrong, "%s: %d values are wrong", tensor->name, wrong);
    for (size = 1; at < tensor->size; at += size, size = size * 7 % 1201 + 1) {
        if (size > tensor->size - at) size = tensor->size - at;
        CHECK(diti_checkpoint_read(types, tensor, at, piece, (size_t)size, &err) == DIT_OK &&
              !memcmp(piece, stored + 1 + at, (size_t)size));
    }
}

static void test_types_of_ggml(void) {
    static const char *const refused[] = {"IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ3_S",
                                          "IQ2_S",   "IQ1_M",  "TQ1_0",   "TQ2_0"};
    diti_checkpoint *types = open_path("tests/fixtures/gguf_types/all_types.gguf");
    diti_checkpoint *golden = open_path("tests/fixtures/gguf_types/golden.safetensors");
    static float expected[2560];
    size_t read = 0, not_read = 0;
    if (!types || !golden) return;
    for (uint32_t i = 0; i < diti_checkpoint_count(types); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(types, i);
        dit_error err = {0};
        char name[64];
        snprintf(name, sizeof name, "dequant.%s", tensor->name + 2);
        CHECK(tensor->rank == 2 && tensor->shape[0] == 5 && tensor->shape[1] == 512 &&
              strcmp(tensor->type_name, tensor->name + 2) == 0);
        if (tensor->type == DIT_TYPE_STORED) {
            CHECK(diti_checkpoint_read_float(types, tensor, expected, 2560, &err) == DIT_ERROR_UNSUPPORTED_MODEL);
            CHECK_MESSAGE(strstr(err.message, tensor->name + 2) && strstr(err.message, "all_types.gguf"), "%s",
                          err.message);
            CHECK(not_read < DITI_COUNT(refused) && strcmp(refused[not_read], tensor->type_name) == 0);
            not_read++;
            continue;
        }
        if (!CHECK(diti_checkpoint_find(golden, name))) continue;
        CHECK(diti_checkpoint_read_float(golden, diti_checkpoint_find(golden, name), expected, 2560, &err) == DIT_OK);
        check_decoded(types, tensor, expected);
        read++;
    }
    CHECK(read == 5 + DITI_COUNT(quantized) && not_read == DITI_COUNT(refused)); /* three of floats, and IQ4's two */
    diti_checkpoint_close(types);
    diti_checkpoint_close(golden);
}

/* Tensors of tests/fixtures/small_floats (tests/reference/small_floats.py), read whole and in pieces of any size. */
static void check_small_floats(const char *path, const char *name) {
    diti_checkpoint *file = open_path(path);
    const diti_stored_tensor *tensor = file ? diti_checkpoint_find(file, name) : NULL;
    static float values[150 * 128], expected[150 * 128];
    static unsigned char whole[20000], piece[20000];
    uint64_t count = tensor ? diti_stored_tensor_elements(tensor) : 0, at = 0;
    dit_error err = {0};
    if (!CHECK(tensor && tensor->type == DIT_TYPE_NVFP4 && count <= DITI_COUNT(values))) return;
    CHECK(diti_checkpoint_read_float(file, diti_checkpoint_find(file, "values"), expected, count, &err) == DIT_OK);
    CHECK_MESSAGE(diti_checkpoint_read_float(file, tensor, values, count, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(!memcmp(values, expected, count * sizeof *values), "%s: %s is not bit-exact", path, name);
    CHECK(diti_checkpoint_read(file, tensor, 0, whole, (size_t)tensor->size, &err) == DIT_OK);
    for (uint64_t size = 1; at < tensor->size; at += size, size = size * 7 % 1201 + 1) {
        if (size > tensor->size - at) size = tensor->size - at;
        CHECK(diti_checkpoint_read(file, tensor, at, piece, (size_t)size, &err) == DIT_OK &&
              !memcmp(piece, whole + at, (size_t)size));
    }
    diti_checkpoint_close(file);
}

static void test_type_table(void) {
    uint64_t size;
    CHECK(strcmp(diti_type_name(DIT_TYPE_Q8_0), "Q8_0") == 0 && strcmp(diti_type_name((dit_type)99), "stored") == 0);
    CHECK(diti_type_bytes(DIT_TYPE_Q6_K, 3, 512, &size) && size == 3 * 2 * 210);
    CHECK(!diti_type_bytes(DIT_TYPE_Q6_K, 3, 511, &size) && !diti_type_bytes(DIT_TYPE_F32, UINT64_MAX / 4, 2, &size));
    CHECK(!diti_type_bytes(DIT_TYPE_STORED, 1, 1, &size) && !diti_type_bytes(DIT_TYPE_I8_ROW, 1, 1, &size));
}

/* Blocks of I4_GROUP against the formula; what encodes floats keeps within half a step, and the ends. */
static void test_i4_group(void) {
    uint8_t block[DITI_I4_GROUP_BYTES], quants[DITI_I4_GROUP], packed[DITI_I4_GROUP_BYTES];
    float values[DITI_I4_GROUP], out[DITI_I4_GROUP];
    uint64_t size;
    for (uint32_t e = 0; e < DITI_I4_GROUP; e++) quants[e] = (uint8_t)((e * 7 + e / 16) % 16);
    diti_i4_group_pack(quants, diti_float_to_half(0.125f), diti_float_to_half(-0.75f), block);
    CHECK(block[4] == (quants[0] | quants[4] << 4) && block[7] == (quants[3] | quants[7] << 4) &&
          block[67] == (quants[123] | quants[127] << 4) && block[3] == 0xba && block[2] == 0);
    diti_type_to_float(DIT_TYPE_I4_GROUP, block, DITI_I4_GROUP, out);
    for (uint32_t e = 0; e < DITI_I4_GROUP; e++) CHECK(out[e] == 0.125f * quants[e] - 0.75f);
    CHECK(diti_i4_group_encode(out, packed) && !memcmp(block, packed, sizeof block));
    for (uint32_t e = 0; e < DITI_I4_GROUP; e++) values[e] = sinf((float)(e * e)) + 3;
    CHECK(diti_i4_group_encode(values, block));
    diti_type_to_float(DIT_TYPE_I4_GROUP, block, DITI_I4_GROUP, out);
    for (uint32_t e = 0; e < DITI_I4_GROUP; e++) CHECK(fabsf(out[e] - values[e]) <= 0.07f); /* a step is 2 / 15 */
    for (uint32_t e = 0; e < DITI_I4_GROUP; e++) values[e] = -5;
    CHECK(diti_i4_group_encode(values, block));
    diti_type_to_float(DIT_TYPE_I4_GROUP, block, DITI_I4_GROUP, out);
    CHECK(out[0] == -5 && out[127] == -5);
    values[77] = NAN;
    CHECK(!diti_i4_group_encode(values, block));
    values[77] = 70000;
    CHECK(!diti_i4_group_encode(values, block));
    CHECK(diti_type_bytes(DIT_TYPE_I4_GROUP, 3, 256, &size) && size == 3 * 2 * 68 &&
          !diti_type_bytes(DIT_TYPE_I4_GROUP, 3, 192, &size));
}

static void test_integers(void) {
    const int32_t small[] = {-7, 16777216};
    const int64_t large[] = {-9, (int64_t)1 << 40};
    float out[2];
    diti_type_to_float(DIT_TYPE_I32, small, 2, out);
    CHECK(out[0] == -7 && out[1] == 16777216);
    diti_type_to_float(DIT_TYPE_I64, large, 2, out);
    CHECK(out[0] == -9 && out[1] == 1099511627776.0f);
}

/* --- safetensors --- */

static const char small_header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"F8_E5M2\",\"shape\":[2,3],\"data_offsets\":[8,14]},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[14,22]},"
    "\"none\":{\"dtype\":\"BOOL\",\"shape\":[0,4],\"data_offsets\":[22,22]}}   ";

static void check_small(diti_checkpoint *checkpoint) {
    const diti_stored_tensor *a, *b, *scalar, *none;
    float values[6];
    dit_error err = {0};
    if (!checkpoint) return;
    a = diti_checkpoint_find(checkpoint, "a"), b = diti_checkpoint_find(checkpoint, "b");
    scalar = diti_checkpoint_find(checkpoint, "scalar"), none = diti_checkpoint_find(checkpoint, "none");
    if (!CHECK(a && b && scalar && none && diti_checkpoint_count(checkpoint) == 4)) return;
    CHECK(b->rank == 2 && b->shape[0] == 2 && b->shape[1] == 3 && b->type == DIT_TYPE_F8_E5M2 && b->size == 6);
    CHECK(scalar->rank == 0 && scalar->size == 8 && none->size == 0 && none->type == DIT_TYPE_STORED);
    CHECK(diti_checkpoint_read_float(checkpoint, b, values, 6, &err) == DIT_OK && values[0] == 0 && values[5] == 1);
    CHECK(diti_checkpoint_read_float(checkpoint, a, values, 2, &err) == DIT_OK && values[0] == 2.5f && values[1] == 0);
    CHECK(diti_checkpoint_read_float(checkpoint, a, values, 3, &err) == DIT_ERROR_BAD_FILE &&
          strstr(err.message, "'a'"));
    CHECK(diti_checkpoint_read(checkpoint, a, 4, values, 5, &err) == DIT_ERROR_INVALID_ARGUMENT &&
          strstr(err.message, "'a'"));
    CHECK(diti_equal(diti_checkpoint_text(checkpoint, "format"), "pt") && !diti_checkpoint_text(checkpoint, "other"));
    CHECK(!diti_checkpoint_find(checkpoint, "") && !diti_checkpoint_find(checkpoint, "c") &&
          !diti_checkpoint_tensor(checkpoint, 4));
    CHECK(diti_checkpoint_has_prefix(checkpoint, "sca") && !diti_checkpoint_has_prefix(checkpoint, "sca."));
    diti_checkpoint_close(checkpoint);
}

static void test_safetensors(void) {
    bytes file = safetensors_bytes(small_header, 22);
    dit_source source = memory_source(&file);
    float value = 2.5f;
    memcpy(file.data + file.size - 22, &value, 4);
    file.data[file.size - 9] = 0x3c; /* 1 as E5M2 */
    check_small(open_source(&source));
    source = callback_source(&file);
    check_small(open_source(&source));
    bytes_free(&file);
    CHECK(memory.alive == 0);
}

/* Types that only other programs compute with: a file may hold them beside what is read. */
static void test_unread_types(void) {
    static const struct {
        const char *name;
        unsigned values, size;
    } types[] = {{"F4", 8, 4},  {"F6_E2M3", 8, 6},     {"F6_E3M2", 4, 3},     {"F8_E8M0", 3, 3},
                 {"U16", 2, 4}, {"F8_E4M3FNUZ", 5, 5}, {"F8_E5M2FNUZ", 1, 1}, {"F64", 1, 8}};
    size_t i;
    for (i = 0; i < DITI_COUNT(types); i++) {
        char header[200];
        bytes file;
        dit_source source;
        diti_checkpoint *checkpoint = NULL;
        const diti_stored_tensor *tensor;
        dit_error err = {0};
        diti_format(header, sizeof header, "{\"a\":{\"dtype\":\"%s\",\"shape\":[%u],\"data_offsets\":[0,%u]}}",
                    types[i].name, types[i].values, types[i].size);
        file = safetensors_bytes(header, types[i].size);
        source = memory_source(&file);
        if (CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_OK, "%s", err.message)) {
            tensor = diti_checkpoint_find(checkpoint, "a");
            CHECK(tensor && tensor->type == DIT_TYPE_STORED && tensor->size == types[i].size);
            CHECK(diti_checkpoint_read(checkpoint, tensor, 0, header, 1, &err) == DIT_ERROR_UNSUPPORTED_MODEL &&
                  strstr(err.message, types[i].name));
        }
        diti_checkpoint_close(checkpoint);
        bytes_free(&file);
    }
}

/* By their index, and by the name of the first, which tells the others'. */
static void test_shards(const char *path) {
    diti_checkpoint *whole = open_path("tests/fixtures/t5_encoder/model.safetensors");
    diti_checkpoint *sharded = open_path(path);
    static unsigned char a[1 << 20], b[1 << 20];
    dit_error err = {0};
    if (!whole || !sharded) return;
    CHECK(diti_checkpoint_count(whole) == 30 && diti_checkpoint_count(sharded) == 30);
    for (uint32_t i = 0; i < diti_checkpoint_count(whole); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(whole, i);
        const diti_stored_tensor *other = diti_checkpoint_find(sharded, tensor->name);
        if (!CHECK(other && other->size == tensor->size && other->type == tensor->type && tensor->size <= sizeof a))
            continue;
        CHECK(memcmp(other->shape, tensor->shape, sizeof tensor->shape) == 0);
        CHECK(diti_checkpoint_read(whole, tensor, 0, a, (size_t)tensor->size, &err) == DIT_OK);
        CHECK(diti_checkpoint_read(sharded, other, 0, b, (size_t)tensor->size, &err) == DIT_OK);
        CHECK(memcmp(a, b, (size_t)tensor->size) == 0);
    }
    diti_checkpoint_close(whole);
    diti_checkpoint_close(sharded);
    CHECK(memory.alive == 0);
}

/* --- GGUF --- */

static void check_metadata(diti_checkpoint *types) {
    const void *data;
    uint64_t elements;
    uint32_t type;
    size_t length = 9;
    if (!types) return;
    CHECK(diti_equal(diti_checkpoint_text(types, "general.name"), "all types"));
    CHECK(diti_equal(diti_checkpoint_text(types, "general.alignment"), "32"));
    CHECK(diti_equal(diti_checkpoint_text(types, "test.u32"), "7") &&
          diti_equal(diti_checkpoint_text(types, "test.f32"), "0.5"));
    CHECK(diti_equal(diti_checkpoint_text(types, "test.bool"), "true"));
    CHECK(diti_equal(diti_checkpoint_text(types, "test.str"), "h\xc3\xa9llo"));
    CHECK(diti_checkpoint_array(types, "test.arr_i32", &data, &elements, &type) && elements == 3 &&
          type == DITI_GGUF_I32);
    CHECK(((const int32_t *)data)[1] == -2);
    CHECK(diti_checkpoint_array(types, "test.arr_f32", &data, &elements, &type) && elements == 2 &&
          type == DITI_GGUF_F32);
    CHECK(((const float *)data)[1] == -1.25f);
    CHECK(!diti_checkpoint_array(types, "test.arr_str", &data, &elements, &type) &&
          !diti_checkpoint_text(types, "test.arr_str"));
    CHECK(!diti_checkpoint_array(types, "test.u32", &data, &elements, &type) &&
          !diti_checkpoint_array(types, "no", &data, &elements, &type));
    CHECK(diti_equal(diti_checkpoint_array_text(types, "test.arr_str", 1, &length), "bc") && length == 2);
    CHECK(diti_equal(diti_checkpoint_array_text(types, "test.arr_str", 2, NULL), "") &&
          !diti_checkpoint_array_text(types, "test.arr_str", 3, NULL));
    CHECK(!diti_checkpoint_array_text(types, "test.arr_i32", 0, NULL) &&
          !diti_checkpoint_array_text(types, "no", 0, NULL));
    diti_checkpoint_close(types);
}

static void test_gguf_metadata(void) {
    bytes file = {0};
    dit_source source;
    file.data = (unsigned char *)test_read_file("tests/fixtures/gguf_types/all_types.gguf", &file.size);
    source = callback_source(&file);
    check_metadata(open_path("tests/fixtures/gguf_types/all_types.gguf"));
    check_metadata(open_source(&source));
    bytes_free(&file);
    CHECK(memory.alive == 0);
}

static void test_gguf_numbers(void) {
    static const struct {
        uint32_t type;
        size_t size;
        uint64_t raw;
        const char *text;
    } cases[] = {{DITI_GGUF_U8, 1, 0xff, "255"},
                 {DITI_GGUF_I8, 1, 0x80, "-128"},
                 {DITI_GGUF_U16, 2, 0xffff, "65535"},
                 {DITI_GGUF_I16, 2, 0xfffe, "-2"},
                 {DITI_GGUF_U32, 4, 0xffffffff, "4294967295"},
                 {DITI_GGUF_I32, 4, 5, "5"},
                 {DITI_GGUF_F32, 4, 0x358637bd, "9.99999997e-07"},
                 {DITI_GGUF_BOOL, 1, 0, "false"},
                 {DITI_GGUF_U64, 8, UINT64_MAX, "18446744073709551615"},
                 {DITI_GGUF_I64, 8, (uint64_t)1 << 63, "-9223372036854775808"},
                 {DITI_GGUF_F64, 8, 0x3fb999999999999a, "0.10000000000000001"}};
    bytes file = {0};
    dit_source source;
    diti_checkpoint *checkpoint;
    gguf_head(&file, 2, 0, DITI_COUNT(cases));
    for (size_t i = 0; i < DITI_COUNT(cases); i++) {
        char key[8];
        snprintf(key, sizeof key, "k%zu", i);
        gguf_key(&file, key, cases[i].type);
        bytes_add(&file, &cases[i].raw, cases[i].size);
    }
    source = memory_source(&file);
    checkpoint = open_source(&source);
    for (size_t i = 0; checkpoint && i < DITI_COUNT(cases); i++) {
        char key[8];
        snprintf(key, sizeof key, "k%zu", i);
        CHECK_MESSAGE(diti_equal(diti_checkpoint_text(checkpoint, key), cases[i].text), "%s is not %s",
                      diti_checkpoint_text(checkpoint, key), cases[i].text);
    }
    diti_checkpoint_close(checkpoint);
    bytes_free(&file);
}

/* IQ4_NL and IQ4_XS of more blocks than are read at a time, against ggml's definition in doubles. */
enum { NL_ROWS = 1501, NL_COLUMNS = 96, XS_ROWS = 301, XS_COLUMNS = 768 };

static double iq4_at(const unsigned char *data, bool line, uint64_t element) {
    static const int values[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    const uint64_t each = line ? 32 : 256, in_block = element % each, run = in_block / 32, place = in_block % 32;
    const unsigned char *block = data + element / each * (line ? 18 : 136),
                        *nibbles = block + (line ? 2 : 8 + 16 * run);
    int quant = place < 16 ? nibbles[place] & 15 : nibbles[place - 16] >> 4, factor = 1;
    if (!line)
        factor = ((block[4 + run / 2] >> (run % 2 ? 4 : 0) & 15) | (block[2 + run / 4] >> (run % 4 * 2) & 3) << 4) - 32;
    return (double)diti_half_to_float((uint16_t)(block[0] | block[1] << 8)) * factor * values[quant];
}

static void test_iq4(void) {
    const uint64_t bytes_of[] = {(uint64_t)NL_ROWS * NL_COLUMNS / 32 * 18, (uint64_t)XS_ROWS * XS_COLUMNS / 256 * 136};
    const uint64_t second = (bytes_of[0] + 31) / 32 * 32;
    bytes file = {0};
    dit_source source;
    diti_checkpoint *checkpoint;
    float *values = malloc((size_t)XS_ROWS * XS_COLUMNS * sizeof *values);
    unsigned char *data;
    uint32_t state = 7, i;
    gguf_head(&file, 3, 2, 0);
    gguf_tensor(&file, "line", NL_COLUMNS, NL_ROWS, 20, 0);
    gguf_tensor(&file, "super", XS_COLUMNS, XS_ROWS, 23, second);
    bytes_pad(&file, 32);
    bytes_add(&file, NULL, (size_t)(second + bytes_of[1]));
    data = file.data + file.size - (second + bytes_of[1]);
    for (i = 0; i < second + bytes_of[1]; i++)
        data[i] = (unsigned char)((state = state * 1664525u + 1013904223u) >> 24);
    for (i = 1; i < bytes_of[0]; i += 18) data[i] = (data[i] & 0x83) | 0x1c; /* scales from 2^-8 to 2^-7 */
    for (i = 1; i < bytes_of[1]; i += 136) data[second + i] = (data[second + i] & 0x83) | 0x1c;
    source = memory_source(&file);
    checkpoint = open_source(&source);
    for (i = 0; checkpoint && i < 2; i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_find(checkpoint, i ? "super" : "line");
        uint64_t count = diti_stored_tensor_elements(tensor), e, wrong = 0;
        dit_error err = {0};
        unsigned char *blocks = malloc((size_t)tensor->size);
        CHECK(tensor->type == DIT_TYPE_Q8_0 && tensor->size == count / 32 * 34);
        CHECK_MESSAGE(diti_checkpoint_read_float(checkpoint, tensor, values, count, &err) == DIT_OK, "%s", err.message);
        for (e = 0; e < count; e++) wrong += values[e] != (float)iq4_at(data + (i ? second : 0), i == 0, e);
        CHECK_MESSAGE(!wrong, "%s: %d of %d values are wrong", tensor->name, (int)wrong, (int)count);
        CHECK(diti_checkpoint_read_range(checkpoint, tensor, 33 * 32, values, 5 * 32, &err) == DIT_OK);
        for (e = 0; e < 5 * 32; e++) wrong += values[e] != (float)iq4_at(data + (i ? second : 0), i == 0, 33 * 32 + e);
        CHECK(diti_checkpoint_read(checkpoint, tensor, 0, blocks, (size_t)tensor->size, &err) == DIT_OK);
        diti_type_to_float(tensor->type, blocks, count, values);
        for (e = 0; e < count; e++)
            wrong += !is_near(tensor, values[e], (float)iq4_at(data + (i ? second : 0), i == 0, e));
        CHECK_MESSAGE(!wrong, "%s: %d values are wrong in rows or in Q8_0", tensor->name, (int)wrong);
        free(blocks);
    }
    diti_checkpoint_close(checkpoint);
    bytes_free(&file);
    free(values);
}

/* A convolution [2,4,2,2] stored as two rows of 16 in F16, another as one row of 32 in Q8_0; data aligned to 64. */
static bytes reshaped_gguf(void) {
    const int32_t shape[] = {2, 4, 2, 2};
    bytes file = {0};
    gguf_head(&file, 3, 2, 3);
    gguf_key_u32(&file, "general.alignment", 64);
    for (int i = 0; i < 2; i++) {
        gguf_key(&file, i ? "comfy.gguf.orig_shape.conv1" : "comfy.gguf.orig_shape.conv0", DITI_GGUF_ARRAY);
        bytes_u32(&file, DITI_GGUF_I32);
        bytes_u64(&file, 4);
        bytes_add(&file, shape, sizeof shape);
    }
    gguf_tensor(&file, "conv0", 16, 2, 1, 0);
    gguf_tensor(&file, "conv1", 32, 1, 8, 64);
    bytes_pad(&file, 64);
    bytes_add(&file, NULL, 64 + 34);
    return file;
}

static void test_original_shape(void) {
    bytes file = reshaped_gguf();
    dit_source source = memory_source(&file);
    diti_checkpoint *checkpoint = open_source(&source);
    const diti_stored_tensor *tensor;
    if (!checkpoint) return;
    for (uint32_t i = 0; i < 2; i++) {
        tensor = diti_checkpoint_tensor(checkpoint, i);
        CHECK(tensor->rank == 4 && tensor->shape[0] == 2 && tensor->shape[1] == 4 && tensor->shape[2] == 2 &&
              tensor->shape[3] == 2);
        CHECK(diti_stored_tensor_elements(tensor) == 32 && tensor->size == (i ? 34u : 64u) && tensor->offset % 64 == 0);
    }
    diti_checkpoint_close(checkpoint);
    bytes_free(&file);
}

static bytes split_gguf(uint32_t number, uint32_t files, const char *tensor) {
    bytes file = {0};
    gguf_head(&file, 3, 1, 2);
    gguf_key(&file, "split.no", DITI_GGUF_U16);
    bytes_add(&file, &number, 2);
    gguf_key(&file, "split.count", DITI_GGUF_U16);
    bytes_add(&file, &files, 2);
    gguf_tensor(&file, tensor, 4, 1, 0, 0);
    bytes_pad(&file, 32);
    bytes_add(&file, &number, 4);
    bytes_add(&file, NULL, 12);
    return file;
}

static diti_checkpoint *open_member(folder *all, const char *member, dit_error *err) {
    dit_source root = folder_source(all);
    diti_checkpoint *checkpoint = NULL;
    diti_checkpoint_open_member(&env, &root, member, &checkpoint, err);
    return checkpoint;
}

static void test_split_gguf(void) {
    folder all = {0};
    dit_error err = {0};
    diti_checkpoint *checkpoint;
    uint32_t stored = 9;
    folder_add(&all, "t/m-00001-of-00002.gguf", split_gguf(0, 2, "a"));
    folder_add(&all, "t/m-00002-of-00002.gguf", split_gguf(1, 2, "b"));
    checkpoint = open_member(&all, "t/m-00001-of-00002.gguf", &err);
    if (CHECK_MESSAGE(checkpoint && diti_checkpoint_count(checkpoint) == 2, "%s", err.message)) {
        const diti_stored_tensor *b = diti_checkpoint_find(checkpoint, "b");
        CHECK(b && b->file == 1 && diti_checkpoint_read(checkpoint, b, 0, &stored, 4, &err) == DIT_OK && stored == 1);
    }
    diti_checkpoint_close(checkpoint);
    CHECK(!open_member(&all, "t/m-00002-of-00002.gguf", &err) && strstr(err.message, "open the first"));
    CHECK(!open_member(&all, "t/absent", &err));
    all.count = 1;
    CHECK(!open_member(&all, "t/m-00001-of-00002.gguf", &err) && strstr(err.message, "m-00002-of-00002.gguf"));
    all.count = 2;
    folder_free(&all);
    CHECK(memory.alive == 0);
}

static void test_t5_gguf(void) {
    diti_checkpoint *gguf = open_path("tests/fixtures/gguf_t5_q8_0/model.gguf");
    const diti_stored_tensor *tensor = gguf ? diti_checkpoint_find(gguf, "enc.blk.2.ffn_down.weight") : NULL;
    if (!CHECK(tensor)) return;
    CHECK(tensor->type == DIT_TYPE_Q8_0 && tensor->shape[0] == 48 && tensor->shape[1] == 96 &&
          tensor->size == 48 * 3 * 34);
    CHECK(diti_equal(diti_checkpoint_text(gguf, "general.architecture"), "t5encoder"));
    diti_checkpoint_close(gguf);
}

/* --- packages --- */

static const char one_tensor[] = "{\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";

static bytes named_safetensors(const char *name) {
    char header[256];
    snprintf(header, sizeof header, one_tensor, name);
    return safetensors_bytes(header, 4);
}

static diti_package *open_package(const dit_source *source) {
    diti_package *package = NULL;
    dit_error err = {0};
    CHECK_MESSAGE(diti_package_open(&env, source, &package, &err) == DIT_OK, "%s", err.message);
    return package;
}

static void has_component(diti_package *package, const char *component, const char *prefix, const char *tensor) {
    const diti_checkpoint *found, *again;
    const char *own;
    char name[256];
    dit_error err = {0};
    CHECK_MESSAGE(diti_package_component(package, component, &found, &own, &err) == DIT_OK, "%s", err.message);
    if (!CHECK_MESSAGE(found && strcmp(own, prefix) == 0, "component '%s'", component)) return;
    snprintf(name, sizeof name, "%s%s", own, tensor);
    CHECK(diti_checkpoint_find(found, name));
    CHECK(diti_package_component(package, component, &again, &own, &err) == DIT_OK && again == found);
}

static void lacks_component(diti_package *package, const char *component) {
    const diti_checkpoint *found;
    const char *prefix;
    dit_error err = {0};
    CHECK_MESSAGE(diti_package_component(package, component, &found, &prefix, &err) == DIT_OK && !found,
                  "component '%s'", component);
}

static void has_file(diti_package *package, const char *path, const char *text) {
    char *found;
    size_t size;
    dit_error err = {0};
    CHECK_MESSAGE(diti_package_read(package, path, &found, &size, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(text ? found && size == strlen(text) && memcmp(found, text, size + 1) == 0 : !found, "file '%s'",
                  path);
    diti_free(&env, found);
}

static void test_folder_package(void) {
    folder all = {0};
    dit_source source = folder_source(&all);
    diti_package *package;
    folder_add_text(&all, "model_index.json", "{}");
    folder_add_text(&all, "transformer/diffusion_pytorch_model.safetensors.index.fp16.json",
                    "{\"weight_map\":{\"a\":\"diffusion_pytorch_model.fp16-00001-of-00001.safetensors\"}}");
    folder_add(&all, "transformer/diffusion_pytorch_model.fp16-00001-of-00001.safetensors", named_safetensors("a"));
    folder_add(&all, "text_encoder/model.fp16.safetensors", named_safetensors("b"));
    folder_add(&all, "vae/diffusion_pytorch_model.safetensors", named_safetensors("c"));
    folder_add(&all, "vae/diffusion_pytorch_model.fp16.safetensors", named_safetensors("not this one"));
    package = open_package(&source);
    if (!package) return;
    has_file(package, "model_index.json", "{}");
    has_file(package, "scheduler/scheduler_config.json", NULL);
    has_component(package, "transformer", "", "a");
    has_component(package, "text_encoder", "", "b");
    has_component(package, "vae", "", "c");
    lacks_component(package, "text_encoder_2");
    lacks_component(package, "");
    diti_package_close(package);
    folder_free(&all);
    CHECK(memory.alive == 0);
}

static void test_path_package(void) {
    dit_source source = {0};
    diti_package *package;
    source.path = "tests/fixtures/t5_encoder_sharded";
    package = open_package(&source);
    if (!package) return;
    has_component(package, "", "", "encoder.final_layer_norm.weight");
    lacks_component(package, "text_encoder");
    diti_package_close(package);
}

static void test_bundle(void) {
    bytes file = {0};
    dit_source source;
    diti_package *package;
    gguf_head(&file, 3, 2, 1);
    gguf_key(&file, "dit.file.vae/config.json", DITI_GGUF_ARRAY);
    bytes_u32(&file, DITI_GGUF_U8);
    bytes_text(&file, "{\"a\": 1}");
    gguf_tensor(&file, "transformer.x", 1, 1, 0, 0);
    gguf_tensor(&file, "vae.y", 1, 1, 0, 32);
    bytes_pad(&file, 32);
    bytes_add(&file, NULL, 64);
    source = memory_source(&file);
    package = open_package(&source);
    if (!package) return;
    has_file(package, "vae/config.json", "{\"a\": 1}");
    has_file(package, "model_index.json", NULL);
    has_component(package, "transformer", "transformer.", "x");
    has_component(package, "vae", "vae.", "y");
    has_component(package, "", "", "vae.y");
    lacks_component(package, "text_encoder");
    diti_package_close(package);
    bytes_free(&file);
    CHECK(memory.alive == 0);
}

static void test_single_file(void) {
    bytes file = safetensors_bytes(
        "{\"model.diffusion_model.a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
        "\"first_stage_model.b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
        "\"text_encoders.clip_l.transformer.d\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},"
        "\"text_encoders.spiece_model\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[12,16]},"
        "\"spiece_model\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[16,21]}}",
        21);
    dit_source source = memory_source(&file);
    diti_package *package;
    memcpy(file.data + file.size - 9, "wordspaces", 9);
    package = open_package(&source);
    if (!package) return;
    has_file(package, "spiece.model", "space");
    has_file(package, "tokenizer/spiece.model", "word");
    has_file(package, "tokenizer_2/spiece.model", NULL);
    has_component(package, "transformer", "model.diffusion_model.", "a");
    has_component(package, "vae", "first_stage_model.", "b");
    lacks_component(package, "text_encoder");
    diti_package_close(package);
    bytes_free(&file);
    CHECK(memory.alive == 0);
}

/* --- memory that runs out: every allocation fails once --- */

static dit_result open_all(folder *all, const char *member, dit_error *err) {
    dit_source root = folder_source(all);
    diti_package *package = NULL;
    const diti_checkpoint *found;
    const char *prefix;
    char *text;
    size_t size;
    dit_result result = diti_package_open(&env, &root, &package, err);
    if (result >= 0) result = diti_package_component(package, member, &found, &prefix, err);
    if (result >= 0) result = diti_package_read(package, "config.json", &text, &size, err);
    if (result >= 0) diti_free(&env, text);
    diti_package_close(package);
    return result;
}

/* A packed tensor of a file that joins another one: its scales are further, too. */
static void check_packed_behind(const diti_checkpoint *first, const char *path, const char *name) {
    diti_checkpoint *file = open_path(path), *joined = NULL;
    const diti_stored_tensor *alone = file ? diti_checkpoint_find(file, name) : NULL, *behind;
    static float expected[150 * 128], values[150 * 128];
    uint64_t count = alone ? diti_stored_tensor_elements(alone) : 0;
    dit_error err = {0};
    if (!CHECK(alone && alone->type == DIT_TYPE_NVFP4 && count <= DITI_COUNT(values))) return;
    CHECK(diti_checkpoint_read_float(file, alone, expected, count, &err) == DIT_OK);
    CHECK_MESSAGE(diti_checkpoint_join(first, file, &joined, &err) == DIT_OK, "%s", err.message);
    behind = joined ? diti_checkpoint_find(joined, name) : NULL;
    CHECK(behind && diti_checkpoint_read_float(joined, behind, values, count, &err) == DIT_OK &&
          !memcmp(values, expected, count * sizeof *values));
    diti_checkpoint_close(joined);
    diti_checkpoint_close(file);
}

/* Tensors of two files, of which a name that both have is the first one's; the files outlive what joins them. */
static void test_join(void) {
    bytes files[2] = {safetensors_bytes("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                                        "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
                                        8),
                      safetensors_bytes("{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                                        "\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
                                        8)};
    static const char *const names[] = {"a", "b", "c"};
    static const float values[2][2] = {{1, 2}, {3, 4}}, wanted[] = {1, 2, 4};
    diti_checkpoint *parts[2] = {NULL, NULL}, *joined = NULL;
    dit_error err = {0};
    float value = 0;
    uint32_t i, round;
    for (i = 0; i < 2; i++) {
        dit_source source = memory_source(&files[i]);
        memcpy(files[i].data + files[i].size - sizeof values[i], values[i], sizeof values[i]);
        CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &parts[i], &err) == DIT_OK, "%s", err.message);
    }
    for (round = 0; round < 2 && parts[0] && parts[1]; round++) {
        CHECK_MESSAGE(diti_checkpoint_join(parts[0], parts[1], &joined, &err) == DIT_OK, "%s", err.message);
        CHECK(joined && diti_checkpoint_count(joined) == 3 && !diti_checkpoint_text(joined, "format"));
        for (i = 0; joined && i < 3; i++) {
            const diti_stored_tensor *tensor = diti_checkpoint_find(joined, names[i]);
            CHECK(tensor && diti_checkpoint_read(joined, tensor, 0, &value, sizeof value, &err) == DIT_OK &&
                  value == wanted[i]);
        }
        diti_checkpoint_close(joined);
    }
    if (parts[0]) check_packed_behind(parts[0], "tests/fixtures/small_floats/comfy.safetensors", "m.weight");
    for (i = 0; i < 2; i++) {
        diti_checkpoint_close(parts[i]);
        bytes_free(&files[i]);
    }
}

static void test_no_memory(void) {
    folder all = {0};
    dit_result result = DIT_ERROR_OUT_OF_HOST_MEMORY;
    folder_add_text(&all, "config.json", "{}");
    folder_add_text(&all, "transformer/model.safetensors.index.json",
                    "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}");
    folder_add(&all, "transformer/1.safetensors", named_safetensors("a"));
    folder_add(&all, "transformer/2.safetensors", named_safetensors("b"));
    folder_add(&all, "gguf/model.gguf", reshaped_gguf());
    for (int gguf = 0; gguf < 2; gguf++) {
        long nth = 1;
        do {
            dit_error err = {0};
            memory.calls = 0, memory.fail_at = nth++;
            result = open_all(&all, gguf ? "gguf" : "transformer", &err);
            CHECK(memory.alive == 0 &&
                  (result == DIT_OK || (result == DIT_ERROR_OUT_OF_HOST_MEMORY && strstr(err.message, "memory"))));
        } while (result < 0 && nth < 1000);
        CHECK_MESSAGE(result == DIT_OK && nth > 10, "%d", result);
        memory.fail_at = 0;
    }
    folder_free(&all);
}

/* --- other folders of fixtures: every tensor of every file below them is read --- */

static void read_all(const char *path) {
    diti_checkpoint *checkpoint = open_path(path);
    uint32_t unread = 0, tensors = checkpoint ? diti_checkpoint_count(checkpoint) : 0;
    for (uint32_t i = 0; i < tensors; i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(checkpoint, i);
        uint64_t elements = diti_stored_tensor_elements(tensor);
        float *values = malloc((size_t)elements * 4 + 1);
        dit_error err = {0};
        dit_result result = diti_checkpoint_read_float(checkpoint, tensor, values, elements, &err);
        CHECK_MESSAGE(result == DIT_OK ||
                          (result == DIT_ERROR_UNSUPPORTED_MODEL && strstr(err.message, tensor->type_name)),
                      "%s", err.message);
        if (result < 0) unread++;
        free(values);
    }
    printf("%s: %u tensors, %u of types that dit.h does not read\n", path, (unsigned)tensors, (unsigned)unread);
    diti_checkpoint_close(checkpoint);
}

/* Parts behind the first are opened with it, and refused by themselves. */
static bool is_later_part(const char *path) {
    const char *of = strstr(path, "-of-");
    return of && of - path >= 5 && strncmp(of - 5, "00001", 5) != 0;
}

static void walk(const char *path) {
    DIR *dir = opendir(path);
    struct dirent *entry;
    if (!dir) {
        if (is_later_part(path)) return;
        if (diti_ends_with(path, ".safetensors") || diti_ends_with(path, ".gguf") ||
            diti_ends_with(path, ".index.json"))
            read_all(path);
        return;
    }
    while ((entry = readdir(dir))) {
        char below[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        walk(below);
    }
    closedir(dir);
}

int main(int argc, char **argv) {
    env = test_env(&memory);
    for (int i = 1; i < argc; i++) walk(argv[i]);
    if (argc > 1) return TEST_END("io");
    test_types_of_ggml();
    check_small_floats("tests/fixtures/small_floats/ggml.gguf", "weight");
    check_small_floats("tests/fixtures/small_floats/comfy.safetensors", "m.weight");
    test_type_table();
    test_i4_group();
    test_integers();
    test_safetensors();
    test_unread_types();
    test_shards("tests/fixtures/t5_encoder_sharded/model.safetensors.index.json");
    test_shards("tests/fixtures/t5_encoder_sharded/model-00001-of-00003.safetensors");
    test_gguf_metadata();
    test_gguf_numbers();
    test_iq4();
    test_original_shape();
    test_split_gguf();
    test_t5_gguf();
    test_folder_package();
    test_path_package();
    test_bundle();
    test_single_file();
    test_join();
    test_no_memory();
    if (getenv("DIT_TEST_ALL") && strcmp(getenv("DIT_TEST_ALL"), "1") == 0) walk("tests/fixtures");
    CHECK(memory.alive == 0);
    return TEST_END("io");
}
