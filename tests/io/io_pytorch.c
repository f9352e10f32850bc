/* io: PyTorch checkpoints. Files that PyTorch wrote are read; a file that it would not write, and whatever a pickle
   wants to call, is refused by name. */
#include "library.h"
#include "test.h"
#include "files.h"
#include "model_files.h"
#include "refusals.h"

/* --- files that PyTorch wrote; element i of every tensor of floats is (i - 3) / 4 where nothing else is said --- */

static diti_checkpoint *open_fixture(const char *name) {
    diti_checkpoint *checkpoint = NULL;
    dit_source source = {0};
    dit_error err = {0};
    char path[256];
    snprintf(path, sizeof path, "tests/fixtures/pytorch/%s", name);
    source.path = path;
    CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_OK, "%s", err.message);
    return checkpoint;
}

static bool holds(const diti_checkpoint *checkpoint, const char *name, const float *expected, uint64_t count) {
    const diti_stored_tensor *tensor = diti_checkpoint_find(checkpoint, name);
    dit_error err = {0};
    float values[64];
    if (!tensor || count > DITI_COUNT(values) || diti_stored_tensor_elements(tensor) != count) return false;
    return diti_checkpoint_read_float(checkpoint, tensor, values, count, &err) == DIT_OK &&
           memcmp(values, expected, (size_t)count * sizeof *values) == 0;
}

static void test_pytorch_types(void) {
    static const char *const floats[] = {"f32", "f16", "bf16", "f8_e4m3", "f8_e5m2"}, *const others[] = {"f64", "i16",
                                                                                                         "i8", "u8",
                                                                                                         "bool"};
    static const float expected[] = {-0.75f, -0.5f, -0.25f, 0, 0.25f, 0.5f}, whole[] = {0, 1, 2, 3}, scalar[] = {1.5f};
    diti_checkpoint *file = open_fixture("types.pt");
    if (!file) return;
    CHECK(diti_checkpoint_count(file) == 14);
    for (size_t i = 0; i < DITI_COUNT(floats); i++) CHECK_MESSAGE(holds(file, floats[i], expected, 6), "%s", floats[i]);
    CHECK(diti_checkpoint_find(file, "f32")->shape[0] == 2 && diti_checkpoint_find(file, "f32")->shape[1] == 3);
    CHECK(holds(file, "i32", whole, 4) && holds(file, "i64", whole, 4));
    CHECK(holds(file, "scalar", scalar, 1) && diti_checkpoint_find(file, "scalar")->rank == 0);
    CHECK(holds(file, "empty", whole, 0) && diti_checkpoint_find(file, "empty")->shape[1] == 4);
    for (size_t i = 0; i < DITI_COUNT(others); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_find(file, others[i]);
        dit_error err = {0};
        float values[8];
        if (!CHECK(tensor != NULL)) continue;
        CHECK(diti_checkpoint_read_float(file, tensor, values, diti_stored_tensor_elements(tensor), &err) < 0 &&
              strstr(err.message, tensor->type_name));
    }
    diti_checkpoint_close(file);
}

/* Storages with several tensors, and elements that do not follow one another. */
static void test_pytorch_views(void) {
    float whole[24], moved[24];
    diti_checkpoint *file = open_fixture("views.pth");
    dit_error err = {0};
    if (!file) return;
    for (int i = 0; i < 24; i++) whole[i] = ((float)i - 3) / 4;
    CHECK(holds(file, "whole", whole, 24) && holds(file, "shared", whole + 4, 6));
    for (int i = 0; i < 24; i++) moved[i] = whole[i % 4 * 6 + i / 4];
    CHECK(holds(file, "transposed", moved, 24) && diti_checkpoint_find(file, "transposed")->shape[0] == 6);
    CHECK(holds(file, "channels_last", whole, 24));
    for (int i = 0; i < 5; i++) moved[i] = whole[1 + 5 * i];
    CHECK(holds(file, "stepped", moved, 5) && holds(file, "one", whole + 5, 1));
    for (int i = 0; i < 8; i++) moved[i] = whole[i / 2 * 6 + 2 + i % 2];
    CHECK(holds(file, "half", moved, 8));
    CHECK(diti_checkpoint_read(file, diti_checkpoint_find(file, "transposed"), 88, moved, 8, &err) == DIT_OK &&
          moved[0] == whole[17] && moved[1] == whole[23]);
    CHECK(diti_checkpoint_read(file, diti_checkpoint_find(file, "transposed"), 2, moved, 4, &err) < 0 &&
          strstr(err.message, "transposed"));
    diti_checkpoint_close(file);
}

