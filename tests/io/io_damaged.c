/* Damaged model files, made here: each must end in an error that names the culprit, in one line, with nothing leaked
 * and (in the build with AddressSanitizer) nothing read past the file. */
#define _GNU_SOURCE
#include "library.h"
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "test.h"
#include "files.h"
#include "model_files.h"
#include "refusals.h"

/* --- safetensors --- */

static void refuses_header(const char *header, size_t data_size, const char *culprit) {
    refuses(safetensors_bytes(header, data_size), culprit);
}

static void test_safetensors(void) {
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}", 8, "JSON");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[18446744073709551608,0]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,18446744073709551616]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":\"0\"}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "'a'");
    refuses_header("{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":32,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "'F33'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,2],\"data_offsets\":[0,8]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[0,0]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 8, "'a'");
    refuses_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,0]}}", 8, "'a'");
    refuses_header("{\"a\":[]}", 8, "'a'");
    refuses_header("{\"a\\n\":[]}", 8, "'a");
    refuses_header("{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "NUL");
    refuses_header(
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
        8, "overlap");
    refuses_header(
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
        8, "overlap");
    refuses_header(
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
        8, "duplicate");
    refuses_header("{\"__metadata__\":[]}", 0, "__metadata__");
    refuses_header("{\"__metadata__\":{\"format\":1}}", 0, "'format'");
    refuses_header("[]", 0, "header");
    refuses_header("", 0, "JSON");
}

/* Quantizations of other programs are refused by the names of these, since shapes and tensors say little. */
static void test_foreign_quantizations(void) {
    static const char *const cases[][3] = {
        {"a.weight", "a.weight.quant_state.bitsandbytes__nf4", "'a.weight' is quantized by bitsandbytes (nf4)"},
        {"a.weight", "a.weight.quant_state.bitsandbytes__fp4", "'a.weight' is quantized by bitsandbytes (fp4)"},
        {"a.weight", "a.SCB", "'a.weight' is quantized by bitsandbytes (int8)"},
        {"a.weight._data", "a.weight._scale", "'a.weight._data' is quantized by optimum-quanto"},
        {"a.qweight", "a.qzeros", "'a.qweight' is quantized by GPTQ or AWQ"},
        {"a.weight_packed", "a.weight_scale", "'a.weight_packed' is quantized by compressed-tensors"}};
    char header[300];
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        diti_format(header, sizeof header,
                    "{\"%s\":{\"dtype\":\"U8\",\"shape\":[4,1],\"data_offsets\":[0,4]},"
                    "\"%s\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
                    cases[i][0], cases[i][1]);
        refuses_header(header, 8, cases[i][2]);
    }
}

/* Neighbours may touch, in any order; one shared byte is too many. */
static void test_neighbours(void) {
    bytes file = safetensors_bytes(
        "{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]},\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
        8);
    dit_source source = memory_source(&file);
    dit_error err = {0};
    CHECK_MESSAGE(open_and_close(&source, &err) == DIT_OK, "%s", err.message);
    bytes_free(&file);
    refuses_header(
        "{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]},\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
        8, "'a' and 'b' overlap");
}

static void test_safetensors_sizes(void) {
    static const uint64_t sizes[] = {3,          100,           100000001, (uint64_t)1 << 31, (uint64_t)1 << 63,
                                     UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < DITI_COUNT(sizes); i++) {
        bytes file = safetensors_bytes("{}", 0);
        memcpy(file.data, &sizes[i], 8);
        refuses(file, "header");
    }
}

/* A header of 64 levels is read, one of 65 is not; 100 000 levels must not exhaust the stack. */
static void test_deep_json(void) {
    static char header[200001];
    memset(header, '[', 100000);
    refuses_header(header, 0, "deeper");
    memset(header, ']', sizeof header - 1);
    memcpy(header, "{\"a\":", 5);
    memset(header + 5, '[', 64);
    header[200] = 0;
    refuses_header(header, 0, "deeper");
}

/* --- GGUF --- */

/* One of each kind of thing: text, numbers, arrays of both, a float and a packed tensor. */
static bytes small_gguf(void) {
    bytes file = {0};
    gguf_head(&file, 3, 2, 5);
    gguf_key(&file, "general.architecture", DITI_GGUF_STRING);
    bytes_text(&file, "test");
    gguf_key_u32(&file, "general.alignment", 64);
    gguf_key(&file, "k.array", DITI_GGUF_ARRAY);
    bytes_u32(&file, DITI_GGUF_U8);
    bytes_text(&file, "12345");
    gguf_key(&file, "k.texts", DITI_GGUF_ARRAY);
    bytes_u32(&file, DITI_GGUF_STRING);
    bytes_u64(&file, 2);
    bytes_text(&file, "one");
    bytes_text(&file, "");
    gguf_key(&file, "k.bool", DITI_GGUF_BOOL);
    bytes_add(&file, "\1", 1);
    gguf_tensor(&file, "float", 4, 2, 0, 0);
    gguf_tensor(&file, "packed", 32, 2, 8, 64);
    bytes_pad(&file, 64);
    bytes_add(&file, NULL, 64 + 68);
    return file;
}

