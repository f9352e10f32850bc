/* A small game engine around dit.h: a cube turns, and shows pictures that are made in the time its frames leave.

   renderer.c is an ordinary renderer on Vulkan 1.3 and knows nothing of dit; pictures.c is all that concerns dit, but
   for the device, which device.c describes; main.c has the options, the keys and the numbers. memory.cpp gives both
   their memory from VMA, where that is there.
 */
#ifndef ENGINE_H
#define ENGINE_H
#define VK_NO_PROTOTYPES
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vulkan/vulkan_core.h>

enum { FRAMES = 2, /* in flight */ BINS = 32, MIPS = 16 };

/* clang-format off */
#define GLOBAL_CALLS(X) X(CreateInstance) X(EnumerateInstanceLayerProperties)
#define INSTANCE_CALLS(X) \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties) X(GetPhysicalDeviceMemoryProperties) \
    X(GetPhysicalDeviceQueueFamilyProperties) X(CreateDevice) X(GetDeviceProcAddr) X(CreateDebugUtilsMessengerEXT) \
    X(DestroyDebugUtilsMessengerEXT) X(DestroySurfaceKHR) X(GetPhysicalDeviceSurfaceCapabilitiesKHR) \
    X(GetPhysicalDeviceSurfaceSupportKHR) X(GetPhysicalDeviceSurfaceFormatsKHR)
#define DEVICE_CALLS(X) \
    X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueSubmit2) X(QueuePresentKHR) X(CreateSwapchainKHR) \
    X(DestroySwapchainKHR) X(GetSwapchainImagesKHR) X(AcquireNextImageKHR) X(AllocateMemory) X(FreeMemory) X(MapMemory) \
    X(CreateImage) X(DestroyImage) X(GetImageMemoryRequirements) X(BindImageMemory) X(CreateImageView) \
    X(DestroyImageView) X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements) X(BindBufferMemory) \
    X(CreateSampler) X(DestroySampler) X(CreateShaderModule) X(DestroyShaderModule) X(CreateGraphicsPipelines) \
    X(DestroyPipeline) X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreateDescriptorSetLayout) \
    X(DestroyDescriptorSetLayout) X(CreateDescriptorPool) X(DestroyDescriptorPool) X(AllocateDescriptorSets) \
    X(UpdateDescriptorSets) X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) X(ResetCommandPool) \
    X(BeginCommandBuffer) X(EndCommandBuffer) X(CreateSemaphore) X(DestroySemaphore) X(WaitSemaphores) \
    X(GetSemaphoreCounterValue) X(CmdPipelineBarrier2) X(CmdBlitImage2) X(CmdBeginRendering) X(CmdEndRendering) \
    X(CmdBindPipeline) X(CmdBindDescriptorSets) X(CmdPushConstants) X(CmdSetViewport) X(CmdSetScissor) X(CmdDraw) \
    X(CmdCopyImageToBuffer)
/* clang-format on */

typedef struct options {
    const char *model, *prompts, *cache, *json, *png;
    uint32_t headless; /* frames without a window; 0: a window */
    uint32_t pictures; /* that end it when they are finished, after the last press; 0: frames alone do */
    uint32_t side, steps, budget_us;
    bool validate, compute, vma, still; /* compute: dit on a queue of its own; still: the cube does not turn */
    struct {
        uint32_t frame;
        char key;
    } presses[16];
    uint32_t press_count;
} options;

typedef struct texture { /* with mips, drawn by the renderer, its first mip written by somebody else */
    VkImage image;
    VkImageView view;
    VkDeviceMemory memory;
    void *handle; /* of memory.cpp */
    uint32_t side, mips;
} texture;

typedef struct rectangle {
    float x, y, width, height; /* in -1..1 of the window, y down */
    float red, green, blue;
} rectangle;