/* The averaged weights of a training checkpoint; what several devices were trained with; keys of keys. */
static void test_pytorch_roots(void) {
    static const float two[] = {2, 2, 2, 2, 2, 2}, nested[] = {-0.75f, -0.5f, -0.25f};
    diti_checkpoint *training = open_fixture("training.pt"), *parallel = open_fixture("parallel.ckpt"),
                    *older = open_fixture("parallel_1_12.ckpt"), *keys = open_fixture("nested.bin");
    CHECK(training && diti_checkpoint_count(training) == 2 && holds(training, "0.weight", two, 6));
    CHECK(parallel && diti_checkpoint_count(parallel) == 2 && holds(parallel, "0.weight", two, 6) &&
          holds(parallel, "0.bias", two, 2));
    CHECK(older && diti_checkpoint_count(older) == 2 && holds(older, "0.weight", two, 6));
    CHECK(keys && diti_checkpoint_count(keys) == 2 && holds(keys, "net.a.w", nested, 2) &&
          holds(keys, "net.3", nested, 3));
    diti_checkpoint_close(training);
    diti_checkpoint_close(parallel);
    diti_checkpoint_close(older);
    diti_checkpoint_close(keys);
}

static bytes read_fixture(const char *name) {
    bytes file = {0};
    size_t size;
    char path[256], *data;
    snprintf(path, sizeof path, "tests/fixtures/pytorch/%s", name);
    data = test_read_file(path, &size);
    bytes_add(&file, data, size);
    free(data);
    return file;
}

static void test_old_pytorch(void) { refuses(read_fixture("old.pt"), "a PyTorch before 1.6"); }

/* --- archives made here --- */

/* Ends an archive with the 64-bit record that large archives have. end: how far the locator's offset of that record is
   off; 0: it is right. */
static bytes archive_end64(archive *a, uint64_t end) {
    uint64_t at = a->file.size, record;
    bytes_add(&a->file, a->directory.data, a->directory.size);
    record = a->file.size;
    bytes_add(&a->file, "PK\6\6", 4);
    bytes_u64(&a->file, 44);
    bytes_add(&a->file, NULL, 12);
    bytes_u64(&a->file, a->count);
    bytes_u64(&a->file, a->count);
    bytes_u64(&a->file, a->directory.size);
    bytes_u64(&a->file, at);
    bytes_add(&a->file, "PK\6\7\0\0\0\0", 8);
    bytes_u64(&a->file, record + end);
    bytes_u32(&a->file, 1);
    bytes_add(&a->file, "PK\5\6\0\0\0\0\377\377\377\377\377\377\377\377\377\377\377\377\0\0", 22);
    bytes_free(&a->directory);
    return a->file;
}

#define LITERAL(TEXT) TEXT, sizeof(TEXT) - 1

static bytes checkpoint_of(const void *pickle, size_t size) {
    archive a = {{0}, {0}, 0};
    archive_add(&a, "a/data.pkl", pickle, size, 0);
    archive_add(&a, "a/data/0", NULL, 24, 0);
    return archive_end(&a);
}

#define TEXT(LENGTH, WORD) "X" LENGTH "\0\0\0" WORD
#define STORAGE(TYPE, KEY, COUNT)                                                                                      \
    "((" TEXT("\7", "storage") "ctorch\n" TYPE "\n" TEXT("\1", KEY) TEXT("\3", "cpu") COUNT "tQ"
#define TENSOR(STORED, OFFSET, SIZE, STRIDE)                                                                           \
    "ctorch._utils\n_rebuild_tensor_v2\n" STORED OFFSET SIZE STRIDE "\x89"                                             \
    "ccollections\nOrderedDict\n)RtR"
#define PICKLE(VALUE) "\x80\2}" TEXT("\1", "w") VALUE "s."
#define FLOATS STORAGE("FloatStorage", "0", "K\6")
#define GOOD TENSOR(FLOATS, "K\0", "K\2K\3\x86", "K\3K\1\x86")
#define REFUSES(PICKLED, CULPRIT) refuses(checkpoint_of(LITERAL(PICKLED)), CULPRIT)