static void test_truncation(void) {
    bytes gguf = small_gguf();
    bytes safetensors = safetensors_bytes("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    dit_source source = memory_source(&gguf);
    dit_error err = {0};
    CHECK_MESSAGE(open_and_close(&source, &err) == DIT_OK, "%s", err.message);
    for (size_t size = 0; size < gguf.size; size++) refuses_part(&gguf, size, "(memory)");
    source = memory_source(&safetensors);
    CHECK_MESSAGE(open_and_close(&source, &err) == DIT_OK, "%s", err.message);
    for (size_t size = 0; size < safetensors.size; size++) refuses_part(&safetensors, size, "(memory)");
    bytes_free(&gguf);
    bytes_free(&safetensors);
}

/* Every byte of the header in turn takes other values: whatever comes of it, no crash, no leak, and what opens can be
 * read. */
static void test_changed_bytes(void) { change_bytes(small_gguf()); }

static void test_gguf_head(void) {
    static const uint64_t counts[] = {100, (uint64_t)1 << 32, (uint64_t)1 << 63, UINT64_MAX};
    bytes file = {0};
    for (size_t i = 0; i < DITI_COUNT(counts); i++) {
        memset(&file, 0, sizeof file);
        gguf_head(&file, 3, counts[i], 0);
        refuses(file, "tensors");
        memset(&file, 0, sizeof file);
        gguf_head(&file, 3, 0, counts[i]);
        refuses(file, "metadata keys");
    }
    for (uint32_t version = 0; version < 5; version++) {
        memset(&file, 0, sizeof file);
        gguf_head(&file, version, 0, 0);
        if (version == 2 || version == 3)
            bytes_free(&file);
        else
            refuses(file, "version");
    }
    memset(&file, 0, sizeof file);
    gguf_head(&file, 0x03000000, 0, 0);
    refuses(file, "big-endian");
}

static bytes gguf_with_key(const char *key, uint32_t type) {
    bytes file = {0};
    gguf_head(&file, 3, 0, 1);
    gguf_key(&file, key, type);
    return file;
}

static void test_gguf_metadata(void) {
    static const uint64_t lengths[] = {100, (uint64_t)1 << 32, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 15};
    bytes file;
    for (size_t i = 0; i < DITI_COUNT(lengths); i++) {
        file = gguf_with_key("long.text", DITI_GGUF_STRING);
        bytes_u64(&file, lengths[i]);
        refuses(file, "long.text");
        for (uint32_t type = 0; type <= DITI_GGUF_F64 + 1; type++) {
            file = gguf_with_key("long.array", DITI_GGUF_ARRAY);
            bytes_u32(&file, type);
            bytes_u64(&file, lengths[i]);
            refuses(file, "long.array");
        }
        memset(&file, 0, sizeof file);
        gguf_head(&file, 3, 0, 1);
        bytes_u64(&file, lengths[i]);
        bytes_add(&file, NULL, 32);
        refuses(file, "metadata");
    }
    file = gguf_with_key("odd.type", 13);
    bytes_u64(&file, 0);
    refuses(file, "odd.type");
    file = gguf_with_key("odd.type", UINT32_MAX);
    refuses(file, "odd.type");
    memset(&file, 0, sizeof file);
    gguf_head(&file, 3, 0, 2);
    gguf_key_u32(&file, "twice", 1);
    gguf_key_u32(&file, "twice", 2);
    refuses(file, "'twice'");
    memset(&file, 0, sizeof file);
    gguf_head(&file, 3, 0, 1);
    bytes_u64(&file, 3);
    bytes_add(&file, "a\0b\0\0\0\0\0\0\0\0", 11);
    refuses(file, "NUL");
}

static void test_alignment(void) {
    static const uint32_t alignments[] = {0, 3, 33, (uint32_t)1 << 21, UINT32_MAX};
    for (size_t i = 0; i < DITI_COUNT(alignments); i++) {
        bytes file = {0};
        gguf_head(&file, 3, 0, 1);
        gguf_key_u32(&file, "general.alignment", alignments[i]);
        refuses(file, "general.alignment");
    }
}

/* One tensor in front of 68 bytes of data. */
static bytes gguf_with_tensor(const char *name, uint64_t columns, uint64_t rows, uint32_t type, uint64_t offset) {
    bytes file = {0};
    gguf_head(&file, 3, 1, 0);
    gguf_tensor(&file, name, columns, rows, type, offset);
    bytes_pad(&file, 32);
    bytes_add(&file, NULL, 68);
    return file;
}

static void test_gguf_tensors(void) {
    static const uint64_t absurd[] = {18, (uint64_t)1 << 32, (uint64_t)1 << 62, (uint64_t)1 << 63, UINT64_MAX - 31};
    bytes file;
    for (size_t i = 0; i < DITI_COUNT(absurd); i++) {
        refuses(gguf_with_tensor("wide", absurd[i], 1, 0, 0), "'wide'");
        refuses(gguf_with_tensor("high", 1, absurd[i], 0, 0), "'high'");
        refuses(gguf_with_tensor("large", absurd[i], absurd[i], 0, 0), "'large'");
        refuses(gguf_with_tensor("packed", 32, absurd[i], 8, 0), "'packed'");
        refuses(gguf_with_tensor("far", 1, 1, 0, absurd[i] < 96 ? 96 : absurd[i] / 32 * 32), "'far'");
    }
    refuses(gguf_with_tensor("odd", 33, 1, 8, 0), "'odd'");
    refuses(gguf_with_tensor("odd", 128, 1, 14, 0), "'odd'");
    refuses(gguf_with_tensor("unknown", 1, 1, 99, 0), "99");
    refuses(gguf_with_tensor("unknown", 1, 1, 4, 0), "'unknown'");
    refuses(gguf_with_tensor("unaligned", 1, 1, 0, 4), "'unaligned'");
    refuses(gguf_with_tensor("last", 18, 1, 0, 0), "'last'");
    memset(&file, 0, sizeof file);
    gguf_head(&file, 3, 1, 0);
    bytes_text(&file, "deep");
    bytes_u32(&file, 6);
    bytes_add(&file, NULL, 64);
    refuses(file, "five dimensions");
    memset(&file, 0, sizeof file);
    gguf_head(&file, 3, 2, 0);
    gguf_tensor(&file, "same", 1, 1, 0, 0);
    gguf_tensor(&file, "same", 1, 1, 0, 32);
    bytes_pad(&file, 32);
    bytes_add(&file, NULL, 64);
    refuses(file, "'same'");
    memset(&file, 0, sizeof file);
    gguf_head(&file, 3, 2, 0);
    gguf_tensor(&file, "under", 16, 1, 0, 0);
    gguf_tensor(&file, "over", 1, 1, 0, 32);
    bytes_pad(&file, 32);
    bytes_add(&file, NULL, 64);
    refuses(file, "'under' and 'over' overlap");
}

/* --- int8 rows: a matrix "w" [3, columns] and what shall be its scales --- */

typedef struct rows_file {
    uint32_t columns, scale_type; /* GGUF's number; UINT32_MAX: no scales */
    uint64_t scale_rows, scale_columns;
    float scale;          /* of row 1 */
    const char *rotation; /* NULL: plain */
} rows_file;

static bytes gguf_with_rows(const rows_file *r) {
    bytes file = {0};
    bool scaled = r->scale_type != UINT32_MAX;
    float scales[16] = {0.5f, r->scale, 0.25f};
    gguf_head(&file, 3, 1u + scaled, r->rotation ? 1 : 0);
    if (r->rotation) gguf_key(&file, "dit.rotation.w", DITI_GGUF_STRING), bytes_text(&file, r->rotation);
    gguf_tensor(&file, "w", r->columns, 3, 24, 0);
    if (scaled) gguf_tensor(&file, "w_scale", r->scale_columns, r->scale_rows, r->scale_type, 1024);
    bytes_pad(&file, 32);
    bytes_add(&file, NULL, 1024);
    bytes_add(&file, scales, sizeof scales);
    bytes_add(&file, NULL, 64);
    return file;
}

static dit_result read_rows(const rows_file *r, dit_type *type, float *scales, dit_error *err) {
    bytes file = gguf_with_rows(r);
    dit_source source = memory_source(&file);
    diti_checkpoint *checkpoint = NULL;
    const diti_stored_tensor *tensor;
    dit_result result = diti_checkpoint_open(&env, &source, &checkpoint, err);
    tensor = result < 0 ? NULL : diti_checkpoint_find(checkpoint, "w");
    if (tensor) result = diti_i8_stored_type(checkpoint, tensor, type, err);
    if (result >= 0) result = diti_i8_read_scales(checkpoint, tensor, 0, scales, 3, err);
    diti_checkpoint_close(checkpoint);
    bytes_free(&file);
    return result;
}

/* An I8 tensor [3, 136] whose metadata says what its blocks are. */
static dit_result open_blocks(const char *blocks, uint32_t columns, diti_checkpoint **out, dit_error *err) {
    bytes file = {0};
    dit_source source;
    dit_result result;
    gguf_head(&file, 3, 1, 1);
    gguf_key(&file, "dit.blocks.w", DITI_GGUF_STRING), bytes_text(&file, blocks);
    gguf_tensor(&file, "w", columns, 3, 24, 0);
    bytes_pad(&file, 32);
    bytes_add(&file, NULL, 1024);
    source = memory_source(&file);
    result = diti_checkpoint_open(&env, &source, out, err);
    bytes_free(&file);
    return result;
}

static void test_blocks(void) {
    diti_checkpoint *checkpoint = NULL;
    const diti_stored_tensor *tensor;
    dit_error err = {0};
    if (CHECK_MESSAGE(open_blocks("i4_group", 136, &checkpoint, &err) == DIT_OK, "%s", err.message)) {
        tensor = diti_checkpoint_find(checkpoint, "w");
        CHECK(tensor->type == DIT_TYPE_I4_GROUP && tensor->shape[0] == 3 && tensor->shape[1] == 256 &&
              tensor->size == 408 && !strcmp(tensor->type_name, "I4_GROUP"));
        diti_checkpoint_close(checkpoint);
    }
    checkpoint = NULL;
    checkpoint = NULL;
    if (CHECK_MESSAGE(open_blocks("i4_row_rotated", 256, &checkpoint, &err) == DIT_OK, "%s", err.message)) {
        tensor = diti_checkpoint_find(checkpoint, "w");
        CHECK(tensor->type == DIT_TYPE_I4_ROW_ROTATED && tensor->shape[1] == 512 && tensor->size == 768);
        diti_checkpoint_close(checkpoint);
    }
    checkpoint = NULL;
    check_refusal(open_blocks("i4_row_rotated", 200, &checkpoint, &err), &err, "'w' holds blocks of 'i4_row_rotated'");
    check_refusal(open_blocks("i4_group", 135, &checkpoint, &err), &err, "'w' holds blocks of 'i4_group'");
    check_refusal(open_blocks("nf4", 136, &checkpoint, &err), &err, "blocks of 'nf4'");
}

/* A safetensors file as ComfyUI has them: m.weight [2, columns] of I8, byte i is i % 251, m.weight_scale, and json in
   m.comfy_quant, or in the metadata. */
static bytes comfy_file(const char *json, uint32_t columns, const char *scale_shape, bool metadata) {
    const float scales[2] = {0.5f, 0.25f};
    const uint32_t at = 2 * columns, text = at + (strchr(scale_shape, '2') ? 8u : 4u),
                   end = text + (uint32_t)strlen(json);
    char header[1200], quoted[300], told[400];
    uint32_t used = 0;
    bytes file;
    for (const char *c = json; *c; c++) {
        if (*c == '"') quoted[used++] = '\\';
        quoted[used++] = *c;
    }
    quoted[used] = 0;
    snprintf(told, sizeof told, "\"__metadata__\":{\"_quantization_metadata\":\"{\\\"layers\\\":{\\\"m\\\":%s}}\"},",
             quoted);
    snprintf(header, sizeof header,
             "{%s\"model.diffusion_model.m.weight\":{\"dtype\":\"I8\",\"shape\":[2,%u],\"data_offsets\":[0,%u]},"
             "\"model.diffusion_model.m.weight_scale\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%u,%u]},"
             "\"model.diffusion_model.%s\":{\"dtype\":\"U8\",\"shape\":[%u],\"data_offsets\":[%u,%u]}}",
             metadata ? told : "", columns, at, scale_shape, at, text, metadata ? "unused" : "m.comfy_quant",
             end - text, text, end);
    file = safetensors_bytes(header, end);
    for (uint32_t i = 0; i < at; i++) file.data[file.size - end + i] = (unsigned char)(i % 251);
    memcpy(file.data + file.size - end + at, scales, text - at);
    memcpy(file.data + file.size - end + text, json, end - text);
    return file;
}

typedef struct comfy_case {
    const char *json;
    uint32_t columns; /* of the tensor */
    const char *scale_shape;
    dit_type type; /* DIT_TYPE_STORED: refused */
    const char *name;
} comfy_case;

static void check_comfy(const comfy_case *c, bool metadata) {
    bytes file = comfy_file(c->json, c->columns, c->scale_shape, metadata);
    dit_source source = memory_source(&file);
    diti_checkpoint *checkpoint = NULL;
    dit_error err = {0};
    if (CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_OK, "%s", err.message)) {
        const diti_stored_tensor *tensor = diti_checkpoint_find(checkpoint, "model.diffusion_model.m.weight");
        uint32_t columns = c->columns * (strstr(c->json, "w4a") ? 2 : 1);
        CHECK_MESSAGE(tensor->type == c->type && strstr(tensor->type_name, c->name) && tensor->shape[1] == columns,
                      "%s: %s", c->json, tensor->type_name);
        if (c->type) {
            diti_i8_source rows = {0};
            unsigned char row[1024];
            float scale, wanted = strchr(c->scale_shape, '2') ? 0.25f : 0.5f;
            uint32_t pitch = diti_i8_pitch(c->columns);
            rows.env = &env, rows.checkpoint = checkpoint, rows.tensor = tensor, rows.type = c->type;
            rows.columns = columns;
            CHECK_MESSAGE(diti_i8_rows(&rows, 1, 1, row, &err) == DIT_OK, "%s", err.message);
            memcpy(&scale, row + pitch - 16, sizeof scale);
            CHECK(scale == (c->type == DIT_TYPE_I4_ROW_ROTATED ? wanted / 16 : wanted));
            for (uint32_t k = 0; k < columns; k++) {
                uint32_t i = c->columns + k, low = c->columns + k / 2;
                int byte = c->type == DIT_TYPE_I4_ROW_ROTATED ? (int)(low % 251) >> k % 2 * 4 & 15 : (int)(i % 251);
                int got = c->type == DIT_TYPE_I4_ROW_ROTATED ? row[k / 8 * 4 + k % 4] >> (k & 4) & 15 : row[k];
                if (got != byte && !CHECK_MESSAGE(false, "%s: column %u is %d and not %d", c->json, k, got, byte))
                    break;
            }
        } else {
            float value[2];
            CHECK(diti_checkpoint_read(checkpoint, tensor, 0, value, 4, &err) == DIT_ERROR_UNSUPPORTED_MODEL &&
                  strstr(err.message, c->name));
        }
        diti_checkpoint_close(checkpoint);
    }
    bytes_free(&file);
}

