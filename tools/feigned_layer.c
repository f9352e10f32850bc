/* VK_LAYER_DIT_feigned, a Vulkan layer for tools/feigned.sh: asks the driver what it says of every compute pipeline,
   and appends that to the file FEIGNED_STATISTICS, one line for each program that the driver made of a pipeline:
       pipeline HANDLE RESULT MILLISECONDS <tab> NAME=VALUE <tab> ...
   Milliseconds are those of the compiling thread on a processor. Then follow lines of what is made with them:
       constants HANDLE ID:VALUE ...    specialization constants of four bytes, once for each pipeline
       dispatch HANDLE X Y Z            each one that is recorded, in groups
   With FEIGNED_CODE, a folder, the text of the last representation that the driver has of each program, its machine
   code, goes to the file HANDLE.PROGRAM there. With FEIGNED_MODULES, a folder, every different module that the driver
   gets goes to the file HASH.spv there. Semaphores are always said to be signalled, for on a feigned GPU nothing runs.
 */
#include <vulkan/vulkan.h>
#include <vulkan/vk_layer.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_PROGRAMS = 8, MOST_STATISTICS = 64, MOST_TEXTS = 64 };

static PFN_vkGetInstanceProcAddr next_of_instance;
static PFN_vkGetDeviceProcAddr next_of_device;
static PFN_vkCmdBindPipeline next_bind;
static PFN_vkCmdDispatch next_dispatch;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static PFN_vkVoidFunction VKAPI_CALL of_instance(VkInstance instance, const char *name);
static PFN_vkVoidFunction VKAPI_CALL of_device(VkDevice device, const char *name);

/* ---- what the driver says ---- */