static void accepts(bytes file) {
    dit_source source = memory_source(&file);
    dit_error err = {0};
    CHECK_MESSAGE(open_and_close(&source, &err) == DIT_OK, "%s", err.message);
    bytes_free(&file);
}

static void test_calls(void) {
    accepts(checkpoint_of(LITERAL(PICKLE(GOOD))));
    REFUSES("\x80\2cos\nsystem\n" TEXT("\2", "ls") "\x85R.", "calls os.system: refused, nothing is executed");
    REFUSES("\x80\2c__builtin__\neval\n" TEXT("\2", "ls") "\x85R.", "calls __builtin__.eval: refused");
    REFUSES("\x80\2ctorch\nFloatStorage\nK\1\x85R.", "calls torch.FloatStorage in a way");
    REFUSES("\x80\2ccollections\nOrderedDict\n]\x85R.", "calls collections.OrderedDict in a way");
    REFUSES("\x80\2ccollections\nOrderedDict\n)\x81.", "makes a collections.OrderedDict in a way");
    REFUSES("\x80\2ctorch._utils\n_rebuild_parameter\nN\x85R.", "calls torch._utils._rebuild_parameter in a way");
    REFUSES("\x80\2N)R.", "no function");
    REFUSES("\x80\2cos", "a name goes past its end");
    REFUSES("\x80\2cos\nsys", "a name goes past its end");
    REFUSES("\x80\2cos\rx\nsystem\033[0m\n.", "calls os?x.system?[0m");
    REFUSES("\x80\2i__main__\nX\n.", "opcode INST (0x69)");
    REFUSES("\x80\2"
            "\x93.",
            "opcode STACK_GLOBAL (0x93)");
    REFUSES("\x80\2\377.", "opcode (none of Python's) (0xff)");
    REFUSES("\x80\4}.", "protocol 4");
}

static void test_stack(void) {
    REFUSES("\x80\2", "cut off");
    REFUSES("\x80\2.", "ends with nothing");
    REFUSES("\x80\2(.", "ends with nothing");
    REFUSES("\x80\2}", "cut off");
    REFUSES("\x80\2t.", "tuple without its beginning");
    REFUSES("\x80\2N\x86.", "tuple of too little");
    REFUSES("\x80\2(N\x86.", "tuple of too little");
    REFUSES("\x80\2q\0.", "nothing to remember");
    REFUSES("\x80\2Nq\1.", "out of order");
    REFUSES("\x80\2Nr\377\377\377\377.", "out of order");
    REFUSES("\x80\2h\0.", "not remembered");
    REFUSES("\x80\2j\0\0\0\1.", "not remembered");
    REFUSES("\x80\2N(NNu.", "without a dictionary");
    REFUSES("\x80\2}(Nu.", "without a dictionary");
    REFUSES("\x80\2}Ns.", "without a dictionary");
    REFUSES("\x80\2(s.", "without key and value");
    REFUSES("\x80\2}Na.", "without a list");
    REFUSES("\x80\2(e.", "without a list");
    REFUSES("\x80\2Nb.", "attributes of what has none");
    REFUSES("\x80\2NNb.", "attributes of what has none");
    REFUSES("\x80\2NQ.", "no tuple");
    REFUSES("\x80\2X\377\377\377\377ab.", "goes past its end");
    REFUSES("\x80\2\x8a\11abcdefghi.", "more than 64 bits");
    REFUSES("\x80\2G\0\0.", "ends here");
    REFUSES("\x80\2J\0\0", "ends here");
    REFUSES("\x80\2N.", "no dictionary of tensors");
    REFUSES("\x80\2}.", "no tensor in a dictionary");
    REFUSES(PICKLE("K\1"), "no tensor in a dictionary");
    REFUSES("\x80\2}q\0" TEXT("\1", "w") "h\0s.", "hold each other");
    REFUSES("\x80\2}N" GOOD "s.", "no name of a tensor");
}

