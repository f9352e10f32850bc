#include "vk/vk.h"

/* desc->overrides: "key=value,key=value". Numbers take K, M and G (powers of 1024). */
static const char *const diti_override_keys[] = {
    "rung",            /* base, fp16, half, coop, coop2: no higher than this */
    "unverified",      /* 1: also what has never run on hardware: mixed dot products, device groups, dma-buf */
    "loader",          /* file name of the Vulkan loader */
    "storage_range",   /* bytes in one storage buffer binding */
    "allocation",      /* bytes in one device memory allocation; also more than the device allows, to plan for others */
    "shared",          /* bytes of shared memory in a workgroup */
    "groups",          /* workgroups in a dispatch */
    "invocations",     /* invocations in a workgroup */
    "cores",           /* multiprocessors of the device: products with fewer tiles are split along K */
    "candidate",       /* 1 to 3: the tiles that every kernel takes, in place of the usual or tuned ones */
    "portions",        /* line of the table in portions.c, counted from 0 */
    "staging",         /* bytes copied to or from the device at a time */
    "host_budget",     /* bytes that VK_EXT_memory_budget is taken to say of the heap of staging buffers */
    "mapped",          /* 0: copy through a staging buffer even where device memory is visible to the host */
    "transfer",        /* 0 or 1: streams and peers copy on a queue of a family that can only copy, where there is one;
                          else 1 where the host cannot write device memory itself or there are peers */
    "transfer_family", /* copy weights on a queue of this family, whatever else it can do */
    "cpu",             /* 0 or 1: choose kernels as for a GPU or as for a software driver */
    "dot",           /* 0 or 1: the integer dot product, where it exists; else only where the driver says it is fast */
    "packed_dot",    /* 0: packed weights are never rounded to int8 for integer dot products; 1: always, on every rung,
                        where the device has these */
    "int8_matrices", /* 0: as on a device whose matrices hold no int8 */
    "float8", /* 1: products of F8 weights are on matrices of 8-bit floats, their inputs rounded to E4M3, where the
                 driver has such matrices; 2: the same with those of halves, for tests */
    "half_matrices",    /* 0: the same of halves: those of bfloat16 take their place */
    "subgroup",         /* threads that share a matrix, of sizes that the device lets dit choose from */
    "layout",           /* coop_layout of a diti_device, in place of what the self-test finds */
    "rounding",         /* 0: as on a device that cannot be told how to round F16 */
    "fold",             /* 0 or 1: the driver, or dit itself (fold.c), makes constants of specialization constants */
    "int4_activations", /* 1: activations of rotated weights are quantized to 4 bits, -7 to 7 (W4A4) */
    "decode",           /* 0: packed weights are always expanded before a product */
    "guards",           /* 0: fp16 may overflow unseen */
    "timestamps",       /* 0: as on a queue without timestamps; 1: on a software driver those in recorded frames, too */
    "gflop_ns",        /* nothing is timed: slices are said to take so long for 10^9 operations, ten times that for 10^9
                          bytes, … */
    "launch_us",       /* … and so long for each dispatch */
    "quirks",          /* 0: known faults of drivers and devices (quirks.c) are taken as mended */
    "selftest",        /* skip: self-tests count as passed and nothing is run, as compilers without a device need */
    "selftest_fail",   /* rung or class of kernels (diti_class_name) that computes its self-test wrong */
    "selftest_lose",   /* rung or class that loses the device in its self-test; "ahead": compiling ahead loses it */
    "fail_submit",     /* the n-th submit loses the device */
    "fail_device",     /* number of the device that fail_submit is about, counted from 0; absent: all devices */
    "transport",       /* between devices, this one alone: group, fd, dma_buf, host, staged */
    "break_transport", /* transport that fails its self-test; bridge: the waits of the override below fail */
    "bridge",        /* 0 or 1: receiving devices wait for sending ones themselves, where drivers share timelines; else
                        only on queues of their own for copies */
    "chunk",         /* bytes copied between devices at a time */
    "device_ms",     /* how long a device may finish nothing before it counts as lost */
    "transport_ms",  /* the longest that another rank is waited for */
    "silence_ms",    /* the longest without a word from a rank that was heard; a fifth of it passes between its words */
    "fail_pipeline", /* the n-th pipeline cannot be compiled, nor any after it; or a module's ("gemm_coop"), or those of
                        it with this value of a specialization constant ("gemm_coop:9=1") */
    "trace_events",  /* most events that a trace keeps */
};

