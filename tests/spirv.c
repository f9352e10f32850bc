/* The embedded SPIR-V: every module decodes to what a driver can take, and all together stay within their budget. */
#include "library.h"
#include "test.h"

enum {
    MOST_MODULES = 40,
    MOST_BYTES = 330 * 1000, /* for splits over devices add ways to store, merge and unpack to kernels that are there */
    SPIRV_MAGIC = 0x07230203,
    SPIRV_1_5 = 0x00010500,
    SPIRV_1_6 = 0x00010600
};

static size_t decoded_size(const diti_env *env, uint32_t module) {
    uint32_t *words = NULL;
    size_t count = 0;
    dit_error err = {0};
    if (!CHECK_MESSAGE(diti_spirv_decode(env, module, &words, &count, &err) == DIT_OK, "%s", err.message)) return 0;
    CHECK_MESSAGE(count > 5 && words[0] == SPIRV_MAGIC, "%s does not begin as SPIR-V", diti_spirv_name(module));
    /* Cooperative matrices are used only where Vulkan 1.3 is, which has SPIR-V 1.6. */
    CHECK_MESSAGE(words[1] <= (diti_spirv_is_coop(words, count) ? SPIRV_1_6 : SPIRV_1_5),
                  "%s needs more than Vulkan 1.2", diti_spirv_name(module));
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
static void test_no_dot(const diti_env *env, const char *name, bool has) {
    uint32_t *words = NULL, module = 0;
    size_t count = 0, before, after, dots;
    dit_error err = {0};
    CHECK(diti_spirv_find(name, &module) && diti_spirv_decode(env, module, &words, &count, &err) == DIT_OK);
    before = count_instructions(words, count, &dots);
    CHECK((dots > 2) == has);
    diti_spirv_no_dot(words, &count);
    after = count_instructions(words, count, &dots);
    CHECK(dots == 0 && before - after == (has ? 3 : 0));
    diti_free(env, words);
}

int main(void) {
    diti_env env;
    uint32_t i, count = diti_spirv_count();
    size_t bytes = 0;
    CHECK(diti_env_init(&env, NULL, NULL, NULL) == DIT_OK);
    CHECK_MESSAGE(count > 0 && count <= MOST_MODULES, "%u modules", count);
    for (i = 0; i < count; i++) bytes += decoded_size(&env, i);
    CHECK_MESSAGE(bytes > 0 && bytes <= MOST_BYTES, "%lu bytes of SPIR-V", (unsigned long)bytes);
    test_no_dot(&env, "attention_gpu", true);
    test_no_dot(&env, "attention_half", false);
    printf("%u modules, %lu bytes of SPIR-V\n", count, (unsigned long)bytes);
    return TEST_END("spirv");
}
