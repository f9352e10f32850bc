#include "base/base.h"

/* A hook's free wants the size back, so each allocation is preceded by one aligned header that keeps it. */
#define DITI_MEMORY_ALIGN 64u

static void *diti_default_alloc(size_t size, size_t align, void *user) {
    unsigned char *raw;
    size_t start;
    (void)user;
    if (size > SIZE_MAX - align - sizeof(void *)) return NULL;
    raw = (unsigned char *)malloc(size + align + sizeof(void *));
    if (!raw) return NULL;
    start = ((size_t)raw + sizeof(void *) + align - 1) & ~(align - 1);
    memcpy((void *)(start - sizeof(void *)), &raw, sizeof(void *)); /* free() wants this address */
    return (void *)start;
}

static void diti_default_free(void *memory, size_t size, void *user) {
    void *raw;
    (void)size;
    (void)user;
    memcpy(&raw, (unsigned char *)memory - sizeof(void *), sizeof(void *));
    free(raw);
}

DIT_INTERNAL dit_result diti_env_init(diti_env *env, const dit_allocator *allocator, const dit_logger *logger,
                                      dit_error *err) {
    memset(env, 0, sizeof *env);
    if (allocator) env->allocator = *allocator;
    if (logger) env->logger = *logger;
    if (!env->allocator.alloc != !env->allocator.free) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "allocator: set both alloc and free, or neither");
    }
    if (!env->allocator.alloc) {
        env->allocator.alloc = diti_default_alloc;
        env->allocator.free = diti_default_free;
    }
    return DIT_OK;
}

DIT_INTERNAL void *diti_alloc(const diti_env *env, size_t size) {
    unsigned char *block;
    if (size > SIZE_MAX - DITI_MEMORY_ALIGN) return NULL;
    block = (unsigned char *)env->allocator.alloc(size + DITI_MEMORY_ALIGN, DITI_MEMORY_ALIGN, env->allocator.user);
    if (!block) return NULL;
    memcpy(block, &size, sizeof size);
    return block + DITI_MEMORY_ALIGN;
}

DIT_INTERNAL void *diti_alloc_zero(const diti_env *env, size_t size) {
    void *memory = diti_alloc(env, size);
    if (memory) memset(memory, 0, size);
    return memory;
}

DIT_INTERNAL void *diti_alloc_array(const diti_env *env, size_t count, size_t size) {
    size_t bytes;
    return diti_mul_size(count, size, &bytes) ? diti_alloc_zero(env, bytes) : NULL;
}

DIT_INTERNAL void diti_free(const diti_env *env, void *memory) {
    unsigned char *block = (unsigned char *)memory;
    size_t size;
    if (!block) return;
    block -= DITI_MEMORY_ALIGN;
    memcpy(&size, block, sizeof size);
    env->allocator.free(block, size + DITI_MEMORY_ALIGN, env->allocator.user);
}

DIT_INTERNAL char *diti_copy_string(const diti_env *env, const char *text) {
    size_t size;
    char *copy;
    if (!text) return NULL;
    size = strlen(text) + 1;
    copy = (char *)diti_alloc(env, size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

DIT_INTERNAL bool diti_grow(const diti_env *env, void **array, size_t *capacity, size_t count, size_t element_size) {
    size_t wanted, bytes, used;
    void *bigger;
    if (count < *capacity) return true;
    if (!diti_mul_size(*capacity ? *capacity : 8, 2, &wanted) || !diti_mul_size(wanted, element_size, &bytes))
        return false;
    bigger = diti_alloc_zero(env, bytes);
    if (!bigger) return false;
    if (*array && diti_mul_size(count, element_size, &used)) memcpy(bigger, *array, used);
    diti_free(env, *array);
    *array = bigger;
    *capacity = wanted;
    return true;
}

/* Heapsort: a parent in the heap is never before its children in order. */
static void diti_sort_sift(char *list, size_t root, size_t count, size_t size,
                           int (*compare)(const void *a, const void *b)) {
    char swap[64];
    size_t child;
    while ((child = 2 * root + 1) < count) {
        if (child + 1 < count && compare(list + child * size, list + (child + 1) * size) < 0) child++;
        if (compare(list + root * size, list + child * size) >= 0) return;
        memcpy(swap, list + root * size, size);
        memcpy(list + root * size, list + child * size, size);
        memcpy(list + child * size, swap, size);
        root = child;
    }
}

DIT_INTERNAL void diti_sort(void *list, size_t count, size_t size, int (*compare)(const void *a, const void *b)) {
    char *at = (char *)list, swap[64];
    size_t i;
    for (i = count / 2; i-- > 0;) diti_sort_sift(at, i, count, size, compare);
    for (i = count; i-- > 1;) {
        memcpy(swap, at, size);
        memcpy(at, at + i * size, size);
        memcpy(at + i * size, swap, size);
        diti_sort_sift(at, 0, i, size, compare);
    }
}

DIT_INTERNAL uint64_t diti_align_up(uint64_t value, uint64_t alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

DIT_INTERNAL bool diti_mul_size(size_t a, size_t b, size_t *out) {
    if (a && b > SIZE_MAX / a) return false;
    *out = a * b;
    return true;
}

DIT_INTERNAL bool diti_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    *out = a + b;
    return *out >= a;
}

DIT_INTERNAL bool diti_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    if (a && b > UINT64_MAX / a) return false;
    *out = a * b;
    return true;
}
