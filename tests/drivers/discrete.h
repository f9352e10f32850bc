/* A software driver's device looks like an H100: it says that it is discrete, whose it is and how many
 * multiprocessors it has, and one of its heaps is the device's alone, of which most memory cannot be mapped. All of it
 * is the host's in truth, of the driver's first type. Matrices, subgroups and speed stay those of the driver. */

#define DISCRETE_CORES 132
#define DISCRETE_HEAP ((VkDeviceSize)80 << 30)

static struct discrete_real {
    PFN_vkGetPhysicalDeviceProperties properties;
    PFN_vkGetPhysicalDeviceProperties2 properties_2;
    PFN_vkGetPhysicalDeviceMemoryProperties memory;
    PFN_vkGetPhysicalDeviceMemoryProperties2 memory_2;
    PFN_vkEnumerateDeviceExtensionProperties extensions;
    PFN_vkAllocateMemory allocate;
    PFN_vkMapMemory map;
    PFN_vkFreeMemory free_memory;
    PFN_vkGetBufferMemoryRequirements buffer_needs;
    PFN_vkGetBufferMemoryRequirements2 buffer_needs_2;
    PFN_vkGetImageMemoryRequirements image_needs;
    PFN_vkGetImageMemoryRequirements2 image_needs_2;
    PFN_vkGetDeviceBufferMemoryRequirements device_buffer_needs;
    PFN_vkGetDeviceImageMemoryRequirements device_image_needs;
    PFN_vkGetMemoryHostPointerPropertiesEXT host_pointer;
    PFN_vkGetMemoryFdPropertiesKHR fd;
} discrete;

/* --- what it says of itself --- */

static void discrete_describe(VkPhysicalDeviceProperties *out) {
    out->vendorID = 0x10de;
    out->deviceID = 0x2330;
    out->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

static VKAPI_ATTR void VKAPI_CALL discrete_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *out) {
    discrete.properties(physical, out);
    discrete_describe(out);
}

static VKAPI_ATTR void VKAPI_CALL discrete_properties_2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *out) {
    VkBaseOutStructure *next;
    discrete.properties_2(physical, out);
    discrete_describe(&out->properties);
    for (next = (VkBaseOutStructure *)out->pNext; next; next = next->pNext)
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV)
            ((VkPhysicalDeviceShaderSMBuiltinsPropertiesNV *)next)->shaderSMCount = DISCRETE_CORES;
}

static VKAPI_ATTR VkResult VKAPI_CALL discrete_extensions(VkPhysicalDevice physical, const char *layer, uint32_t *count,
                                                          VkExtensionProperties *out) {
    static const VkExtensionProperties cores = {VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME,
                                                VK_NV_SHADER_SM_BUILTINS_SPEC_VERSION};
    uint32_t room = *count;
    VkResult result = discrete.extensions(physical, layer, count, out);
    if (layer || result != VK_SUCCESS) return result;
    if (out && *count >= room) return VK_INCOMPLETE;
    if (out) out[*count] = cores;
    ++*count;
    return VK_SUCCESS;
}

/* --- memory --- */

enum { DISCRETE_TYPES = 5, DISCRETE_HIDDEN = 2 }; /* the first types cannot be mapped */

static const VkMemoryType discrete_types[DISCRETE_TYPES] = {
    {0, 1},
    {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0},
    {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, 1},
    {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
     1},
    {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
     0},
};

static void discrete_memory_fill(VkPhysicalDeviceMemoryProperties *out) {
    memset(out, 0, sizeof *out);
    out->memoryTypeCount = DISCRETE_TYPES;
    memcpy(out->memoryTypes, discrete_types, sizeof discrete_types);
    out->memoryHeapCount = 2;
    out->memoryHeaps[0].size = DISCRETE_HEAP;
    out->memoryHeaps[0].flags = VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
    out->memoryHeaps[1].size = DISCRETE_HEAP;
}

static VKAPI_ATTR void VKAPI_CALL discrete_memory(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties *out) {
    (void)physical;
    discrete_memory_fill(out);
}

static VKAPI_ATTR void VKAPI_CALL discrete_memory_2(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2 *out) {
    VkBaseOutStructure *next;
    uint32_t i;
    discrete.memory_2(physical, out);
    discrete_memory_fill(&out->memoryProperties);
    for (next = (VkBaseOutStructure *)out->pNext; next; next = next->pNext) {
        VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = (VkPhysicalDeviceMemoryBudgetPropertiesEXT *)next;
        if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) continue;
        for (i = 0; i < 2; i++) budget->heapBudget[i] = DISCRETE_HEAP, budget->heapUsage[i] = (VkDeviceSize)2 << 20;
    }
}

static void discrete_bits(uint32_t *bits) {
    if (*bits) *bits = (1u << DISCRETE_TYPES) - 1;
}

static VKAPI_ATTR void VKAPI_CALL discrete_buffer_needs(VkDevice device, VkBuffer buffer, VkMemoryRequirements *out) {
    discrete.buffer_needs(device, buffer, out);
    discrete_bits(&out->memoryTypeBits);
}
static VKAPI_ATTR void VKAPI_CALL discrete_image_needs(VkDevice device, VkImage image, VkMemoryRequirements *out) {
    discrete.image_needs(device, image, out);
    discrete_bits(&out->memoryTypeBits);
}

