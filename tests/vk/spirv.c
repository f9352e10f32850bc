/* The embedded SPIR-V: its text form, whole and damaged; every module decodes to what a driver can take, and all
   together stay within their budget; and what dit changes in modules for a device. */
#include "library.h"
#include "vk/spirv.c"
#include "test.h"

enum {
    MOST_MODULES = 60,
    MOST_BYTES = 600 * 1000, /* the design's limits: docs/architecture.md */
    SPIRV_MAGIC = 0x07230203,
    SPIRV_1_5 = 0x00010500,
    SPIRV_1_6 = 0x00010600
};

/* --- the text form --- */

/* Blocks of exactly the sizes a module states, so that the sanitizer sees any access beyond them. */
static bool unpacks(const diti_spirv_module *module, uint32_t **words) {
    unsigned char *bytes = malloc(module->byte_count);
    bool good;
    *words = malloc(module->word_count * sizeof **words);
    good = diti_spirv_words(module, bytes, *words);
    free(bytes);
    return good;
}

static bool fails(const char *const *pieces, uint32_t words, uint32_t bytes) {
    diti_spirv_module module = {"test", NULL, words, bytes};
    uint32_t *out;
    bool good;
    module.pieces = pieces;
    good = unpacks(&module, &out);
    free(out);
    return !good;
}

/* The smallest embedded module as one piece of text, which a test may damage. */
static char *smallest_text(diti_spirv_module *module) {
    const diti_spirv_module *table = diti_spirv_table();
    const char *const *piece;
    char *text;
    size_t size = 1;
    uint32_t i;
    *module = table[0];
    for (i = 1; i < DITI_KERNELS; i++)
        if (table[i].word_count < module->word_count) *module = table[i];
    for (piece = module->pieces; *piece; piece++) size += strlen(*piece);
    text = calloc(1, size);
    for (piece = module->pieces; *piece; piece++) strcat(text, *piece);
    return text;
}

/* Five digits are four bytes. The first four are a module of one byte, and the next four are read but not needed: what
   is wrong with their digits is why decoding fails. */
static void test_text_digits(void) {
    static const char *const wrong[] = {"\"####", "####?", "##\\##", "z####", "yyyyy", "$$$", ""};
    const char *pieces[4] = {"#####", "$$$$$", NULL, NULL};
    uint32_t i;
    CHECK(!fails(pieces, 1, 1));
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        pieces[1] = wrong[i];
        pieces[2] = NULL;
        CHECK_MESSAGE(fails(pieces, 1, 1), "%s", wrong[i]);
        pieces[2] = "";
        CHECK_MESSAGE(fails(pieces, 1, 1), "%s and nothing", wrong[i]);
    }
}

/* Pieces may part anywhere, inside a group of digits too, and be empty. */
static void test_text_pieces(void) {
    diti_spirv_module module;
    char *text = smallest_text(&module), *first = calloc(1, 10);
    const char *pieces[5] = {"", NULL, "", NULL, NULL};
    uint32_t *whole, *parted, cut;
    CHECK(unpacks(&module, &whole));
    for (cut = 0; cut < 10; cut++) {
        memcpy(first, text, cut);
        pieces[1] = first, pieces[3] = text + cut, module.pieces = pieces;
        CHECK(unpacks(&module, &parted) && !memcmp(whole, parted, module.word_count * sizeof *whole));
        free(parted);
    }
    free(first);
    free(whole);
    free(text);
}

static void test_text_counts(void) {
    diti_spirv_module module;
    char *text = smallest_text(&module);
    const char *pieces[2] = {NULL, NULL};
    uint32_t words = module.word_count, bytes = module.byte_count;
    size_t size = strlen(text), kept;
    pieces[0] = text;
    CHECK(!fails(pieces, words, bytes));
    CHECK(fails(pieces, words + 1, bytes) && fails(pieces, words - 1, bytes));
    CHECK(fails(pieces, words, bytes + 100) && fails(pieces, words, bytes - 1) && fails(pieces, words, 1));
    CHECK(fails(pieces, words + 100, bytes + 100) && fails(pieces, 1, bytes));
    for (kept = size - 5; kept > 10; kept = kept * 3 / 4) { /* the last group may hold nothing that is needed */
        text[kept] = 0;
        CHECK_MESSAGE(fails(pieces, words, bytes), "%lu digits of %lu", (unsigned long)kept, (unsigned long)size);
    }
    free(text);
}