static void test_tensors(void) {
    REFUSES(PICKLE(TENSOR("(N", "K\0", "K\2\x85", "K\1\x85")), "not described");
    REFUSES(PICKLE(TENSOR("((NtQ", "K\0", "K\2\x85", "K\1\x85")), "not described");
    REFUSES(PICKLE(TENSOR(STORAGE("FloatStorage", "1", "K\6"), "K\0", "K\2\x85", "K\1\x85")), "not in the archive");
    REFUSES(PICKLE(TENSOR(STORAGE("FloatStorage", "0", "K\7"), "K\0", "K\2\x85", "K\1\x85")), "cut off");
    REFUSES(PICKLE(TENSOR(STORAGE("DoubleStorage", "0", "K\6"), "K\0", "K\2\x85", "K\1\x85")), "cut off");
    REFUSES(PICKLE(TENSOR(STORAGE("FloatStorage", "0", "J\377\377\377\377"), "K\0", "K\2\x85", "K\1\x85")),
            "not described");
    REFUSES(PICKLE(TENSOR(FLOATS, "K\5", "K\2\x85", "K\1\x85")), "beyond its storage");
    REFUSES(PICKLE(TENSOR(FLOATS, "K\0", "K\7\x85", "K\1\x85")), "beyond its storage");
    REFUSES(PICKLE(TENSOR(FLOATS, "K\0", "K\3K\2\x86", "K\3K\1\x86")), "beyond its storage");
    REFUSES(PICKLE(TENSOR(FLOATS, "J\377\377\377\377", "K\2\x85", "K\1\x85")), "overflow or repeat");
    REFUSES(PICKLE(TENSOR(FLOATS, "K\0", "K\2\x85", "K\0\x85")), "overflow or repeat");
    REFUSES(PICKLE(TENSOR(FLOATS, "K\0", "K\2\x85", "\x8a\10\0\0\0\0\0\0\0\100\x85")), "beyond its storage");
    REFUSES(PICKLE(TENSOR(FLOATS, "K\0", "\x8a\10\0\0\0\0\0\0\0\100K\4K\4\x87", "K\0K\0K\1\x87")),
            "overflow or repeat");
    REFUSES(PICKLE(TENSOR(FLOATS, "K\0", "J\377\377\377\377\x85", "K\1\x85")), "not a whole number");
    REFUSES(PICKLE(TENSOR(FLOATS, "K\0", "K\2K\3\x86", "K\1\x85")), "two tuples of one length");
    REFUSES(PICKLE(TENSOR(FLOATS, "K\0", "(K\1K\1K\1K\1K\1K\1t", "(K\1K\1K\1K\1K\1K\1t")), "more than five");
    REFUSES(PICKLE("ctorch._utils\n_rebuild_tensor_v2\n)R"), "not described");
    REFUSES(PICKLE("ctorch._utils\n_rebuild_tensor_v3\n" FLOATS "K\0))NNctorch\nfloat16\ntR"), "its type is not told");
    REFUSES("\x80\2}(" TEXT("\1", "w") GOOD TEXT("\1", "w") GOOD "u.", "duplicate tensor 'w'");
    REFUSES("\x80\2}" TEXT("\2", "w\0") GOOD "s.", "no name of a tensor");
}

/* 17 dictionaries in each other, and names that grow past any name. */
static void test_depth(void) {
    bytes pickle = {0};
    bytes_add(&pickle, "\x80\2}", 3);
    for (int i = 0; i < 17; i++) bytes_add(&pickle, LITERAL(TEXT("\1", "d") "}"));
    bytes_add(&pickle, LITERAL(TEXT("\1", "w") GOOD));
    for (int i = 0; i < 18; i++) bytes_add(&pickle, "s", 1);
    bytes_add(&pickle, ".", 1);
    refuses(checkpoint_of(pickle.data, pickle.size), "more than 16 deep");
    bytes_free(&pickle);
    bytes_add(&pickle, LITERAL("\x80\2}X\0\4\0\0"));
    for (int i = 0; i < 1024; i++) bytes_add(&pickle, "n", 1);
    bytes_add(&pickle, LITERAL(GOOD "s."));
    refuses(checkpoint_of(pickle.data, pickle.size), "no name of a tensor");
    bytes_free(&pickle);
}

typedef enum wide_kind { WIDE_GOOD, WIDE_SHORT, WIDE_OUTSIDE } wide_kind;