typedef struct renderer {
    PFN_vkGetInstanceProcAddr entry;
    VkInstance instance;
    VkPhysicalDevice gpu;
    VkPhysicalDeviceMemoryProperties memory;
    VkDevice device;
    VkDeviceCreateInfo *device_info; /* as it was created */
    uint32_t family, compute_family; /* compute_family: UINT32_MAX where the graphics queue does everything */
    VkQueue queue, compute_queue;
    pthread_mutex_t queue_lock;
    VkSemaphore timeline, compute_timeline; /* both come to N when frame N is over */
    uint64_t frame;                         /* that is being made, from 1 on */
    uint64_t wait_compute;                  /* value of compute_timeline that this frame's drawing waits for; 0: none */
    uint64_t compute_waits;                 /* value of timeline that this frame's computing waits for; 0: none */
    VkCommandPool pools[FRAMES], compute_pools[FRAMES];
    VkCommandBuffer commands[FRAMES], compute_commands[FRAMES];
    VkSemaphore acquired[FRAMES], presentable[8];
    VkDescriptorPool descriptors;
    VkDescriptorSetLayout set_layout;
    VkDescriptorSet sets[FRAMES][2]; /* of the cube, and of the small picture */
    VkPipelineLayout layout;
    VkPipeline pipeline;
    VkSampler sampler;
    void *window, *allocator; /* a GLFWwindow; a VmaAllocator */
    VkSurfaceKHR surface;
    VkSwapchainKHR swapchain;
    VkFormat format;
    VkExtent2D extent;
    VkImage images[8];
    VkImageView views[8];
    uint32_t image_count, image;
    texture blank, target; /* target: what is drawn to without a window */
    bool resized, lost;
    VkDebugUtilsMessengerEXT messenger;
    uint32_t messages; /* of the validation layers */
    char name[256];
#define MEMBER(name) PFN_vk##name name;
    GLOBAL_CALLS(MEMBER)
    INSTANCE_CALLS(MEMBER)
    DEVICE_CALLS(MEMBER)
#undef MEMBER
} renderer;

bool renderer_open(renderer *r, const options *o, uint32_t width, uint32_t height);
void renderer_close(renderer *r);
void renderer_say(renderer *r, const char *what, VkResult result);
/* Begins a frame; false: none can be made now (a window without area), or the device is lost. */
bool renderer_begin(renderer *r);
/* The command buffer that computing goes to: that of the frame, or that of the other queue. */
VkCommandBuffer renderer_computing(renderer *r);
/* Every side of the cube has the texture; small: VK_NULL_HANDLE or a view for the corner. */
void renderer_draw(renderer *r, VkImageView cube, VkImageView small, float sine, const rectangle *bars, uint32_t count);
void renderer_end(renderer *r);
void renderer_drop(renderer *r);                      /* instead, without a window */
bool renderer_read(renderer *r, unsigned char *rgba); /* what the last frame drew, of r->target */
bool renderer_make_texture(renderer *r, uint32_t side, uint32_t mips, VkFormat format, VkImageUsageFlags usage,
                           texture *out);
void renderer_free_texture(renderer *r, texture *t);
/* Mip 0, which commands before have written, becomes all of them; each is in SHADER_READ_ONLY_OPTIMAL. */
void renderer_make_mips(renderer *r, const texture *t);
bool renderer_finished(renderer *r, uint64_t frame); /* its commands, on both queues */

typedef struct numbers { /* of what pictures.c did */
    uint32_t finished, shown, previews, cancelled, retired, restarts, unrecorded;
    double load_ms, first_slice_ms;
    uint32_t record_count;
    float record_us[8192]; /* host time of dit_job_record */
} numbers;
typedef struct pictures pictures;
pictures *pictures_open(renderer *r, const options *o, numbers *n); /* begins to load, in a thread */
void pictures_close(pictures *p);
bool pictures_loading(const pictures *p);
float pictures_progress(pictures *p);             /* of loading, then of the picture that is made */
bool pictures_frame(pictures *p, bool *recorded); /* false: it cannot go on, and has said why */
void pictures_drop(pictures *p);                  /* the frame's commands will not be submitted */
void pictures_key(pictures *p, char key);
VkImageView pictures_cube(const pictures *p), pictures_small(const pictures *p); /* VK_NULL_HANDLE: nothing yet */

/* device.c: adds to info what dit can use; the result, which becomes device_info, is freed with free. */
VkDeviceCreateInfo *device_extend(renderer *r, const VkDeviceCreateInfo *info);

/* main.c */
double now_ms(void);
void *read_file(const char *path, size_t *size); /* NULL where there is none; freed with free */
void write_file(const char *path, const void *bytes, size_t size);

/* memory.cpp; without VMA renderer.c, where memory_open refuses */
void *memory_open(renderer *r);
void memory_close(void *allocator);
VkResult memory_alloc(void *allocator, const VkMemoryRequirements *need, VkMemoryPropertyFlags required,
                      VkMemoryPropertyFlags preferred, VkDeviceMemory *memory, VkDeviceSize *offset, void **mapped,
                      void **handle);
void memory_free(void *allocator, void *handle);
#endif