/* One to three digits are others: decoding ends, inside its blocks, and never with the same words. */
static void test_text_damaged(void) {
    diti_spirv_module module;
    char *text = smallest_text(&module), *damaged = strdup(text);
    const char *pieces[2] = {NULL, NULL};
    uint32_t *whole, *words, trial, seed = 1, same = 0, failed = 0, trials = 3000;
    size_t size = strlen(text) - 5;
    CHECK(unpacks(&module, &whole));
    pieces[0] = damaged, module.pieces = pieces;
    for (trial = 0; trial < trials; trial++) {
        uint32_t changes = trial % 3 + 1;
        memcpy(damaged, text, size);
        for (; changes; changes--) {
            seed = seed * 1664525u + 1013904223u;
            damaged[(seed >> 8) % (trial % 2 ? size : 60)] = (char)('#' + (seed >> 24) % 87);
        }
        if (!memcmp(damaged, text, size)) continue;
        if (!unpacks(&module, &words))
            failed++;
        else if (!memcmp(words, whole, module.word_count * sizeof *words))
            same++;
        free(words);
    }
    CHECK_MESSAGE(!same, "%u of %u damaged texts give the same words", same, trials);
    CHECK_MESSAGE(failed > trials / 2, "%u of %u damaged texts fail", failed, trials);
    free(whole);
    free(damaged);
    free(text);
}

/* --- modules --- */

/* Every embedded module decodes to SPIR-V, under a name of its own, within the budget. */
static void test_modules(const diti_env *env) {
    uint32_t i, k, *words;
    size_t count, total = 0;
    dit_error err = {0};
    CHECK((int)DITI_KERNELS > 0 && (int)DITI_KERNELS <= MOST_MODULES);
    for (i = 0; i < DITI_KERNELS; i++) {
        const char *name = diti_kernel_name((diti_kernel)i);
        for (k = 0; k < i; k++) CHECK_MESSAGE(strcmp(name, diti_kernel_name((diti_kernel)k)), "two are named %s", name);
        if (!CHECK(diti_spirv_decode(env, (diti_kernel)i, &words, &count, &err) == DIT_OK)) continue;
        CHECK_MESSAGE(count > 5 && words[0] == SPIRV_MAGIC, "module %s is no SPIR-V", name);
        diti_free(env, words);
        for (k = 0; k < i && diti_spirv_table()[k].pieces != diti_spirv_table()[i].pieces; k++) continue;
        total += k < i ? 0 : 4 * (size_t)diti_spirv_table()[i].word_count; /* kernels may have one module */
    }
    CHECK(total <= MOST_BYTES);
    CHECK(diti_spirv_decode(env, DITI_KERNELS, &words, &count, &err) == DIT_ERROR_INVALID_ARGUMENT);
    CHECK(!strcmp(diti_kernel_name(DITI_KERNEL_GEMM_COOP), "gemm_coop") &&
          !strcmp(diti_kernel_name(DITI_KERNELS), "?"));
}

/* Whether anything but decorations names the variable that is decorated as BuiltIn (11) WorkgroupSize (25). */
static bool uses_workgroup_size(const uint32_t *words, size_t count) {
    uint32_t id = 0, k;
    size_t i;
    for (i = 5; i < count && words[i] >> 16; i += words[i] >> 16) {
        const uint32_t op = words[i] & 0xffff, length = words[i] >> 16;
        if (op == 71 && words[i + 2] == 11 && words[i + 3] == 25) id = words[i + 1];
        for (k = 3; op == 52 && id && k < length; k++) /* OpSpecConstantOp */
            if (words[i + k] == id) return true;
        for (k = 1; op == 81 && k < 4; k++) /* OpCompositeExtract */
            if (id && words[i + k] == id) return true;
    }
    return false;
}

/* Whether a thread's value is broadcast (OpGroupNonUniformBroadcast): loops are unrolled by drivers, so that the
   thread's number is no constant, which takes a feature that applications seldom enable. OpGroupNonUniformShuffle takes
   none. */
static bool broadcasts(const uint32_t *words, size_t count) {
    size_t i;
    for (i = 5; i < count && words[i] >> 16; i += words[i] >> 16)
        if ((words[i] & 0xffff) == 337) return true;
    return false;
}

/* Bytes that a kernel adds to those of the kernels before: none if one of these has the same module. */
static size_t check_decoded(const diti_env *env, diti_kernel kernel) {
    const diti_spirv_module *table = diti_spirv_table();
    uint32_t *words = NULL, k = 0;
    size_t count = 0;
    dit_error err = {0};
    if (!CHECK_MESSAGE(diti_spirv_decode(env, kernel, &words, &count, &err) == DIT_OK, "%s", err.message)) return 0;
    CHECK_MESSAGE(count > 5 && words[0] == SPIRV_MAGIC, "%s does not begin as SPIR-V", diti_kernel_name(kernel));
    /* attention_coop2 is used only where Vulkan 1.3 is, which has SPIR-V 1.6. */
    CHECK_MESSAGE(words[1] <= (kernel == DITI_KERNEL_ATTENTION_COOP2 ? SPIRV_1_6 : SPIRV_1_5),
                  "%s needs more than Vulkan 1.2", diti_kernel_name(kernel));
    CHECK_MESSAGE(!uses_workgroup_size(words, count),
                  "%s computes with gl_WorkGroupSize, by which Metal sizes no array", diti_kernel_name(kernel));
    CHECK_MESSAGE(!broadcasts(words, count), "%s broadcasts: subgroupShuffle takes no feature",
                  diti_kernel_name(kernel));
    diti_free(env, words);
    while (table[k].pieces != table[kernel].pieces) k++;
    return k < (uint32_t)kernel ? 0 : 4 * (size_t)table[kernel].word_count;
}

