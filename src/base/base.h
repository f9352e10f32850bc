/* base: errors, logging, allocation with overflow-checked sizes, strings, JSON, small float conversions. */
#ifndef DITI_BASE_H
#define DITI_BASE_H
#include "dit_api.h"
#ifndef VULKAN_CORE_H_
#include <vulkan/vulkan_core.h> /* types only: dit never references a vk* symbol */
#endif
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef DIT_INTERNAL
#define DIT_INTERNAL extern /* dit.h defines it as static: nothing but dit_* is exported */
#endif
#ifdef __cplusplus
#define DITI_ZERO                                                                                                      \
    {}
#else
#define DITI_ZERO                                                                                                      \
    { 0 }
#endif
#if defined(__GNUC__) || defined(__clang__)
#define DITI_UNUSED __attribute__((unused))
#define DITI_PRINTF(text, first) __attribute__((format(printf, text, first)))
#define DITI_SMALL __attribute__((cold)) /* a fifth less machine code, and less time to compile it */
#else
#define DITI_UNUSED __inline /* MSVC reports static functions that nothing calls (C4505), but not inline ones */
#define DITI_PRINTF(text, first)
#define DITI_SMALL
#endif
#define DITI_COUNT(array) (sizeof(array) / sizeof((array)[0]))
/* Does not compile unless condition, which the compiler must know, is true; name is for its message. */
#define DITI_STATIC_ASSERT(condition, name) typedef char diti_assert_##name[(condition) ? 1 : -1]

/* Around files of src/ORDER, or functions inside a file, that run for a file, a tensor, a job or a frame, and not for
   each value: gcc does not optimize them. They do without a frame pointer, as optimized functions do, which takes gcc a
   twentieth less time. Without optimization, or for size, all files are compiled as the application asks.
   DITI_OPTIMIZED stands before the functions that do not compile without optimization. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
#define DITI_ONCE_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"O0\", \"omit-frame-pointer\")")
#define DITI_REGION_END _Pragma("GCC pop_options")
#define DITI_OPTIMIZED __attribute__((optimize("O1")))
#else
#define DITI_ONCE_BEGIN
#define DITI_REGION_END
#define DITI_OPTIMIZED
#endif

/* Every room gets memory and a place for messages from its caller. Objects that live longer keep a copy. */
typedef struct diti_env {
    dit_allocator allocator; /* both functions are set: diti_env_init fills in the defaults */
    dit_logger logger;
    bool headers_only; /* dry runs: a file's header is believed, though its tensors may lie behind the file's end */
} diti_env;

typedef enum diti_log_level { DITI_LOG_ERROR, DITI_LOG_WARNING, DITI_LOG_INFO, DITI_LOG_DEBUG } diti_log_level;

/* --- errors and logging --- */
/* Fills err (may be NULL) with a formatted one-line message and returns result, so that `return diti_fail(...)` reads
 * well. */
/* DIT_ERROR_OUT_OF_HOST_MEMORY: "no host memory for" and what the format says. */
DIT_INTERNAL dit_result diti_fail_memory(dit_error *err, const char *format, ...) DITI_PRINTF(2, 3);
/* A text that begins with "version " lies where a repository was cloned without its large files. */
#define DITI_POINTER "%s: no safetensors, GGUF or JSON, but a pointer of Git LFS; run git lfs pull where it lies"
/* Returns from the calling function with the result of call where that is an error: less than 0, so that DIT_WORKING
   and DIT_CANCELLED go on. */
#define DITI_TRY(call)                                                                                                 \
    do {                                                                                                               \
        dit_result diti_try = (call);                                                                                  \
        if (diti_try < 0) return diti_try;                                                                             \
    } while (0)
DIT_INTERNAL dit_result diti_fail(dit_error *err, dit_result result, const char *format, ...) DITI_PRINTF(3, 4);
/* Does so for a Vulkan call: keeps vk in err and maps it to a dit_result (memory, device lost, else DIT_ERROR_VULKAN).
 */