static const char *diti_override_find(const char *overrides, const char *key, size_t *length) {
    size_t key_length = strlen(key);
    const char *at = overrides, *end;
    for (; at && *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, ",");
        if (strncmp(at, key, key_length) || at[key_length] != '=') continue;
        *length = (size_t)(end - at) - key_length - 1;
        return at + key_length + 1;
    }
    return NULL;
}

static bool diti_override_parse(const char *text, size_t length, uint64_t *out) {
    uint64_t value = 0, unit = 1;
    size_t i;
    if (length && text[length - 1] == 'K') unit = 1024;
    if (length && text[length - 1] == 'M') unit = 1024 * 1024;
    if (length && text[length - 1] == 'G') unit = 1024 * 1024 * 1024;
    if (unit > 1) length--;
    if (!length) return false;
    for (i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || value > UINT64_MAX / 10 - 1) return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    return diti_mul_u64(value, unit, out);
}

DIT_INTERNAL uint64_t diti_override_number(const char *overrides, const char *key, uint64_t otherwise) {
    uint64_t value;
    size_t length = 0;
    const char *text = diti_override_find(overrides, key, &length);
    return text && diti_override_parse(text, length, &value) ? value : otherwise;
}

DIT_INTERNAL bool diti_override_is(const char *overrides, const char *key, const char *value) {
    size_t length = 0;
    const char *text = diti_override_find(overrides, key, &length);
    return text && strlen(value) == length && !strncmp(text, value, length);
}

DIT_INTERNAL bool diti_override_text(const char *overrides, const char *key, char *out, size_t size) {
    size_t length = 0;
    const char *text = diti_override_find(overrides, key, &length);
    if (!text || length >= size) return false;
    memcpy(out, text, length);
    out[length] = 0;
    return true;
}

static bool diti_override_is_text(const char *key) {
    return diti_equal(key, "rung") || diti_equal(key, "selftest") || diti_equal(key, "loader") ||
           diti_equal(key, "selftest_fail") || diti_equal(key, "selftest_lose") || diti_equal(key, "fail_pipeline") ||
           diti_equal(key, "transport") || diti_equal(key, "break_transport");
}

static dit_result diti_override_unknown(const char *entry, size_t length, dit_error *err) {
    char known[480];
    size_t i, used = 0;
    for (i = 0; i < DITI_COUNT(diti_override_keys); i++) {
        used += (size_t)snprintf(known + used, sizeof known - used, " %s", diti_override_keys[i]);
        if (used >= sizeof known) break;
    }
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "overrides: unknown entry '%.*s'; known keys:%s",
                     length < 60 ? (int)length : 60, entry, known);
}

static dit_result diti_override_check(const char *entry, size_t length, dit_error *err) {
    size_t i, key_length;
    uint64_t number;
    for (i = 0; i < DITI_COUNT(diti_override_keys); i++) {
        key_length = strlen(diti_override_keys[i]);
        if (length <= key_length || entry[key_length] != '=') continue;
        if (strncmp(entry, diti_override_keys[i], key_length)) continue;
        if (diti_override_is_text(diti_override_keys[i])) return DIT_OK;
        if (diti_override_parse(entry + key_length + 1, length - key_length - 1, &number)) return DIT_OK;
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "overrides: %s wants a number such as 64, 16K, 1M or 1G",
                         diti_override_keys[i]);
    }
    return diti_override_unknown(entry, length, err);
}

DIT_INTERNAL dit_result diti_overrides_check(const char *overrides, dit_error *err) {
    const char *at = overrides;
    while (at && *at) {
        size_t length = strcspn(at, ",");
        DITI_TRY(diti_override_check(at, length, err));
        at += length;
        if (*at) at++;
    }
    return DIT_OK;
}
