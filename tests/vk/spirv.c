/* The embedded SPIR-V: every module decodes to what a driver can take, and all together stay within their budget. */
#include "library.h"
#include "test.h"

enum {
    MOST_MODULES = 60,
    MOST_BYTES = 600 * 1000, /* the design's limits: docs/architecture.md */
    SPIRV_MAGIC = 0x07230203,
    SPIRV_1_5 = 0x00010500,
    SPIRV_1_6 = 0x00010600
};

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

static size_t decoded_size(const diti_env *env, diti_kernel kernel) {
    uint32_t *words = NULL;
    size_t count = 0;
    dit_error err = {0};
    if (!CHECK_MESSAGE(diti_spirv_decode(env, kernel, &words, &count, &err) == DIT_OK, "%s", err.message)) return 0;
    CHECK_MESSAGE(count > 5 && words[0] == SPIRV_MAGIC, "%s does not begin as SPIR-V", diti_kernel_name(kernel));
    /* attention_coop2 is used only where Vulkan 1.3 is, which has SPIR-V 1.6. */
    CHECK_MESSAGE(words[1] <= (kernel == DITI_KERNEL_ATTENTION_COOP2 ? SPIRV_1_6 : SPIRV_1_5),
                  "%s needs more than Vulkan 1.2", diti_kernel_name(kernel));
    CHECK_MESSAGE(!uses_workgroup_size(words, count),
                  "%s computes with gl_WorkGroupSize, by which Metal sizes no array", diti_kernel_name(kernel));
    diti_free(env, words);
    return count * 4;
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
    size_t bytes = 0;
    CHECK(diti_env_init(&env, NULL, NULL, NULL) == DIT_OK);
    CHECK_MESSAGE(count > 0 && count <= MOST_MODULES, "%u modules", count);
    for (i = 0; i < count; i++) bytes += decoded_size(&env, (diti_kernel)i);
    CHECK_MESSAGE(bytes > 0 && bytes <= MOST_BYTES, "%lu bytes of SPIR-V", (unsigned long)bytes);
    test_no_dot(&env, DITI_KERNEL_ATTENTION_GPU, true);
    test_no_dot(&env, DITI_KERNEL_ATTENTION_HALF, false);
    test_no_rounding(&env, DITI_KERNEL_GEMM_HALF, true);
    test_no_rounding(&env, DITI_KERNEL_ATTENTION_HALF, true);
    test_no_rounding(&env, DITI_KERNEL_ATTENTION_COOP, true);
    test_no_rounding(&env, DITI_KERNEL_ATTENTION_COOP2, true);
    test_no_rounding(&env, DITI_KERNEL_GEMM_COOP, false);
    test_no_mixed(&env);
    test_no_bytes(&env, DITI_KERNEL_GEMM_COOP);
    test_no_bytes(&env, DITI_KERNEL_ATTENTION_COOP);
    if (sweep && !strcmp(sweep, "1")) test_metal(&env);
    printf("%u modules, %lu bytes of SPIR-V\n", count, (unsigned long)bytes);
    return TEST_END("spirv");
}