#define DISCRETE_NEEDS(name, info)                                                                                     \
    static VKAPI_ATTR void VKAPI_CALL discrete_##name(VkDevice device, const info *in, VkMemoryRequirements2 *out) {   \
        discrete.name(device, in, out);                                                                                \
        discrete_bits(&out->memoryRequirements.memoryTypeBits);                                                        \
    }
DISCRETE_NEEDS(buffer_needs_2, VkBufferMemoryRequirementsInfo2)
DISCRETE_NEEDS(image_needs_2, VkImageMemoryRequirementsInfo2)
DISCRETE_NEEDS(device_buffer_needs, VkDeviceBufferMemoryRequirements)
DISCRETE_NEEDS(device_image_needs, VkDeviceImageMemoryRequirements)
#undef DISCRETE_NEEDS

static VKAPI_ATTR VkResult VKAPI_CALL discrete_host_pointer(VkDevice device, VkExternalMemoryHandleTypeFlagBits type,
                                                            const void *pointer,
                                                            VkMemoryHostPointerPropertiesEXT *out) {
    VkResult result = discrete.host_pointer(device, type, pointer, out);
    if (out->memoryTypeBits) out->memoryTypeBits = 1u << 2 | 1u << 3;
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL discrete_fd(VkDevice device, VkExternalMemoryHandleTypeFlagBits type, int fd,
                                                  VkMemoryFdPropertiesKHR *out) {
    VkResult result = discrete.fd(device, type, fd, out);
    discrete_bits(&out->memoryTypeBits);
    return result;
}

/* Blocks that cannot be mapped. */
static VkDeviceMemory discrete_hidden[4096];

static void discrete_mark(VkDeviceMemory from, VkDeviceMemory to) {
    size_t i;
    pthread_mutex_lock(&lock);
    for (i = 0; i < sizeof discrete_hidden / sizeof *discrete_hidden && discrete_hidden[i] != from; i++) {
    }
    if (i < sizeof discrete_hidden / sizeof *discrete_hidden) discrete_hidden[i] = to;
    pthread_mutex_unlock(&lock);
}

static VKAPI_ATTR VkResult VKAPI_CALL discrete_allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                                        const VkAllocationCallbacks *callbacks, VkDeviceMemory *out) {
    VkMemoryAllocateInfo changed = *info;
    VkResult result;
    changed.memoryTypeIndex = 0;
    result = discrete.allocate(device, &changed, callbacks, out);
    if (result == VK_SUCCESS && info->memoryTypeIndex < DISCRETE_HIDDEN) discrete_mark(VK_NULL_HANDLE, *out);
    return result;
}

static VKAPI_ATTR void VKAPI_CALL discrete_free_memory(VkDevice device, VkDeviceMemory memory,
                                                       const VkAllocationCallbacks *callbacks) {
    if (memory) discrete_mark(memory, VK_NULL_HANDLE);
    discrete.free_memory(device, memory, callbacks);
}

static VKAPI_ATTR VkResult VKAPI_CALL discrete_map(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                                                   VkDeviceSize size, VkMemoryMapFlags flags, void **out) {
    size_t i;
    bool hidden = false;
    pthread_mutex_lock(&lock);
    for (i = 0; i < sizeof discrete_hidden / sizeof *discrete_hidden; i++) hidden |= discrete_hidden[i] == memory;
    pthread_mutex_unlock(&lock);
    return hidden ? VK_ERROR_MEMORY_MAP_FAILED : discrete.map(device, memory, offset, size, flags, out);
}

/* --- */

static PFN_vkVoidFunction discrete_replace(const char *name, PFN_vkVoidFunction function) {
#define DISCRETE_CALL(called, member)                                                                                  \
    if (function && (!strcmp(name, called) || !strcmp(name, called "KHR"))) {                                          \
        *(PFN_vkVoidFunction *)&discrete.member = function;                                                            \
        return (PFN_vkVoidFunction)discrete_##member;                                                                  \
    }
    DISCRETE_CALL("vkGetPhysicalDeviceProperties", properties)
    DISCRETE_CALL("vkGetPhysicalDeviceProperties2", properties_2)
    DISCRETE_CALL("vkGetPhysicalDeviceMemoryProperties", memory)
    DISCRETE_CALL("vkGetPhysicalDeviceMemoryProperties2", memory_2)
    DISCRETE_CALL("vkEnumerateDeviceExtensionProperties", extensions)
    DISCRETE_CALL("vkAllocateMemory", allocate)
    DISCRETE_CALL("vkMapMemory", map)
    DISCRETE_CALL("vkFreeMemory", free_memory)
    DISCRETE_CALL("vkGetBufferMemoryRequirements", buffer_needs)
    DISCRETE_CALL("vkGetBufferMemoryRequirements2", buffer_needs_2)
    DISCRETE_CALL("vkGetImageMemoryRequirements", image_needs)
    DISCRETE_CALL("vkGetImageMemoryRequirements2", image_needs_2)
    DISCRETE_CALL("vkGetDeviceBufferMemoryRequirements", device_buffer_needs)
    DISCRETE_CALL("vkGetDeviceImageMemoryRequirements", device_image_needs)
    DISCRETE_CALL("vkGetMemoryHostPointerPropertiesEXT", host_pointer)
    DISCRETE_CALL("vkGetMemoryFdPropertiesKHR", fd)
#undef DISCRETE_CALL
    return function;
}