typedef struct counted_bytes {
    const bytes *file;
    uint64_t read;
} counted_bytes;

static int64_t read_counted(uint64_t offset, void *out, size_t size, void *user) {
    counted_bytes *counted = user;
    memcpy(out, counted->file->data + offset, size);
    counted->read += size;
    return (int64_t)size;
}

enum { RANGE_ROWS = 700, RANGE_COLUMNS = 24, RANGE_BLOCK = 256 };

/* Rows [first, first + count) of a tensor: nothing is allocated, and of the scales only those nearby are read. */
static void check_range(const diti_checkpoint *checkpoint, const counted_bytes *counted, const test_memory *memory,
                        uint32_t first, uint32_t count, bool one) {
    static unsigned char out[RANGE_ROWS * (RANGE_COLUMNS + 8 + 16)];
    const uint32_t pitch = diti_i8_pitch(RANGE_COLUMNS),
                   blocks = (first + count - 1) / RANGE_BLOCK - first / RANGE_BLOCK + 1;
    const uint64_t before = counted->read, most = count * RANGE_COLUMNS + blocks * RANGE_BLOCK * sizeof(float);
    const long calls = memory->calls;
    uint32_t r, c, wrong = 0;
    diti_i8_source rows = {0};
    dit_error err = {0};
    rows.env = &checkpoint->env, rows.checkpoint = checkpoint, rows.tensor = diti_checkpoint_find(checkpoint, "w");
    rows.type = DIT_TYPE_I8_ROW, rows.columns = RANGE_COLUMNS;
    CHECK_MESSAGE(diti_i8_rows(&rows, first, count, out, &err) == DIT_OK, "%s", err.message);
    CHECK_MESSAGE(memory->calls == calls, "%ld allocations", memory->calls - calls);
    CHECK_MESSAGE(counted->read - before <= most, "%llu bytes are read, at most %llu",
                  (unsigned long long)(counted->read - before), (unsigned long long)most);
    for (r = 0; r < count; r++) {
        float scale, wanted = one ? 1 : 1 + (float)(first + r);
        memcpy(&scale, out + r * pitch + pitch - 16, sizeof scale);
        wrong += scale != wanted;
        for (c = 0; c < RANGE_COLUMNS; c++) wrong += out[r * pitch + c] != ((first + r) * RANGE_COLUMNS + c) % 251;
    }
    CHECK_MESSAGE(wrong == 0, "rows %u to %u: %u values and scales differ", first, first + count - 1, wrong);
}