static void print_program(FILE *out, VkDevice device, VkPipeline pipeline, uint32_t program) {
    PFN_vkGetPipelineExecutableStatisticsKHR statistics_of =
        (PFN_vkGetPipelineExecutableStatisticsKHR)next_of_device(device, "vkGetPipelineExecutableStatisticsKHR");
    VkPipelineExecutableInfoKHR info = {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, NULL, pipeline, program};
    VkPipelineExecutableStatisticKHR statistics[MOST_STATISTICS];
    uint32_t i, count = MOST_STATISTICS;
    memset(statistics, 0, sizeof statistics);
    for (i = 0; i < MOST_STATISTICS; i++) statistics[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    if (statistics_of(device, &info, &count, statistics) < 0) return;
    for (i = 0; i < count; i++) {
        const VkPipelineExecutableStatisticKHR *s = &statistics[i];
        fprintf(out, "\t%s=", s->name);
        switch (s->format) {
        case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR: fprintf(out, "%g", s->value.f64); break;
        case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: fprintf(out, "%u", s->value.b32); break;
        default: fprintf(out, "%lld", (long long)s->value.i64);
        }
    }
}

static void write_code(const char *folder, VkDevice device, VkPipeline pipeline, uint32_t program) {
    PFN_vkGetPipelineExecutableInternalRepresentationsKHR code_of =
        (PFN_vkGetPipelineExecutableInternalRepresentationsKHR)next_of_device(
            device, "vkGetPipelineExecutableInternalRepresentationsKHR");
    VkPipelineExecutableInfoKHR info = {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, NULL, pipeline, program};
    VkPipelineExecutableInternalRepresentationKHR texts[MOST_TEXTS];
    uint32_t i, count = MOST_TEXTS;
    char path[4096];
    FILE *out;
    memset(texts, 0, sizeof texts);
    for (i = 0; i < MOST_TEXTS; i++) texts[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    if (code_of(device, &info, &count, texts) < 0 || !count) return;
    i = count - 1;
    texts[i].pData = calloc(1, texts[i].dataSize + 1);
    for (count = 0; count < i; count++) texts[count].dataSize = 0, texts[count].pData = &texts[count];
    count = i + 1;
    snprintf(path, sizeof path, "%s/%llx.%u", folder, (unsigned long long)(uintptr_t)pipeline, program);
    out = texts[i].pData ? fopen(path, "w") : NULL;
    if (out) {
        code_of(device, &info, &count, texts); /* says that the others are incomplete */
        fputs(texts[i].pData, out);
        fclose(out);
    }
    free(texts[i].pData);
}

static void print_constants(FILE *out, VkPipeline pipeline, const VkSpecializationInfo *constants) {
    uint32_t i, value;
    fprintf(out, "constants %llx", (unsigned long long)(uintptr_t)pipeline);
    for (i = 0; constants && i < constants->mapEntryCount; i++) {
        const VkSpecializationMapEntry *entry = &constants->pMapEntries[i];
        if (entry->size != sizeof value) continue;
        memcpy(&value, (const char *)constants->pData + entry->offset, sizeof value);
        fprintf(out, " %u:%u", entry->constantID, value);
    }
    fputc('\n', out);
}

static void print_pipeline(VkDevice device, VkPipeline pipeline, VkResult result, double ms,
                           const VkSpecializationInfo *constants) {
    const char *path = getenv("FEIGNED_STATISTICS"), *folder = getenv("FEIGNED_CODE");
    PFN_vkGetPipelineExecutablePropertiesKHR programs_of =
        (PFN_vkGetPipelineExecutablePropertiesKHR)next_of_device(device, "vkGetPipelineExecutablePropertiesKHR");
    VkPipelineInfoKHR info = {VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, NULL, pipeline};
    VkPipelineExecutablePropertiesKHR programs[MOST_PROGRAMS];
    uint32_t i, count = MOST_PROGRAMS;
    FILE *out = path ? fopen(path, "a") : NULL;
    if (!out) return;
    memset(programs, 0, sizeof programs);
    for (i = 0; i < MOST_PROGRAMS; i++) programs[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    if (result < 0 || !programs_of || programs_of(device, &info, &count, programs) < 0) count = 0;
    for (i = 0; i < count || i == 0; i++) {
        fprintf(out, "pipeline %llx %d %.2f", (unsigned long long)(result < 0 ? 0 : (uintptr_t)pipeline), result, ms);
        if (i < count) {
            fprintf(out, "\tSubgroup=%u", programs[i].subgroupSize);
            print_program(out, device, pipeline, i);
        }
        fputc('\n', out);
        if (i < count && folder) write_code(folder, device, pipeline, i);
        ms = 0;
    }
    if (count) print_constants(out, pipeline, constants);
    fclose(out);
}

/* ---- what is called ---- */

static double thread_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_compute_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                               const VkComputePipelineCreateInfo *infos,
                                                               const VkAllocationCallbacks *callbacks,
                                                               VkPipeline *pipelines) {
    PFN_vkCreateComputePipelines create =
        (PFN_vkCreateComputePipelines)next_of_device(device, "vkCreateComputePipelines");
    VkResult all = VK_SUCCESS;
    uint32_t i;
    for (i = 0; i < count; i++) {
        VkComputePipelineCreateInfo info = infos[i];
        double begun = thread_ms();
        VkResult result;
        info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
        if (getenv("FEIGNED_CODE")) info.flags |= VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
        result = create(device, cache, 1, &info, callbacks, &pipelines[i]);
        begun = thread_ms() - begun;
        pthread_mutex_lock(&lock);
        print_pipeline(device, pipelines[i], result, begun, infos[i].stage.pSpecializationInfo);
        pthread_mutex_unlock(&lock);
        if (result != VK_SUCCESS) all = result;
    }
    return all;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_shader_module(VkDevice device, const VkShaderModuleCreateInfo *info,
                                                           const VkAllocationCallbacks *callbacks,
                                                           VkShaderModule *module) {
    PFN_vkCreateShaderModule create = (PFN_vkCreateShaderModule)next_of_device(device, "vkCreateShaderModule");
    const char *folder = getenv("FEIGNED_MODULES");
    unsigned long long hash = 0xcbf29ce484222325; /* FNV-1a */
    char path[4096];
    FILE *out;
    size_t i;
    for (i = 0; i < info->codeSize; i++) hash = (hash ^ ((const unsigned char *)info->pCode)[i]) * 0x100000001b3;
    if (folder) snprintf(path, sizeof path, "%s/%016llx.spv", folder, hash);
    out = folder ? fopen(path, "wb") : NULL;
    if (out) {
        fwrite(info->pCode, 1, info->codeSize, out);
        fclose(out);
    }
    return create(device, info, callbacks, module);
}

/* One thread records a command buffer, and may begin another before it ends the first. */
static struct {
    VkCommandBuffer commands;
    VkPipeline pipeline;
} bound[64];
static uint32_t bound_next;

static VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer commands, VkPipelineBindPoint point,
                                                VkPipeline pipeline) {
    uint32_t i;
    pthread_mutex_lock(&lock);
    for (i = 0; i < 64 && bound[i].commands != commands; i++) continue;
    if (i == 64) i = bound_next++ % 64;
    bound[i].commands = commands;
    bound[i].pipeline = pipeline;
    pthread_mutex_unlock(&lock);
    next_bind(commands, point, pipeline);
}

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
    const char *path = getenv("FEIGNED_STATISTICS");
    FILE *out;
    uint32_t i;
    pthread_mutex_lock(&lock);
    for (i = 0; i < 64 && bound[i].commands != commands; i++) continue;
    out = path && i < 64 ? fopen(path, "a") : NULL;
    if (out) {
        fprintf(out, "dispatch %llx %u %u %u\n", (unsigned long long)(uintptr_t)bound[i].pipeline, x, y, z);
        fclose(out);
    }
    pthread_mutex_unlock(&lock);
    next_dispatch(commands, x, y, z);
}

static VKAPI_ATTR VkResult VKAPI_CALL counter_value(VkDevice device, VkSemaphore semaphore, uint64_t *value) {
    (void)device;
    (void)semaphore;
    *value = (uint64_t)1 << 40;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_semaphores(VkDevice device, const VkSemaphoreWaitInfo *info,
                                                      uint64_t timeout) {
    (void)device;
    (void)info;
    (void)timeout;
    return VK_SUCCESS;
}

/* ---- the chain of layers ---- */

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *callbacks, VkInstance *instance) {
    const VkLayerInstanceCreateInfo *const_link = info->pNext;
    VkLayerInstanceCreateInfo *link;
    while (const_link && (const_link->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO ||
                          const_link->function != VK_LAYER_LINK_INFO))
        const_link = const_link->pNext;
    if (!const_link) return VK_ERROR_INITIALIZATION_FAILED;
    link = (VkLayerInstanceCreateInfo *)const_link;
    next_of_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    return ((PFN_vkCreateInstance)next_of_instance(NULL, "vkCreateInstance"))(info, callbacks, instance);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *callbacks, VkDevice *device) {
    const VkLayerDeviceCreateInfo *const_link = info->pNext;
    VkLayerDeviceCreateInfo *link;
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR feature = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR, (void *)info->pNext, VK_TRUE};
    VkDeviceCreateInfo more = *info;
    const char **names;
    PFN_vkCreateDevice create;
    VkResult result;
    while (const_link && (const_link->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO ||
                          const_link->function != VK_LAYER_LINK_INFO))
        const_link = const_link->pNext;
    names = const_link ? malloc(sizeof *names * (info->enabledExtensionCount + 1)) : NULL;
    if (!names) return VK_ERROR_INITIALIZATION_FAILED;
    link = (VkLayerDeviceCreateInfo *)const_link;
    create = (PFN_vkCreateDevice)link->u.pLayerInfo->pfnNextGetInstanceProcAddr(NULL, "vkCreateDevice");
    next_of_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    if (info->enabledExtensionCount)
        memcpy(names, info->ppEnabledExtensionNames, sizeof *names * info->enabledExtensionCount);
    names[more.enabledExtensionCount++] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
    more.ppEnabledExtensionNames = names;
    more.pNext = &feature;
    result = create(physical, &more, callbacks, device);
    free(names);
    if (result >= 0) {
        next_bind = (PFN_vkCmdBindPipeline)next_of_device(*device, "vkCmdBindPipeline");
        next_dispatch = (PFN_vkCmdDispatch)next_of_device(*device, "vkCmdDispatch");
    }
    return result;
}