/* Instructions, and those of them that have to do with integer dot products: two capabilities and the products. */
static size_t count_instructions(const uint32_t *words, size_t count, size_t *dots) {
    size_t i, instructions = 0;
    for (*dots = 0, i = 5; i < count && words[i] >> 16; i += words[i] >> 16, instructions++)
        *dots +=
            (words[i] & 0xffff) == 4450 || ((words[i] & 0xffff) == 17 && words[i + 1] >= 6018 && words[i + 1] < 6020);
    CHECK(i == count);
    return instructions;
}

/* Devices without that product get modules without it; the capabilities and the extension are all that is missing. */
static void test_no_dot(const diti_env *env, diti_kernel kernel, bool has) {
    uint32_t *words = NULL;
    size_t count = 0, before, after, dots;
    dit_error err = {0};
    CHECK(diti_spirv_decode(env, kernel, &words, &count, &err) == DIT_OK);
    before = count_instructions(words, count, &dots);
    CHECK((dots > 2) == has);
    diti_spirv_no_dot(words, &count);
    after = count_instructions(words, count, &dots);
    CHECK(dots == 0 && before - after == (has ? 3 : 0));
    diti_free(env, words);
}

/* RoundingModeRTE is told only to drivers that have it: a capability, an extension and an execution mode. */
static void test_no_rounding(const diti_env *env, diti_kernel kernel, bool has) {
    uint32_t *words = NULL;
    size_t count = 0, before, after, dots, i, modes = 0;
    dit_error err = {0};
    CHECK(diti_spirv_decode(env, kernel, &words, &count, &err) == DIT_OK);
    before = count_instructions(words, count, &dots);
    diti_spirv_no_rounding(words, &count);
    after = count_instructions(words, count, &dots);
    for (i = 5; i < count; i += words[i] >> 16) modes += words[i] == (4u << 16 | 16u) && words[i + 2] == 4462;
    CHECK_MESSAGE(before - after == (has ? 3 : 0) && modes == 0, "%s: %lu instructions left out, %lu modes are left",
                  diti_kernel_name(kernel), (unsigned long)(before - after), (unsigned long)modes);
    diti_free(env, words);
}

/* Devices without the mixed dot product get a module without it: its two uses become copies of their sums, in code that
   never runs there, and a capability and an extension are left out. */
static void test_no_mixed(const diti_env *env) {
    uint32_t *words = NULL;
    size_t count = 0, before, after, dots, i, mixed = 0;
    dit_error err = {0};
    CHECK(diti_spirv_decode(env, DITI_KERNEL_GEMM_HALF, &words, &count, &err) == DIT_OK);
    before = count_instructions(words, count, &dots);
    for (i = 5; i < count; i += words[i] >> 16) mixed += (words[i] & 0xffff) == 6916;
    CHECK(mixed == 2);
    diti_spirv_no_mixed(words, &count);
    after = count_instructions(words, count, &dots);
    for (i = 5; i < count; i += words[i] >> 16)
        CHECK((words[i] & 0xffff) != 6916 && !((words[i] & 0xffff) == 17 && words[i + 1] == 6912));
    CHECK_MESSAGE(before - after == 2, "%lu instructions left out", (unsigned long)(before - after));
    diti_free(env, words);
}

/* Pipelines without int8 declare no matrix of it, nor of integers: devices need not have those. */
static void test_no_bytes(const diti_env *env, diti_kernel kernel) {
    uint32_t *words = NULL, byte = 0, integer = 0, matrices = 0, k;
    size_t count = 0, i;
    dit_error err = {0};
    bool before = false;
    CHECK(diti_spirv_decode(env, kernel, &words, &count, &err) == DIT_OK);
    for (i = 5; i < count; i += words[i] >> 16) before = before || (words[i] == (4u << 16 | 21u) && words[i + 2] == 8);
    CHECK(before);
    diti_spirv_no_bytes(words, &count);
    for (i = 5; i < count && words[i] >> 16; i += words[i] >> 16) {
        const uint32_t op = words[i] & 0xffff;
        CHECK(op != 17 || words[i + 1] != 39); /* OpCapability Int8 */
        if (op == 21 && words[i + 2] == 8) byte = words[i + 1];
        if (op == 21 && words[i + 2] == 32 && words[i + 3]) integer = words[i + 1];
        if (op != 4456) continue; /* OpTypeCooperativeMatrixKHR */
        CHECK(words[i + 2] != integer && words[i + 2] != byte);
        matrices++;
        for (k = 5; k < i; k += words[k] >> 16)
            CHECK(words[k] != words[i] || memcmp(words + k + 2, words + i + 2, 5 * sizeof *words));
    }
    CHECK(i == count && !byte && integer && matrices >= 3);
    diti_free(env, words);
}

/* --- modules that dit specializes itself --- */