static void test_range(bool one) {
    static const uint32_t ranges[][2] = {{0, 1}, {254, 3}, {511, 1}, {512, 188}, {RANGE_ROWS - 1, 1}, {0, RANGE_ROWS}};
    const uint32_t values = RANGE_ROWS * RANGE_COLUMNS, scales = one ? 1 : RANGE_ROWS;
    test_memory memory = DITI_ZERO;
    const diti_env counting = test_env(&memory);
    counted_bytes counted = {0};
    dit_source source = {0};
    diti_checkpoint *checkpoint = NULL;
    dit_error err = {0};
    char header[300];
    bytes file;
    snprintf(header, sizeof header,
             "{\"w\":{\"dtype\":\"I8\",\"shape\":[%d,%d],\"data_offsets\":[0,%u]},"
             "\"w_scale\":{\"dtype\":\"F32\",\"shape\":[%u],\"data_offsets\":[%u,%u]}}",
             RANGE_ROWS, RANGE_COLUMNS, values, scales, values, values + 4 * scales);
    file = safetensors_bytes(header, values + 4 * scales);
    for (uint32_t i = 0; i < values; i++) file.data[file.size - 4 * scales - values + i] = (unsigned char)(i % 251);
    for (uint32_t i = 0; i < scales; i++)
        memcpy(file.data + file.size - 4 * scales + 4 * i, &(float){1 + (float)i}, sizeof(float));
    counted.file = &file;
    source.read_at = read_counted, source.size = file.size, source.user = &counted;
    if (CHECK_MESSAGE(diti_checkpoint_open(&counting, &source, &checkpoint, &err) == DIT_OK, "%s", err.message))
        for (size_t i = 0; i < DITI_COUNT(ranges); i++)
            check_range(checkpoint, &counted, &memory, ranges[i][0], ranges[i][1], one);
    diti_checkpoint_close(checkpoint);
    bytes_free(&file);
}

static void test_comfy(void) {
    static const comfy_case cases[] = {
        {"{\"format\": \"int8_tensorwise\"}", 24, "[]", DIT_TYPE_I8_ROW, "I8_ROW"},
        {"{\"format\": \"int8_tensorwise\", \"per_row\": true}", 24, "[2,1]", DIT_TYPE_I8_ROW, "I8_ROW"},
        {"{\"format\": \"int8_tensorwise\", \"convrot\": true, \"convrot_groupsize\": 256}", 256, "[2,1]",
         DIT_TYPE_I8_ROW_ROTATED, "I8_ROW_ROTATED"},
        {"{\"format\": \"int8_tensorwise\", \"params\": {\"convrot\": true}}", 256, "[2,1]", DIT_TYPE_I8_ROW_ROTATED,
         "I8_ROW_ROTATED"},
        {"{\"format\": \"int8_tensorwise\", \"convrot\": true, \"convrot_groupsize\": 64}", 256, "[2,1]",
         DIT_TYPE_STORED, "groups of 64"},
        {"{\"format\": \"int8_tensorwise\", \"convrot\": true}", 24, "[2,1]", DIT_TYPE_STORED, "groups of 256"},
        {"{\"format\": \"convrot_w4a4\", \"convrot_groupsize\": 256}", 128, "[2]", DIT_TYPE_I4_ROW_ROTATED,
         "I4_ROW_ROTATED"},
        {"{\"format\": \"convrot_w4a4\", \"convrot_groupsize\": 16}", 128, "[2]", DIT_TYPE_STORED, "groups of 16"},
        {"{\"format\": \"asym_w4a8_int8\"}", 128, "[2]", DIT_TYPE_STORED, "asym_w4a8_int8"},
    };
    for (size_t i = 0; i < 2 * DITI_COUNT(cases); i++) check_comfy(&cases[i / 2], i % 2);
    refuses_header("{\"a.qweight\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                   "\"a.wscales\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[2,4]}}",
                   4, "layer 'a' is none that dit.h knows");
}

/* Matrices of small floats with something wrong beside them: each is refused by its tensor's name, when the file is
   opened or when the matrix is read. */