static const struct {
    const char *name;
    PFN_vkVoidFunction function;
} functions[] = {{"vkCreateComputePipelines", (PFN_vkVoidFunction)create_compute_pipelines},
                 {"vkCreateShaderModule", (PFN_vkVoidFunction)create_shader_module},
                 {"vkGetSemaphoreCounterValue", (PFN_vkVoidFunction)counter_value},
                 {"vkGetSemaphoreCounterValueKHR", (PFN_vkVoidFunction)counter_value},
                 {"vkWaitSemaphores", (PFN_vkVoidFunction)wait_semaphores},
                 {"vkWaitSemaphoresKHR", (PFN_vkVoidFunction)wait_semaphores},
                 {"vkCmdBindPipeline", (PFN_vkVoidFunction)bind_pipeline},
                 {"vkCmdDispatch", (PFN_vkVoidFunction)dispatch},
                 {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)of_device},
                 /* from here on of instances alone */
                 {"vkGetInstanceProcAddr", (PFN_vkVoidFunction)of_instance},
                 {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
                 {"vkCreateDevice", (PFN_vkVoidFunction)create_device}};
enum { FUNCTIONS = sizeof functions / sizeof functions[0], DEVICE_FUNCTIONS = 9 };

static PFN_vkVoidFunction own(const char *name, uint32_t count) {
    uint32_t i;
    for (i = 0; i < count; i++)
        if (!strcmp(functions[i].name, name)) return functions[i].function;
    return NULL;
}

static PFN_vkVoidFunction VKAPI_CALL of_instance(VkInstance instance, const char *name) {
    PFN_vkVoidFunction function = own(name, FUNCTIONS);
    return function || !next_of_instance ? function : next_of_instance(instance, name);
}

static PFN_vkVoidFunction VKAPI_CALL of_device(VkDevice device, const char *name) {
    PFN_vkVoidFunction function = own(name, DEVICE_FUNCTIONS);
    return function ? function : next_of_device(device, name);
}

VK_LAYER_EXPORT VKAPI_ATTR VkResult VKAPI_CALL feigned_negotiate(VkNegotiateLayerInterface *interface) {
    interface->loaderLayerInterfaceVersion = 2;
    interface->pfnGetInstanceProcAddr = of_instance;
    interface->pfnGetDeviceProcAddr = of_device;
    interface->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
