/* Whole files and an environment for tests that call the rooms behind the API. Include after dit.h. */
#ifndef TEST_FILES_H
#define TEST_FILES_H
#include "test.h"

/* The bytes of a file with a NUL behind them (freed with free), or NULL. */
static inline char *test_read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    long length;
    *size = 0;
    if (!file) return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (length = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        bytes = (char *)malloc((size_t)length + 1);
        if (bytes) {
            *size = fread(bytes, 1, (size_t)length, file);
            bytes[*size] = 0;
        }
    }
    fclose(file);
    return bytes;
}

/* An allocator that counts what is alive and refuses the allocation number fail_at (0: none). */
typedef struct test_memory {
    long calls, alive, fail_at;
} test_memory;

static inline void *test_memory_alloc(size_t size, size_t align, void *user) {
    test_memory *memory = (test_memory *)user;
    void *block = ++memory->calls == memory->fail_at ? NULL : test_block(size, align);
    if (block) memory->alive++;
    return block;
}

static inline void test_memory_free(void *block, size_t size, void *user) {
    (void)size;
    ((test_memory *)user)->alive--;
    free(block);
}

static inline diti_env test_env(test_memory *memory) {
    diti_env env = DITI_ZERO;
    dit_allocator hooks = DITI_ZERO;
    if (memory) {
        hooks.alloc = test_memory_alloc;
        hooks.free = test_memory_free;
        hooks.user = memory;
    }
    diti_env_init(&env, memory ? &hooks : NULL, NULL, NULL);
    return env;
}

static inline diti_json *test_read_json(const diti_env *env, const char *path) {
    dit_error err = DITI_ZERO;
    diti_json *root = NULL;
    size_t size;
    char *text = test_read_file(path, &size);
    if (!text)
        fprintf(stderr, "cannot read %s\n", path);
    else if (diti_json_parse(env, text, size, path, &root, &err) < 0)
        fprintf(stderr, "%s\n", err.message);
    free(text);
    return root;
}
#endif