DIT_INTERNAL dit_result diti_fail_vk(dit_error *err, VkResult vk, const char *format, ...) DITI_PRINTF(3, 4);
DIT_INTERNAL void diti_log(const diti_env *env, diti_log_level level, const char *format, ...) DITI_PRINTF(3, 4);
DIT_INTERNAL dit_result diti_env_init(diti_env *env, const dit_allocator *allocator, const dit_logger *logger,
                                      dit_error *err);

/* --- memory: 64-byte aligned, never zero-sized; NULL when the hook refuses --- */
DIT_INTERNAL void *diti_alloc(const diti_env *env, size_t size);
DIT_INTERNAL void *diti_alloc_zero(const diti_env *env, size_t size);
DIT_INTERNAL void *diti_alloc_array(const diti_env *env, size_t count, size_t size); /* zeroed; NULL on overflow too */
DIT_INTERNAL void diti_free(const diti_env *env, void *memory);                      /* NULL is fine */
DIT_INTERNAL char *diti_copy_string(const diti_env *env, const char *text);          /* NULL for NULL or no memory */
/* Makes room for one more element in a growing array; false when memory ran out (the array is kept). */
DIT_INTERNAL bool diti_grow(const diti_env *env, void **array, size_t *capacity, size_t count, size_t element_size);
/* Sorts in place, not stable: libc's qsort may allocate behind the caller's hooks. Elements have at most 64 bytes. */
DIT_INTERNAL void diti_sort(void *list, size_t count, size_t size, int (*compare)(const void *a, const void *b));
DIT_INTERNAL uint64_t diti_align_up(uint64_t value, uint64_t alignment); /* to the next multiple */
DIT_INTERNAL bool diti_mul_size(size_t a, size_t b, size_t *out);        /* false on overflow */
DIT_INTERNAL bool diti_add_u64(uint64_t a, uint64_t b, uint64_t *out);
DIT_INTERNAL bool diti_mul_u64(uint64_t a, uint64_t b, uint64_t *out);

/* --- strings --- */
DIT_INTERNAL bool diti_equal(const char *a, const char *b); /* NULL equals only NULL */
DIT_INTERNAL bool diti_starts_with(const char *text, const char *prefix);
DIT_INTERNAL bool diti_ends_with(const char *text, const char *suffix);
/* Whether all of text fits the pattern, in which * stands for any number of characters and ? for one. */
DIT_INTERNAL bool diti_glob(const char *pattern, const char *text);
/* snprintf that never overflows and reports truncation as false. */
DIT_INTERNAL bool diti_format(char *out, size_t size, const char *format, ...) DITI_PRINTF(3, 4);
/* strtod and printf obey an application's setlocale; these read and write a decimal point always. text: a JSON number.
 */
DIT_INTERNAL double diti_parse_double(const char *text);
DIT_INTERNAL bool diti_print_double(double value, int digits, char *out, size_t size);
/* Bytes (1..4) of the UTF-8 character at text; 0 when it is broken (RFC 3629: no overlong forms, no surrogates). */
DIT_INTERNAL size_t diti_utf8_length(const char *text, size_t size);
/* Puts '?' for what is no UTF-8 or would end the line: names from files may hold anything, and text that did not fit
   ends anywhere. */
DIT_INTERNAL void diti_show_text(char *text);
DIT_INTERNAL uint64_t diti_hash(const void *data, size_t size); /* FNV-1a */

/* --- time: microseconds since some moment; may step when the clock is set --- */
DIT_INTERNAL uint64_t diti_clock_us(void);
/* Time since the last look, for limits of waiting: at most a second counts, since the machine may have slept, or its
   clock may have been set. *looked_us becomes now; it is 0 before the first look. */
DIT_INTERNAL uint64_t diti_clock_passed(uint64_t *looked_us);