typedef struct factor_case {
    const char *type, *shape; /* of m.weight */
    const char *scale;        /* name of the factor behind "m."; NULL: there is none */
    const char *scale_type, *scale_shape;
    float factor;
    const char *format;  /* of m.comfy_quant; NULL: there is none */
    const char *scales;  /* shape of NVFP4's m.weight_scale; NULL: there is none */
    uint8_t scale_code;  /* its bytes */
    const char *other;   /* one more tensor; NULL: none */
    const char *culprit; /* NULL: the file is good */
} factor_case;

static uint64_t shape_bytes(const char *shape) {
    uint64_t count = 1;
    const char *at = shape;
    while (*at) {
        char *end;
        uint64_t n = strtoull(at, &end, 10);
        if (end != at) count *= n;
        at = end == at ? at + 1 : end;
    }
    return count;
}

static void factor_tensor(bytes *header, bytes *data, const char *name, const char *type, const char *shape,
                          const void *values, uint64_t size) {
    char text[300];
    snprintf(text, sizeof text, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
             header->size ? "," : "{", name, type, shape, data->size, data->size + (size_t)size);
    bytes_add(header, text, strlen(text));
    bytes_add(data, values, (size_t)size);
}

static bytes factor_file(const factor_case *c) {
    bytes header = {0}, data = {0}, file;
    unsigned char zeros[1 << 15] = {0}, scales[2048];
    float factors[4] = {c->factor, c->factor, c->factor, c->factor};
    char name[60], text[80], shape[24];
    factor_tensor(&header, &data, "m.weight", c->type, c->shape, zeros, shape_bytes(c->shape));
    snprintf(name, sizeof name, "m.%s", c->scale ? c->scale : "");
    if (c->scale)
        factor_tensor(&header, &data, name, c->scale_type, c->scale_shape, factors,
                      shape_bytes(c->scale_shape) * (strcmp(c->scale_type, "F32") ? 1 : 4));
    memset(scales, c->scale_code, sizeof scales);
    if (c->scales)
        factor_tensor(&header, &data, "m.weight_scale", "F8_E4M3", c->scales, scales, shape_bytes(c->scales));
    snprintf(text, sizeof text, "{\"format\": \"%s\"}", c->format ? c->format : "");
    snprintf(shape, sizeof shape, "[%zu]", strlen(text));
    if (c->format) factor_tensor(&header, &data, "m.comfy_quant", "U8", shape, text, strlen(text));
    if (c->other) factor_tensor(&header, &data, c->other, "F32", "[1]", factors, 4);
    bytes_add(&header, "}", 2);
    file = safetensors_bytes((const char *)header.data, data.size);
    memcpy(file.data + file.size - data.size, data.data, data.size);
    bytes_free(&header);
    bytes_free(&data);
    return file;
}

static void test_factors(void) {
    static const factor_case cases[] = {
        {"F8_E4M3", "[3,8]", "weight_scale", "F32", "[]", 2, "float8_e4m3fn", NULL, 0, NULL, NULL},
        {"U8", "[3,8]", "weight_scale", "F32", "[1]", 2, "float8_e5m2", NULL, 0, NULL, NULL},
        {"F8_E5M2", "[3,8]", "weight_scale", "F32", "[3,1]", 2, NULL, NULL, 0, NULL, NULL},
        {"F8_E5M2", "[3,8]", "scale_weight", "F32", "[3]", 2, NULL, NULL, 0, NULL, NULL},
        {"U8", "[3,32]", "weight_scale_2", "F32", "[]", 2, "nvfp4", "[128,4]", 0x38, NULL, NULL},
        {"F8_E4M3", "[3,8]", NULL, NULL, NULL, 2, "float8_e4m3fn", NULL, 0, NULL, "lacks its factor, 'm.weight_scale'"},
        {"F8_E4M3", "[3,8]", "weight_scale", "F32", "[2]", 2, NULL, NULL, 0, NULL, "'m.weight_scale' should hold"},
        {"F8_E4M3", "[3,8]", "weight_scale", "F32", "[1,3]", 2, NULL, NULL, 0, NULL, "'m.weight_scale' should hold"},
        {"F8_E4M3", "[3,8]", "weight_scale", "I8", "[3]", 2, NULL, NULL, 0, NULL, "'m.weight_scale' should hold"},
        {"F8_E4M3", "[3,8]", "weight_scale", "F32", "[]", 0, NULL, NULL, 0, NULL, "factor 0 is 0"},
        {"F8_E4M3", "[3,8]", "scale_weight", "F32", "[3]", NAN, NULL, NULL, 0, NULL, "'m.scale_weight': factor 0 is"},
        {"F8_E4M3", "[3,8]", "weight_scale", "F32", "[]", INFINITY, NULL, NULL, 0, NULL, "factor 0 is inf"},
        {"F8_E4M3", "[3,8]", "weight_scale", "U8", "[3]", 2, "mxfp8", NULL, 0, NULL, "ComfyUI's mxfp8"},
        {"F8_E4M3", "[3,8]", NULL, NULL, NULL, 2, NULL, NULL, 0, "m.weight_scale_inv", "weight_scale_inv"},
        {"U8", "[3,32]", NULL, NULL, NULL, 2, "nvfp4", "[128,4]", 0x38, NULL, "lacks its factor, weight_scale_2"},
        {"U8", "[3,32]", "weight_scale_2", "F32", "[]", 2, "nvfp4", NULL, 0, NULL, "lacks its scales"},
        {"U8", "[3,31]", "weight_scale_2", "F32", "[]", 2, "nvfp4", "[128,4]", 0x38, NULL, "whole blocks of 64"},
        {"U8", "[3,32]", "weight_scale_2", "F32", "[]", 2, "nvfp4", "[3,4]", 0x38, NULL, "not F8_E4M3 [128, 4]"},
        {"U8", "[130,32]", "weight_scale_2", "F32", "[]", 2, "nvfp4", "[128,4]", 0x38, NULL, "not F8_E4M3 [256, 4]"},
        {"U8", "[3,32]", "weight_scale_2", "F32", "[]", 2, "nvfp4", "[128,4]", 0xb8, NULL, "negative or no number"},
        {"U8", "[3,32]", "weight_scale_2", "F32", "[]", 2, "nvfp4", "[128,4]", 0x7f, NULL, "negative or no number"},
        {"U8", "[3,32]", "weight_scale_2", "F32", "[]", 0, "nvfp4", "[128,4]", 0x38, NULL, "factor 0 is 0"},
        {"U8", "[3,32]", "weight_scale_2", "F32", "[]", 2, "nvfp4", "[128,4]", 0x38, "m.pre_quant_scale",
         "pre_quant_scale"},
        {"U8", "[3,32]", "weight_scale_2", "F32", "[]", 2, NULL, "[128,4]", 0x38, NULL, "stored as U8"},
    };
    for (size_t i = 0; i < DITI_COUNT(cases); i++) {
        bytes file = factor_file(&cases[i]);
        dit_source source = memory_source(&file);
        diti_checkpoint *checkpoint = NULL;
        const diti_stored_tensor *tensor;
        float values[8192];
        dit_error err = {0};
        dit_result result = diti_checkpoint_open(&env, &source, &checkpoint, &err);
        if (result == DIT_OK) {
            tensor = diti_checkpoint_find(checkpoint, "m.weight");
            result = diti_checkpoint_read_float(checkpoint, tensor, values, diti_stored_tensor_elements(tensor), &err);
        }
        diti_checkpoint_close(checkpoint);
        bytes_free(&file);
        if (cases[i].culprit)
            check_refusal(result, &err, cases[i].culprit);
        else
            CHECK_MESSAGE(result == DIT_OK && values[0] == 0, "case %zu: %s", i, err.message);
    }
}

