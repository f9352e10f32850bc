/* dit-bench report: what a device is, what it passes and how fast it is, as one Markdown page. Each line is written as
   soon as it is known, so that what a driver does not survive leaves the page up to there. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H
#include "bench_core.h"
#ifndef _WIN32
#include <sys/utsname.h>
#endif

static const char *const report_part_names[] = {"device", "rungs", "pictures", "steps", "kernels"};

/* Whether --parts names it; all of them where it is not given. */
static bool report_wants(const options *o, const char *part) {
    const char *at = o->parts;
    size_t length = strlen(part);
    if (!at) return true;
    for (; (at = strstr(at, part)); at += length) {
        if ((at == o->parts || at[-1] == ',') && (!at[length] || at[length] == ',')) return true;
    }
    return false;
}

static bool report_is_late(const bench *b) { return now() - b->started > b->o.seconds; }

static int check_parts(const char *parts) {
    while (parts && *parts) {
        size_t i, length = strcspn(parts, ",");
        for (i = 0; i < DITI_COUNT(report_part_names); i++) {
            if (strlen(report_part_names[i]) == length && strncmp(report_part_names[i], parts, length) == 0) break;
        }
        if (i == DITI_COUNT(report_part_names))
            return complain(EXIT_USAGE, "--parts %.*s: there are device, rungs, pictures, steps and kernels",
                            (int)length, parts);
        parts += length + (parts[length] == ',');
    }
    return EXIT_GOOD;
}

/* Prints a cell of a table without the characters that would end it. */
static void report_text(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text != '|' && (unsigned char)*text >= ' ') fputc(*text, out);
    }
}

static void report_row(FILE *out, const char *name, const char *format, ...) DITI_PRINTF(3, 4);
static void report_row(FILE *out, const char *name, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(out, "| %s | ", name);
    report_text(out, text);
    fputs(" |\n", out);
}

/* ---- the device ---- */

static const char *device_type_name(uint32_t type) {
    static const char *const names[] = {"other", "integrated GPU", "discrete GPU", "virtual GPU", "software"};
    return type < DITI_COUNT(names) ? names[type] : "unknown";
}

static void report_system(FILE *out) {
#ifdef _WIN32
    report_row(out, "system", "Windows");
#else
    struct utsname system;
    if (uname(&system) == 0) report_row(out, "system", "%s %s, %s", system.sysname, system.release, system.machine);
#endif
#if defined(__clang__) || !defined(__GNUC__)
#ifdef __VERSION__
    report_row(out, "compiler", "%s", __VERSION__);
#endif
#else
    report_row(out, "compiler", "gcc %s", __VERSION__);
#endif
}

static void report_driver(FILE *out, diti_device *device) {
    VkPhysicalDeviceDriverProperties driver = DITI_ZERO;
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = DITI_ZERO;
    VkPhysicalDeviceProperties2 properties = DITI_ZERO;
    const VkPhysicalDeviceProperties *p = &properties.properties;
    uint32_t loader = VK_API_VERSION_1_0;
    sizes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
    driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
    if (device->api_version >= VK_API_VERSION_1_3) driver.pNext = &sizes;
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &driver;
    device->vk.GetPhysicalDeviceProperties2(device->physical, &properties);
    if (device->vk.EnumerateInstanceVersion) device->vk.EnumerateInstanceVersion(&loader);
    report_row(out, "device", "%s (%s, vendor %04x, device %04x)", p->deviceName, device_type_name(p->deviceType),
               p->vendorID, p->deviceID);
    report_row(out, "driver", "%s %s (version word %08x, conformance %u.%u.%u.%u)", driver.driverName,
               driver.driverInfo, p->driverVersion, driver.conformanceVersion.major, driver.conformanceVersion.minor,
               driver.conformanceVersion.subminor, driver.conformanceVersion.patch);
    report_row(out, "Vulkan", "device %u.%u.%u, loader %u.%u.%u", VK_API_VERSION_MAJOR(p->apiVersion),
               VK_API_VERSION_MINOR(p->apiVersion), VK_API_VERSION_PATCH(p->apiVersion), VK_API_VERSION_MAJOR(loader),
               VK_API_VERSION_MINOR(loader), VK_API_VERSION_PATCH(loader));
    report_row(out, "subgroups", "%u invocations (%u to %u)", device->limits.subgroup_size,
               sizes.minSubgroupSize ? sizes.minSubgroupSize : device->limits.subgroup_size,
               sizes.maxSubgroupSize ? sizes.maxSubgroupSize : device->limits.subgroup_size);
}

static void report_limits(FILE *out, const diti_device *device) {
    const diti_limits *l = &device->limits;
    report_row(out, "cores", "%u (counted or guessed)", l->cores);
    report_row(out, "workgroups", "%u invocations, %u bytes of shared memory, %u on x", l->group_invocations,
               l->shared_bytes, l->group_count);
    report_row(out, "buffers", "binding %llu bytes at multiples of %llu, allocation %llu bytes",
               (unsigned long long)l->storage_range, (unsigned long long)l->storage_alignment,
               (unsigned long long)l->allocation);
    report_row(out, "timestamps", "%u bits, %.3f ns", l->timestamp_bits, (double)l->timestamp_period);
}