/* --- JSON: a parsed tree in one allocation; numbers also as NaN, Infinity, -Infinity, as Python writes them --- */
typedef enum diti_json_kind {
    DITI_JSON_NULL,
    DITI_JSON_BOOL,
    DITI_JSON_NUMBER,
    DITI_JSON_STRING,
    DITI_JSON_ARRAY,
    DITI_JSON_OBJECT
} diti_json_kind;
typedef struct diti_json {
    diti_json_kind kind;
    const char *key; /* NUL-terminated, unescaped UTF-8; NULL outside objects */
    size_t key_length;
    const char *text; /* strings: NUL-terminated, unescaped; numbers: as written, so that 64-bit integers stay exact */
    size_t text_length;
    double number;                        /* numbers; bools: 0 or 1 */
    uint32_t count;                       /* children of arrays and objects */
    const struct diti_json *first, *next; /* first child; next sibling */
} diti_json;
/* Parses size bytes. Depth is limited to 64, duplicate keys are an error. The tree is freed with diti_json_free. */
DIT_INTERNAL dit_result diti_json_parse(const diti_env *env, const char *text, size_t size, const char *what,
                                        diti_json **out, dit_error *err);
DIT_INTERNAL void diti_json_free(const diti_env *env, diti_json *root);
DIT_INTERNAL const diti_json *diti_json_get(const diti_json *object,
                                            const char *key); /* NULL when absent or object is NULL */
/* These take what has another type for absent: for what is only recognised by a value, and for tests. */
DIT_INTERNAL DITI_UNUSED double diti_json_number(const diti_json *object, const char *key, double otherwise);
DIT_INTERNAL DITI_UNUSED bool diti_json_bool(const diti_json *object, const char *key, bool otherwise);
DIT_INTERNAL const char *diti_json_string(const diti_json *object, const char *key, const char *otherwise);
DIT_INTERNAL bool diti_json_u64(const diti_json *value, uint64_t *out); /* exact non-negative integers only */

/* --- settings: the values of a JSON object by their names. One that is absent or null is `otherwise`. The first one of
   a wrong type or out of range becomes the error, which names it, and what is read after it does no harm, so that a
   reader's result is looked at once, at the end. --- */
typedef struct diti_settings {
    const diti_json *object; /* NULL: all are absent */
    const char *file;        /* for messages: "the transformer's config.json" */
    dit_error *err;          /* may be NULL */
    dit_result result;
} diti_settings;
/* Begins to read an object's settings. object may be NULL or JSON's null; anything else but an object is an error. */
DIT_INTERNAL diti_settings diti_settings_of(const diti_json *object, const char *file, dit_error *err);
DIT_INTERNAL void diti_settings_refuse(diti_settings *settings, dit_result result, const char *key,
                                       const char *problem);
/* Refuses a setting, a word or a list of words, that is not one of those that are known. */
DIT_INTERNAL void diti_settings_check_words(diti_settings *settings, const char *key, const char *known);
DIT_INTERNAL const diti_json *diti_setting(const diti_settings *settings, const char *key); /* NULL: absent or null */
DIT_INTERNAL double diti_setting_number(diti_settings *settings, const char *key, double otherwise, double least,
                                        double most);
/* A whole number from 1 to most. */
DIT_INTERNAL uint32_t diti_setting_size(diti_settings *settings, const char *key, uint32_t otherwise, uint32_t most);
DIT_INTERNAL bool diti_setting_bool(diti_settings *settings, const char *key, bool otherwise);
DIT_INTERNAL const char *diti_setting_text(diti_settings *settings, const char *key, const char *otherwise);
DIT_INTERNAL const diti_json *diti_setting_numbers(diti_settings *settings, const char *key); /* a list of them */

/* --- small floats, bit patterns; rounding is to nearest, ties to even. Writing them is for tools and tests. --- */
DIT_INTERNAL float diti_half_to_float(uint16_t bits);
DIT_INTERNAL DITI_UNUSED uint16_t diti_float_to_half(float value);
DIT_INTERNAL float diti_bfloat_to_float(uint16_t bits);
DIT_INTERNAL DITI_UNUSED uint16_t diti_float_to_bfloat(float value);
DIT_INTERNAL uint8_t diti_float_to_e4m3(float value); /* largest 448 */
DIT_INTERNAL float diti_e4m3_to_float(uint8_t bits);  /* OCP FP8 E4M3FN: no infinities, 0x7f and 0xff are NaN */
DIT_INTERNAL float diti_e5m2_to_float(uint8_t bits);  /* OCP FP8 E5M2 */
#endif
