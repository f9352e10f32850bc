/* A test that touches Vulkan needs this, beside test.h:
 *
 *     int main(void) {
 *         test_vulkan_begin();      // validation layers on, before the first Vulkan call
 *         ...                       // make contexts, with dit's own instance or with one of the test's
 *         test_vulkan_end();        // every message of the layers is a failure: call it when all instances are gone
 *         return TEST_END("name");
 *     }
 *
 * tests/run.sh runs every program that includes this header once per driver; one driver is chosen by hand with
 * VK_ICD_FILENAMES. DIT_TEST_LAYERS=0 leaves the layers out (debuggers, speed), =full adds GPU-assisted validation,
 * =best adds best practices, with those of all vendors, and prints every line: tests/README.md tells them. =races looks
 * for races on shared memory and for accesses beyond a binding alone (way races, which prepares loader and driver for
 * it). Layers before 1.4 follow memory from one submission to the next only with =submits, or in a program that defines
 * TEST_SUBMITS: it takes them seven times as long, and the newest (way newest) do it anyway. */
#ifndef VULKAN_TEST_H
#define VULKAN_TEST_H
#include "test.h"
#ifdef _WIN32
#include "library.h"

/* Programs for Windows run without layers: those of the system below Wine cannot write to a pipe of theirs. */
__attribute__((unused)) static struct test_layers { int on, printed; } test_layers;

static inline PFN_vkVoidFunction test_vulkan_function(VkInstance instance, const char *name) {
    diti_vk_api vk = DITI_ZERO;
    dit_error err = DITI_ZERO;
    void *library;
    if (diti_vulkan_load(NULL, NULL, &vk, &library, &err) != DIT_OK) return NULL;
    return vk.GetInstanceProcAddr(instance, name);
}

static inline uint32_t test_layer_version(void) { return 0; }
static inline int test_layer_messages(void) { return 0; }
static inline void test_barriers(int kept) { (void)kept; }
static inline void test_vulkan_begin(void) {}
static inline void test_vulkan_end(void) {}
#else
#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <unistd.h>
#include <vulkan/vulkan_core.h>

/* The layers write to a pipe that a thread reads: a file would be cut to nothing by each new instance. */
static struct test_layers {
    int on, pipe[2];
    pthread_t reader;
    pthread_mutex_t lock;
    pthread_cond_t marked;
    int lines, printed, marks; /* under the lock; printed: how many lines may still be shown */
} test_layers;

static inline PFN_vkVoidFunction test_vulkan_function(VkInstance instance, const char *name) {
    void *loader = dlopen("libvulkan.so.1", RTLD_NOW);
    PFN_vkGetInstanceProcAddr get = NULL;
    if (loader) *(void **)&get = dlsym(loader, "vkGetInstanceProcAddr");
    return get ? get(instance, name) : NULL;
}

/* The version of the layers; 0: they are not installed. */
static inline uint32_t test_layer_version(void) {
    VkLayerProperties layers[64];
    uint32_t i, count = 64;
    PFN_vkEnumerateInstanceLayerProperties list =
        (PFN_vkEnumerateInstanceLayerProperties)test_vulkan_function(NULL, "vkEnumerateInstanceLayerProperties");
    if (!list || list(&count, layers) < 0) return 0;
    for (i = 0; i < count; i++)
        if (!strcmp(layers[i].layerName, "VK_LAYER_KHRONOS_validation")) return layers[i].specVersion;
    return 0;
}

/* The loader unmaps drivers and layers with the last instance, and a leak checker then cannot see what their own
 * globals still hold. Mapping them once more, for good, keeps its report about this program. */
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

/* Memory that the layers themselves never free is no leak of this program. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libVkLayer_khronos_validation"; }

/* Keeps the drivers that the environment names or, where it names none, those that the loader finds. */
static inline void test_keep_drivers(void) {
    const char *list = getenv("VK_ICD_FILENAMES");
    char names[4096], *name, *rest = names;
    glob_t found = {0};
    size_t i;
    snprintf(names, sizeof names, "%s", list ? list : "");
    while ((name = strsep(&rest, ":"))) test_keep_driver(name);
    if (!list && glob("/usr/share/vulkan/icd.d/*.json", 0, NULL, &found) == 0)
        for (i = 0; i < found.gl_pathc; i++) test_keep_driver(found.gl_pathv[i]);
    globfree(&found);
    dlopen("libVkLayer_khronos_validation.so", RTLD_LAZY | RTLD_NODELETE);
}