/* Prints the heaps, with the memory that VK_EXT_memory_budget says is free. */
static void report_memory(FILE *out, diti_device *device) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = DITI_ZERO;
    VkPhysicalDeviceMemoryProperties2 memory = DITI_ZERO;
    char name[32], room[96];
    uint32_t i;
    budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
    memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
    if (device->has_memory_budget) memory.pNext = &budget;
    device->vk.GetPhysicalDeviceMemoryProperties2(device->physical, &memory);
    for (i = 0; i < memory.memoryProperties.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &memory.memoryProperties.memoryHeaps[i];
        snprintf(name, sizeof name, "heap %u", i);
        snprintf(room, sizeof room, ", budget %.0f MB, in use %.0f MB", (double)budget.heapBudget[i] * 1e-6,
                 (double)budget.heapUsage[i] * 1e-6);
        report_row(out, name, "%.0f MB%s%s", (double)heap->size * 1e-6,
                   heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT ? " of the device" : "",
                   device->has_memory_budget ? room : "");
    }
    for (i = 0; i < memory.memoryProperties.memoryTypeCount; i++) {
        VkMemoryPropertyFlags flags = memory.memoryProperties.memoryTypes[i].propertyFlags;
        if (!flags) continue;
        snprintf(name, sizeof name, "memory type %u", i);
        report_row(out, name, "heap %u%s%s%s%s", memory.memoryProperties.memoryTypes[i].heapIndex,
                   flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT ? ", device local" : "",
                   flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT ? ", host visible" : "",
                   flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT ? ", coherent" : "",
                   flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT ? ", cached" : "");
    }
}

static void report_families(FILE *out, const diti_device *device) {
    VkQueueFamilyProperties families[DITI_QUEUE_FAMILIES];
    uint32_t i, count = diti_queue_families(&device->vk, device->physical, families);
    char name[32];
    for (i = 0; i < count; i++) {
        VkQueueFlags flags = families[i].queueFlags;
        snprintf(name, sizeof name, "queue family %u", i);
        report_row(out, name, "%u queues:%s%s%s (flags %x), timestamps of %u bits", families[i].queueCount,
                   flags & VK_QUEUE_GRAPHICS_BIT ? " graphics" : "", flags & VK_QUEUE_COMPUTE_BIT ? " compute" : "",
                   flags & VK_QUEUE_TRANSFER_BIT ? " transfer" : "", flags, families[i].timestampValidBits);
    }
}

