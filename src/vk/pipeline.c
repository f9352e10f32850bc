/* Pipelines: one layout for all kernels, and the table of those that were made. */
#include "vk/vk.h"

DIT_INTERNAL dit_result diti_layouts_create(diti_device *device, dit_error *err) {
    VkDescriptorSetLayoutBinding bindings[DITI_MAX_BINDINGS];
    VkDescriptorSetLayoutCreateInfo set = DITI_ZERO;
    VkPipelineLayoutCreateInfo layout = DITI_ZERO;
    VkPushConstantRange push = DITI_ZERO;
    VkResult vr;
    uint32_t i;
    memset(bindings, 0, sizeof bindings);
    for (i = 0; i < DITI_MAX_BINDINGS; i++) {
        bindings[i].binding = i;
        bindings[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        bindings[i].descriptorCount = 1;
        bindings[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
    }
    set.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    set.bindingCount = DITI_MAX_BINDINGS;
    set.pBindings = bindings;
    vr = device->vk.CreateDescriptorSetLayout(device->device, &set, device->callbacks, &device->set_layout);
    if (vr < 0) return diti_device_fail(device, vr, "vkCreateDescriptorSetLayout", err);
    push.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
    push.size = DITI_PUSH_WORDS * 4;
    layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layout.setLayoutCount = 1;
    layout.pSetLayouts = &device->set_layout;
    layout.pushConstantRangeCount = 1;
    layout.pPushConstantRanges = &push;
    vr = device->vk.CreatePipelineLayout(device->device, &layout, device->callbacks, &device->pipeline_layout);
    return vr < 0 ? diti_device_fail(device, vr, "vkCreatePipelineLayout", err) : DIT_OK;
}

DIT_INTERNAL diti_pipeline diti_pipeline_key(diti_kernel kernel, const uint32_t *constants, uint32_t stated) {
    diti_pipeline key = DITI_ZERO;
    uint32_t i;
    key.kernel = kernel;
    key.stated = stated;
    for (i = 0; i < DITI_MAX_CONSTANTS; i++)
        if (stated >> i & 1u) key.constants[i] = constants[i];
    return key;
}

/* Under the lock. */
static diti_pipeline *diti_pipeline_find(diti_device *device, const diti_pipeline *key) {
    size_t i;
    for (i = 0; i < device->pipeline_count; i++) {
        diti_pipeline *pipeline = device->pipelines[i];
        if (pipeline->kernel != key->kernel || pipeline->stated != key->stated) continue;
        if (!memcmp(pipeline->constants, key->constants, sizeof key->constants)) return pipeline;
    }
    return NULL;
}

DIT_INTERNAL bool diti_pipeline_exists(diti_device *device, diti_kernel kernel, const uint32_t *constants,
                                       uint32_t stated) {
    const diti_pipeline key = diti_pipeline_key(kernel, constants, stated);
    bool exists;
    diti_lock(&device->lock);
    exists = diti_pipeline_find(device, &key) != NULL;
    diti_unlock(&device->lock);
    return exists;
}

/* A pipeline's specialization constants, as Vulkan wants them. */
typedef struct diti_pipeline_constants {
    VkSpecializationMapEntry entries[DITI_MAX_CONSTANTS + 2];
    uint32_t values[DITI_MAX_CONSTANTS + 2];
    VkSpecializationInfo info;
} diti_pipeline_constants;

static void diti_pipeline_specialize(const diti_device *device, const diti_pipeline *key,
                                     diti_pipeline_constants *out) {
    uint32_t i;
    memset(out, 0, sizeof *out);
    memcpy(out->values, key->constants, sizeof key->constants);
    out->values[DITI_CONSTANT_THREADS] = key->stated & 1u ? key->constants[0] : 1;
    out->values[DITI_CONSTANT_ROUNDS] = device->rounds_halves;
    for (i = 0; i < DITI_MAX_CONSTANTS + 2; i++) {
        VkSpecializationMapEntry *entry = &out->entries[out->info.mapEntryCount];
        if (i < DITI_MAX_CONSTANTS && !(key->stated >> i & 1u)) continue;
        entry->constantID = i;
        entry->offset = i * 4;
        entry->size = 4;
        out->info.mapEntryCount++;
    }
    out->info.pMapEntries = out->entries;
    out->info.dataSize = sizeof out->values;
    out->info.pData = out->values;
}

/* Cooperative matrices and broadcasts belong to whole subgroups of a known size, which is stated where there are
   several. constants: NULL where the module has none any more. */
static VkResult diti_pipeline_create(diti_device *device, VkShaderModule module, bool coop, const diti_pipeline *key,
                                     const VkSpecializationInfo *constants, VkPipeline *out) {
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = DITI_ZERO;
    VkComputePipelineCreateInfo info = DITI_ZERO;
    bool broadcast = key->kernel == DITI_KERNEL_GEMM_BROADCAST || key->kernel == DITI_KERNEL_GEMM_DOT_BROADCAST ||
                     key->kernel == DITI_KERNEL_ATTENTION_BROADCAST;
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.stage.pSpecializationInfo = constants;
    info.layout = device->pipeline_layout;
    subgroup.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
    subgroup.requiredSubgroupSize = broadcast ? key->constants[DITI_CONSTANT_TEAM] : device->coop.subgroup;
    if ((coop || broadcast) && device->features.has[DITI_FEATURE_FULL_SUBGROUPS])
        info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    if ((coop && device->coop.chooses_subgroup) || (broadcast && device->states_team)) info.stage.pNext = &subgroup;
    return device->vk.CreateComputePipelines(device->device, device->pipeline_cache, 1, &info, device->callbacks, out);
}

static VkResult diti_pipeline_from_words(diti_device *device, const uint32_t *words, size_t count,
                                         const diti_pipeline *key, const VkSpecializationInfo *constants,
                                         VkPipeline *out) {
    VkShaderModuleCreateInfo info = DITI_ZERO;
    VkShaderModule module = VK_NULL_HANDLE;
    VkResult vr;
    info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    info.codeSize = count * 4;
    info.pCode = words;
    vr = device->vk.CreateShaderModule(device->device, &info, device->callbacks, &module);
    if (vr < 0) return vr;
    vr = diti_pipeline_create(device, module, diti_spirv_is_coop(words, count), key, constants, out);
    device->vk.DestroyShaderModule(device->device, module, device->callbacks);
    return vr;
}

/* The override fail_pipeline: from the n-th one on, or those of a module ("gemm_coop"), or of these only such with a
   value of a specialization constant ("gemm_coop:9=1"). */
static bool diti_pipeline_must_fail(diti_device *device, const diti_pipeline *key) {
    const char *name = diti_kernel_name(key->kernel), *wanted = device->fail_pipeline;
    size_t length = strcspn(wanted, ":");
    char *end;
    unsigned long id;
    bool fail;
    diti_lock(&device->lock);
    fail = device->fail_pipeline_after && ++device->pipelines_tried >= device->fail_pipeline_after;
    diti_unlock(&device->lock);
    if (fail || !length || strlen(name) != length || strncmp(name, wanted, length)) return fail;
    if (!wanted[length]) return true;
    id = strtoul(wanted + length + 1, &end, 10);
    return *end == '=' && id < DITI_MAX_CONSTANTS && key->constants[id] == strtoul(end + 1, NULL, 10);
}

static bool diti_pipeline_folds(const diti_device *device, diti_kernel kernel) {
    static const diti_kernel products[] = {DITI_KERNEL_GEMM_CPU,
                                           DITI_KERNEL_GEMM_GPU,
                                           DITI_KERNEL_GEMM_HALF,
                                           DITI_KERNEL_GEMM_DOT_GPU,
                                           DITI_KERNEL_GEMM_BROADCAST,
                                           DITI_KERNEL_GEMM_DOT_BROADCAST,
                                           DITI_KERNEL_GEMM_COOP,
                                           DITI_KERNEL_ATTENTION_CPU,
                                           DITI_KERNEL_ATTENTION_GPU,
                                           DITI_KERNEL_ATTENTION_HALF,
                                           DITI_KERNEL_ATTENTION_BROADCAST,
                                           DITI_KERNEL_ATTENTION_COOP,
                                           DITI_KERNEL_ATTENTION_DIRECT,
                                           DITI_KERNEL_ATTENTION_COLUMNS};
    size_t i;
    for (i = 0; i < DITI_COUNT(products) && device->folding == DITI_FOLDING_WITHOUT_PRODUCTS; i++)
        if (kernel == products[i]) return false;
    return device->folding != DITI_FOLDING_NONE;
}

/* Kernels that compute again what overflowed in F16. */
static bool diti_pipeline_notices_overflow(diti_kernel kernel) {
    return kernel == DITI_KERNEL_GEMM_HALF || kernel == DITI_KERNEL_GEMM_BROADCAST ||
           kernel == DITI_KERNEL_ATTENTION_HALF;
}

static dit_result diti_pipeline_compile(diti_device *device, diti_pipeline *key, dit_error *err) {
    diti_pipeline_constants constants;
    uint32_t *words = NULL;
    size_t count = 0;
    dit_result result = DIT_OK;
    VkResult vr = VK_ERROR_UNKNOWN;
    bool folded = false;
    DITI_TRY(diti_spirv_decode(&device->env, key->kernel, &words, &count, err));
    if (!device->has_dot) diti_spirv_no_dot(words, &count);
    if (!device->features.has[DITI_FEATURE_MIXED_DOT]) diti_spirv_no_mixed(words, &count);
    if (device->keeps_infinity && diti_pipeline_notices_overflow(key->kernel))
        result = diti_spirv_keep_infinity(&device->env, &words, &count, err);
    if (!device->rounds_halves) diti_spirv_no_rounding(words, &count);
    if ((key->constants[DITI_CONSTANT_FORMAT] != DITI_FORMAT_I8 || key->constants[DITI_CONSTANT_KIND]) &&
        diti_spirv_is_coop(words, count))
        diti_spirv_no_bytes(words, &count);
    if (result >= 0 && key->constants[DITI_CONSTANT_KIND]) /* code for halves alone cannot stay beside other elements */
        result = diti_spirv_settle(&device->env, key->kernel, DITI_CONSTANT_LOOP, key->constants[DITI_CONSTANT_LOOP],
                                   &words, &count, err);
    if (result >= 0)
        result = diti_spirv_elements(&device->env, (diti_matrix_kind)key->constants[DITI_CONSTANT_KIND], &words, &count,
                                     err);
    diti_pipeline_specialize(device, key, &constants);
    if (result >= 0 && diti_pipeline_folds(device, key->kernel))
        result = diti_spirv_fold(&device->env, &constants.info, true, &words, &count, &folded, err);
    if (result >= 0 && !diti_pipeline_must_fail(device, key))
        vr = diti_pipeline_from_words(device, words, count, key, folded ? NULL : &constants.info, &key->pipeline);
    diti_free(&device->env, words);
    if (result < 0 || vr >= 0) return result;
    key->pipeline = VK_NULL_HANDLE;
    if (vr == VK_ERROR_DEVICE_LOST) return diti_device_fail(device, vr, "vkCreateComputePipelines", err);
    return diti_fail_vk(err, vr, "the driver of %s cannot compile %s: %s", device->info.name,
                        diti_kernel_name(key->kernel), diti_vk_name(vr));
}

/* Another thread may have compiled the same meanwhile: then its pipeline is kept, so that each exists once. */
static diti_pipeline *diti_pipeline_insert(diti_device *device, diti_pipeline *made) {
    diti_pipeline *found;
    diti_lock(&device->lock);
    found = diti_pipeline_find(device, made);
    if (!found && diti_grow(&device->env, (void **)&device->pipelines, &device->pipeline_capacity,
                            device->pipeline_count, sizeof(diti_pipeline *))) {
        found = made;
        device->pipelines[device->pipeline_count++] = made;
        device->pipelines_compiled++;
    }
    diti_unlock(&device->lock);
    return found;
}

static dit_result diti_pipeline_make(diti_device *device, const diti_pipeline *key, VkPipeline *out, dit_error *err) {
    diti_pipeline *kept, *made = (diti_pipeline *)diti_alloc(&device->env, sizeof *made);
    dit_result result;
    if (!made) return diti_fail_memory(err, "a pipeline");
    *made = *key;
    result = diti_pipeline_compile(device, made, err);
    kept = result < 0 ? NULL : diti_pipeline_insert(device, made);
    if (kept)
        *out = kept->pipeline;
    else if (result >= 0)
        result = diti_fail_memory(err, "a pipeline");
    if (kept == made) return result;
    if (made->pipeline) device->vk.DestroyPipeline(device->device, made->pipeline, device->callbacks);
    diti_free(&device->env, made);
    return result;
}

DIT_INTERNAL dit_result diti_pipeline_get(diti_device *device, diti_kernel kernel, const uint32_t *constants,
                                          uint32_t stated, VkPipeline *out, dit_error *err) {
    const diti_pipeline key = diti_pipeline_key(kernel, constants, stated);
    diti_pipeline *found;
    *out = VK_NULL_HANDLE;
    if (stated >> DITI_MAX_CONSTANTS) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "specialization constants %x; their ids end at %u", stated,
                         DITI_MAX_CONSTANTS - 1);
    }
    diti_lock(&device->lock);
    found = diti_pipeline_find(device, &key);
    diti_unlock(&device->lock);
    if (!found) return diti_pipeline_make(device, &key, out, err);
    *out = found->pipeline;
    return DIT_OK;
}

DIT_INTERNAL uint64_t diti_pipelines_compiled(diti_device *device) {
    uint64_t compiled;
    diti_lock(&device->lock);
    compiled = device->pipelines_compiled;
    diti_unlock(&device->lock);
    return compiled;
}

DIT_INTERNAL void diti_pipelines_free(diti_device *device) {
    size_t i;
    for (i = 0; i < device->pipeline_count; i++) {
        diti_destroy_Pipeline(device, device->pipelines[i]->pipeline);
        diti_free(&device->env, device->pipelines[i]);
    }
    diti_free(&device->env, device->pipelines);
    diti_free(&device->env, device->tuned);
    diti_destroy_PipelineLayout(device, device->pipeline_layout);
    diti_destroy_DescriptorSetLayout(device, device->set_layout);
    if (device->owns_pipeline_cache) diti_destroy_PipelineCache(device, device->pipeline_cache);
}