/* Specialization constants of a kernel, from 0 on, as some device gets them. */
typedef struct fold_case {
    diti_kernel kernel;
    uint32_t count, values[DITI_MAX_CONSTANTS];
} fold_case;

static bool fold(const diti_env *env, const fold_case *c, uint32_t **words, size_t *count) {
    VkSpecializationMapEntry entries[DITI_MAX_CONSTANTS + 2];
    uint32_t values[DITI_MAX_CONSTANTS + 2], i;
    VkSpecializationInfo given = {c->count + 2, entries, sizeof values, values};
    bool folded = false;
    memcpy(values, c->values, sizeof c->values);
    for (i = 0; i < c->count; i++) entries[i] = (VkSpecializationMapEntry){i, i * 4, 4};
    entries[i++] = (VkSpecializationMapEntry){DITI_CONSTANT_THREADS, 0, 4};
    entries[i] = (VkSpecializationMapEntry){DITI_CONSTANT_ROUNDS, DITI_CONSTANT_ROUNDS * 4, 4};
    values[DITI_CONSTANT_ROUNDS] = 1;
    return CHECK(diti_spirv_fold(env, &given, true, words, count, &folded, NULL) == DIT_OK) && folded;
}

static uint32_t *copy_words(const diti_env *env, const uint32_t *words, size_t count) {
    uint32_t *copy = diti_alloc_array(env, count + 1, sizeof *copy);
    memcpy(copy, words, count * sizeof *copy);
    return copy;
}

/* Whether spirv-val accepts a module. A distribution's may be too old for some modules, which the newest Vulkan layers
   judge in other tests. */
static bool is_valid(const uint32_t *words, size_t count) {
    FILE *file = fopen("build/folded.spv", "wb");
    if (!file) return false;
    CHECK(fwrite(words, 4, count, file) == count);
    fclose(file);
    return system("spirv-val --target-env vulkan1.3 build/folded.spv >build/folded.log 2>&1") == 0;
}

static void test_fold(const diti_env *env, const fold_case *c, bool validates, uint32_t *judged) {
    const char *name = diti_kernel_name(c->kernel);
    uint32_t *words = NULL, *again;
    size_t count = 0, before, i, left = 0;
    dit_error err = {0};
    bool valid;
    CHECK(diti_spirv_decode(env, c->kernel, &words, &count, &err) == DIT_OK);
    before = count;
    valid = validates && is_valid(words, count);
    if (CHECK_MESSAGE(fold(env, c, &words, &count), "%s is left to the driver", name)) {
        for (i = 5; i < count && words[i] >> 16; i += words[i] >> 16) {
            const uint32_t op = words[i] & 0xffff;
            left += (op >= 48 && op <= 52) || (op == 71 && words[i + 2] == 1); /* OpSpecConstant… or SpecId */
        }
        CHECK_MESSAGE(i == count && !left, "%s: %lu specialization constants are left", name, (unsigned long)left);
        CHECK_MESSAGE(count < before, "%s grows from %lu to %lu words", name, (unsigned long)before,
                      (unsigned long)count);
        if (valid) {
            CHECK_MESSAGE(is_valid(words, count), "%s of %u constants: see build/folded.log", name, c->count);
            ++*judged;
        }
        again = copy_words(env, words, before = count);
        CHECK_MESSAGE(fold(env, c, &again, &count) && count == before && !memcmp(again, words, count * 4),
                      "%s: there is more to leave out", name);
        diti_free(env, again);
    }
    diti_free(env, words);
}

/* A copy of a module that is cut off, or in which two words are others. */
static uint32_t *copy_damaged(const diti_env *env, const uint32_t *good, size_t whole, uint32_t i, uint32_t *state,
                              size_t *count) {
    uint32_t *words = copy_words(env, good, whole);
    *count = whole;
    for (int k = 0; k < 2; k++) {
        *state = *state * 1664525u + 1013904223u;
        if (i < 200 && !k) *count = *state % whole;
        if (i >= 200) words[(*state >> 8) % (i % 3 ? whole : whole / 8)] = i & 1 ? *state >> 20 : words[*state % whole];
    }
    return words;
}

/* Whatever is in a module: the result is another module, or nothing happens to it. */
static void test_fold_damaged(const diti_env *env, const fold_case *c) {
    uint32_t *good = NULL, *words, folded = 0, i, state = 1;
    size_t whole = 0, count, k;
    dit_error err = {0};
    CHECK(diti_spirv_decode(env, c->kernel, &good, &whole, &err) == DIT_OK);
    for (i = 0; i < 600; i++) {
        uint32_t *before;
        words = copy_damaged(env, good, whole, i, &state, &count);
        before = copy_words(env, words, whole);
        k = count;
        if (fold(env, c, &words, &count))
            folded++;
        else
            CHECK(count == k && !memcmp(before, words, whole * 4));
        diti_free(env, before);
        diti_free(env, words);
    }
    CHECK_MESSAGE(folded < 600, "%s: damage is never seen", diti_kernel_name(c->kernel));
    diti_free(env, good);
}