/* The next line of the pipe, cut at size. Not fgets: newer C libraries wait at exit for a stream that is being read. */
static inline int test_layer_line(char *line, size_t size) {
    size_t used = 0;
    while (read(test_layers.pipe[0], line + used, 1) == 1) {
        if (line[used] == '\n') {
            line[used] = 0;
            return 1;
        }
        if (used + 2 < size) used++;
    }
    return 0;
}

static void *test_layer_reader(void *unused) {
    char line[8192];
    (void)unused;
    while (test_layer_line(line, sizeof line)) {
        pthread_mutex_lock(&test_layers.lock);
        if (line[0] == '\1') {
            test_layers.marks++;
            pthread_cond_signal(&test_layers.marked);
        } else if (strspn(line, " \t\r") != strlen(line)) {
            test_layers.lines++;
            if (test_layers.printed-- > 0) fprintf(stderr, "    layers: %s\n", line);
        }
        pthread_mutex_unlock(&test_layers.lock);
    }
    return NULL;
}

/* Counts the lines that the layers wrote since the last call. A mark sent through the pipe says when all of them were
   read. */
static inline int test_layer_messages(void) {
    int lines, marks;
    if (!test_layers.on) return 0;
    pthread_mutex_lock(&test_layers.lock);
    marks = test_layers.marks;
    if (write(test_layers.pipe[1], "\1\n", 2) == 2)
        while (test_layers.marks == marks) pthread_cond_wait(&test_layers.marked, &test_layers.lock);
    lines = test_layers.lines;
    test_layers.lines = 0;
    pthread_mutex_unlock(&test_layers.lock);
    return lines;
}

