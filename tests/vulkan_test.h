/* What a test that touches Vulkan needs, beside test.h:
 *
 *     int main(void) {
 *         test_vulkan_begin();      // validation layers on, before the first Vulkan call
 *         ...                       // make contexts, with dit's own instance or with one of the test's
 *         test_vulkan_end();        // every message of the layers is a failure: call it when all instances are gone
 *         return TEST_END("name");
 *     }
 *
 * tests/run.sh runs every program that includes this header once per driver; one driver is chosen by hand with
 * VK_ICD_FILENAMES. DIT_TEST_LAYERS=0 leaves the layers out (debuggers, speed), =full adds GPU-assisted validation. */
#ifndef VULKAN_TEST_H
#define VULKAN_TEST_H
#include "test.h"
#include <dlfcn.h>
#include <unistd.h>
#include <vulkan/vulkan_core.h>

static char test_layer_folder[256]; /* holds vk_layer_settings.txt and the layers' log; empty: layers are off */

static inline PFN_vkVoidFunction test_vulkan_function(VkInstance instance, const char *name) {
    void *loader = dlopen("libvulkan.so.1", RTLD_NOW);
    PFN_vkGetInstanceProcAddr get = NULL;
    if (loader) *(void **)&get = dlsym(loader, "vkGetInstanceProcAddr");
    return get ? get(instance, name) : NULL;
}

static inline int test_vulkan_has_layers(void) {
    VkLayerProperties layers[64];
    uint32_t i, count = 64;
    PFN_vkEnumerateInstanceLayerProperties list =
        (PFN_vkEnumerateInstanceLayerProperties)test_vulkan_function(NULL, "vkEnumerateInstanceLayerProperties");
    if (!list || list(&count, layers) < 0) return 0;
    for (i = 0; i < count; i++)
        if (!strcmp(layers[i].layerName, "VK_LAYER_KHRONOS_validation")) return 1;
    return 0;
}

/* The loader unmaps a driver with the last instance, and a leak checker then cannot see what the driver's own globals
 * still hold. Mapping the driver once more, for good, keeps such a report about this program. */
static inline void test_keep_driver(const char *manifest) {
    char text[4096], *name, *end;
    FILE *file = fopen(manifest, "rb");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[size] = 0;
    name = strstr(text, "\"library_path\"");
    name = name ? strchr(name + 14, '"') : NULL;
    end = name ? strchr(name + 1, '"') : NULL;
    if (!end) return;
    *end = 0;
    dlopen(name + 1, RTLD_LAZY | RTLD_NODELETE);
}

static inline void test_keep_drivers(void) {
    const char *list = getenv("VK_ICD_FILENAMES");
    char names[4096], *name, *rest = names;
    snprintf(names, sizeof names, "%s", list ? list : "");
    while ((name = strsep(&rest, ":"))) test_keep_driver(name);
}

static inline void test_layer_settings(int full) {
    char path[300];
    FILE *file;
    snprintf(test_layer_folder, sizeof test_layer_folder, "%s/dit-layers-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(test_layer_folder)) {
        CHECK_MESSAGE(0, "cannot make the folder %s", test_layer_folder);
        test_layer_folder[0] = 0;
        return;
    }
    snprintf(path, sizeof path, "%s/vk_layer_settings.txt", test_layer_folder);
    file = fopen(path, "wb");
    fprintf(file, "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG\n");
    fprintf(file, "khronos_validation.report_flags = error,warn,perf\n");
    fprintf(file, "khronos_validation.log_filename = %s/log\n", test_layer_folder);
    fprintf(file, "khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT%s\n",
            full ? ",VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT" : "");
    fclose(file);
}

static inline void test_vulkan_begin(void) {
    const char *layers = getenv("DIT_TEST_LAYERS");
    test_keep_drivers();
    if (layers && !strcmp(layers, "0")) return;
    if (!CHECK_MESSAGE(test_vulkan_has_layers(), "VK_LAYER_KHRONOS_validation is not installed (make setup)")) return;
    test_layer_settings(layers && !strcmp(layers, "full"));
    setenv("VK_LAYER_SETTINGS_PATH", test_layer_folder, 1);
    setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation", 1);
}

/* Counts the lines that the layers wrote so far, and prints the first of them; -1 when they never ran. */
static inline int test_layer_messages(int print) {
    char path[300], line[8192];
    int count = 0;
    FILE *file;
    snprintf(path, sizeof path, "%s/log", test_layer_folder);
    file = fopen(path, "rb");
    if (!file) return -1;
    while (fgets(line, sizeof line, file)) {
        if (strspn(line, " \t\r\n") == strlen(line)) continue;
        if (count++ < print) fprintf(stderr, "    layers: %s", line);
    }
    fclose(file);
    return count;
}

static inline void test_layer_clean(void) {
    char path[300];
    snprintf(path, sizeof path, "%s/log", test_layer_folder);
    remove(path);
    snprintf(path, sizeof path, "%s/vk_layer_settings.txt", test_layer_folder);
    remove(path);
    rmdir(test_layer_folder);
    test_layer_folder[0] = 0;
}

static inline void test_vulkan_end(void) {
    int messages;
    if (!test_layer_folder[0]) return;
    messages = test_layer_messages(8);
    CHECK_MESSAGE(messages >= 0, "the validation layers never ran: no instance was made, or the loader left them out");
    CHECK_MESSAGE(messages <= 0, "the validation layers wrote %d lines", messages);
    test_layer_clean();
}
#endif