/* Sizes and offset of the second entry in 64 bits, rightly or not. */
static bytes archive_wide(wide_kind kind) {
    static const char pickle[] = PICKLE(GOOD);
    archive a = {{0}, {0}, 0};
    size_t second;
    uint64_t at;
    archive_add(&a, "a/data.pkl", pickle, sizeof pickle - 1, 0);
    second = a.directory.size;
    at = a.file.size;
    archive_add(&a, "a/data/0", NULL, 24, 0);
    memset(a.directory.data + second + 20, 255, 8);
    memset(a.directory.data + second + 42, 255, 4);
    a.directory.data[second + 30] = 28;
    bytes_u16(&a.directory, 1);
    bytes_u16(&a.directory, kind == WIDE_SHORT ? 16 : 24);
    bytes_u64(&a.directory, 24);
    bytes_u64(&a.directory, 24);
    bytes_u64(&a.directory, kind == WIDE_OUTSIDE ? UINT64_MAX - 7 : at);
    return archive_end64(&a, 0);
}

static void test_archives(void) {
    static const char pickle[] = PICKLE(GOOD);
    archive a = {{0}, {0}, 0}, none = a;
    bytes file;
    archive_add(&a, "a/data.pkl", pickle, sizeof pickle - 1, 8);
    refuses(archive_end(&a), "'a/data.pkl' of the zip archive is compressed");
    a = none;
    archive_add(&a, "a/version", "3\n", 2, 0);
    refuses(archive_end(&a), "not one that torch.save wrote");
    a = none;
    archive_add(&a, "a/data.pkl", pickle, sizeof pickle - 1, 0);
    refuses(archive_end(&a), "not in the archive");
    a = none;
    archive_add(&a, "a/data.pkl", pickle, sizeof pickle - 1, 0);
    archive_add(&a, "a/byteorder", "big", 3, 0);
    refuses(archive_end(&a), "big-endian");
    a = none;
    archive_add(&a, "a/data.pkl", pickle, sizeof pickle - 1, 0);
    archive_add(&a, "a/data/0", NULL, 24, 0);
    archive_add(&a, "a/data/0", NULL, 24, 0);
    refuses(archive_end(&a), "duplicate entry 'a/data/0'");
    a = none;
    archive_add(&a, "a/data.pkl", pickle, sizeof pickle - 1, 0);
    archive_add(&a, "a/data/0", NULL, 24, 0);
    accepts(archive_end64(&a, 0));
    accepts(archive_wide(WIDE_GOOD));
    refuses(archive_wide(WIDE_SHORT), "directory is damaged");
    refuses(archive_wide(WIDE_OUTSIDE), "lies outside it or in another");
    a = none;
    archive_add(&a, "a/data.pkl", pickle, sizeof pickle - 1, 0);
    refuses(archive_end64(&a, 1), "64-bit end");
    a = none;
    archive_add(&a, "a/data.pkl", pickle, sizeof pickle - 1, 0);
    refuses(archive_end64(&a, (uint64_t)0 - 1000000), "64-bit end");
    a = none;
    archive_add(&a, "a/data.pkl", pickle, sizeof pickle - 1, 0);
    archive_add(&a, "a/data/0", NULL, 24, 0);
    a.directory.data[56 + 42] = 1; /* the second entry begins inside the first */
    refuses(archive_end(&a), "'a/data/0' of the zip archive lies outside it or in another");
    a = none;
    archive_add(&a, "a/data.pkl", pickle, sizeof pickle - 1, 0);
    a.directory.data[8] = 1;
    refuses(archive_end(&a), "encrypted");
    file = checkpoint_of(pickle, sizeof pickle - 1);
    file.data[file.size - 6]++; /* the directory begins a byte later */
    refuses(file, "directory is damaged");
}

static void test_cut_and_changed(void) {
    bytes file = read_fixture("nested.bin");
    CHECK(file.size > 1000);
    for (size_t size = 0; size < file.size; size++) refuses_part(&file, size, "(memory)");
    change_bytes(file);
}

/* --- checksums --- */

/* Where the text stands for the nth time, counted from 0. */
static size_t find_text(const bytes *file, const char *text, int nth) {
    size_t length = strlen(text);
    for (size_t i = 0; i + length <= file->size; i++)
        if (!memcmp(file->data + i, text, length) && nth-- == 0) return i;
    CHECK_MESSAGE(false, "%s is not in the file", text);
    return 0;
}

