/* A driver that rounds every conversion to F16 toward zero, as RADV and NVK do and Vulkan allows. Give
 * truncating_get_instance_proc_addr to dit in a dit_vulkan that has nothing else set: each shader then gets, before
 * each packHalf2x16 and each conversion of floats to halves, code that cuts off what does not fit (65520 becomes 65504,
 * and infinity and NaN stay). Modules that declare RoundingModeRTE for 16 bits have their conversions left alone, and
 * their packHalf2x16 cut all the same, for which the mode need not count. Conversions of cooperative matrices stay as
 * they are. truncating_sites counts what was changed. */
#ifndef TRUNCATING_H
#define TRUNCATING_H
#include "vulkan_test.h"

static unsigned truncating_sites;
static PFN_vkGetDeviceProcAddr truncating_device_proc_addr;
static PFN_vkCreateShaderModule truncating_create_shader_module;

/* SPIR-V opcodes */
enum {
    TRUNCATING_EXT_INST_IMPORT = 11,
    TRUNCATING_EXT_INST = 12,
    TRUNCATING_EXECUTION_MODE = 16,
    TRUNCATING_TYPE_BOOL = 20,
    TRUNCATING_TYPE_INT = 21,
    TRUNCATING_TYPE_FLOAT = 22,
    TRUNCATING_TYPE_VECTOR = 23,
    TRUNCATING_TYPE_FUNCTION = 33,
    TRUNCATING_CONSTANT = 43,
    TRUNCATING_FUNCTION = 54,
    TRUNCATING_PARAMETER = 55,
    TRUNCATING_FUNCTION_END = 56,
    TRUNCATING_CALL = 57,
    TRUNCATING_CONSTRUCT = 80,
    TRUNCATING_EXTRACT = 81,
    TRUNCATING_TO_UINT = 109,
    TRUNCATING_TO_FLOAT = 112,
    TRUNCATING_CONVERT = 115,
    TRUNCATING_BITCAST = 124,
    TRUNCATING_MULTIPLY = 133,
    TRUNCATING_SELECT = 169,
    TRUNCATING_GREATER = 172,
    TRUNCATING_LESS = 176,
    TRUNCATING_OR = 197,
    TRUNCATING_AND = 199,
    TRUNCATING_LABEL = 248,
    TRUNCATING_RETURN = 254
};

typedef struct truncating {
    uint32_t *words; /* the new module */
    size_t count, capacity;
    uint32_t bound;                                                                        /* the next free id */
    uint32_t std450, float_type, half_type, uint_type, bool_type, function_type, function; /* ids; 0: absent */
    uint32_t float_vectors[5], half_vectors[5];                                            /* by number of components */
    bool rounds;                                                                           /* RoundingModeRTE 16 */
} truncating;

static inline void truncating_put(truncating *t, const uint32_t *words, size_t count) {
    if (t->count + count > t->capacity) {
        t->capacity = 2 * (t->count + count) + 1024;
        t->words = (uint32_t *)realloc(t->words, t->capacity * sizeof *t->words);
    }
    memcpy(t->words + t->count, words, count * sizeof *words);
    t->count += count;
}

/* An instruction with the first `count` of five operands. */
static inline void truncating_op(truncating *t, uint32_t op, size_t count, uint32_t a, uint32_t b, uint32_t c,
                                 uint32_t d, uint32_t e) {
    const uint32_t words[6] = {(uint32_t)(count + 1) << 16 | op, a, b, c, d, e};
    truncating_put(t, words, count + 1);
}

/* An instruction with a result of a type; returns the result's id. */
static inline uint32_t truncating_make(truncating *t, uint32_t op, size_t operands, uint32_t type, uint32_t a,
                                       uint32_t b, uint32_t c) {
    uint32_t id = t->bound++;
    truncating_op(t, op, 2 + operands, type, id, a, b, c);
    return id;
}

static inline void truncating_look(truncating *t, const uint32_t *word) {
    uint32_t components;
    switch (*word & 0xffff) {
    case TRUNCATING_EXT_INST_IMPORT:
        if (!strcmp((const char *)(word + 2), "GLSL.std.450")) t->std450 = word[1];
        break;
    case TRUNCATING_EXECUTION_MODE:
        if (word[2] == 4462 && word[3] == 16) t->rounds = true;
        break;
    case TRUNCATING_TYPE_BOOL: t->bool_type = word[1]; break;
    case TRUNCATING_TYPE_INT:
        if (word[2] == 32 && word[3] == 0) t->uint_type = word[1];
        break;
    case TRUNCATING_TYPE_FLOAT:
        if (word[2] == 32) t->float_type = word[1];
        if (word[2] == 16 && *word >> 16 == 3) t->half_type = word[1]; /* else bfloat16 */
        break;
    case TRUNCATING_TYPE_FUNCTION:
        if (*word >> 16 == 4 && word[2] == t->float_type && word[3] == t->float_type) t->function_type = word[1];
        break;
    case TRUNCATING_TYPE_VECTOR:
        components = word[3];
        if (word[2] == t->float_type) t->float_vectors[components] = word[1];
        if (t->half_type && word[2] == t->half_type) t->half_vectors[components] = word[1];
        break;
    }
}