static inline void test_layer_settings(const char *wanted) {
    static const char *const vendors[] = {"arm", "amd", "img", "nvidia"}, *const vendors_before[] = {"ARM", "AMD",
                                                                                                     "IMG", "NVIDIA"};
    static const char *const not_races[] = {"validate_core",
                                            "gpuav_post_process_descriptor_indexing",
                                            "gpuav_buffer_address_oob",
                                            "gpuav_mesh_shading",
                                            "gpuav_validate_trace_ray",
                                            "gpuav_vertex_attribute_fetch_oob",
                                            "gpuav_shader_sanitizer",
                                            "gpuav_buffers_validation"};
    int full = !strcmp(wanted, "full"), best = !strcmp(wanted, "best"), submits = !strcmp(wanted, "submits"),
        races = !strcmp(wanted, "races");
#if defined(TEST_SUBMITS)
    submits = 1;
#endif
    size_t i;
    char folder[256], path[300];
    FILE *file;
    snprintf(folder, sizeof folder, "%s/dit-layers-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!CHECK_MESSAGE(mkdtemp(folder), "cannot make a folder like %s", folder)) return;
    snprintf(path, sizeof path, "%s/vk_layer_settings.txt", folder);
    file = fopen(path, "wb");
    if (!CHECK_MESSAGE(file, "cannot write %s", path)) return;
    fprintf(file, "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG\n");
    fprintf(file, "khronos_validation.report_flags = %s\n", races ? "error" : "error,warn,perf");
    fprintf(file, "khronos_validation.log_filename = /dev/fd/%d\n", test_layers.pipe[1]);
    if (races) { /* its warnings tell which features it enables */
        fprintf(file, "khronos_validation.gpuav_enable = true\nkhronos_validation.enable_message_limit = false\n");
        for (i = 0; i < sizeof not_races / sizeof *not_races; i++)
            fprintf(file, "khronos_validation.%s = false\n", not_races[i]);
    } else if (test_layer_version() >= VK_MAKE_API_VERSION(0, 1, 4, 0)) { /* they warn of the older names */
        fprintf(file, "khronos_validation.validate_sync = true\n");
        fprintf(file,
                "khronos_validation.syncval_shader_accesses_heuristic = true\n"); /* else dispatches touch nothing */
        fprintf(file, "khronos_validation.gpuav_enable = %s\n", full ? "true" : "false");
        if (best) fprintf(file, "khronos_validation.validate_best_practices = true\n");
        for (i = 0; best && i < sizeof vendors / sizeof *vendors; i++)
            fprintf(file, "khronos_validation.validate_best_practices_%s = true\n", vendors[i]);
    } else {
        fprintf(file, "khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT");
        if (submits) fprintf(file, ",VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT");
        if (full) fprintf(file, ",VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT");
        if (best) fprintf(file, ",VK_VALIDATION_FEATURE_ENABLE_BEST_PRACTICES_EXT");
        for (i = 0; best && i < sizeof vendors / sizeof *vendors; i++)
            fprintf(file, ",VALIDATION_CHECK_ENABLE_VENDOR_SPECIFIC_%s", vendors_before[i]);
        fprintf(file, "\n");
    }
    fclose(file);
    setenv("VK_LAYER_SETTINGS_PATH", folder, 1);
    setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation", 1);
}

/* Makes one wrong call on purpose, which the layers must report: else silence would prove nothing. Reads the settings,
   too. */
static inline void test_layer_self_test(void) {
    VkApplicationInfo wrong = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, NULL, NULL, 0, NULL, 0, VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, NULL, 0, &wrong, 0, NULL, 0, NULL};
    VkInstance instance = NULL;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)test_vulkan_function(NULL, "vkCreateInstance");
    test_layers.printed = 0;
    if (!CHECK_MESSAGE(create && create(&info, NULL, &instance) == VK_SUCCESS, "no Vulkan instance can be made"))
        return;
    ((PFN_vkEnumeratePhysicalDevices)test_vulkan_function(instance, "vkEnumeratePhysicalDevices"))(instance, NULL,
                                                                                                   NULL);
    CHECK_MESSAGE(test_layer_messages() > 0, "the validation layers did not object to a wrong structure type");
    ((PFN_vkDestroyInstance)test_vulkan_function(instance, "vkDestroyInstance"))(instance, NULL);
    test_layers.printed = 8;
}

/* Way races: modules lose all their barriers from now on, or keep them again (drivers/races.c). */
static inline void test_barriers(int kept) {
    if (kept)
        unsetenv("WITHOUT_BARRIERS");
    else
        setenv("WITHOUT_BARRIERS", "1", 1);
}

static inline void test_layer_clean(void) {
    char path[300];
    snprintf(path, sizeof path, "%s/vk_layer_settings.txt", getenv("VK_LAYER_SETTINGS_PATH"));
    remove(path);
    rmdir(getenv("VK_LAYER_SETTINGS_PATH"));
}

static inline void test_vulkan_begin(void) {
    const char *layers = getenv("DIT_TEST_LAYERS");
    test_keep_drivers();
    if (layers && !strcmp(layers, "0")) return;
    if (!layers) layers = "1";
    if (!CHECK_MESSAGE(test_layer_version(), "VK_LAYER_KHRONOS_validation is not installed (make setup)")) return;
    pthread_mutex_init(&test_layers.lock, NULL);
    pthread_cond_init(&test_layers.marked, NULL);
    if (!CHECK(pipe(test_layers.pipe) == 0)) return;
    test_layers.on = CHECK(pthread_create(&test_layers.reader, NULL, test_layer_reader, NULL) == 0);
    test_layer_settings(layers);
    test_layer_self_test();
    if (!strcmp(layers, "best")) test_layers.printed = 1000000;
}

static inline void test_vulkan_end(void) {
    int messages = test_layer_messages();
    if (!test_layers.on) return;
    CHECK_MESSAGE(messages == 0, "the validation layers wrote %d lines", messages);
    test_layer_clean();
}
#endif
#endif