/* Where the bytes of an entry begin: behind its name and what torch.save pads the header with. */
static size_t entry_bytes(const bytes *file, const char *name) {
    size_t at = find_text(file, name, 0);
    return at + strlen(name) + file->data[at - 2] + 256u * file->data[at - 1];
}

static dit_result verify(const bytes *file, dit_error *err) {
    dit_source source = memory_source(file);
    diti_checkpoint *checkpoint;
    dit_result result = diti_checkpoint_open(&env, &source, &checkpoint, err);
    if (result >= 0) result = diti_checkpoint_verify(checkpoint, err);
    diti_checkpoint_close(checkpoint);
    return result;
}

/* A flipped bit is found wherever it is: in weights when all bytes are compared, in the records that tell where weights
   are at once. A checksum of the directory that differs from the one beside the bytes is found, too. */
static void test_checksums(void) {
    static const char *const whole[] = {"types.pt",      "views.pth",  "training.pt",
                                        "parallel.ckpt", "nested.bin", "parallel_1_12.ckpt"};
    bytes file;
    dit_error err = {0};
    size_t at;
    for (size_t i = 0; i < DITI_COUNT(whole); i++) {
        file = read_fixture(whole[i]);
        CHECK_MESSAGE(verify(&file, &err) == DIT_OK, "%s: %s", whole[i], err.message);
        bytes_free(&file);
    }
    file = read_fixture("nested.bin");
    at = entry_bytes(&file, "nested/data/1");
    file.data[at + 3] ^= 16;
    CHECK_MESSAGE(verify(&file, &err) == DIT_ERROR_BAD_FILE && strstr(err.message, "'nested/data/1'") &&
                      strstr(err.message, "damaged: its CRC-32 is"),
                  "%s", err.message);
    file.data[at + 3] ^= 16;
    CHECK(verify(&file, &err) == DIT_OK && memory.alive == 0);
    at = entry_bytes(&file, "nested/data.pkl");
    file.data[at + 20] ^= 1;
    refuses_part(&file, file.size, "'nested/data.pkl' of the zip archive is damaged: its CRC-32 is");
    file.data[at + 20] ^= 1;
    at = find_text(&file, "nested/data/0", 1) - 46; /* its record in the directory */
    file.data[at + 16] ^= 1;
    refuses_part(&file, file.size, "'nested/data/0' of the zip archive is damaged: its CRC-32 is");
    memset(file.data + at + 16, 0, 4); /* torch.serialization.set_crc32_options(False) */
    CHECK_MESSAGE(verify(&file, &err) == DIT_OK, "%s", err.message);
    bytes_free(&file);
    file = checkpoint_of(LITERAL(PICKLE(GOOD)));
    memset(file.data + find_text(&file, "a/data/0", 0) - 16, 7, 4); /* in front of the bytes, as other writers put it */
    memset(file.data + find_text(&file, "a/data/0", 1) - 30, 8, 4);
    refuses_part(&file, file.size,
                 "'a/data/0' of the zip archive is damaged: its CRC-32 is 08080808 in the directory "
                 "and 07070707 beside its bytes");
    memset(file.data + find_text(&file, "a/data/0", 1) - 30, 7, 4);
    CHECK(verify(&file, &err) == DIT_ERROR_BAD_FILE && strstr(err.message, "not 07070707"));
    bytes_free(&file);
}

/* Sums of 0 to 40 bytes, and one beyond a buffer, against values made with zlib. */
static void test_sums(void) {
    static const struct {
        size_t size;
        uint32_t crc;
    } sums[] = {{1, 0x99063bcau}, {7, 0xcb570a94u},  {8, 0x101e4720u},
                {9, 0xe111ec2fu}, {40, 0x54eccfb2u}, {70001, 0x3af04016u}};
    for (size_t i = 0; i < DITI_COUNT(sums); i++) {
        bytes data = {0};
        diti_zip_entry entry = {"e", 3, sums[i].size, sums[i].crc};
        dit_source source;
        diti_file *file = NULL;
        dit_error err = {0};
        bytes_add(&data, NULL, sums[i].size + 3);
        for (size_t k = 0; k < data.size; k++) data.data[k] = (unsigned char)((k - 2) * 37);
        source = memory_source(&data);
        CHECK(diti_file_open(&env, &source, "sums", &file, &err) == DIT_OK);
        CHECK_MESSAGE(diti_zip_check(&env, file, &entry, &err) == DIT_OK, "%s", err.message);
        entry.crc ^= 1u << i;
        CHECK(diti_zip_check(&env, file, &entry, &err) == DIT_ERROR_BAD_FILE);
        diti_file_close(file);
        bytes_free(&data);
    }
}