/* Declares the types that the new code needs and the module may lack, in front of its functions. */
static inline void truncating_declare(truncating *t) {
    if (!t->bool_type) truncating_op(t, TRUNCATING_TYPE_BOOL, 1, t->bool_type = t->bound++, 0, 0, 0, 0);
    if (!t->uint_type) truncating_op(t, TRUNCATING_TYPE_INT, 3, t->uint_type = t->bound++, 32, 0, 0, 0);
    if (t->function_type) return;
    t->function_type = t->bound++;
    truncating_op(t, TRUNCATING_TYPE_FUNCTION, 3, t->function_type, t->float_type, t->float_type, 0, 0);
}

typedef struct truncating_constants {
    uint32_t sign, size, infinity, most, cut, normal, up, down;
} truncating_constants;

static inline void truncating_declare_constants(truncating *t, truncating_constants *c) {
    c->sign = truncating_make(t, TRUNCATING_CONSTANT, 1, t->uint_type, 0x80000000u, 0, 0);
    c->size = truncating_make(t, TRUNCATING_CONSTANT, 1, t->uint_type, 0x7fffffffu, 0, 0);
    c->infinity = truncating_make(t, TRUNCATING_CONSTANT, 1, t->uint_type, 0x7f800000u, 0, 0);
    c->most = truncating_make(t, TRUNCATING_CONSTANT, 1, t->uint_type, 0x477fe000u, 0, 0);   /* 65504 */
    c->cut = truncating_make(t, TRUNCATING_CONSTANT, 1, t->uint_type, 0xffffe000u, 0, 0);    /* 10 bits of fraction */
    c->normal = truncating_make(t, TRUNCATING_CONSTANT, 1, t->uint_type, 0x38800000u, 0, 0); /* 2^-14 */
    c->up = truncating_make(t, TRUNCATING_CONSTANT, 1, t->float_type, 0x4b800000u, 0, 0);    /* 2^24 */
    c->down = truncating_make(t, TRUNCATING_CONSTANT, 1, t->float_type, 0x33800000u, 0, 0);  /* 2^-24 */
}

/* float truncated(float v), behind the module's own functions */
static inline void truncating_define(truncating *t, const truncating_constants *c) {
    const uint32_t u = t->uint_type, f = t->float_type;
    uint32_t v = t->bound++, label = t->bound++, bits, size, normal, small, is, result;
    truncating_op(t, TRUNCATING_FUNCTION, 4, f, t->function, 0, t->function_type, 0);
    truncating_op(t, TRUNCATING_PARAMETER, 2, f, v, 0, 0, 0);
    truncating_op(t, TRUNCATING_LABEL, 1, label, 0, 0, 0, 0);
    bits = truncating_make(t, TRUNCATING_BITCAST, 1, u, v, 0, 0);
    size = truncating_make(t, TRUNCATING_AND, 2, u, bits, c->size, 0);
    normal = truncating_make(t, TRUNCATING_AND, 2, u, size, c->cut, 0);
    is = truncating_make(t, TRUNCATING_GREATER, 2, t->bool_type, normal, c->most, 0);
    normal = truncating_make(t, TRUNCATING_SELECT, 3, u, is, c->most, normal);
    is = truncating_make(t, TRUNCATING_LESS, 2, t->bool_type, size, c->normal, 0);
    small = truncating_make(t, TRUNCATING_SELECT, 3, u, is, size, c->normal); /* so that it can be an integer */
    small = truncating_make(t, TRUNCATING_BITCAST, 1, f, small, 0, 0);
    small = truncating_make(t, TRUNCATING_MULTIPLY, 2, f, small, c->up, 0);
    small = truncating_make(t, TRUNCATING_TO_UINT, 1, u, small, 0, 0);
    small = truncating_make(t, TRUNCATING_TO_FLOAT, 1, f, small, 0, 0);
    small = truncating_make(t, TRUNCATING_MULTIPLY, 2, f, small, c->down, 0);
    small = truncating_make(t, TRUNCATING_BITCAST, 1, u, small, 0, 0);
    result = truncating_make(t, TRUNCATING_SELECT, 3, u, is, small, normal);
    is = truncating_make(t, TRUNCATING_LESS, 2, t->bool_type, size, c->infinity, 0);
    result = truncating_make(t, TRUNCATING_SELECT, 3, u, is, result, size);
    bits = truncating_make(t, TRUNCATING_AND, 2, u, bits, c->sign, 0);
    result = truncating_make(t, TRUNCATING_OR, 2, u, result, bits, 0);
    result = truncating_make(t, TRUNCATING_BITCAST, 1, f, result, 0, 0);
    truncating_op(t, TRUNCATING_RETURN, 1, result, 0, 0, 0, 0);
    truncating_op(t, TRUNCATING_FUNCTION_END, 0, 0, 0, 0, 0, 0);
}