static void report_component(char *out, size_t size, uint32_t type) {
    static const char *const names[] = {"f16", "f32", "f64", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"};
    if (type < DITI_COUNT(names))
        snprintf(out, size, "%s", names[type]);
    else
        snprintf(out, size, "%s", type == 1000141000u ? "bf16" : type == 1000491002u ? "f8_e4m3" : "");
    if (!*out) snprintf(out, size, type == 1000491003u ? "f8_e5m2" : "type %u", type);
}

/* Every shape of matrices that the device lists, whether dit uses it or not. flexible: of VK_NV_cooperative_matrix2. */
static void report_matrices(FILE *out, diti_device *device, bool flexible) {
    diti_vk_coop_list list = flexible ? device->vk.GetFlexibleProperties : device->vk.GetCoopProperties;
    diti_vk_coop_property properties[256];
    diti_features features = DITI_ZERO;
    uint32_t i, count = DITI_COUNT(properties);
    if (!list || diti_features_supported(&device->env, &device->vk, device->physical, &features, NULL) < 0) return;
    if (!features.has[flexible ? DITI_FEATURE_COOP_FLEXIBLE : DITI_FEATURE_COOP]) return;
    memset(properties, 0, sizeof properties);
    for (i = 0; i < count; i++)
        properties[i].type = (VkStructureType)(flexible ? 1000593001 : 1000506001); /* their sType */
    if (list(device->physical, &count, properties) < 0) return;
    for (i = 0; i < count && i < DITI_COUNT(properties); i++) {
        const diti_vk_coop_property *p = &properties[i];
        char a[16], b[16], c[16], r[16];
        report_component(a, sizeof a, p->a);
        report_component(b, sizeof b, p->b);
        report_component(c, sizeof c, p->c);
        report_component(r, sizeof r, p->result);
        report_row(out, flexible ? "matrices of any multiple" : "matrices",
                   "%u × %u × %u: %s × %s + %s = %s%s, in a %s", p->m, p->n, p->k, a, b, c, r,
                   p->saturating ? ", saturating" : "",
                   p->scope == 3   ? "subgroup"
                   : p->scope == 2 ? "workgroup"
                                   : "scope of its own");
        if (flexible && p->scope == 2) fprintf(out, "| | in workgroups of %u |\n", p->invocations);
    }
}

static void report_extensions(FILE *out, const diti_device *device) {
    uint32_t i, count = 0;
    VkExtensionProperties *list;
    if (device->vk.EnumerateDeviceExtensionProperties(device->physical, NULL, &count, NULL) < 0 || !count) return;
    list = calloc(count, sizeof *list);
    if (list && device->vk.EnumerateDeviceExtensionProperties(device->physical, NULL, &count, list) >= 0) {
        fprintf(out, "\n<details><summary>%u extensions</summary>\n\n", count);
        for (i = 0; i < count; i++) {
            report_text(out, list[i].extensionName);
            fprintf(out, " %u%s", list[i].specVersion, i + 1 < count ? ",\n" : "\n");
        }
        fputs("\n</details>\n", out);
    }
    free(list);
}

static int report_device(bench *b) {
    FILE *out = b->page;
    int code = open_context(b);
    if (code) return code;
    fputs("\n## Device\n\n| | |\n| --- | --- |\n", out);
    report_driver(out, b->device);
    report_row(out, "rung", "%s", b->device->info.rung);
    report_system(out);
    report_limits(out, b->device);
    report_memory(out, b->device);
    report_families(out, b->device);
    report_matrices(out, b->device, false);
    report_matrices(out, b->device, true);
    report_extensions(out, b->device);
    return EXIT_GOOD;
}

/* ---- rungs ---- */

typedef struct heard { /* the warnings of the library while a rung is opened */
    char text[1024];
} heard;

static void hear(int level, const char *message, void *user) {
    heard *h = user;
    size_t used = strlen(h->text);
    (void)level;
    snprintf(h->text + used, sizeof h->text - used, "%s%s", used ? "; " : "", message);
}

/* The classes of kernels that a device uses, of those that have to prove themselves. */
static void used_classes(const diti_device *device, char *out, size_t size) {
    uint32_t i;
    out[0] = 0;
    for (i = 0; i < DITI_CLASSES; i++) {
        size_t used = strlen(out);
        if (!diti_class_is_used(device, (diti_class)i)) continue;
        snprintf(out + used, size - used, "%s%s", used ? ", " : "", diti_class_name((diti_class)i));
    }
    if (!out[0]) snprintf(out, size, "base");
}

/* A context on a rung: its kernels prove themselves when it is made. */
static int report_rung(bench *b, diti_rung rung) {
    dit_context_desc desc = DITI_ZERO;
    dit_context *context = NULL;
    heard h = {""};
    char overrides[64], used[256];
    double begin = now(), opening;
    dit_result result;
    diti_format(overrides, sizeof overrides, "rung=%s", diti_rung_name(rung));
    desc.devices = b->o.device;
    desc.overrides = overrides;
    desc.logger.func = hear;
    desc.logger.user = &h;
    desc.logger.max_level = 1;
    desc.cache = b->blob;
    desc.cache_size = b->blob_size;
    result = dit_context_create(&desc, &context, &b->err);
    opening = now() - begin;
    fprintf(b->page, "| %s | ", diti_rung_name(rung));
    if (result < 0) {
        report_text(b->page, b->err.message);
        fputs(" | | | |\n", b->page);
    } else {
        used_classes(context->device, used, sizeof used);
        fprintf(b->page, "%s | %s | %.2f | ", context->device->rung == rung ? "works" : "**does not work**", used,
                opening);
        report_text(b->page, h.text);
        fputs(" |\n", b->page);
        take_cache(b, context);
    }
    dit_context_destroy(context);
    fflush(b->page);
    return result == DIT_ERROR_DEVICE_LOST ? EXIT_DEVICE : EXIT_GOOD;
}

static void close_context(bench *b) {
    if (b->context) take_cache(b, b->context);
    dit_context_destroy(b->context);
    b->context = NULL;
    b->device = NULL;
}

/* The first context shows what a start without a cache costs. Self-tests of a rung run once more, since answers are
   kept by rung; pipelines of the contexts before are in the cache. */
static int report_rungs(bench *b) {
    int rung, code = open_context(b);
    if (code) return code;
    close_context(b); /* its cache goes to the first row */
    fprintf(
        b->page,
        "\n## Rungs\n\nA rung works where its kernels give right results in their self-tests. The device was opened in "
        "%.2f s at first, %s.\nEach row gets the cache of those before it: its seconds are those of the self-tests of "
        "its rung, and of kernels that no row before it has.\n\n"
        "| rung | | kernels in use | s to open | what was left out, and why |\n| --- | --- | --- | --- | --- |\n",
        b->opening, b->blob_read ? "with the cache of an earlier start" : "without a cache");
    for (rung = 0; rung < DITI_RUNG_COUNT && !code && !report_is_late(b); rung++)
        code = report_rung(b, (diti_rung)rung);
    return code;
}
#endif