static void refuses_rows(rows_file r, const char *culprit) {
    dit_error err = {0};
    dit_type type;
    float scales[3];
    check_refusal(read_rows(&r, &type, scales, &err), &err, culprit);
}

static void test_rows(void) {
    const rows_file good = {256, 0, 3, 1, 1.5f, NULL}, rotated = {256, 0, 3, 1, 1.5f, "256"};
    rows_file wrong = good;
    float scales[3] = {0};
    dit_type type = DIT_TYPE_STORED;
    dit_error err = {0};
    CHECK(read_rows(&good, &type, scales, &err) == DIT_OK && type == DIT_TYPE_I8_ROW && scales[1] == 1.5f);
    CHECK(read_rows(&rotated, &type, scales, &err) == DIT_OK && type == DIT_TYPE_I8_ROW_ROTATED && scales[2] == 0.25f);
    wrong.scale_type = UINT32_MAX;
    refuses_rows(wrong, "'w_scale'"); /* missing */
    wrong.scale_type = 24;
    refuses_rows(wrong, "something else"); /* whole numbers */
    wrong = good, wrong.scale_rows = 4;
    refuses_rows(wrong, "shape [3]");
    wrong.scale_rows = 1, wrong.scale_columns = 3;
    refuses_rows(wrong, "shape [3]");
    wrong.scale_rows = 3, wrong.scale_columns = 2;
    refuses_rows(wrong, "shape [3]");
    wrong = good, wrong.scale = NAN;
    refuses_rows(wrong, "scale of row 1 is");
    wrong.scale = INFINITY;
    refuses_rows(wrong, "scale of row 1 is inf");
    wrong.scale = -1;
    refuses_rows(wrong, "scale of row 1 is -1");
    wrong = rotated, wrong.rotation = "128";
    refuses_rows(wrong, "groups of 128");
    wrong.rotation = "";
    refuses_rows(wrong, "groups of 256 that fill");
    wrong = rotated, wrong.columns = 255;
    refuses_rows(wrong, "groups of 256 that fill");
}

static bytes gguf_with_shape(uint32_t type, uint64_t count, const int32_t *shape) {
    bytes file = {0};
    gguf_head(&file, 3, 1, 1);
    gguf_key(&file, "comfy.gguf.orig_shape.conv", DITI_GGUF_ARRAY);
    bytes_u32(&file, type);
    bytes_u64(&file, count);
    bytes_add(&file, shape, 4 * count);
    gguf_tensor(&file, "conv", 16, 2, 0, 0);
    bytes_pad(&file, 32);
    bytes_add(&file, NULL, 128);
    return file;
}

static void test_original_shape(void) {
    const int32_t wrong[] = {2, 4, 2, 3}, small[] = {2, 4, 2, 1}, negative[] = {-2, -4, 2, 2}, zero[] = {0, 4, 2, 2},
                  six[] = {2, 2, 2, 2, 2, 1};
    refuses(gguf_with_shape(DITI_GGUF_I32, 4, wrong), "conv");
    refuses(gguf_with_shape(DITI_GGUF_I32, 4, small), "conv");
    refuses(gguf_with_shape(DITI_GGUF_I32, 4, negative), "conv");
    refuses(gguf_with_shape(DITI_GGUF_I32, 4, zero), "conv");
    refuses(gguf_with_shape(DITI_GGUF_I32, 6, six), "conv");
    refuses(gguf_with_shape(DITI_GGUF_I32, 0, six), "conv");
    refuses(gguf_with_shape(DITI_GGUF_F32, 4, six), "conv");
}

/* --- several files --- */

static void refuses_folder(folder *all, const char *first, const char *culprit) {
    dit_source root = folder_source(all);
    diti_checkpoint *checkpoint;
    dit_error err = {0};
    dit_result result = diti_checkpoint_open_member(&env, &root, first, &checkpoint, &err);
    diti_checkpoint_close(checkpoint);
    check_refusal(result, &err, culprit);
    folder_free(all);
}