/* The id of what `value`, of one to four floats, is when it is cut. */
static inline uint32_t truncating_cut(truncating *t, uint32_t components, uint32_t value) {
    uint32_t parts[7] = {(components + 3) << 16 | TRUNCATING_CONSTRUCT, t->float_vectors[components]}, i;
    if (components == 1) return truncating_make(t, TRUNCATING_CALL, 2, t->float_type, t->function, value, 0);
    for (i = 0; i < components; i++) {
        uint32_t part = truncating_make(t, TRUNCATING_EXTRACT, 2, t->float_type, value, i, 0);
        parts[3 + i] = truncating_make(t, TRUNCATING_CALL, 2, t->float_type, t->function, part, 0);
    }
    parts[2] = t->bound++;
    truncating_put(t, parts, components + 3);
    return parts[2];
}

/* Copies an instruction of a function; what it packs or converts is cut first. */
static inline void truncating_copy(truncating *t, const uint32_t *word) {
    const uint32_t length = *word >> 16, op = *word & 0xffff;
    uint32_t changed[6], components = 0, at = 0;
    if (op == TRUNCATING_EXT_INST && word[3] == t->std450 && word[4] == 58) components = 2, at = 5;
    if (op == TRUNCATING_CONVERT && !t->rounds && t->half_type) {
        uint32_t i;
        for (i = 1; i <= 4; i++)
            if (word[1] == (i == 1 ? t->half_type : t->half_vectors[i])) components = i, at = 3;
    }
    if (!components) {
        truncating_put(t, word, length);
        return;
    }
    memcpy(changed, word, length * sizeof *word);
    changed[at] = truncating_cut(t, components, word[at]);
    truncating_put(t, changed, length);
    __atomic_add_fetch(&truncating_sites, 1, __ATOMIC_RELAXED);
}

/* A module whose conversions truncate; freed with free. */
static inline uint32_t *truncating_module(const uint32_t *words, size_t count, size_t *new_count) {
    truncating t = {NULL, 0, 0, words[3], 0, 0, 0, 0, 0, 0, 0, {0}, {0}, false};
    truncating_constants constants = {0};
    bool in_functions = false;
    size_t i;
    for (i = 5; i < count; i += words[i] >> 16) truncating_look(&t, words + i);
    t.function = t.bound++;
    truncating_put(&t, words, 5);
    for (i = 5; i < count; i += words[i] >> 16) {
        if ((words[i] & 0xffff) == TRUNCATING_FUNCTION && !in_functions) {
            truncating_declare(&t);
            truncating_declare_constants(&t, &constants);
            in_functions = true;
        }
        if (in_functions)
            truncating_copy(&t, words + i);
        else
            truncating_put(&t, words + i, words[i] >> 16);
    }
    truncating_define(&t, &constants);
    t.words[3] = t.bound;
    *new_count = t.count;
    return t.words;
}

static VKAPI_ATTR VkResult VKAPI_CALL truncating_create(VkDevice device, const VkShaderModuleCreateInfo *info,
                                                        const VkAllocationCallbacks *callbacks, VkShaderModule *out) {
    VkShaderModuleCreateInfo changed = *info;
    size_t count = 0;
    uint32_t *words = truncating_module(info->pCode, info->codeSize / 4, &count);
    VkResult result;
    changed.pCode = words;
    changed.codeSize = count * 4;
    result = truncating_create_shader_module(device, &changed, callbacks, out);
    free(words);
    return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL truncating_get_device_proc_addr(VkDevice device, const char *name) {
    PFN_vkVoidFunction real = truncating_device_proc_addr(device, name);
    if (!real || strcmp(name, "vkCreateShaderModule")) return real;
    truncating_create_shader_module = (PFN_vkCreateShaderModule)real;
    return (PFN_vkVoidFunction)truncating_create;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL truncating_get_instance_proc_addr(VkInstance instance,
                                                                                  const char *name) {
    PFN_vkVoidFunction real = test_vulkan_function(instance, name);
    if (!real || strcmp(name, "vkGetDeviceProcAddr")) return real;
    truncating_device_proc_addr = (PFN_vkGetDeviceProcAddr)real;
    return (PFN_vkVoidFunction)truncating_get_device_proc_addr;
}
#endif