/* Damage in a module of two kernels is told, or what is left of it is no larger. */
static void test_variant_damaged(const diti_env *env) {
    const diti_spirv_module *entry = &diti_spirv_table()[DITI_KERNEL_GEMM_GPU];
    uint32_t *good = NULL, i, state = 1, told = 0;
    size_t whole = 0;
    dit_error err = {0};
    CHECK(diti_spirv_decode(env, DITI_KERNEL_GEMM_HALF, &good, &whole, &err) == DIT_OK);
    for (i = 0; i < 600; i++) {
        size_t count;
        uint32_t *words = copy_damaged(env, good, whole, i, &state, &count);
        dit_result result;
        result = diti_spirv_variant(env, DITI_KERNEL_GEMM_GPU, &words, &count, &err);
        told += result == DIT_ERROR_BAD_FILE && strstr(err.message, "gemm_gpu is damaged");
        CHECK(result == DIT_ERROR_BAD_FILE ? !words : result == DIT_OK && count <= entry->word_count);
        diti_free(env, words);
    }
    CHECK_MESSAGE(told > 200, "damage is told %u times", told);
    diti_free(env, good);
}

/* Drivers evaluate all that dit does not. */
static void test_fold_unexpected(const diti_env *env, const fold_case *c) {
    static const uint32_t group[] = {2u << 16 | 73u, 1};
    uint32_t *good = NULL, *words;
    size_t whole = 0, count, at, operation = 0, decoration = 0;
    dit_error err = {0};
    CHECK(diti_spirv_decode(env, c->kernel, &good, &whole, &err) == DIT_OK);
    for (at = 5; at < whole; at += good[at] >> 16) {
        if ((good[at] & 0xffff) == 52 && good[at + 3] == 132) operation = at; /* OpSpecConstantOp with OpIMul */
        if ((good[at] & 0xffff) == 71 && !decoration) decoration = at;
    }
    CHECK(operation && decoration);
    for (uint32_t i = 0; i < 4; i++) {
        words = copy_words(env, good, count = whole);
        if (i == 1) words[operation + 3] = 133; /* OpFMul */
        if (i == 2) memcpy(words + decoration, group, sizeof group), words[decoration + 2] = 1u << 16;
        if (i == 3) words[3] = 0xffffffff; /* so many ids */
        CHECK_MESSAGE(fold(env, c, &words, &count) == (i == 0), "case %u", i);
        diti_free(env, words);
    }
    diti_free(env, good);
}

/* A switch on a specialization constant: what follows it must stand, even if nothing comes there. */
static void test_fold_merge(const diti_env *env) {
    static const uint32_t module[] = {SPIRV_MAGIC,
                                      0x00010300,
                                      0,
                                      10,
                                      0,
                                      2u << 16 | 17,
                                      1,
                                      3u << 16 | 14,
                                      0,
                                      1, /* OpCapability, OpMemoryModel */
                                      5u << 16 | 15,
                                      5,
                                      1,
                                      0x6e69616d,
                                      0,
                                      6u << 16 | 16,
                                      1,
                                      17,
                                      1,
                                      1,
                                      1, /* OpEntryPoint, OpExecutionMode */
                                      4u << 16 | 71,
                                      2,
                                      1,
                                      0,
                                      2u << 16 | 19,
                                      3,
                                      3u << 16 | 33,
                                      4,
                                      3, /* SpecId; void, its function */
                                      4u << 16 | 21,
                                      5,
                                      32,
                                      0,
                                      4u << 16 | 50,
                                      5,
                                      2,
                                      0,
                                      5u << 16 | 54,
                                      3,
                                      1,
                                      0,
                                      4, /* uint, constant 2; main */
                                      2u << 16 | 248,
                                      6,
                                      3u << 16 | 247,
                                      9,
                                      0,
                                      5u << 16 | 251,
                                      2,
                                      8,
                                      1,
                                      7, /* OpSwitch: 1 to 7, else to 8 */
                                      2u << 16 | 248,
                                      7,
                                      1u << 16 | 253,
                                      2u << 16 | 248,
                                      8,
                                      2u << 16 | 249,
                                      9, /* 7 returns, 8 goes to 9 */
                                      2u << 16 | 248,
                                      9,
                                      1u << 16 | 253,
                                      1u << 16 | 56}; /* 9, the merge block, returns */
    for (uint32_t value = 0; value < 3; value++) {
        fold_case c = {.count = 1, .values = {value}};
        size_t count = DITI_COUNT(module), at, labels[10] = {0};
        uint32_t *words = copy_words(env, module, count);
        CHECK(fold(env, &c, &words, &count));
        for (at = 5; at < count; at += words[at] >> 16)
            if ((words[at] & 0xffff) == 248) labels[words[at + 1]] = at;
        CHECK(labels[6] && (labels[7] != 0) == (value == 1) && (labels[8] != 0) == (value != 1) && labels[9]);
        CHECK(words[labels[9] + 2] == (1u << 16 | (value == 1 ? 255 : 253))); /* OpUnreachable */
        CHECK(words[labels[6] + 5] == (3u << 16 | 251) && words[labels[6] + 7] == (value == 1 ? 7 : 8));
        diti_free(env, words);
    }
}