/* Two elements that are so far apart that they are read one by one. */
static void test_far_apart(void) {
    static const char pickle[] =
        PICKLE(TENSOR(STORAGE("FloatStorage", "0", "J\x41\x66\x03\x01"), "K\0", "K\2\x85", "J\x40\x66\x03\x01\x85"));
    enum { FAR = 0x01036640 }; /* 17 million elements of 4 bytes */
    archive a = {{0}, {0}, 0};
    float values[2], expected[2] = {1.5f, -2};
    dit_error err = {0};
    diti_checkpoint *checkpoint;
    dit_source source;
    bytes file;
    size_t at;
    archive_add(&a, "a/data.pkl", pickle, sizeof pickle - 1, 0);
    archive_add(&a, "a/data/0", NULL, (size_t)(FAR + 1) * 4, 0);
    file = archive_end(&a);
    at = find_text(&file, "a/data/0", 0) + 8;
    memcpy(file.data + at, &expected[0], 4), memcpy(file.data + at + (size_t)FAR * 4, &expected[1], 4);
    source = memory_source(&file);
    if (CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_OK, "%s", err.message)) {
        CHECK(diti_checkpoint_read_float(checkpoint, diti_checkpoint_find(checkpoint, "w"), values, 2, &err) ==
                  DIT_OK &&
              !memcmp(values, expected, sizeof values));
        diti_checkpoint_close(checkpoint);
    }
    bytes_free(&file);
}

static void test_no_memory(void) {
    bytes file = read_fixture("training.pt");
    dit_source source = memory_source(&file);
    dit_result result = DIT_ERROR_IO;
    long limit = 200;
    for (memory.fail_at = 1; memory.fail_at < limit && result != DIT_OK; memory.fail_at++) {
        dit_error err = {0};
        memory.calls = 0;
        result = open_and_close(&source, &err);
        CHECK(result == DIT_OK || (result == DIT_ERROR_OUT_OF_HOST_MEMORY && err.message[0]));
        CHECK(memory.alive == 0);
    }
    CHECK(result == DIT_OK && memory.fail_at > 10);
    memory.fail_at = 0;
    bytes_free(&file);
}

/* --- files with an index, and folders --- */

static dit_result open_shard(const char *member, dit_source *out, void *user) {
    if (strcmp(member, "pytorch_model.bin.index.json") == 0) {
        static const char index[] = "{\"weight_map\":{\"w\":\"pytorch_model-00001-of-00001.bin\"}}";
        out->data = index;
        out->size = sizeof index - 1;
        return DIT_OK;
    }
    if (strcmp(member, "pytorch_model-00001-of-00001.bin") != 0) return DIT_ERROR_IO;
    *out = memory_source((const bytes *)user);
    return DIT_OK;
}

static void test_shards(void) {
    bytes shard = checkpoint_of(LITERAL(PICKLE(GOOD)));
    const diti_checkpoint *found = NULL;
    const char *prefix;
    diti_package *package = NULL;
    dit_source folder = {0};
    dit_error err = {0};
    folder.open = open_shard;
    folder.user = &shard;
    CHECK(diti_package_open(&env, &folder, &package, &err) == DIT_OK);
    CHECK_MESSAGE(diti_package_component(package, "", &found, &prefix, &err) == DIT_OK && found &&
                      diti_checkpoint_find(found, "w"),
                  "%s", err.message);
    diti_package_close(package);
    bytes_free(&shard);
}

int main(void) {
    env = test_env(&memory);
    test_pytorch_types();
    test_pytorch_views();
    test_pytorch_roots();
    test_old_pytorch();
    test_calls();
    test_stack();
    test_tensors();
    test_depth();
    test_archives();
    test_cut_and_changed();
    test_checksums();
    test_sums();
    test_far_apart();
    test_no_memory();
    test_shards();
    CHECK(memory.alive == 0);
    return TEST_END("io_pytorch");
}