static void refuses_index(const char *index, const char *culprit) {
    folder all = {0};
    folder_add_text(&all, "x/model.safetensors.index.json", index);
    folder_add(&all, "x/1.safetensors",
               safetensors_bytes("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1));
    folder_add(&all, "x/2.safetensors",
               safetensors_bytes("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1));
    folder_add(&all, "x/3.safetensors",
               safetensors_bytes("{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,2]}}", 1));
    folder_add(&all, "secret.safetensors",
               safetensors_bytes("{\"s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1));
    folder_add_text(&all, "x/loop.safetensors", "{\"weight_map\":{\"a\":\"loop.safetensors\"}}");
    refuses_folder(&all, "x/model.safetensors.index.json", culprit);
}

static void refuses_text(const char *text, const char *culprit) {
    bytes file = {(unsigned char *)(uintptr_t)text, strlen(text), 0};
    refuses_part(&file, file.size, culprit);
}

/* Texts that lie in a file's place after a clone without Git LFS, or a download without a login. */
static void test_texts(void) {
    diti_json *root;
    dit_error err = {0};
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    refuses_text(pointer, ", but a pointer of Git LFS; run git lfs pull");
    refuses_text("<!DOCTYPE html>\n", ": neither GGUF nor safetensors, but text");
    refuses_text("Invalid username or password.", ": neither GGUF nor safetensors, but text");
    refuses_text("\x7f"
                 "ELF\x02\x01\x01\x03",
                 ": neither GGUF nor safetensors");
    refuses_index(pointer, "model.safetensors.index.json: no safetensors, GGUF or JSON, but a pointer");
    check_refusal(diti_json_parse(&env, pointer, sizeof pointer - 1, "config.json", &root, &err), &err,
                  "config.json: no safetensors, GGUF or JSON, but a pointer of Git LFS");
}

static void test_shards(void) {
    refuses_index("{}", "weight_map");
    refuses_index("{\"weight_map\":[]}", "weight_map");
    refuses_index("{\"weight_map\":{\"a\":\"1.safetensors\"}", "JSON");
    refuses_index("{\"weight_map\":{\"a\":\"9.safetensors\"}}", "9.safetensors");
    refuses_index("{\"weight_map\":{\"a\":1}}", "'a'");
    refuses_index("{\"weight_map\":{\"a\":\"model.safetensors.index.json\"}}", "'model.safetensors.index.json'");
    refuses_index("{\"weight_map\":{\"a\":\"loop.safetensors\"}}", "loop.safetensors");
    refuses_index("{\"weight_map\":{\"s\":\"../secret.safetensors\"}}", "../secret.safetensors");
    refuses_index("{\"weight_map\":{\"s\":\"./../secret.safetensors\"}}", "secret.safetensors");
    refuses_index("{\"weight_map\":{\"s\":\"/x/1.safetensors\"}}", "/x/1.safetensors");
    refuses_index("{\"weight_map\":{\"s\":\"C:\\\\1.safetensors\"}}", "1.safetensors");
    refuses_index("{\"weight_map\":{\"s\":\"y\\\\..\\\\1.safetensors\"}}", "1.safetensors");
    refuses_index("{\"weight_map\":{\"a\":\"1.safetensors\\u0000.safetensors\"}}", "'a'");
    refuses_index("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"1.safetensors\"}}", "'b'");
    refuses_index("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}", "'a'");
    refuses_index("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"3.safetensors\"}}", "'b'");
}

static bytes split_part(uint16_t number, uint16_t count, const char *tensor) {
    bytes file = {0};
    gguf_head(&file, 3, 1, 2);
    gguf_key(&file, "split.no", DITI_GGUF_U16);
    bytes_add(&file, &number, 2);
    gguf_key(&file, "split.count", DITI_GGUF_U16);
    bytes_add(&file, &count, 2);
    gguf_tensor(&file, tensor, 1, 1, 0, 0);
    bytes_pad(&file, 32);
    bytes_add(&file, NULL, 4);
    return file;
}

static void refuses_split(const char *first, bytes one, bytes two, const char *culprit) {
    folder all = {0};
    folder_add(&all, first, one);
    folder_add(&all, "m-00002-of-00002.gguf", two);
    refuses_folder(&all, first, culprit);
}

static void test_splits(void) {
    bytes cut = split_part(1, 2, "b");
    cut.size -= 1;
    refuses_split("m-00001-of-00002.gguf", split_part(0, 2, "a"), split_part(1, 2, "a"), "'a'");
    refuses_split("m-00001-of-00002.gguf", split_part(0, 2, "a"), split_part(0, 2, "b"), "m-00002-of-00002.gguf");
    refuses_split("m-00001-of-00002.gguf", split_part(0, 2, "a"), split_part(1, 3, "b"), "m-00002-of-00002.gguf");
    refuses_split("m-00001-of-00002.gguf", split_part(0, 2, "a"), cut, "m-00002-of-00002.gguf");
    refuses_split("m-00001-of-00003.gguf", split_part(0, 3, "a"), split_part(1, 3, "b"), "m-00002-of-00003.gguf");
    refuses_split("m.gguf", split_part(0, 2, "a"), split_part(1, 2, "b"), "-00001-of-00002.gguf");
    refuses_split("m-00001-of-00002.gguf", split_part(0, 65535, "a"), split_part(1, 2, "b"), "65535");
    refuses(split_part(0, 2, "a"), "(memory)");
}

/* Shards that are opened by the name of one of them. */
static void refuses_shard(const char *first, const char *other, const char *culprit) {
    static const char a[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    folder all = {0};
    folder_add(&all, first, safetensors_bytes(a, 4));
    folder_add(&all, other, safetensors_bytes(a, 4));
    refuses_folder(&all, first, culprit);
}

static void test_numbered_shards(void) {
    refuses_shard("m-00001-of-00003.safetensors", "m-00003-of-00003.safetensors", "'m-00002-of-00003.safetensors'");
    refuses_shard("m-00002-of-00002.safetensors", "m-00001-of-00002.safetensors", "part 2 of 2; open the first");
    refuses_shard("m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors", "duplicate");
    refuses_shard("x/m-00001-of-99999.safetensors", "m-00002-of-99999.safetensors", "'x/m-00002-of-99999.safetensors'");
}

/* --- sources --- */

static int64_t failing_read(uint64_t offset, void *out, size_t size, void *user) {
    static const char head[] = "GGUF\3\0\0\0";
    (void)user;
    if (offset || size < 8) return -1;
    memcpy(out, head, 8);
    return 8;
}

static int64_t lying_read(uint64_t offset, void *out, size_t size, void *user) {
    (void)offset, (void)user;
    memset(out, '{', size);
    return (int64_t)size + 1;
}

static dit_result failing_open(const char *member, dit_source *out, void *user) {
    (void)member, (void)out, (void)user;
    return DIT_ERROR_OUT_OF_HOST_MEMORY;
}

static void refuses_source(dit_source source, dit_result expected, const char *culprit) {
    dit_error err = {0};
    dit_result result = open_and_close(&source, &err);
    check_refusal(result, &err, culprit);
    CHECK_MESSAGE(result == expected, "%s: %d", err.message, (int)result);
}

static void test_sources(void) {
    dit_source source = {0};
    diti_package *package;
    diti_file *file;
    dit_error err = {0};
    refuses_source(source, DIT_ERROR_INVALID_ARGUMENT, "neither path");
    source.path = "tests/fixtures/no_such_file.gguf";
    refuses_source(source, DIT_ERROR_IO, "no_such_file.gguf");
    source.path = "tests/support/test.h/no_such_file.gguf";
    refuses_source(source, DIT_ERROR_IO, "no_such_file.gguf");
    source.path = "tests";
    refuses_source(source, DIT_ERROR_IO, "folder");
    source.path = "/dev/null";
    refuses_source(source, DIT_ERROR_IO, "regular file");
    source.path = "tests/support/test.h";
    refuses_source(source, DIT_ERROR_BAD_FILE, "tests/support/test.h");
    source.path = NULL;
    source.read_at = failing_read;
    source.size = 100;
    refuses_source(source, DIT_ERROR_IO, "reading at");
    source.read_at = lying_read;
    refuses_source(source, DIT_ERROR_IO, "reading at");
    memset(&source, 0, sizeof source);
    source.open = failing_open;
    CHECK(diti_file_open_member(&env, &source, "a", &file, &err) == DIT_ERROR_OUT_OF_HOST_MEMORY &&
          strstr(err.message, "a:"));
    CHECK(diti_package_open(&env, &source, &package, &err) == DIT_OK);
    if (package) {
        char *text;
        size_t size;
        const diti_checkpoint *found;
        const char *prefix;
        CHECK(diti_package_read(package, "config.json", &text, &size, &err) == DIT_ERROR_OUT_OF_HOST_MEMORY && !text);
        CHECK(diti_package_read(package, "../config.json", &text, &size, &err) == DIT_ERROR_BAD_FILE &&
              strstr(err.message, "../config.json"));
        CHECK(diti_package_component(package, "vae", &found, &prefix, &err) < 0 && !found);
        CHECK(diti_package_component(package, "vae", &found, &prefix, &err) < 0 && !found);
    }
    diti_package_close(package);
    CHECK(memory.alive == 0);
}

/* --- files on disk --- */

enum { DISK_BYTES = 10000 };
static char disk_file[64]; /* of this process alone */

/* The fault that reads meet, beginning with number `at`, counted from 1; pread stands in for the C library's. */
static struct {
    int error; /* 0: none */
    size_t most;
    long at, calls;
    bool cuts, faults; /* faults: memory as a driver maps it, where it is large */
} reading;

ssize_t pread(int descriptor, void *out, size_t size, off_t offset) {
    reading.calls++;
    if (reading.error && reading.calls % 2 == reading.at % 2 && reading.calls >= reading.at) {
        errno = reading.error;
        return -1;
    }
    if (reading.faults && size > 4096) {
        errno = EFAULT;
        return -1;
    }
    if (reading.cuts && reading.calls == reading.at) CHECK(truncate(disk_file, 100) == 0);
    if (reading.most && size > reading.most) size = reading.most;
    return (ssize_t)syscall(SYS_pread64, descriptor, out, size, offset);
}

static void write_disk_file(size_t size) {
    FILE *file = fopen(disk_file, "wb");
    if (!CHECK(file != NULL)) return;
    for (size_t i = 0; i < size; i++) fputc((int)(i * 7 + i / 256) & 255, file);
    fclose(file);
}

static bool reads_well(const diti_file *file) {
    static unsigned char bytes[DISK_BYTES];
    dit_error err = {0};
    reading.calls = 0;
    if (diti_file_read(file, 1, bytes, DISK_BYTES - 1, &err) < 0) return CHECK_MESSAGE(false, "%s", err.message);
    for (size_t i = 1; i < DISK_BYTES; i++)
        if (bytes[i - 1] != ((i * 7 + i / 256) & 255)) return false;
    return true;
}

static void refuses_read(const diti_file *file, uint64_t offset, size_t size, dit_result expected, const char *words) {
    static unsigned char bytes[DISK_BYTES];
    dit_error err = {0};
    reading.calls = 0;
    CHECK_MESSAGE(diti_file_read(file, offset, bytes, size, &err) == expected && strstr(err.message, words) &&
                      strstr(err.message, disk_file),
                  "expected '%s', got '%s'", words, err.message);
}

/* Reads that are interrupted, short, refused or into a driver's memory; files that become shorter, or longer. */
static void test_disk(void) {
    dit_source source = {0}, folder = {0};
    dit_error err = {0};
    diti_file *file = NULL, *none = NULL;
    snprintf(disk_file, sizeof disk_file, "build/io_damaged_%d", (int)getpid());
    write_disk_file(DISK_BYTES);
    source.path = disk_file;
    if (!CHECK(diti_file_open(&env, &source, NULL, &file, &err) == DIT_OK)) return;
    CHECK(diti_file_size(file) == DISK_BYTES && reads_well(file) && reading.calls == 1);
    reading.error = EINTR, reading.at = 1;
    CHECK(reads_well(file) && reading.calls == 2);
    reading.most = 4000;
    CHECK(reads_well(file) && reading.calls == 6);
    reading.error = 0, reading.most = 0, reading.faults = true;
    CHECK(reads_well(file) && reading.calls == 5);
    reading.error = EINTR, reading.at = 2;
    CHECK(reads_well(file));
    reading.error = EIO, reading.at = 1, reading.faults = false;
    refuses_read(file, 0, DISK_BYTES, DIT_ERROR_IO, "reading at 0 failed (error 5)");
    reading.error = 0;
    refuses_read(file, 1, DISK_BYTES, DIT_ERROR_BAD_FILE, "past the end");
    CHECK(truncate(disk_file, DISK_BYTES - 1) == 0);
    refuses_read(file, 0, 100, DIT_ERROR_BAD_FILE, "was cut off from 10000 to 9999 bytes");
    CHECK(truncate(disk_file, 0) == 0);
    refuses_read(file, 9000, 10, DIT_ERROR_BAD_FILE, "was cut off from 10000 to 0 bytes");
    write_disk_file(2 * DISK_BYTES);
    CHECK(reads_well(file) && diti_file_size(file) == DISK_BYTES);
    write_disk_file(DISK_BYTES);
    reading.cuts = true, reading.at = 2, reading.most = 200; /* while it is read */
    refuses_read(file, 0, 300, DIT_ERROR_BAD_FILE, "was cut off from 10000 to 100 bytes");
    memset(&reading, 0, sizeof reading);
    diti_file_close(file);
    folder.path = "build";
    write_disk_file(DISK_BYTES);
    for (int i = 0; i < 3000; i++) { /* more than a process may have open */
        CHECK(diti_file_open(&env, &folder, NULL, &none, &err) == DIT_ERROR_IO && !none);
        if (diti_file_open(&env, &source, NULL, &file, &err) == DIT_OK) diti_file_close(file);
    }
    CHECK_MESSAGE(diti_file_open(&env, &source, NULL, &file, &err) == DIT_OK, "%s", err.message);
    diti_file_close(file);
    CHECK(memory.alive == 0);
    remove(disk_file);
}

static void test_other_formats(void) {
    bytes zip = {0}, pickle = {0}, tar = {0}, text = {0};
    bytes_add(&zip, "PK\3\4\0\0\0\0\0\0\0\0", 12);
    refuses(zip, "zip archive without a directory");
    bytes_add(&pickle, "\x80\2}q\0(X\n\0\0\0\0", 12);
    refuses(pickle, "a PyTorch before 1.6");
    bytes_add(&tar, NULL, 1024);
    memcpy(tar.data, "sys_info", 8);
    memcpy(tar.data + 257, "ustar", 5);
    refuses(tar, "a PyTorch before 1.6");
    bytes_add(&text, "version https://git-lfs.github.com/spec/v1", 42);
    refuses(text, "safetensors");
}

int main(void) {
    env = test_env(&memory);
    test_safetensors();
    test_texts();
    test_foreign_quantizations();
    test_neighbours();
    test_safetensors_sizes();
    test_deep_json();
    test_truncation();
    test_changed_bytes();
    test_gguf_head();
    test_gguf_metadata();
    test_alignment();
    test_gguf_tensors();
    test_original_shape();
    test_blocks();
    test_comfy();
    test_range(false);
    test_range(true);
    test_factors();
    test_rows();
    test_shards();
    test_splits();
    test_numbered_shards();
    test_sources();
    test_disk();
    test_other_formats();
    return TEST_END("io_damaged");
}