/* Kernels that notice what overflows say so: a capability, and an execution mode for floats of either size. */
static void test_keeps_infinity(const diti_env *env, diti_kernel kernel) {
    uint32_t *words = NULL, entry = 0;
    size_t count = 0, before, i, sizes = 0, dots;
    dit_error err = {0};
    CHECK(diti_spirv_decode(env, kernel, &words, &count, &err) == DIT_OK);
    before = count_instructions(words, count, &dots);
    CHECK(diti_spirv_keep_infinity(env, &words, &count, &err) == DIT_OK);
    CHECK(count_instructions(words, count, &dots) == before + 3);
    diti_spirv_no_rounding(words, &count);
    diti_spirv_no_mixed(words, &count); /* a validator need not know it */
    for (i = 5; i < count; i += words[i] >> 16) {
        if ((words[i] & 0xffff) == 15) entry = words[i + 2]; /* OpEntryPoint */
        if (words[i] == (4u << 16 | 16u) && words[i + 1] == entry && words[i + 2] == 4461) sizes += words[i + 3];
    }
    CHECK_MESSAGE(sizes == 16 + 32, "%s: modes for %lu bits", diti_kernel_name(kernel), (unsigned long)sizes);
    if (system("mkdir -p build && command -v spirv-val >/dev/null") == 0)
        CHECK_MESSAGE(is_valid(words, count), "%s: see build/folded.log", diti_kernel_name(kernel));
    diti_free(env, words);
}

/* gemm_gpu and gemm_half are in one module: the first has nothing of float16 left, neither can still become the other.
 */
static void test_variants(const diti_env *env) {
    static const diti_kernel kernels[2] = {DITI_KERNEL_GEMM_GPU, DITI_KERNEL_GEMM_HALF};
    const bool validates = system("mkdir -p build && command -v spirv-val >/dev/null") == 0;
    size_t count, i, k;
    for (k = 0; k < 2; k++) {
        uint32_t *words = NULL, halves = 0, constants = 0, id = 0;
        dit_error err = {0};
        CHECK(diti_spirv_decode(env, kernels[k], &words, &count, &err) == DIT_OK);
        CHECK(count < diti_spirv_table()[kernels[k]].word_count);
        for (i = 5; i < count && words[i] >> 16; i += words[i] >> 16) {
            const uint32_t op = words[i] & 0xffff;
            halves += op == 22 && words[i + 2] == 16;                                  /* OpTypeFloat */
            halves += op == 17 && words[i + 1] == 9;                                   /* OpCapability Float16 */
            halves += op == 10 && words[i + 1] == 0x5f565053;                          /* OpExtension SPV_… */
            id += op == 71 && words[i + 2] == 1 && words[i + 3] == DITI_CONSTANT_HALF; /* SpecId */
            constants += op == 71 && words[i + 2] == 1;
        }
        CHECK_MESSAGE(i == count && !id && constants > 12 && (k ? halves > 2 : !halves),
                      "%s: %u constants, %u signs of halves", diti_kernel_name(kernels[k]), constants, halves);
        diti_spirv_no_mixed(words, &count); /* a validator need not know it */
        if (validates) CHECK_MESSAGE(is_valid(words, count), "%s: see build/folded.log", diti_kernel_name(kernels[k]));
        diti_free(env, words);
    }
}

static void test_folds(const diti_env *env) {
    static const fold_case cases[] = {
        /* such as Navi 21, Navi 31 and DG2 get for FLUX.1 and others */
        {DITI_KERNEL_GEMM_GPU, 15, {256, 0, 1, 0, 0, 1, 0, 1, 0, 0, 8, 4, 0, 4, 4}},
        {DITI_KERNEL_GEMM_GPU, 15, {64, 0, 0, 1, 0, 1, 0, 1, 1, 0, 8, 4, 2, 4, 4}},
        {DITI_KERNEL_GEMM_HALF, 15, {256, 1, 1, 1, 0, 1, 1, 1, 0, 0, 8, 4, 0, 8, 8}},
        {DITI_KERNEL_GEMM_DOT_GPU, 12, {256, 3, 3, 1, 0, 1, 0, 1, 0, 0, 8, 8}},
        {DITI_KERNEL_GEMM_BROADCAST, 16, {256, 1, 1, 0, 0, 13, 0, 1, 0, 0, 8, 2, 16, 4, 2, 0}},
        {DITI_KERNEL_GEMM_COOP, 22, {256, 1, 1, 0, 0, 13, 0, 1, 0, 0, 64, 16, 16, 16, 4, 4, 2, 32, 3, 16, 16, 16}},
        {DITI_KERNEL_ATTENTION_GPU, 8, {128, 3, 1, 0, 1, 16, 32, 1}},
        {DITI_KERNEL_ATTENTION_HALF, 8, {128, 1, 1, 2, 1, 16, 32, 8}},
        {DITI_KERNEL_ATTENTION_COOP, 16, {512, 1, 1, 0, 1, 32, 64, 16, 16, 16, 2, 32, 16, 0, 2, 1}},
        {DITI_KERNEL_NORM, 7, {128, 128, 0, 3, 24, 1, 1}},
        {DITI_KERNEL_QKV_POST, 4, {128, 32, 1, 21}},
        {DITI_KERNEL_EXPAND, 6, {64, 6, 1, 0, 0, 1}},
        {DITI_KERNEL_PIXELS, 2, {64, 1}},
        {DITI_KERNEL_GROUP_NORM, 6, {32, 1, 1, 1, 0, 1}},
        {DITI_KERNEL_SOLVER, 14, {64, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
    };
    bool validates = system("mkdir -p build && command -v spirv-val >/dev/null") == 0;
    uint32_t i, judged = 0;
    for (i = 0; i < DITI_COUNT(cases); i++) test_fold(env, &cases[i], validates, &judged);
    if (validates) CHECK(judged >= 10);
    if (!validates) printf("skipped: whether folded modules are valid (needs spirv-tools)\n");
    test_fold_merge(env);
    test_fold_damaged(env, &cases[0]);
    test_fold_damaged(env, &cases[8]);
    test_fold_unexpected(env, &cases[0]);
    printf("folded: %u modules judged by spirv-val\n", judged);
}

/* Elements that a distribution's validator does not know. */
static void check_newest(const char *path) {
    char command[200];
    if (system("sh tools/newest.sh run spirv-val --version >/dev/null 2>&1") != 0) {
        printf("skipped: whether %s is valid (needs the newest spirv-tools)\n", path);
        return;
    }
    snprintf(command, sizeof command, "sh tools/newest.sh run spirv-val --target-env vulkan1.3 %s", path);
    CHECK_MESSAGE(system(command) == 0, "%s is not valid", path);
}

static void write_words(const uint32_t *words, size_t count, const char *path) {
    FILE *file = fopen(path, "wb");
    if (CHECK(file)) CHECK(fwrite(words, 4, count, file) == count && fclose(file) == 0);
}

/* bfloat16 is a type beside float16, and the one of all matrices that float16 was the type of. */
static void test_brain(const diti_env *env) {
    uint32_t *words = NULL, half = 0, brain = 0, halves = 0, brains = 0, bound;
    size_t count = 0, i;
    dit_error err = {0};
    CHECK(diti_spirv_decode(env, DITI_KERNEL_GEMM_COOP, &words, &count, &err) == DIT_OK);
    CHECK(diti_spirv_settle(env, DITI_KERNEL_GEMM_COOP, DITI_CONSTANT_LOOP, DITI_LOOP_LATE, &words, &count, &err) ==
          DIT_OK);
    bound = words[3];
    CHECK(diti_spirv_elements(env, DITI_MATRIX_BRAIN, &words, &count, &err) == DIT_OK && words[3] == bound + 1);
    for (i = 5; i < count && words[i] >> 16; i += words[i] >> 16) {
        if (words[i] == (3u << 16 | 22u) && words[i + 2] == 16) half = words[i + 1];
        if (words[i] == (4u << 16 | 22u)) {
            CHECK(words[i + 2] == 16 && words[i + 3] == 0);
            brain = words[i + 1];
        }
        if ((words[i] & 0xffff) != 4456) continue; /* OpTypeCooperativeMatrixKHR */
        halves += words[i + 2] == half;
        brains += words[i + 2] == brain;
    }
    CHECK(i == count && half && brain == bound && halves == 0 && brains == 2);
    write_words(words, count, "build/brain.spv");
    check_newest("build/brain.spv");
    diti_free(env, words);
}

/* 8-bit floats: matrices that are first operands are E4M3, second operands what the weights are. */
static void test_float8(const diti_env *env, diti_matrix_kind kind, uint32_t second, const char *path) {
    uint32_t *words = NULL, types[2] = {0, 0}, encodings[2] = {0, 0}, known = 0, operands[2] = {0, 0}, right = 0, bound;
    size_t count = 0, i, k;
    dit_error err = {0};
    CHECK(diti_spirv_decode(env, DITI_KERNEL_GEMM_COOP, &words, &count, &err) == DIT_OK);
    diti_spirv_no_dot(words, &count);
    diti_spirv_no_bytes(words, &count);
    CHECK(diti_spirv_settle(env, DITI_KERNEL_GEMM_COOP, DITI_CONSTANT_LOOP, DITI_LOOP_AHEAD, &words, &count, &err) ==
          DIT_OK);
    bound = words[3];
    CHECK(diti_spirv_elements(env, kind, &words, &count, &err) == DIT_OK && words[3] > bound);
    for (i = 5; i < count && words[i] >> 16; i += words[i] >> 16) {
        if (words[i] == (4u << 16 | 22u) && CHECK(words[i + 2] == 8 && known < 2)) {
            types[known] = words[i + 1];
            encodings[known++] = words[i + 3];
        }
        if ((words[i] & 0xffff) != 4456) continue; /* OpTypeCooperativeMatrixKHR */
        for (k = 5; k < count && (words[k] != (4u << 16 | 43u) || words[k + 2] != words[i + 6]); k += words[k] >> 16)
            continue;
        if (!CHECK(k < count) || words[k + 3] > 1) continue; /* an accumulator */
        operands[words[k + 3]]++;
        right += words[i + 2] == types[words[k + 3] && known > 1];
    }
    CHECK(i == count && encodings[0] == 4214 && known == (second == 4214 ? 1u : 2u) && encodings[known - 1] == second);
    CHECK_MESSAGE(operands[0] && operands[1] && right == operands[0] + operands[1], "%u and %u operands, %u are right",
                  operands[0], operands[1], right);
    write_words(words, count, path);
    check_newest(path);
    diti_free(env, words);
}

/* MoltenVK: SPIRV-Cross writes every module that a Mac can run in Metal's language. */
static void test_metal(const diti_env *env) {
    uint32_t i, written = 0;
    if (system("mkdir -p build/metal && command -v spirv-cross >/dev/null") != 0) {
        printf("skipped: shaders in Metal's language (needs spirv-cross)\n");
        return;
    }
    for (i = 0; i < DITI_KERNELS; i++) {
        uint32_t *words = NULL;
        size_t count = 0;
        char command[300], path[100];
        dit_error err = {0};
        FILE *file;
        CHECK(diti_spirv_decode(env, (diti_kernel)i, &words, &count, &err) == DIT_OK);
        diti_spirv_no_dot(words, &count);
        diti_spirv_no_mixed(words, &count);
        diti_spirv_no_rounding(words, &count);
        snprintf(path, sizeof path, "build/metal/%s.spv", diti_kernel_name((diti_kernel)i));
        snprintf(command, sizeof command, "spirv-cross --msl --msl-version 20200 %s --output %s.metal 2>&1", path,
                 path);
        file = diti_spirv_is_coop(words, count) ? NULL : fopen(path, "wb"); /* Metal has none of their matrices */
        if (file) {
            CHECK(fwrite(words, 4, count, file) == count);
            fclose(file);
            CHECK_MESSAGE(system(command) == 0, "%s", command);
            written++;
        }
        diti_free(env, words);
    }
    CHECK(written > 10);
    printf("%u modules in Metal's language\n", written);
}

int main(void) {
    const char *sweep = getenv("DIT_TEST_ALL");
    diti_env env;
    uint32_t i, count = DITI_KERNELS;
    size_t bytes = 0, more, modules = 0;
    CHECK(diti_env_init(&env, NULL, NULL, NULL) == DIT_OK);
    test_text_digits();
    test_text_pieces();
    test_text_counts();
    test_text_damaged();
    test_modules(&env);
    for (i = 0; i < count; i++) {
        bytes += more = check_decoded(&env, (diti_kernel)i);
        modules += more > 0;
    }
    CHECK_MESSAGE(modules > 0 && modules <= MOST_MODULES, "%lu modules", (unsigned long)modules);
    CHECK_MESSAGE(bytes > 0 && bytes <= MOST_BYTES, "%lu bytes of SPIR-V", (unsigned long)bytes);
    test_no_dot(&env, DITI_KERNEL_ATTENTION_GPU, true);
    test_no_dot(&env, DITI_KERNEL_ATTENTION_HALF, false);
    test_no_rounding(&env, DITI_KERNEL_GEMM_HALF, true);
    test_no_rounding(&env, DITI_KERNEL_ATTENTION_HALF, true);
    test_no_rounding(&env, DITI_KERNEL_ATTENTION_COOP, true);
    test_no_rounding(&env, DITI_KERNEL_ATTENTION_COOP2, true);
    test_no_rounding(&env, DITI_KERNEL_GEMM_COOP, true);
    test_no_rounding(&env, DITI_KERNEL_NORM, false);
    test_keeps_infinity(&env, DITI_KERNEL_GEMM_HALF);
    test_keeps_infinity(&env, DITI_KERNEL_GEMM_BROADCAST);
    test_keeps_infinity(&env, DITI_KERNEL_ATTENTION_HALF);
    test_no_mixed(&env);
    test_no_bytes(&env, DITI_KERNEL_GEMM_COOP);
    test_no_bytes(&env, DITI_KERNEL_ATTENTION_COOP);
    test_brain(&env);
    test_float8(&env, DITI_MATRIX_E4M3, 4214, "build/e4m3.spv");
    test_float8(&env, DITI_MATRIX_E5M2, 4215, "build/e5m2.spv");
    test_variants(&env);
    test_variant_damaged(&env);
    test_folds(&env);
    if (sweep && !strcmp(sweep, "1")) test_metal(&env);
    printf("%u kernels, %lu modules, %lu bytes of SPIR-V\n", count, (unsigned long)modules, (unsigned long)bytes);
    return TEST_END("spirv");
}
