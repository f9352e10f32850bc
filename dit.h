/* dit.h - version 0.1.0 - pictures from quantized diffusion transformers, on any Vulkan 1.2 device. MIT licence.

   In exactly one C or C++ file of your program:

       #define DIT_IMPLEMENTATION
       #include "dit.h"

   and a plain #include "dit.h" wherever else you use it. Build with `cc -std=c99 -O2 app.c -lm -ldl`. Nothing else
   is linked: Vulkan is opened at run time or handed over by you, all shaders are inside this file. To compile it you
   need Vulkan's vulkan_core.h, 1.3.239 or newer (Debian, Ubuntu: libvulkan-dev); to run it a Vulkan driver (no GPU:
   mesa-vulkan-drivers).

   This file is generated; what you read now is src/dit_api.h, every banner below names the file to edit.

   ---- A tool: one picture, complete -------------------------------------------------------------------------------

       dit_context_desc cd = {0}; dit_model_desc md = {0}; dit_job_desc jd = {0};  // zeros are valid; {} in C++
       dit_context *ctx = NULL; dit_model *model = NULL; dit_job *job = NULL; dit_error err = {0};
       md.source.path = "models/emoji-q8_0.gguf";             // a GGUF, a .safetensors, or a diffusers folder
       jd.prompt = "banana, flat style"; jd.seed = 42;        // size, steps and guidance: the model's own
       if (dit_context_create(&cd, &ctx, &err) < 0) goto failed;
       if (dit_model_load(ctx, &md, &model, &err) < 0) goto failed;
       jd.model = model;
       if (dit_job_create(ctx, &jd, &job, &err) < 0) goto failed;
       if (dit_job_wait(job, UINT64_MAX) < 0) { dit_job_status(job, NULL, &err); goto failed; }
       if (dit_job_read(job, DIT_READ_RGBA8, 0, 0, pixels, size, 0, &err) < 0) goto failed;  // width * height * 4

   ---- An engine: two milliseconds of each frame, in your command buffer, nothing read back ------------------------

       if (dit_job_record(job, cmd, 2000) == DIT_WORKING) return;        // outside a render pass; not finished yet
       if (dit_job_output(job, 0, 0, &out) == DIT_OK) show(out.view);    // a VkImage in the layout you asked for

   examples/minimal.c is the first as a program, examples/txt2img.c a full command line tool.

   ---- dit does not ------------------------------------------------------------------------------------------------

   - train, fine-tune or change weights;
   - download anything, or write any file: pictures and caches are handed to you as bytes;
   - encode PNG or JPEG: pixels in, pixels out;
   - filter prompts or pictures;
   - run on the CPU by itself: it needs a Vulkan driver, which may be a software one (lavapipe, SwiftShader);
   - in this version: use several devices or machines, LoRA and control adapters, start and reference images, masks,
     video, caching policies or traces, or stream weights. The members for these are in place; setting one is refused by
     name, never ignored. Families: PixArt-alpha and PixArt-Sigma.

   ---- The contract ------------------------------------------------------------------------------------------------

   Three objects. A context is a device (yours or one that dit opens). A model is weights, immutable once loaded. A
   job is one request, planned once: all memory, pipelines and command buffers exist when dit_job_create returns, and
   running it allocates, compiles and records nothing.

   Zero. Every desc that is all zeros but for its required members is valid; what zero means stands beside each
   member. The two guards of a desc, _zero_begin and _zero_end, must stay zero: a desc that was never initialised is
   refused. Descs, strings and arrays that a desc points to are copied or used before the call returns, but for what
   a line says.

   Errors. Negative results are errors, DIT_OK, DIT_WORKING and DIT_CANCELLED are not. Functions that can fail take a
   dit_error of yours (or NULL) and write it only when they fail: one line that names the file, tensor, limit or
   Vulkan call at fault and, where known, what to do. A failing function leaves nothing behind: outputs are NULL,
   memory is freed. The functions of a running job have no dit_error: their result is kept, dit_job_status tells the
   text. After DIT_ERROR_DEVICE_LOST every call on that context fails the same way; destroy everything and start
   anew.

   Threads. "Any thread" means from any thread, at any time, also in parallel. "One thread" means one thread at a
   time for this object; different objects are independent. A context and a loaded model are safe to share: two jobs
   on one model may run in two threads. dit_vulkan.lock_queue is needed where you use that queue in other threads. dit
   itself starts no thread.

   Lifetime. Destroy jobs first, then their models, then the context; jobs among themselves in any order. Destroying
   waits for work that dit has submitted; work that you submitted must have finished. What a model's source points to
   must stay until dit_model_load returns, hooks until the context is gone. Objects that you hand over are never
   destroyed or changed.

   Two ways to run, one state machine. dit_job_step and dit_job_wait submit to the queue by themselves.
   dit_job_record appends to your command buffer instead. Choose one per run of a job. Work is cut into slices of at
   most max_dispatch_us; a call stops before the slice that would exceed its budget, but always makes progress, so it
   overshoots by one slice at most. Cancelling takes effect after at most one slice.

   Recording. Call dit_job_record outside a render pass, in a primary command buffer; submit what it recorded in the
   order of the calls, on the queue family named in dit_vulkan; the commands recorded frames_in_flight calls ago must
   have finished. dit adds its own barriers and leaves only the output image in the promised layout. When device
   memory or uploads are not ready the call records nothing and returns DIT_WORKING.

   Determinism. Same model file, desc, dit version, device and driver: the same bytes, whatever the budgets, slices,
   threads or the way it is run, and image i of a batch equals its single run with seed + i. Across devices results
   agree within the tolerances of tests/.

   Memory. Host memory comes from dit_allocator, device memory from dit_device_allocator, both optional.
   dit_job_memory answers before anything is allocated. Sizes, counts and offsets that a file states are checked
   before they are used.

   Never. dit does not abort, exit, print, read environment variables, install signal handlers, change the working
   directory, or keep state outside its objects.

   Versions. DIT_VERSION is major * 10000 + minor * 100 + patch. A patch changes no declaration; a minor release only
   adds, and a new member's zero means what the older version did. Before 1.0 a minor release may also remove, and
   says so. Compare dit_version() with DIT_VERSION when the implementation is compiled elsewhere. Prompt blobs and
   cache blobs carry their own version and are refused, respectively ignored, when it does not fit.

   Units. Sizes are bytes, times are microseconds where a name ends in _us and nanoseconds in _ns, pictures are rows
   from the top, pixels from the left. Text is UTF-8 and NUL-terminated. Shapes are written slowest dimension first. */
#ifndef DIT_H
#define DIT_H
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#ifndef VULKAN_CORE_H_
#include <vulkan/vulkan_core.h> /* types only: dit never references a vk* symbol */
#endif
#ifdef __cplusplus
extern "C" {
#endif
#ifndef DIT_API
#define DIT_API extern /* define it before including to get static, __declspec(dllexport), ... */
#endif
#define DIT_VERSION 100 /* 0.1.0 */

/* ---- Objects and results ----------------------------------------------------------------------------------------- */

typedef struct dit_context dit_context; /* a device, its pipelines and its memory */
typedef struct dit_model dit_model;     /* weights; immutable once loaded, shared by jobs */
typedef struct dit_job dit_job;         /* one request: a picture, or image_count of them */

/* Negative results are errors, as in VkResult. */
typedef enum dit_result {
    DIT_OK = 0,                        /* done */
    DIT_WORKING = 1,                   /* not done yet: call again */
    DIT_CANCELLED = 2,                 /* a progress hook returned false, or dit_job_cancel was called */
    DIT_ERROR_INVALID_ARGUMENT = -1,   /* a mistake of the caller: a null pointer, an impossible or unsupported value */
    DIT_ERROR_OUT_OF_HOST_MEMORY = -2, /* an allocation was refused */
    DIT_ERROR_OUT_OF_DEVICE_MEMORY = -3, /* the device, its allocator or device_memory_limit refused */
    DIT_ERROR_DEVICE_LOST = -4,          /* the device is gone, and with it the context */
    DIT_ERROR_UNSUPPORTED_DEVICE = -5,   /* no Vulkan, no such device, or one that lacks what dit needs */
    DIT_ERROR_UNSUPPORTED_MODEL = -6,    /* a sound file that dit cannot run: an unknown family, type or option */
    DIT_ERROR_BAD_FILE = -7,             /* a damaged or inconsistent file */
    DIT_ERROR_IO = -8,                   /* a file or callback could not be read */
    DIT_ERROR_VULKAN = -9,               /* another Vulkan call failed: see dit_error.vk */
    DIT_ERROR_NOT_FINITE = -10,          /* NaN or infinity reached a latent or a picture; names step and op */
    DIT_ERROR_TRANSPORT = -11            /* a peer or another rank failed */
} dit_result;

typedef struct dit_error { /* yours; written only when a call fails */
    char message[504];     /* one line, no newline at its end */
    dit_result result;
    VkResult vk; /* of the Vulkan call at fault, else VK_SUCCESS */
} dit_error;

/* What a job does now. */
typedef enum dit_stage {
    DIT_STAGE_QUEUED,  /* created, nothing run yet */
    DIT_STAGE_ENCODE,  /* text encoder */
    DIT_STAGE_DENOISE, /* transformer */
    DIT_STAGE_DECODE,  /* autoencoder */
    DIT_STAGE_DONE     /* finished; a run that failed or was cancelled stays in the stage where it ended */
} dit_stage;

/* How far a run is: on the GPU in step mode, in your command buffers in record mode. */
typedef struct dit_status {
    uint32_t step;          /* denoising steps finished */
    uint32_t step_count;    /* denoising steps planned */
    float fraction;         /* 0..1 of all GPU work of the run; never decreases until a restart */
    uint32_t last_slice_us; /* GPU time of the newest finished slice; 0: none yet, or a queue without timestamps */
    uint32_t preview_id;    /* changes with every new preview; 0: none yet */
    dit_result result;      /* DIT_WORKING, DIT_OK when finished, DIT_CANCELLED, or the error that ended the run */
    dit_stage stage;
} dit_status;

typedef struct dit_counters { /* of one job since dit_job_create began; a restart does not reset them */
    uint64_t dispatches;      /* compute dispatches executed or recorded for execution */
    uint64_t submits;         /* queue submissions by dit */
    uint64_t recordings;      /* command buffers recorded by dit: constant after creation */
    uint64_t allocations;     /* device memory allocations: constant after creation */
    uint64_t pipelines;       /* pipelines compiled: constant after creation, 0 when all existed already */
    uint64_t peer_bytes;      /* sent to other devices */
    uint64_t streamed_bytes;  /* weights uploaded while running */
} dit_counters;

/* ---- Hooks. All zero: the default. Either every function of a hook is set or none -------------------------------- */

/* Host memory, asked for in the threads that call dit. Zero: malloc and free. */
typedef struct dit_allocator {
    /* size bytes at a multiple of align, a power of two; NULL: refused, the call at hand fails cleanly */
    void *(*alloc)(size_t size, size_t align, void *user);
    /* p as it came from alloc, never NULL; size as it was asked for */
    void (*free)(void *p, size_t size, void *user);
    void *user; /* passed through; may be NULL, here and in every hook */
} dit_allocator;

/* What dit has to say. Zero: silence. */
typedef struct dit_logger {
    /* one line, no newline; level 0 error, 1 warning, 2 information, 3 debugging */
    void (*func)(int level, const char *message, void *user);
    int max_level; /* 0: errors only; messages above it are not even made */
    void *user;    /* passed through */
} dit_logger;

/* How far a long call is. Zero: not told. */
typedef struct dit_progress {
    /* what: "weights", "pipelines", ...; done of total in units that differ; false cancels the call */
    bool (*func)(const char *what, uint64_t done, uint64_t total, void *user);
    void *user; /* passed through */
} dit_progress;

/* Threads of yours that dit may use for file reads and pipeline builds. Zero: the calling thread does everything. */
typedef struct dit_worker {
    /* have task(arg) called on another thread, now or soon; false: refused. A task is over before the call that handed
       it out returns. */
    bool (*run)(void (*task)(void *arg), void *arg, void *user);
    void *user; /* passed through */
} dit_worker;

typedef struct dit_block { /* a piece of device memory */
    VkDeviceMemory memory;
    VkDeviceSize offset; /* of the piece in memory */
    VkDeviceSize size;   /* at least what was asked for */
    void *mapped;        /* host address of the piece; required when HOST_VISIBLE was required, else may be NULL */
    void *handle;        /* yours */
} dit_block;

/* Device memory, e.g. three lines on top of VMA. Zero: vkAllocateMemory. */
typedef struct dit_device_allocator {
    /* device: index in the context; required: flags that the memory must have; preferred: flags that help */
    VkResult (*alloc)(uint32_t device, const VkMemoryRequirements *need, VkMemoryPropertyFlags required,
                      VkMemoryPropertyFlags preferred, dit_block *out, void *user);
    void (*free)(uint32_t device, const dit_block *block, void *user);
    void *user; /* passed through */
} dit_device_allocator;

/* Other processes or machines: every rank makes the same calls, rank 0 has the result. Zero: none, and in this version
   anything else is refused. send and receive start a transfer and return a request, NULL: failed. */
typedef struct dit_transport {
    uint32_t rank;       /* of this process */
    uint32_t rank_count; /* 0: one process */
    void *(*send)(uint32_t to, const void *data, size_t size, uint64_t tag, void *user);
    void *(*receive)(uint32_t from, void *data, size_t size, uint64_t tag, void *user);
    int (*poll)(void *request, void *user); /* 1 done, 0 not yet, < 0 failed */
    void *user;                             /* passed through */
} dit_transport;

/* ---- Devices and the context ------------------------------------------------------------------------------------- */

typedef struct dit_device_info {
    char name[256];          /* as the driver states it */
    uint8_t uuid[16];        /* deviceUUID */
    uint32_t vendor;         /* vendorID */
    uint32_t type;           /* a VkPhysicalDeviceType */
    uint32_t api_version;    /* VK_MAKE_API_VERSION form */
    uint32_t driver_version; /* in the vendor's own form */
    VkDeviceSize memory;     /* of the largest device-local heap */
    char rung[32];           /* the best kernels it can run ("base", "fp16"); "none": dit cannot use it */
} dit_device_info;

/* A device of the application's, never destroyed or changed. With get_instance_proc_addr alone dit makes its own device
   through your loader. */
typedef struct dit_vulkan {
    PFN_vkGetInstanceProcAddr get_instance_proc_addr; /* required */
    VkInstance instance;                              /* required */
    VkPhysicalDevice physical_device;                 /* required */
    VkDevice device;                                  /* required */
    uint32_t api_version;                             /* VkApplicationInfo.apiVersion of the instance; 0: 1.2 */
    const VkDeviceCreateInfo *device_info;       /* as passed to vkCreateDevice: dit uses only what it enabled; NULL:
                                                    timelineSemaphore alone */
    VkQueue queue;                               /* required; any queue with COMPUTE */
    uint32_t queue_family;                       /* of queue; 0 is a family like any other */
    VkQueue transfer_queue;                      /* may be used for uploads; NULL: queue does them */
    uint32_t transfer_family;                    /* of transfer_queue */
    void (*lock_queue)(void *user);              /* held around each submit only; NULL: nobody else uses the queue */
    void (*unlock_queue)(void *user);            /* set exactly when lock_queue is */
    void *lock_user;                             /* passed through */
    VkPipelineCache pipeline_cache;              /* used for all pipelines; VK_NULL_HANDLE: dit's own */
    const VkAllocationCallbacks *host_callbacks; /* for every vkCreate*; NULL: none */
} dit_vulkan;

typedef struct dit_context_desc {
    uint32_t _zero_begin; /* guard: stays zero */
    const char *devices;  /* which one dit opens: an index of dit_device_list ("0"), part of a name, or "uuid:" and 32
                             hexadecimal digits; NULL: the best one */
    const dit_vulkan *vulkan;              /* or: the application's device; NULL: dit opens one */
    uint32_t vulkan_count;                 /* 0 without vulkan, else 1 in this version */
    dit_transport transport;               /* zero: this process alone */
    dit_allocator allocator;               /* zero: malloc and free */
    dit_device_allocator device_allocator; /* zero: vkAllocateMemory in large blocks */
    dit_logger logger;                     /* zero: silence */
    dit_worker worker;                     /* zero: the calling thread does everything */
    dit_progress progress;                 /* of what has none of its own; zero: none */
    const void *cache;                     /* from dit_context_save_cache; NULL: none. Damaged ones are ignored */
    size_t cache_size;                     /* of cache */
    VkDeviceSize device_memory_limit;      /* most that dit allocates; 0: VK_EXT_memory_budget, else 80 % of the heap */
    uint32_t frames_in_flight;             /* dit_job_record calls whose commands may be pending; 0: 3 */
    uint32_t max_dispatch_us;              /* longest indivisible piece of GPU work; 0: 50000, engines set 1000 */
    const char *overrides; /* "rung=base,storage_range=1M": for tests and bug hunts, no promise; NULL: none */
    bool trace;            /* timestamps around every op, for dit_trace_write; false: none */
    uint32_t _zero_end;    /* guard: stays zero */
} dit_context_desc;

/* ---- Models ------------------------------------------------------------------------------------------------------ */

/* How numbers are stored; the zero leaves them as the file has them. */
typedef enum dit_type {
    DIT_TYPE_STORED,
    DIT_TYPE_F32,
    DIT_TYPE_F16,
    DIT_TYPE_BF16,
    DIT_TYPE_F8_E4M3,
    DIT_TYPE_F8_E5M2,
    DIT_TYPE_Q8_0, /* blocks of 32 as ggml defines them: this one to Q5_1 */
    DIT_TYPE_Q4_0,
    DIT_TYPE_Q4_1,
    DIT_TYPE_Q5_0,
    DIT_TYPE_Q5_1,
    DIT_TYPE_Q2_K, /* blocks of 256: this one to Q6_K */
    DIT_TYPE_Q3_K,
    DIT_TYPE_Q4_K,
    DIT_TYPE_Q5_K,
    DIT_TYPE_Q6_K,
    DIT_TYPE_I8_ROW,         /* int8 with a scale per row */
    DIT_TYPE_I8_ROW_ROTATED, /* the same after a Hadamard rotation */
    DIT_TYPE_I32,
    DIT_TYPE_I64
} dit_type;

/* What a part of a pipeline is. */
typedef enum dit_role {
    DIT_ROLE_NONE, /* told from the content */
    DIT_ROLE_TRANSFORMER,
    DIT_ROLE_TEXT_1, /* text_encoder */
    DIT_ROLE_TEXT_2, /* text_encoder_2 */
    DIT_ROLE_TEXT_3, /* text_encoder_3 */
    DIT_ROLE_TOKENIZER_1,
    DIT_ROLE_TOKENIZER_2,
    DIT_ROLE_TOKENIZER_3,
    DIT_ROLE_VAE, /* the autoencoder */
    DIT_ROLE_TAE, /* a tiny autoencoder in its place */
    DIT_ROLE_SCHEDULER,
    DIT_ROLE_LORA,
    DIT_ROLE_CONTROL
} dit_role;

/* Where bytes come from: a path, memory, or callbacks. All zero: nothing. A folder behind callbacks is open alone. */
typedef struct dit_source {
    const char *path; /* of a file or, for a whole pipeline, of a diffusers folder; NULL: data, read_at or open */
    const void *data; /* a file's bytes in memory; NULL: path, read_at or open */
    uint64_t size;    /* of data, or of what read_at reads; 0 with path */
    /* copies size bytes from offset to dst and returns their number, less is an error; NULL: path, data or open */
    int64_t (*read_at)(uint64_t offset, void *dst, size_t size, void *user);
    /* opens a file of the folder, or another shard, by its relative path; DIT_ERROR_IO: there is none. NULL: path does
       it, or the source is a single file */
    dit_result (*open)(const char *member, struct dit_source *out, void *user);
    void *user; /* passed through */
} dit_source;

typedef struct dit_component { /* a part of a pipeline that lives elsewhere */
    dit_source source;
    dit_role role; /* DIT_ROLE_NONE: told from the content */
    float weight;  /* of a LoRA; 0: 1 */
} dit_component;

typedef struct dit_type_rule { /* which tensors to keep in which type */
    const char *tensors;       /* a glob over tensor names: * and ? */
    dit_type type;             /* DIT_TYPE_STORED: as the file has them */
} dit_type_rule;

typedef struct dit_model_desc {
    uint32_t _zero_begin;            /* guard: stays zero */
    dit_source source;               /* required, unless components name every part: all parts found in it are used */
    const dit_component *components; /* parts that replace or complete those of source; NULL: none */
    uint32_t component_count;        /* of components */
    const dit_type_rule *types;      /* the first rule that matches a tensor wins; NULL: all tensors as stored */
    uint32_t type_count;             /* of types */
    VkDeviceSize weight_budget;      /* device memory for weights, the rest is streamed; 0: all weights resident */
    bool release_text_encoders;      /* give their device memory back while denoising; false: keep */
    bool dry_run; /* read headers only: answers dit_model_get_info and dit_job_memory, makes no jobs; false: load */
    dit_progress progress; /* of loading, in bytes; zero: none */
    uint32_t _zero_end;    /* guard: stays zero */
} dit_model_desc;

typedef struct dit_model_info {
    char family[32];           /* "pixart" */
    char variant[32];          /* "alpha", "sigma" */
    uint64_t parameters[16];   /* count by dit_role; 0: no such part */
    uint32_t missing;          /* bit 1 << role for each part that a prompt needs and the model lacks; 0: complete */
    uint32_t default_width;    /* pixels */
    uint32_t default_height;   /* pixels */
    uint32_t size_multiple;    /* width and height must be positive multiples of it */
    uint32_t default_steps;    /* denoising steps */
    uint32_t class_count;      /* class-conditional models; 0: the model takes prompts */
    uint32_t frame_multiple;   /* video models; 0: single pictures */
    float default_guidance;    /* guidance.scale that zero stands for */
    uint32_t latent_channels;  /* C of a latent [C, h, w] */
    uint32_t latent_factor;    /* pixels per latent element: h = height / latent_factor */
    char default_sampler[32];  /* what dit_job_desc.sampler NULL stands for */
    char default_schedule[32]; /* what dit_job_desc.schedule NULL stands for; empty: the scheduler's own file decides */
} dit_model_info;

/* ---- Jobs -------------------------------------------------------------------------------------------------------- */

typedef struct dit_image {  /* pixels of yours */
    uint32_t width, height; /* pixels; 0: no image */
    const uint8_t *rgba;    /* [height][width][4], sRGB; NULL: image */
    size_t row_pitch;       /* bytes from row to row; 0: width * 4 */
    VkImage image;          /* or one on the device; VK_NULL_HANDLE: rgba */
    VkImageLayout layout;   /* of image */
} dit_image;

typedef struct dit_tensor { /* an input by its name in diffusers */
    const char *name;       /* "noise" [B, C, h, w] unit normal; "prompt_embeds", "negative_prompt_embeds" [1, tokens,
                               columns]; "prompt_attention_mask", "negative_prompt_attention_mask" [1, tokens] */
    dit_type type;          /* DIT_TYPE_F32, F16, BF16; masks also I32, I64; DIT_TYPE_STORED: F32 */
    uint32_t rank;          /* 1..5 */
    uint64_t shape[5];      /* slowest first */
    const void *data;       /* dense, little-endian */
} dit_tensor;

typedef struct dit_guidance {
    float scale;      /* classifier-free guidance; 0: the model's default; 1: off, and half the work */
    float distilled;  /* guidance that is an input of the model; 0: the model's default */
    float rescale;    /* 0: off */
    float skip_layer; /* 0: off */
    float first;      /* fraction of steps (0..1) at which the unconditional branch begins */
    float last;       /* and ends; first = last = 0: all steps */
} dit_guidance;

typedef struct dit_adapter { /* a LoRA or a control model at run time */
    const dit_model *model;  /* required */
    float weight;            /* 0: 1 */
    float first, last;       /* fraction of steps; 0, 0: all */
    dit_image image;         /* the control picture; zero: none */
} dit_adapter;

/* Where noise comes from; the same seed gives the same numbers on every device. */
typedef enum dit_rng {
    DIT_RNG_DEFAULT,   /* DIT_RNG_TORCH_CPU */
    DIT_RNG_TORCH_CPU, /* torch.Generator("cpu"), mt19937: what diffusers scripts mostly use */
    DIT_RNG_PHILOX     /* torch.Generator("cuda"): what graphical front ends mostly use */
} dit_rng;

/* Where the picture goes. All zero: dit creates a VkImage. */
typedef struct dit_target {
    VkImage image;   /* yours, width x height with usage TRANSFER_DST, image_count 1; VK_NULL_HANDLE: dit creates one */
    VkFormat format; /* of image; VK_FORMAT_UNDEFINED: VK_FORMAT_R8G8B8A8_UNORM (the values are sRGB) */
    uint32_t dst_queue_family;      /* to which dit releases image; its own or VK_QUEUE_FAMILY_IGNORED: none. Not used
                                       for dit's own images */
    VkImageLayout final_layout;     /* VK_IMAGE_LAYOUT_UNDEFINED: VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL */
    VkPipelineStageFlags dst_stage; /* that will use the image; 0: ALL_COMMANDS */
    VkAccessFlags dst_access;       /* how; 0: MEMORY_READ */
} dit_target;

typedef struct dit_job_desc {
    uint32_t _zero_begin;              /* guard: stays zero */
    const dit_model *model;            /* required; of the same context, not a dry run */
    const char *prompt;                /* NULL: "" (or conditioning, or inputs) */
    const char *negative_prompt;       /* NULL: "" */
    const int32_t *class_labels;       /* [image_count], class-conditional models; NULL: none */
    const void *conditioning;          /* a blob from dit_encode_prompt, instead of prompt; NULL: prompt */
    size_t conditioning_size;          /* of conditioning */
    const void *negative_conditioning; /* the same for the negative prompt; NULL: negative_prompt */
    size_t negative_conditioning_size; /* of negative_conditioning */
    const dit_tensor *inputs;          /* replace what dit would compute: see dit_tensor.name; NULL: none */
    uint32_t input_count;              /* of inputs */
    uint32_t width;                    /* pixels, a multiple of dit_model_info.size_multiple; 0: the model's default */
    uint32_t height;                   /* likewise */
    uint32_t frame_count;              /* of a clip; 0: 1 */
    uint32_t image_count;        /* pictures made together; image i uses seed + i and equals the single run; 0: 1 */
    uint32_t steps;              /* denoising steps; 0: the model's default */
    const char *sampler;         /* one of dit_sampler_name; NULL: the model's own */
    const char *schedule;        /* one of dit_schedule_name; NULL: the model's own */
    dit_guidance guidance;       /* zero: the model's default */
    float shift;                 /* of flow schedules; 0: the model's own */
    float eta;                   /* 0..1, noise of DDIM; 0: none */
    uint32_t clip_skip;          /* last layers of CLIP left out; 0: the model's own */
    uint64_t seed;               /* every value is a seed, 0 too; none means "random" */
    dit_rng rng;                 /* DIT_RNG_DEFAULT: torch's CPU generator */
    const dit_image *init_image; /* start from this picture; NULL: from noise */
    const dit_image *mask;       /* repaint where it is white; NULL: everywhere */
    float strength;              /* 0..1, how much of init_image is replaced; 0: 0.75 */
    const dit_image *references; /* pictures to refer to; NULL: none */
    uint32_t reference_count;    /* of references */
    const dit_adapter *adapters; /* NULL: none */
    uint32_t adapter_count;      /* of adapters */
    const char *split;           /* over several devices; NULL: the planner chooses */
    const char *cache;           /* a policy that skips work at some loss; NULL: none */
    uint32_t preview_interval;   /* a preview after every so many steps; 0: none */
    dit_target target;           /* zero: dit creates a VkImage */
    dit_progress progress;       /* of creation, since pipelines may take seconds; zero: none */
    uint32_t _zero_end;          /* guard: stays zero */
} dit_job_desc;

typedef struct dit_output { /* a picture on the device; dit's own images live until the job is restarted or destroyed */
    VkImage image;
    VkImageView view; /* VK_NULL_HANDLE for an image of yours */
    VkFormat format;
    VkImageLayout layout;   /* that the image is left in */
    uint32_t width, height; /* pixels */
    VkSemaphore timeline;   /* step mode: other queues wait until it reaches value; record mode: VK_NULL_HANDLE */
    uint64_t value;         /* of timeline */
} dit_output;

/* What dit_job_read writes. */
typedef enum dit_read {
    DIT_READ_RGBA8,      /* uint8_t [height][width][4], sRGB, alpha 255 */
    DIT_READ_RGB_F32,    /* float [height][width][3], the decoder's output mapped to 0..1, not clamped */
    DIT_READ_LATENT_F32, /* float [C][h][w], the sampler's last x, before scaling and shift */
    DIT_READ_PREVIEW     /* uint8_t [height][width][4], the newest preview, in the size that dit_job_preview tells */
} dit_read;

typedef struct dit_memory {   /* bytes; per device the fullest one */
    VkDeviceSize weights;     /* of the model, shared by its jobs */
    VkDeviceSize activations; /* of this job */
    VkDeviceSize peak;        /* largest sum at any time, loading included */
    size_t host;              /* host memory of the job */
} dit_memory;

/* ---- Functions --------------------------------------------------------------------------------------------------- */

/* The version of the compiled implementation, in the form of DIT_VERSION. Any thread. */
DIT_API uint32_t dit_version(void);

/* A result in a few words, such as "bad file".
   r: any value; unknown ones give "unknown result". Returns a static string, never NULL. Any thread. */
DIT_API const char *dit_result_string(dit_result r);

/* The names that dit_job_desc.sampler understands.
   index: counts from 0. Returns a static string, NULL past the end. Any thread. */
DIT_API const char *dit_sampler_name(uint32_t index);

/* The names that dit_job_desc.schedule understands.
   index: counts from 0. Returns a static string, NULL past the end. Any thread. */
DIT_API const char *dit_schedule_name(uint32_t index);

/* Lists the Vulkan devices of this machine, in the order that dit_context_desc.devices counts them. Opens the
   system's Vulkan loader and closes it again. Devices that dit cannot use are listed too, with rung "none".
   out: room for *count entries, or NULL to ask for the number only. count: required; in: entries of out; out:
   entries written, or the number of devices when out is NULL. err: may be NULL.
   Fails with DIT_ERROR_UNSUPPORTED_DEVICE when there is no Vulkan loader or driver. Any thread. */
DIT_API dit_result dit_device_list(dit_device_info *out, uint32_t *count, dit_error *err);

/* Makes the VkDeviceCreateInfo with which your device can run dit at its best: yours, plus the extensions and
   features that dit can use and gpu has. Create the device with it, and give it to dit as dit_vulkan.device_info.
   gipa: vkGetInstanceProcAddr. instance, gpu: yours. app: what you want yourself; nothing of it is removed or
   changed. memory: where the result's arrays and structures go (they must live as long as out is used), aligned to 8
   bytes, or NULL to ask for the size. size: required; in: bytes of memory; out: bytes needed. out: the result; its
   pointers lead into memory and app. err: may be NULL.
   Fails with DIT_ERROR_UNSUPPORTED_DEVICE when gpu lacks what dit needs, DIT_ERROR_INVALID_ARGUMENT when size is too
   small. Any thread. */
DIT_API dit_result dit_device_extend(PFN_vkGetInstanceProcAddr gipa, VkInstance instance, VkPhysicalDevice gpu,
                                     const VkDeviceCreateInfo *app, void *memory, size_t *size, VkDeviceCreateInfo *out,
                                     dit_error *err);

/* Opens a device, or wraps yours, and tests the kernels that it will use.
   desc: required; all zeros are valid. out: required; receives the context, NULL on failure. err: may be NULL.
   Fails with DIT_ERROR_UNSUPPORTED_DEVICE when no device fits desc->devices or it lacks a need, which is named.
   Returns DIT_CANCELLED when desc->progress says so. Any thread. */
DIT_API dit_result dit_context_create(const dit_context_desc *desc, dit_context **out, dit_error *err);

/* Copies out what makes the next start faster: compiled pipelines and tuned choices, for dit_context_desc.cache.
   ctx: required. blob: room for *size bytes, or NULL to ask for the size; 8 bytes of slack are wise when other
   threads create jobs meanwhile. size: required; in: bytes of blob; out: bytes written or needed. err: may be NULL.
   Fails with DIT_ERROR_INVALID_ARGUMENT when blob is too small, *size then tells the need. Any thread. */
DIT_API dit_result dit_context_save_cache(dit_context *ctx, void *blob, size_t *size, dit_error *err);

/* Destroys a context, after its jobs and models.
   ctx: may be NULL. One thread. */
DIT_API void dit_context_destroy(dit_context *ctx);

/* Loads a pipeline or parts of one: recognises the family from config.json, metadata or tensor names, and uploads
   the weights in their stored types. A prompt needs tokenizer, text encoder, transformer, autoencoder and scheduler;
   what is absent is told by dit_model_info.missing and refused only when a job needs it.
   ctx: required; may be NULL for a dry run. desc: required, with a source. out: required; receives the model, NULL
   on failure. err: may be NULL.
   Fails with DIT_ERROR_IO, DIT_ERROR_BAD_FILE, DIT_ERROR_UNSUPPORTED_MODEL, or an out-of-memory result; returns
   DIT_CANCELLED when desc->progress says so. Any thread. */
DIT_API dit_result dit_model_load(dit_context *ctx, const dit_model_desc *desc, dit_model **out, dit_error *err);

/* Tells what a model is and what its defaults are.
   model: required. out: required; overwritten. Any thread. */
DIT_API void dit_model_get_info(const dit_model *model, dit_model_info *out);

/* Destroys a model, after its jobs.
   model: may be NULL. One thread. */
DIT_API void dit_model_destroy(dit_model *model);

/* Runs the text encoder alone, so that prompts can be shipped as data and the encoder left at home. Waits for the
   GPU.
   ctx: required. model: required, with tokenizer and text encoder. prompt: required. blob: room for *size bytes, or
   NULL to ask for the size, which is the same for every prompt of a model. size: required; in: bytes of blob; out:
   bytes written or needed. err: may be NULL. The blob carries its version and a fingerprint of the encoder's shape.
   Fails with DIT_ERROR_INVALID_ARGUMENT when blob is too small, DIT_ERROR_UNSUPPORTED_MODEL when the model has no
   text encoder. Any thread. */
DIT_API dit_result dit_encode_prompt(dit_context *ctx, const dit_model *model, const char *prompt, void *blob,
                                     size_t *size, dit_error *err);

/* Tells the memory that a job would need, by planning it; allocates nothing on the device.
   ctx: required; may be NULL when desc->model is a dry run without one. desc: as for dit_job_create. out: required.
   err: may be NULL. Refuses what dit_job_create would refuse. Any thread. */
DIT_API dit_result dit_job_memory(const dit_context *ctx, const dit_job_desc *desc, dit_memory *out, dit_error *err);

/* Plans a request: checks it, allocates its memory, compiles the pipelines that do not exist yet, records its
   commands. Nothing runs yet.
   ctx: required. desc: required, with a model. out: required; receives the job, NULL on failure. err: may be NULL.
   Fails with DIT_ERROR_INVALID_ARGUMENT when a value cannot be done, naming the nearest one that can; returns
   DIT_CANCELLED when desc->progress says so. Any thread. */
DIT_API dit_result dit_job_create(dit_context *ctx, const dit_job_desc *desc, dit_job **out, dit_error *err);

/* Runs a job again with other prompts, seed, rng, guidance scale or inputs, keeping plan, memory and recordings.
   job: required; finished, failed, cancelled or not begun (a running one is cancelled first). desc: required;
   everything that shapes the plan must be as before: model, sizes, counts, steps, sampler, schedule, whether
   guidance is on, which inputs are given, previews and target. err: may be NULL.
   Fails with DIT_ERROR_INVALID_ARGUMENT naming what differs; the job is then as before. One thread. */
DIT_API dit_result dit_job_restart(dit_job *job, const dit_job_desc *desc, dit_error *err);

/* Appends the next piece of the job to your command buffer; submits nothing, waits for nothing.
   job: required; one not begun with dit_job_step. cmd: required; a primary command buffer in the recording state,
   outside a render pass; see "Recording" above. budget_us: GPU time to record, estimated from what ran before; 0:
   one slice.
   Returns DIT_WORKING until the whole job is recorded, then DIT_OK; DIT_CANCELLED or an error ends the run. One
   thread. */
DIT_API dit_result dit_job_record(dit_job *job, VkCommandBuffer cmd, uint32_t budget_us);

/* Submits the next piece of the job and returns at once; while enough is in flight it submits nothing.
   job: required; one not begun with dit_job_record. budget_us: GPU time to have in flight at most; 0: one slice.
   Returns DIT_WORKING until the job is finished on the GPU, then DIT_OK; DIT_CANCELLED or an error ends the run. One
   thread. */
DIT_API dit_result dit_job_step(dit_job *job, uint32_t budget_us);

/* Steps a job and waits for the GPU until the job ends or the time is over.
   job: required. timeout_ns: 0: like one step; UINT64_MAX: to the end. Returns as dit_job_step does. One thread. */
DIT_API dit_result dit_job_wait(dit_job *job, uint64_t timeout_ns);

/* Asks a job to stop; its thread gets DIT_CANCELLED within one slice. A job that has ended stays as it is.
   job: may be NULL. Any thread, also a signal handler; but not after the job is destroyed. */
DIT_API void dit_job_cancel(dit_job *job);

/* Tells how far a job is, and why it failed.
   job: required. out: may be NULL. err: may be NULL; receives the failure of the run, else DIT_OK and an empty
   message. Any thread. */
DIT_API void dit_job_status(const dit_job *job, dit_status *out, dit_error *err);

/* Tells what a job has cost so far.
   job: required. out: required; overwritten. Any thread. */
DIT_API void dit_job_get_counters(const dit_job *job, dit_counters *out);

/* Gives the finished picture as an image on the device, without a copy.
   job: required. image: 0 .. image_count - 1. frame: 0 .. frame_count - 1. out: required; on other queues wait for
   out->timeline first. Returns DIT_WORKING while its commands are not all submitted (or recorded), DIT_CANCELLED or
   the job's error after such an end, DIT_ERROR_INVALID_ARGUMENT when there is no such picture. One thread. */
DIT_API dit_result dit_job_output(dit_job *job, uint32_t image, uint32_t frame, dit_output *out);

/* Gives the newest preview: what the picture looks like so far, in its full size.
   job: required; created with a preview_interval. out: required. The image may be overwritten by the next call that
   runs the job. Returns DIT_WORKING while there is none yet. One thread. */
DIT_API dit_result dit_job_preview(dit_job *job, dit_output *out);

/* Copies a result to host memory, waiting for the GPU if need be.
   job: required; finished, unless what is DIT_READ_PREVIEW (in record mode your commands must have finished). what:
   picture, floats, latent or preview. image: 0 .. image_count - 1. frame: 0 .. frame_count - 1. dst: required. size:
   bytes of dst, at least rows * row_pitch. row_pitch: bytes from row to row; 0: rows follow each other; unused for
   latents. err: may be NULL. Returns DIT_WORKING and writes nothing when the job has not finished, DIT_CANCELLED
   after a cancelled run; fails with DIT_ERROR_INVALID_ARGUMENT when size is too small, naming the need. One thread. */
DIT_API dit_result dit_job_read(dit_job *job, dit_read what, uint32_t image, uint32_t frame, void *dst, size_t size,
                                size_t row_pitch, dit_error *err);

/* Destroys a job, running or not; waits for work that dit submitted for it.
   job: may be NULL. One thread. */
DIT_API void dit_job_destroy(dit_job *job);

/* Puts a moment of yours into the trace of a context created with trace; else does nothing.
   ctx: required. name: required; copied. Any thread. */
DIT_API void dit_trace_mark(dit_context *ctx, const char *name);

/* Begins a range of yours in the trace.
   ctx: required. name: required; copied. Returns the range for dit_trace_end, 0 without a trace. Any thread. */
DIT_API uint64_t dit_trace_begin(dit_context *ctx, const char *name);

/* Ends a range.
   ctx: required. range: from dit_trace_begin; 0 is ignored. Any thread. */
DIT_API void dit_trace_end(dit_context *ctx, uint64_t range);

/* Writes the trace so far as Chrome trace JSON (chrome://tracing, Perfetto) and empties it.
   ctx: required. write: required; receives size bytes of data several times; false ends it with DIT_CANCELLED. user:
   passed through. err: may be NULL. Fails with DIT_ERROR_INVALID_ARGUMENT when the context was created without
   trace. Any thread. */
DIT_API dit_result dit_trace_write(dit_context *ctx, bool (*write)(const void *data, size_t size, void *user),
                                   void *user, dit_error *err);

#ifdef __cplusplus
}
#endif
#endif

#if defined(DIT_IMPLEMENTATION) && !defined(DIT_IMPLEMENTED)
#define DIT_IMPLEMENTED
#define DIT_INTERNAL static

/* ======== src/base/base.h (edit it there; dit.h is generated) ======== */
/* base: errors, logging, allocation with overflow-checked sizes, strings, JSON, small float conversions. */
#ifndef DITI_BASE_H
#define DITI_BASE_H
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
#else
#define DITI_UNUSED
#define DITI_PRINTF(text, first)
#endif
#define DITI_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What every room needs from its caller: memory and a place for messages. Copied by value into whatever lives longer.
 */
typedef struct diti_env {
    dit_allocator allocator; /* both functions set: diti_env_init fills the defaults */
    dit_logger logger;
} diti_env;

typedef enum diti_log_level { DITI_LOG_ERROR, DITI_LOG_WARNING, DITI_LOG_INFO, DITI_LOG_DEBUG } diti_log_level;

/* --- errors and logging --- */
/* Fills err (may be NULL) with a formatted one-line message and returns result, so that `return diti_fail(...)` reads
 * well. */
DIT_INTERNAL dit_result diti_fail(dit_error *err, dit_result result, const char *format, ...) DITI_PRINTF(3, 4);
/* The same for a Vulkan call: keeps vk in err and maps it to a dit_result (memory, device lost, else DIT_ERROR_VULKAN).
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
DIT_INTERNAL bool diti_mul_size(size_t a, size_t b, size_t *out); /* false on overflow */
DIT_INTERNAL bool diti_add_u64(uint64_t a, uint64_t b, uint64_t *out);
DIT_INTERNAL bool diti_mul_u64(uint64_t a, uint64_t b, uint64_t *out);

/* --- strings --- */
DIT_INTERNAL bool diti_equal(const char *a, const char *b); /* NULL equals only NULL */
DIT_INTERNAL bool diti_starts_with(const char *text, const char *prefix);
DIT_INTERNAL bool diti_ends_with(const char *text, const char *suffix);
/* snprintf that never overflows and reports truncation as false. */
DIT_INTERNAL bool diti_format(char *out, size_t size, const char *format, ...) DITI_PRINTF(3, 4);
/* strtod and printf obey an application's setlocale; these read and write a decimal point always. text: a JSON number.
 */
DIT_INTERNAL double diti_parse_double(const char *text);
DIT_INTERNAL bool diti_print_double(double value, int digits, char *out, size_t size);
/* Bytes (1..4) of the UTF-8 character at text; 0 when it is broken (RFC 3629: no overlong forms, no surrogates). */
DIT_INTERNAL size_t diti_utf8_length(const char *text, size_t size);
DIT_INTERNAL uint64_t diti_hash(const void *data, size_t size); /* FNV-1a */

/* --- time: microseconds since some moment; may step when the clock is set --- */
DIT_INTERNAL uint64_t diti_clock_us(void);

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
DIT_INTERNAL double diti_json_number(const diti_json *object, const char *key,
                                     double otherwise); /* absent or null: otherwise */
DIT_INTERNAL bool diti_json_bool(const diti_json *object, const char *key, bool otherwise);
DIT_INTERNAL const char *diti_json_string(const diti_json *object, const char *key, const char *otherwise);
DIT_INTERNAL bool diti_json_u64(const diti_json *value, uint64_t *out); /* exact non-negative integers only */
/* A whole number from 1 to most; otherwise when key is absent or null. Anything else is an error that names the key. */
DIT_INTERNAL dit_result diti_json_size(const diti_json *object, const char *key, uint32_t otherwise, uint32_t most,
                                       uint32_t *out, dit_error *err);

/* --- small floats, bit patterns; rounding is to nearest, ties to even. Writing them is for tools and tests. --- */
DIT_INTERNAL float diti_half_to_float(uint16_t bits);
DIT_INTERNAL DITI_UNUSED uint16_t diti_float_to_half(float value);
DIT_INTERNAL float diti_bfloat_to_float(uint16_t bits);
DIT_INTERNAL DITI_UNUSED uint16_t diti_float_to_bfloat(float value);
DIT_INTERNAL float diti_e4m3_to_float(uint8_t bits); /* OCP FP8 E4M3FN: no infinities, 0x7f and 0xff are NaN */
DIT_INTERNAL float diti_e5m2_to_float(uint8_t bits); /* OCP FP8 E5M2 */
#endif

/* ======== src/base/error.c (edit it there; dit.h is generated) ======== */

/* Names from damaged files may hold anything; a message stays one line. */
static void diti_error_flatten(char *message) {
    for (; *message; message++) {
        if ((unsigned char)*message < 0x20 || *message == 0x7f) *message = '?';
    }
}

static void diti_error_set(dit_error *err, dit_result result, VkResult vk, const char *format, va_list args) {
    if (!err) return;
    err->result = result;
    err->vk = vk;
    vsnprintf(err->message, sizeof err->message, format, args);
    diti_error_flatten(err->message);
}

DIT_INTERNAL dit_result diti_fail(dit_error *err, dit_result result, const char *format, ...) {
    va_list args;
    va_start(args, format);
    diti_error_set(err, result, VK_SUCCESS, format, args);
    va_end(args);
    return result;
}

static dit_result diti_result_from_vk(VkResult vk) {
    switch (vk) {
    case VK_ERROR_OUT_OF_HOST_MEMORY: return DIT_ERROR_OUT_OF_HOST_MEMORY;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return DIT_ERROR_OUT_OF_DEVICE_MEMORY;
    case VK_ERROR_DEVICE_LOST: return DIT_ERROR_DEVICE_LOST;
    default: return DIT_ERROR_VULKAN;
    }
}

DIT_INTERNAL dit_result diti_fail_vk(dit_error *err, VkResult vk, const char *format, ...) {
    dit_result result = diti_result_from_vk(vk);
    va_list args;
    va_start(args, format);
    diti_error_set(err, result, vk, format, args);
    va_end(args);
    return result;
}

DIT_INTERNAL void diti_log(const diti_env *env, diti_log_level level, const char *format, ...) {
    char message[512];
    va_list args;
    if (!env->logger.func || (int)level > env->logger.max_level) return;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    env->logger.func((int)level, message, env->logger.user);
}

DIT_API const char *dit_result_string(dit_result r) {
    switch (r) {
    case DIT_OK: return "ok";
    case DIT_WORKING: return "working";
    case DIT_CANCELLED: return "cancelled";
    case DIT_ERROR_INVALID_ARGUMENT: return "invalid argument";
    case DIT_ERROR_OUT_OF_HOST_MEMORY: return "out of host memory";
    case DIT_ERROR_OUT_OF_DEVICE_MEMORY: return "out of device memory";
    case DIT_ERROR_DEVICE_LOST: return "device lost";
    case DIT_ERROR_UNSUPPORTED_DEVICE: return "unsupported device";
    case DIT_ERROR_UNSUPPORTED_MODEL: return "unsupported model";
    case DIT_ERROR_BAD_FILE: return "bad file";
    case DIT_ERROR_IO: return "input/output error";
    case DIT_ERROR_VULKAN: return "Vulkan error";
    case DIT_ERROR_NOT_FINITE: return "not a finite number";
    case DIT_ERROR_TRANSPORT: return "transport error";
    }
    return "unknown result";
}

DIT_API uint32_t dit_version(void) { return DIT_VERSION; }

/* ======== src/base/memory.c (edit it there; dit.h is generated) ======== */

/* A hook's free wants the size back, so each allocation is preceded by one aligned header that keeps it. */
#define DITI_MEMORY_ALIGN 64u

static void *diti_default_alloc(size_t size, size_t align, void *user) {
    unsigned char *raw;
    size_t start;
    (void)user;
    if (size > SIZE_MAX - align - sizeof(void *)) return NULL;
    raw = (unsigned char *)malloc(size + align + sizeof(void *));
    if (!raw) return NULL;
    start = ((size_t)raw + sizeof(void *) + align - 1) & ~(align - 1);
    memcpy((void *)(start - sizeof(void *)), &raw, sizeof(void *)); /* what free() wants */
    return (void *)start;
}

static void diti_default_free(void *memory, size_t size, void *user) {
    void *raw;
    (void)size;
    (void)user;
    memcpy(&raw, (unsigned char *)memory - sizeof(void *), sizeof(void *));
    free(raw);
}

DIT_INTERNAL dit_result diti_env_init(diti_env *env, const dit_allocator *allocator, const dit_logger *logger,
                                      dit_error *err) {
    memset(env, 0, sizeof *env);
    if (allocator) env->allocator = *allocator;
    if (logger) env->logger = *logger;
    if (!env->allocator.alloc != !env->allocator.free) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "allocator: set both alloc and free, or neither");
    }
    if (!env->allocator.alloc) {
        env->allocator.alloc = diti_default_alloc;
        env->allocator.free = diti_default_free;
    }
    return DIT_OK;
}

DIT_INTERNAL void *diti_alloc(const diti_env *env, size_t size) {
    unsigned char *block;
    if (size > SIZE_MAX - DITI_MEMORY_ALIGN) return NULL;
    block = (unsigned char *)env->allocator.alloc(size + DITI_MEMORY_ALIGN, DITI_MEMORY_ALIGN, env->allocator.user);
    if (!block) return NULL;
    memcpy(block, &size, sizeof size);
    return block + DITI_MEMORY_ALIGN;
}

DIT_INTERNAL void *diti_alloc_zero(const diti_env *env, size_t size) {
    void *memory = diti_alloc(env, size);
    if (memory) memset(memory, 0, size);
    return memory;
}

DIT_INTERNAL void *diti_alloc_array(const diti_env *env, size_t count, size_t size) {
    size_t bytes;
    return diti_mul_size(count, size, &bytes) ? diti_alloc_zero(env, bytes) : NULL;
}

DIT_INTERNAL void diti_free(const diti_env *env, void *memory) {
    unsigned char *block = (unsigned char *)memory;
    size_t size;
    if (!block) return;
    block -= DITI_MEMORY_ALIGN;
    memcpy(&size, block, sizeof size);
    env->allocator.free(block, size + DITI_MEMORY_ALIGN, env->allocator.user);
}

DIT_INTERNAL char *diti_copy_string(const diti_env *env, const char *text) {
    size_t size;
    char *copy;
    if (!text) return NULL;
    size = strlen(text) + 1;
    copy = (char *)diti_alloc(env, size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

DIT_INTERNAL bool diti_grow(const diti_env *env, void **array, size_t *capacity, size_t count, size_t element_size) {
    size_t wanted, bytes, used;
    void *bigger;
    if (count < *capacity) return true;
    if (!diti_mul_size(*capacity ? *capacity : 8, 2, &wanted) || !diti_mul_size(wanted, element_size, &bytes))
        return false;
    bigger = diti_alloc_zero(env, bytes);
    if (!bigger) return false;
    if (*array && diti_mul_size(count, element_size, &used)) memcpy(bigger, *array, used);
    diti_free(env, *array);
    *array = bigger;
    *capacity = wanted;
    return true;
}

DIT_INTERNAL bool diti_mul_size(size_t a, size_t b, size_t *out) {
    if (a && b > SIZE_MAX / a) return false;
    *out = a * b;
    return true;
}

DIT_INTERNAL bool diti_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    *out = a + b;
    return *out >= a;
}

DIT_INTERNAL bool diti_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    if (a && b > UINT64_MAX / a) return false;
    *out = a * b;
    return true;
}

/* ======== src/base/text.c (edit it there; dit.h is generated) ======== */

DIT_INTERNAL bool diti_equal(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

DIT_INTERNAL bool diti_starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

DIT_INTERNAL bool diti_ends_with(const char *text, const char *suffix) {
    size_t length = strlen(text), tail = strlen(suffix);
    return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

DIT_INTERNAL bool diti_format(char *out, size_t size, const char *format, ...) {
    va_list args;
    int written;
    va_start(args, format);
    written = vsnprintf(out, size, format, args);
    va_end(args);
    return written >= 0 && (size_t)written < size;
}

/* What separates the digits in this locale; up to 7 bytes. */
static void diti_decimal_point(char point[8]) {
    char text[16];
    size_t length;
    snprintf(text, sizeof text, "%.1f", 0.0);
    length = strlen(text) - 2;
    if (length > 7) length = 7;
    memcpy(point, text + 1, length);
    point[length] = 0;
}

DIT_INTERNAL double diti_parse_double(const char *text) {
    char point[8], copy[272];
    const char *dot = strchr(text, '.');
    if (!dot) return strtod(text, NULL);
    diti_decimal_point(point);
    if (!diti_format(copy, sizeof copy, "%.*s%s%s", (int)(dot - text), text, point, dot + 1)) return (double)NAN;
    return strtod(copy, NULL);
}

DIT_INTERNAL bool diti_print_double(double value, int digits, char *out, size_t size) {
    char point[8];
    char *found;
    if (!diti_format(out, size, "%.*g", digits, value)) return false;
    diti_decimal_point(point);
    found = strstr(out, point);
    if (!found) return true;
    *found = '.';
    memmove(found + 1, found + strlen(point), strlen(found + strlen(point)) + 1);
    return true;
}

DIT_INTERNAL uint64_t diti_hash(const void *data, size_t size) {
    const unsigned char *bytes = (const unsigned char *)data;
    uint64_t hash = 0xcbf29ce484222325u;
    size_t i;
    for (i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

DIT_INTERNAL size_t diti_utf8_length(const char *text, size_t size) {
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char lead = size ? bytes[0] : 0xff, low = 0x80, high = 0xbf;
    size_t length, i;
    if (lead < 0x80) return 1;
    if (lead < 0xc2 || lead > 0xf4) return 0;
    length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (length > size) return 0;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    if (bytes[1] < low || bytes[1] > high) return 0;
    for (i = 2; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) return 0;
    }
    return length;
}

/* ======== src/base/clock.c (edit it there; dit.h is generated) ======== */
#ifdef _WIN32
#include <time.h>
#else
#include <sys/time.h>
#endif

/* Only for time-outs, so a clock that is set meanwhile does little harm; the monotonic one is not declared in plain
 * C99. */
DIT_INTERNAL uint64_t diti_clock_us(void) {
#ifdef _WIN32
    return (uint64_t)clock() * (1000000u / CLOCKS_PER_SEC); /* elapsed time there, not processor time */
#else
    struct timeval now;
    if (gettimeofday(&now, NULL) != 0) return 0;
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_usec;
#endif
}

/* ======== src/base/float.c (edit it there; dit.h is generated) ======== */

static float diti_float_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t diti_bits_from_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* value = mantissa * 2^exponent, exact for the few mantissa bits of the small formats. */
static float diti_small_float(bool negative, uint32_t mantissa, int exponent) {
    float magnitude = ldexpf((float)mantissa, exponent);
    return negative ? -magnitude : magnitude;
}

DIT_INTERNAL float diti_half_to_float(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, mantissa = bits & 1023u;
    if (exponent == 31) return diti_float_from_bits(sign | 0x7f800000u | (mantissa << 13));
    if (exponent == 0) return diti_small_float(sign != 0, mantissa, -24);
    return diti_float_from_bits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

DIT_INTERNAL uint16_t diti_float_to_half(float value) {
    uint32_t bits = diti_bits_from_float(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu, shift,
             kept, rest, half;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
    if (magnitude < 0x33000000u) return (uint16_t)sign;              /* below half of the smallest subnormal */
    if (magnitude >= 0x38800000u) {
        kept = magnitude - 0x38000000u;
        shift = 13;
    } else {
        shift = 126u - (magnitude >> 23);
        kept = (magnitude & 0x7fffffu) | 0x800000u;
    }
    half = kept >> shift;
    rest = kept & ((1u << shift) - 1u);
    if (rest > (1u << (shift - 1)) || (rest == (1u << (shift - 1)) && (half & 1u))) half++;
    return (uint16_t)(sign | half);
}

DIT_INTERNAL float diti_bfloat_to_float(uint16_t bits) { return diti_float_from_bits((uint32_t)bits << 16); }

DIT_INTERNAL uint16_t diti_float_to_bfloat(float value) {
    uint32_t bits = diti_bits_from_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

DIT_INTERNAL float diti_e4m3_to_float(uint8_t bits) {
    uint32_t exponent = (bits >> 3) & 15u, mantissa = bits & 7u;
    bool negative = (bits & 0x80u) != 0;
    if (exponent == 15 && mantissa == 7) return diti_float_from_bits(negative ? 0xffc00000u : 0x7fc00000u);
    if (exponent == 0) return diti_small_float(negative, mantissa, -9);
    return diti_small_float(negative, mantissa | 8u, (int)exponent - 10);
}

DIT_INTERNAL float diti_e5m2_to_float(uint8_t bits) { return diti_half_to_float((uint16_t)(bits << 8)); }

/* ======== src/base/json.c (edit it there; dit.h is generated) ======== */

enum { DITI_JSON_MAX_DEPTH = 64, DITI_JSON_MAX_NUMBER = 255 };

typedef struct diti_json_parser {
    const diti_env *env;
    const char *text, *what;
    size_t size, at;
    diti_json *nodes; /* nodes[0] is the root; the block also holds all strings */
    size_t node_count, node_capacity;
    char *strings;         /* where the next string goes */
    const diti_json **set; /* scratch for finding duplicate keys */
    size_t set_capacity;
    dit_error *err;
} diti_json_parser;

static dit_result diti_json_value(diti_json_parser *parser, diti_json *node, int depth);

static dit_result diti_json_fail(const diti_json_parser *parser, const char *message) {
    return diti_fail(parser->err, DIT_ERROR_BAD_FILE, "%s: JSON error at byte %llu: %s", parser->what,
                     (unsigned long long)parser->at, message);
}

/* Every value but the root follows a '[', '{' or ',' of its own. */
static size_t diti_json_count_values(const char *text, size_t size) {
    size_t i, count = 1;
    bool in_string = false;
    for (i = 0; i < size; i++) {
        char c = text[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '[' || c == '{' || c == ','))
            count++;
    }
    return count;
}

static unsigned char diti_json_peek(const diti_json_parser *parser) {
    return parser->at < parser->size ? (unsigned char)parser->text[parser->at] : 0;
}

static void diti_json_skip_space(diti_json_parser *parser) {
    while (parser->at < parser->size) {
        char c = parser->text[parser->at];
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return;
        parser->at++;
    }
}

static diti_json *diti_json_new_node(diti_json_parser *parser) {
    diti_json *node;
    if (parser->node_count == parser->node_capacity) return NULL;
    node = &parser->nodes[parser->node_count++];
    memset(node, 0, sizeof *node);
    return node;
}

/* --- strings --- */

static void diti_json_put(diti_json_parser *parser, uint32_t byte) { *parser->strings++ = (char)(unsigned char)byte; }

static void diti_json_put_utf8(diti_json_parser *parser, uint32_t code) {
    if (code < 0x80) {
        diti_json_put(parser, code);
    } else if (code < 0x800) {
        diti_json_put(parser, 0xc0 | code >> 6);
        diti_json_put(parser, 0x80 | (code & 63));
    } else if (code < 0x10000) {
        diti_json_put(parser, 0xe0 | code >> 12);
        diti_json_put(parser, 0x80 | (code >> 6 & 63));
        diti_json_put(parser, 0x80 | (code & 63));
    } else {
        diti_json_put(parser, 0xf0 | code >> 18);
        diti_json_put(parser, 0x80 | (code >> 12 & 63));
        diti_json_put(parser, 0x80 | (code >> 6 & 63));
        diti_json_put(parser, 0x80 | (code & 63));
    }
}

static bool diti_json_hex4(diti_json_parser *parser, uint32_t *out) {
    int i;
    *out = 0;
    for (i = 0; i < 4; i++) {
        unsigned char c = diti_json_peek(parser);
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A' + 10);
        else
            return false;
        *out = *out << 4 | digit;
        parser->at++;
    }
    return true;
}

/* After "\u": four hex digits, or two such escapes that form a surrogate pair. */
static dit_result diti_json_unicode_escape(diti_json_parser *parser) {
    uint32_t code, low;
    if (!diti_json_hex4(parser, &code)) return diti_json_fail(parser, "\\u needs four hex digits");
    if (code >= 0xdc00 && code <= 0xdfff) return diti_json_fail(parser, "lone low surrogate");
    if (code >= 0xd800 && code <= 0xdbff) {
        if (parser->size - parser->at < 6 || memcmp(parser->text + parser->at, "\\u", 2) != 0) {
            return diti_json_fail(parser, "lone high surrogate");
        }
        parser->at += 2;
        if (!diti_json_hex4(parser, &low) || low < 0xdc00 || low > 0xdfff) {
            return diti_json_fail(parser, "lone high surrogate");
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    diti_json_put_utf8(parser, code);
    return DIT_OK;
}

static dit_result diti_json_escape(diti_json_parser *parser) {
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    unsigned char c;
    const char *found;
    parser->at++;
    c = diti_json_peek(parser);
    parser->at++;
    if (c == 'u') return diti_json_unicode_escape(parser);
    found = c ? strchr(letters, c) : NULL;
    if (!found) return diti_json_fail(parser, "unknown escape in a string");
    diti_json_put(parser, (unsigned char)meanings[found - letters]);
    return DIT_OK;
}

static dit_result diti_json_copy_character(diti_json_parser *parser) {
    const char *text = parser->text + parser->at;
    size_t length = diti_utf8_length(text, parser->size - parser->at);
    if (!length) return diti_json_fail(parser, "a string is not valid UTF-8");
    if ((unsigned char)*text < 0x20) return diti_json_fail(parser, "control character in a string");
    memcpy(parser->strings, text, length);
    parser->strings += length;
    parser->at += length;
    return DIT_OK;
}

/* Never writes more than the string takes in the file: the NUL stands for a quote. */
static dit_result diti_json_parse_string(diti_json_parser *parser, const char **text, size_t *length) {
    char *start = parser->strings;
    parser->at++;
    for (;;) {
        dit_result result;
        if (parser->at >= parser->size) return diti_json_fail(parser, "unterminated string");
        if (parser->text[parser->at] == '"') break;
        result = parser->text[parser->at] == '\\' ? diti_json_escape(parser) : diti_json_copy_character(parser);
        if (result < 0) return result;
    }
    parser->at++;
    *text = start;
    *length = (size_t)(parser->strings - start);
    diti_json_put(parser, 0);
    return DIT_OK;
}

/* --- numbers --- */

static size_t diti_json_skip_digits(diti_json_parser *parser) {
    size_t start = parser->at;
    while (diti_json_peek(parser) >= '0' && diti_json_peek(parser) <= '9') parser->at++;
    return parser->at - start;
}

static dit_result diti_json_scan_number(diti_json_parser *parser) {
    bool zero;
    if (diti_json_peek(parser) == '-') parser->at++;
    zero = diti_json_peek(parser) == '0';
    switch (diti_json_skip_digits(parser)) {
    case 0: return diti_json_fail(parser, "expected a value");
    case 1: break;
    default:
        if (zero) return diti_json_fail(parser, "a number starts with a superfluous zero");
    }
    if (diti_json_peek(parser) == '.') {
        parser->at++;
        if (!diti_json_skip_digits(parser)) return diti_json_fail(parser, "expected digits after the decimal point");
    }
    if (diti_json_peek(parser) == 'e' || diti_json_peek(parser) == 'E') {
        parser->at++;
        if (diti_json_peek(parser) == '+' || diti_json_peek(parser) == '-') parser->at++;
        if (!diti_json_skip_digits(parser)) return diti_json_fail(parser, "expected digits in the exponent");
    }
    return DIT_OK;
}

/* Never writes more than number and the delimiter after it take (the block has one spare byte for the end of the file).
 */
static void diti_json_keep_number(diti_json_parser *parser, diti_json *node, size_t start) {
    node->kind = DITI_JSON_NUMBER;
    node->text = parser->strings;
    node->text_length = parser->at - start;
    memcpy(parser->strings, parser->text + start, node->text_length);
    parser->strings += node->text_length;
    diti_json_put(parser, 0);
}

static dit_result diti_json_parse_number(diti_json_parser *parser, diti_json *node) {
    size_t start = parser->at;
    dit_result result = diti_json_scan_number(parser);
    if (result < 0) return result;
    if (parser->at - start > DITI_JSON_MAX_NUMBER) return diti_json_fail(parser, "a number is too long");
    diti_json_keep_number(parser, node, start);
    node->number = diti_parse_double(node->text);
    return DIT_OK;
}

static bool diti_json_accept(diti_json_parser *parser, const char *word) {
    size_t length = strlen(word);
    if (parser->size - parser->at < length || memcmp(parser->text + parser->at, word, length) != 0) return false;
    parser->at += length;
    return true;
}

/* NaN, Infinity and -Infinity are no JSON, but Python writes them. */
static bool diti_json_parse_not_finite(diti_json_parser *parser, diti_json *node) {
    size_t start = parser->at;
    if (diti_json_accept(parser, "NaN"))
        node->number = (double)NAN;
    else if (diti_json_accept(parser, "Infinity"))
        node->number = (double)INFINITY;
    else if (diti_json_accept(parser, "-Infinity"))
        node->number = -(double)INFINITY;
    else
        return false;
    diti_json_keep_number(parser, node, start);
    return true;
}

/* --- arrays and objects --- */

static bool diti_json_same_key(const diti_json *a, const diti_json *b) {
    return a->key_length == b->key_length && memcmp(a->key, b->key, a->key_length) == 0;
}

static bool diti_json_reserve_set(diti_json_parser *parser, size_t size) {
    if (size > parser->set_capacity) {
        diti_free(parser->env, (void *)parser->set);
        parser->set = (const diti_json **)diti_alloc_array(parser->env, size, sizeof *parser->set);
        parser->set_capacity = parser->set ? size : 0;
        return parser->set != NULL;
    }
    memset((void *)parser->set, 0, size * sizeof *parser->set);
    return true;
}

static dit_result diti_json_refuse_duplicates(diti_json_parser *parser, const diti_json *object) {
    const diti_json *child;
    size_t size = 4;
    while (size / 2 < object->count) size *= 2;
    if (!diti_json_reserve_set(parser, size)) {
        return diti_fail(parser->err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory", parser->what);
    }
    for (child = object->first; child; child = child->next) {
        size_t slot = (size_t)diti_hash(child->key, child->key_length) & (size - 1);
        for (; parser->set[slot]; slot = (slot + 1) & (size - 1)) {
            if (!diti_json_same_key(parser->set[slot], child)) continue;
            return diti_fail(parser->err, DIT_ERROR_BAD_FILE, "%s: duplicate name '%s'", parser->what, child->key);
        }
        parser->set[slot] = child;
    }
    return DIT_OK;
}

static dit_result diti_json_parse_key(diti_json_parser *parser, diti_json *child) {
    dit_result result;
    if (diti_json_peek(parser) != '"') return diti_json_fail(parser, "expected a name in quotes");
    result = diti_json_parse_string(parser, &child->key, &child->key_length);
    if (result < 0) return result;
    diti_json_skip_space(parser);
    if (!diti_json_accept(parser, ":")) return diti_json_fail(parser, "expected ':'");
    diti_json_skip_space(parser);
    return DIT_OK;
}

static dit_result diti_json_parse_children(diti_json_parser *parser, diti_json *node, int depth) {
    bool object = node->kind == DITI_JSON_OBJECT;
    const char *closing = object ? "}" : "]";
    const diti_json **link = &node->first;
    parser->at++;
    diti_json_skip_space(parser);
    if (diti_json_accept(parser, closing)) return DIT_OK;
    for (;;) {
        diti_json *child = diti_json_new_node(parser);
        dit_result result = DIT_OK;
        if (!child) return diti_json_fail(parser, "expected a value");
        if (object) result = diti_json_parse_key(parser, child);
        if (result >= 0) result = diti_json_value(parser, child, depth + 1);
        if (result < 0) return result;
        *link = child;
        link = &child->next;
        node->count++;
        diti_json_skip_space(parser);
        if (diti_json_accept(parser, closing)) break;
        if (!diti_json_accept(parser, ","))
            return diti_json_fail(parser, object ? "expected ',' or '}'" : "expected ',' or ']'");
        diti_json_skip_space(parser);
    }
    return object ? diti_json_refuse_duplicates(parser, node) : DIT_OK;
}

static dit_result diti_json_value(diti_json_parser *parser, diti_json *node, int depth) {
    unsigned char c = diti_json_peek(parser);
    if (c == '{' || c == '[') {
        if (depth >= DITI_JSON_MAX_DEPTH) return diti_json_fail(parser, "nested deeper than 64 levels");
        node->kind = c == '{' ? DITI_JSON_OBJECT : DITI_JSON_ARRAY;
        return diti_json_parse_children(parser, node, depth);
    }
    if (c == '"') {
        node->kind = DITI_JSON_STRING;
        return diti_json_parse_string(parser, &node->text, &node->text_length);
    }
    if (diti_json_accept(parser, "null")) return DIT_OK;
    if (diti_json_accept(parser, "true")) {
        node->kind = DITI_JSON_BOOL;
        node->number = 1;
        return DIT_OK;
    }
    if (diti_json_accept(parser, "false")) {
        node->kind = DITI_JSON_BOOL;
        return DIT_OK;
    }
    if (diti_json_parse_not_finite(parser, node)) return DIT_OK;
    return diti_json_parse_number(parser, node);
}

static dit_result diti_json_document(diti_json_parser *parser) {
    diti_json *root = diti_json_new_node(parser);
    dit_result result;
    diti_json_skip_space(parser);
    result = diti_json_value(parser, root, 0);
    if (result < 0) return result;
    diti_json_skip_space(parser);
    return parser->at == parser->size ? DIT_OK : diti_json_fail(parser, "something follows the document");
}

/* One block for nodes and strings: a document's strings never need more bytes than it has, plus one. */
static bool diti_json_reserve(diti_json_parser *parser) {
    size_t bytes;
    parser->node_capacity = diti_json_count_values(parser->text, parser->size);
    if (!diti_mul_size(parser->node_capacity, sizeof(diti_json), &bytes) || parser->size >= SIZE_MAX - bytes)
        return false;
    parser->nodes = (diti_json *)diti_alloc(parser->env, bytes + parser->size + 1);
    parser->strings = (char *)parser->nodes + bytes;
    return parser->nodes != NULL;
}

DIT_INTERNAL dit_result diti_json_parse(const diti_env *env, const char *text, size_t size, const char *what,
                                        diti_json **out, dit_error *err) {
    diti_json_parser parser = DITI_ZERO;
    dit_result result;
    *out = NULL;
    parser.env = env;
    parser.text = text;
    parser.size = size;
    parser.what = what;
    parser.err = err;
    if (!diti_json_reserve(&parser)) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory", what);
    result = diti_json_document(&parser);
    diti_free(env, (void *)parser.set);
    if (result < 0)
        diti_free(env, parser.nodes);
    else
        *out = parser.nodes;
    return result;
}

DIT_INTERNAL void diti_json_free(const diti_env *env, diti_json *root) { diti_free(env, root); }

/* --- reading a tree --- */

DIT_INTERNAL const diti_json *diti_json_get(const diti_json *object, const char *key) {
    size_t length = strlen(key);
    const diti_json *child = object && object->kind == DITI_JSON_OBJECT ? object->first : NULL;
    while (child && (child->key_length != length || memcmp(child->key, key, length) != 0)) child = child->next;
    return child;
}

DIT_INTERNAL double diti_json_number(const diti_json *object, const char *key, double otherwise) {
    const diti_json *value = diti_json_get(object, key);
    return value && value->kind == DITI_JSON_NUMBER ? value->number : otherwise;
}

DIT_INTERNAL bool diti_json_bool(const diti_json *object, const char *key, bool otherwise) {
    const diti_json *value = diti_json_get(object, key);
    return value && value->kind == DITI_JSON_BOOL ? value->number > 0 : otherwise;
}

DIT_INTERNAL const char *diti_json_string(const diti_json *object, const char *key, const char *otherwise) {
    const diti_json *value = diti_json_get(object, key);
    return value && value->kind == DITI_JSON_STRING ? value->text : otherwise;
}

DIT_INTERNAL bool diti_json_u64(const diti_json *value, uint64_t *out) {
    size_t i;
    *out = 0;
    if (!value || value->kind != DITI_JSON_NUMBER) return false;
    for (i = 0; i < value->text_length; i++) {
        char c = value->text[i];
        if (c < '0' || c > '9') return false;
        if (!diti_mul_u64(*out, 10, out) || !diti_add_u64(*out, (uint64_t)(c - '0'), out)) return false;
    }
    return true;
}

DIT_INTERNAL dit_result diti_json_size(const diti_json *object, const char *key, uint32_t otherwise, uint32_t most,
                                       uint32_t *out, dit_error *err) {
    const diti_json *value = diti_json_get(object, key);
    uint64_t number;
    *out = otherwise;
    if (!value || value->kind == DITI_JSON_NULL) return DIT_OK;
    if (!diti_json_u64(value, &number) || number < 1 || number > most) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "config.json: %s must be a whole number from 1 to %u", key,
                         (unsigned)most);
    }
    *out = (uint32_t)number;
    return DIT_OK;
}

/* ======== src/io/io.h (edit it there; dit.h is generated) ======== */
/* io: files, safetensors, GGUF; a checkpoint is tensors by name, a package is a whole pipeline: small files by path and
   tensors by component. */
#ifndef DITI_IO_H
#define DITI_IO_H

/* --- files: random access to bytes from a path (mapped), from memory, or through callbacks --- */
typedef struct diti_file diti_file;
/* Opens the bytes of source (path of a file, data+size, or read_at+size). name is for messages and copied; NULL: the
 * path. */
DIT_INTERNAL dit_result diti_file_open(const diti_env *env, const dit_source *source, const char *name, diti_file **out,
                                       dit_error *err);
/* Opens a member of a folder: through root's open hook when it has one (DIT_ERROR_IO, or an empty source, means that
   there is no such member), else the path below root->path. DIT_OK with *out = NULL when it does not exist. Names that
   would leave the folder are refused. */
DIT_INTERNAL dit_result diti_file_open_member(const diti_env *env, const dit_source *root, const char *member,
                                              diti_file **out, dit_error *err);
DIT_INTERNAL void diti_file_close(diti_file *file); /* NULL is fine */
DIT_INTERNAL uint64_t diti_file_size(const diti_file *file);
DIT_INTERNAL const char *diti_file_name(const diti_file *file);
/* Copies size bytes from offset; a range outside the file is DIT_ERROR_BAD_FILE, a failing callback DIT_ERROR_IO. */
DIT_INTERNAL dit_result diti_file_read(const diti_file *file, uint64_t offset, void *out, size_t size, dit_error *err);
/* A copy of the whole file with a NUL behind it, freed with diti_free. */
DIT_INTERNAL dit_result diti_file_read_all(const diti_env *env, const diti_file *file, char **out, size_t *size,
                                           dit_error *err);
/* A folder on disk, or what the open hook stands for. */
DIT_INTERNAL bool diti_source_is_folder(const dit_source *source);

/* --- stored types --- */
DIT_INTERNAL const char *diti_type_name(dit_type type); /* "Q8_0" */
DIT_INTERNAL uint32_t diti_type_block(dit_type type);   /* elements per block: 1, 32 or 256; 0: in no file */
DIT_INTERNAL uint32_t diti_type_block_bytes(dit_type type);
/* Bytes of rows x row_length elements; false when row_length is no multiple of the block or the product overflows. */
DIT_INTERNAL bool diti_type_bytes(dit_type type, uint64_t rows, uint64_t row_length, uint64_t *out);
/* Exact float values of count elements (a multiple of the block) as ggml defines them (models.md 9.2). blocks needs no
   alignment. */
DIT_INTERNAL void diti_type_to_float(dit_type type, const void *blocks, uint64_t count, float *out);

/* --- checkpoints: tensors by name, whatever the file --- */
typedef struct diti_stored_tensor {
    const char *name;
    const char *type_name; /* what the file calls the type */
    dit_type type;         /* DIT_TYPE_STORED: one that dit.h does not read; diti_checkpoint_read refuses it by name */
    uint32_t rank;         /* 0..5 */
    /* Torch order: slowest first. GGUF's dims are reversed on reading, orig_shape metadata is honoured: then blocks may
       run across the rows of shape, so take the elements as one sequence. */
    uint64_t shape[5];
    uint64_t size;   /* bytes */
    uint64_t offset; /* in its file */
    uint32_t file;
} diti_stored_tensor;
typedef struct diti_checkpoint diti_checkpoint;
/* A safetensors file, a *.safetensors.index.json with its shards, a GGUF file (or the first of
 * name-00001-of-0000N.gguf). */
DIT_INTERNAL dit_result diti_checkpoint_open(const diti_env *env, const dit_source *source, diti_checkpoint **out,
                                             dit_error *err);
/* The same for a member of a folder; DIT_OK with *out = NULL when it does not exist. */
DIT_INTERNAL dit_result diti_checkpoint_open_member(const diti_env *env, const dit_source *root, const char *member,
                                                    diti_checkpoint **out, dit_error *err);
DIT_INTERNAL void diti_checkpoint_close(diti_checkpoint *checkpoint);             /* NULL is fine */
DIT_INTERNAL const char *diti_checkpoint_name(const diti_checkpoint *checkpoint); /* of its first file, for messages */
DIT_INTERNAL uint32_t diti_checkpoint_count(const diti_checkpoint *checkpoint);
DIT_INTERNAL const diti_stored_tensor *diti_checkpoint_tensor(const diti_checkpoint *checkpoint, uint32_t index);
/* Hashed; NULL when absent. */
DIT_INTERNAL const diti_stored_tensor *diti_checkpoint_find(const diti_checkpoint *checkpoint, const char *name);
/* Whether any tensor's name starts so. */
DIT_INTERNAL bool diti_checkpoint_has_prefix(const diti_checkpoint *checkpoint, const char *prefix);
DIT_INTERNAL uint64_t diti_stored_tensor_elements(const diti_stored_tensor *tensor);
/* Copies stored bytes [offset, offset+size) of a tensor. */
DIT_INTERNAL dit_result diti_checkpoint_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                             uint64_t offset, void *out, size_t size, dit_error *err);
/* The whole tensor as float32, count elements; for small tables read on the host. */
DIT_INTERNAL dit_result diti_checkpoint_read_float(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                                   float *out, uint64_t count, dit_error *err);
/* Text metadata: safetensors __metadata__, GGUF string values (numbers printed). NULL when absent. */
DIT_INTERNAL const char *diti_checkpoint_text(const diti_checkpoint *checkpoint, const char *key);
/* A GGUF array value: raw little-endian elements of number arrays, aligned for their type. false when absent. The view
   lives as long as the checkpoint. */
DIT_INTERNAL bool diti_checkpoint_array(const diti_checkpoint *checkpoint, const char *key, const void **data,
                                        uint64_t *count, uint32_t *gguf_type);
/* A GGUF string array element; NULL past the end. */
DIT_INTERNAL const char *diti_checkpoint_array_text(const diti_checkpoint *checkpoint, const char *key, uint64_t index,
                                                    size_t *length);

/* --- packages: a pipeline's parts, from a diffusers folder or from one GGUF written by dit-convert ---
   In such a GGUF every small file of the folder stands under the key "dit.file.<path>" (u8 array) and every tensor is
   named
   "<component>.<tensor>" with component transformer, text_encoder, vae. Other single files hold one component or
   several under known prefixes (models.md 3, 9.3). */
typedef struct diti_package diti_package;
DIT_INTERNAL dit_result diti_package_open(const diti_env *env, const dit_source *source, diti_package **out,
                                          dit_error *err);
DIT_INTERNAL void diti_package_close(diti_package *package); /* NULL is fine */
/* A small file by its path in the repository ("scheduler/scheduler_config.json"); *out is NULL when there is none.
   Freed with diti_free. A NUL is appended. */
DIT_INTERNAL dit_result diti_package_read(const diti_package *package, const char *path, char **out, size_t *size,
                                          dit_error *err);
/* The tensors of a component ("transformer", "text_encoder", "vae"; "" = the file itself, or the weights beside
   config.json in a component's own folder) and the prefix their names carry in that checkpoint; DIT_OK with *out = NULL
   when the package has none. Owned by the package. */
DIT_INTERNAL dit_result diti_package_component(diti_package *package, const char *component,
                                               const diti_checkpoint **out, const char **prefix, dit_error *err);

/* --- inside the room: what the parsers of safetensors and GGUF share --- */
/* GGUF value types, also the element types that diti_checkpoint_array reports. */
enum {
    DITI_GGUF_U8,
    DITI_GGUF_I8,
    DITI_GGUF_U16,
    DITI_GGUF_I16,
    DITI_GGUF_U32,
    DITI_GGUF_I32,
    DITI_GGUF_F32,
    DITI_GGUF_BOOL,
    DITI_GGUF_STRING,
    DITI_GGUF_ARRAY,
    DITI_GGUF_U64,
    DITI_GGUF_I64,
    DITI_GGUF_F64
};

typedef struct diti_text {
    const char *text; /* NUL-terminated */
    size_t length;
} diti_text;

typedef struct diti_meta {
    const char *name; /* first, as diti_name_index wants it */
    const char *text; /* strings and numbers; NULL for arrays */
    uint32_t type;    /* of the value or of the array's elements */
    bool array;
    uint64_t count;         /* 1 unless an array */
    const void *data;       /* numbers, aligned to 16 bytes */
    const diti_text *texts; /* string arrays */
} diti_meta;

/* Finds structs in an array by the name that is their first member. */
typedef struct diti_name_index {
    uint32_t *slots; /* index + 1; 0: free */
    size_t size;     /* a power of two */
} diti_name_index;

typedef struct diti_metadata {
    diti_meta *items;
    size_t count, capacity;
    diti_name_index index;
} diti_metadata;

struct diti_checkpoint {
    diti_env env;
    diti_file **files;
    size_t file_count, file_capacity;
    diti_stored_tensor *tensors;
    size_t tensor_count, tensor_capacity;
    diti_name_index index;
    diti_metadata metadata; /* of the first file */
    void *chunks;           /* memory of names and metadata, freed with the checkpoint */
};

/* What a file calls a type and how many bytes it takes, whether dit.h reads it or not. */
typedef struct diti_format_type {
    const char *name;
    uint32_t id; /* GGUF's number */
    dit_type type;
    uint32_t block, bytes;
} diti_format_type;

/* Memory that lives as long as the checkpoint, 16-byte aligned; NULL when there is none. */
DIT_INTERNAL void *diti_checkpoint_keep(diti_checkpoint *checkpoint, size_t size);
/* A NUL-terminated copy. */
DIT_INTERNAL char *diti_checkpoint_keep_text(diti_checkpoint *checkpoint, const char *text, size_t length);
DIT_INTERNAL dit_result diti_no_memory(const char *name, dit_error *err);
/* Adds a tensor of the newest file. Fills in type, file and size from format and the shape (its last dimension is the
 * row). */
DIT_INTERNAL dit_result diti_checkpoint_add(diti_checkpoint *checkpoint, diti_stored_tensor *tensor,
                                            const diti_format_type *format, dit_error *err);
/* Turns the offsets of the tensors from first on, so far relative to data_offset, into offsets in the newest file;
   refuses those outside the file and those that overlap. */
DIT_INTERNAL dit_result diti_checkpoint_place(diti_checkpoint *checkpoint, size_t first, uint64_t data_offset,
                                              dit_error *err);
DIT_INTERNAL dit_result diti_metadata_add(diti_checkpoint *checkpoint, diti_metadata *metadata, const diti_meta *meta,
                                          dit_error *err);
DIT_INTERNAL dit_result diti_metadata_finish(diti_checkpoint *checkpoint, diti_metadata *metadata, dit_error *err);
DIT_INTERNAL const diti_meta *diti_metadata_find(const diti_metadata *metadata, const char *name);
DIT_INTERNAL void diti_metadata_free(const diti_env *env, diti_metadata *metadata);
/* Parse the newest file and add its tensors. */
DIT_INTERNAL dit_result diti_safetensors_parse(diti_checkpoint *checkpoint, dit_error *err);
DIT_INTERNAL dit_result diti_gguf_parse(diti_checkpoint *checkpoint, uint32_t *split_number, uint32_t *split_count,
                                        dit_error *err);
#endif

/* ======== src/io/types.c (edit it there; dit.h is generated) ======== */

typedef struct diti_type_layout {
    const char *name;
    uint32_t block, bytes;
} diti_type_layout;

/* In the order of dit_type. Types without a block are made at run time and stand in no file. */
static const diti_type_layout diti_type_layouts[] = {
    {"stored", 0, 0},   {"F32", 1, 4},      {"F16", 1, 2},
    {"BF16", 1, 2},     {"F8_E4M3", 1, 1},  {"F8_E5M2", 1, 1},
    {"Q8_0", 32, 34},   {"Q4_0", 32, 18},   {"Q4_1", 32, 20},
    {"Q5_0", 32, 22},   {"Q5_1", 32, 24},   {"Q2_K", 256, 84},
    {"Q3_K", 256, 110}, {"Q4_K", 256, 144}, {"Q5_K", 256, 176},
    {"Q6_K", 256, 210}, {"I8_ROW", 0, 0},   {"I8_ROW_ROTATED", 0, 0},
    {"I32", 1, 4},      {"I64", 1, 8},
};

static const diti_type_layout *diti_type_find_layout(dit_type type) {
    size_t index = (size_t)type;
    return &diti_type_layouts[index < DITI_COUNT(diti_type_layouts) ? index : 0];
}

DIT_INTERNAL const char *diti_type_name(dit_type type) { return diti_type_find_layout(type)->name; }
DIT_INTERNAL uint32_t diti_type_block(dit_type type) { return diti_type_find_layout(type)->block; }
DIT_INTERNAL uint32_t diti_type_block_bytes(dit_type type) { return diti_type_find_layout(type)->bytes; }

DIT_INTERNAL bool diti_type_bytes(dit_type type, uint64_t rows, uint64_t row_length, uint64_t *out) {
    const diti_type_layout *layout = diti_type_find_layout(type);
    if (!layout->block || row_length % layout->block) return false;
    return diti_mul_u64(rows, row_length / layout->block, out) && diti_mul_u64(*out, layout->bytes, out);
}

/* --- decoding: one function per type, one block per call. All products below are exact in float (11 + 6 + 5 bits at
   most), so that only the last addition rounds and no compiler's contraction changes a bit. --- */

static uint16_t diti_load_u16(const uint8_t *bytes) { return (uint16_t)(bytes[0] | bytes[1] << 8); }

static uint32_t diti_load_u32(const uint8_t *bytes) {
    return (uint32_t)diti_load_u16(bytes) | (uint32_t)diti_load_u16(bytes + 2) << 16;
}

static float diti_load_half(const uint8_t *bytes) { return diti_half_to_float(diti_load_u16(bytes)); }

static void diti_decode_f32(const uint8_t *bytes, float *out) { memcpy(out, bytes, 4); }
static void diti_decode_f16(const uint8_t *bytes, float *out) { *out = diti_load_half(bytes); }
static void diti_decode_bf16(const uint8_t *bytes, float *out) { *out = diti_bfloat_to_float(diti_load_u16(bytes)); }
static void diti_decode_e4m3(const uint8_t *bytes, float *out) { *out = diti_e4m3_to_float(*bytes); }
static void diti_decode_e5m2(const uint8_t *bytes, float *out) { *out = diti_e5m2_to_float(*bytes); }
static void diti_decode_i32(const uint8_t *bytes, float *out) {
    int32_t value;
    memcpy(&value, bytes, sizeof value);
    *out = (float)value;
}
static void diti_decode_i64(const uint8_t *bytes, float *out) {
    int64_t value;
    memcpy(&value, bytes, sizeof value);
    *out = (float)value;
}

static void diti_decode_q8_0(const uint8_t *block, float *out) {
    float scale = diti_load_half(block);
    int i;
    for (i = 0; i < 32; i++) out[i] = scale * (float)(int8_t)block[2 + i];
}

static void diti_decode_q4_0(const uint8_t *block, float *out) {
    float scale = diti_load_half(block);
    int i;
    for (i = 0; i < 16; i++) {
        out[i] = scale * (float)((block[2 + i] & 15) - 8);
        out[i + 16] = scale * (float)((block[2 + i] >> 4) - 8);
    }
}

static void diti_decode_q4_1(const uint8_t *block, float *out) {
    float scale = diti_load_half(block), least = diti_load_half(block + 2);
    int i;
    for (i = 0; i < 16; i++) {
        out[i] = scale * (float)(block[4 + i] & 15) + least;
        out[i + 16] = scale * (float)(block[4 + i] >> 4) + least;
    }
}

/* Fifth bits of the low and high nibbles' elements: bits i and i + 16. */
static int diti_q5_low(const uint8_t *nibbles, uint32_t high, int i) {
    return (nibbles[i] & 15) | (int)(high >> i & 1) << 4;
}
static int diti_q5_high(const uint8_t *nibbles, uint32_t high, int i) {
    return nibbles[i] >> 4 | (int)(high >> (i + 16) & 1) << 4;
}

static void diti_decode_q5_0(const uint8_t *block, float *out) {
    float scale = diti_load_half(block);
    uint32_t high = diti_load_u32(block + 2);
    int i;
    for (i = 0; i < 16; i++) {
        out[i] = scale * (float)(diti_q5_low(block + 6, high, i) - 16);
        out[i + 16] = scale * (float)(diti_q5_high(block + 6, high, i) - 16);
    }
}

static void diti_decode_q5_1(const uint8_t *block, float *out) {
    float scale = diti_load_half(block), least = diti_load_half(block + 2);
    uint32_t high = diti_load_u32(block + 4);
    int i;
    for (i = 0; i < 16; i++) {
        out[i] = scale * (float)diti_q5_low(block + 8, high, i) + least;
        out[i + 16] = scale * (float)diti_q5_high(block + 8, high, i) + least;
    }
}

/* Element e of the two-bit planes that Q2_K and Q3_K share: halves of 128, in each four runs of 32 by rising shift. */
static int diti_k2_bits(const uint8_t *planes, int e) {
    return planes[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3;
}

static void diti_decode_q2_k(const uint8_t *block, float *out) {
    const uint8_t *scales = block, *planes = block + 16;
    float scale = diti_load_half(block + 80), least = diti_load_half(block + 82);
    int e;
    for (e = 0; e < 256; e++) {
        uint8_t sub = scales[e / 16];
        out[e] = scale * (float)(sub & 15) * (float)diti_k2_bits(planes, e) - least * (float)(sub >> 4);
    }
}

/* The 16 six-bit scales: low nibbles in bytes 0..7 (all low halves first), upper two bits in bytes 8..11. */
static int diti_q3_k_scale(const uint8_t *packed, int j) {
    int low = j < 8 ? packed[j] & 15 : packed[j - 8] >> 4;
    return (low | (packed[8 + j % 4] >> (j / 4 * 2) & 3) << 4) - 32;
}

static void diti_decode_q3_k(const uint8_t *block, float *out) {
    const uint8_t *mask = block, *planes = block + 32, *scales = block + 96;
    float scale = diti_load_half(block + 108);
    int e;
    for (e = 0; e < 256; e++) {
        int value = diti_k2_bits(planes, e) - (mask[e % 32] >> (e / 32) & 1 ? 0 : 4);
        out[e] = scale * (float)diti_q3_k_scale(scales, e / 16) * (float)value;
    }
}

/* Scale and minimum of sub-block j in the 12 bytes that Q4_K and Q5_K share. */
static void diti_q4_k_scale(const uint8_t *packed, int j, int *scale, int *least) {
    if (j < 4) {
        *scale = packed[j] & 63;
        *least = packed[j + 4] & 63;
    } else {
        *scale = (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
        *least = packed[j + 4] >> 4 | packed[j] >> 6 << 4;
    }
}

/* Sub-block s of 32 takes the low (even s) or high nibbles of 32 bytes; high_bits adds a fifth bit where there is one.
 */
static void diti_decode_q45_k(const uint8_t *block, const uint8_t *high_bits, const uint8_t *nibbles, float *out) {
    float scale = diti_load_half(block), least = diti_load_half(block + 2);
    int s, i;
    for (s = 0; s < 8; s++) {
        int sub_scale, sub_least;
        float d, m;
        diti_q4_k_scale(block + 4, s, &sub_scale, &sub_least);
        d = scale * (float)sub_scale;
        m = least * (float)sub_least;
        for (i = 0; i < 32; i++) {
            int value = nibbles[s / 2 * 32 + i] >> (s % 2 * 4) & 15;
            if (high_bits) value |= (high_bits[i] >> s & 1) << 4;
            out[32 * s + i] = d * (float)value - m;
        }
    }
}

static void diti_decode_q4_k(const uint8_t *block, float *out) { diti_decode_q45_k(block, NULL, block + 16, out); }
static void diti_decode_q5_k(const uint8_t *block, float *out) {
    diti_decode_q45_k(block, block + 16, block + 48, out);
}

static void diti_decode_q6_k(const uint8_t *block, float *out) {
    const uint8_t *low = block, *high = block + 128, *scales = block + 192;
    float scale = diti_load_half(block + 208);
    int e;
    for (e = 0; e < 256; e++) {
        int half = e / 128, quarter = e % 128 / 32, l = e % 32;
        int nibble = low[64 * half + 32 * (quarter & 1) + l] >> (quarter / 2 * 4) & 15;
        int value = (nibble | (high[32 * half + l] >> (2 * quarter) & 3) << 4) - 32;
        out[e] = scale * (float)(int8_t)scales[e / 16] * (float)value;
    }
}

typedef void (*diti_block_decoder)(const uint8_t *block, float *out);

static diti_block_decoder diti_type_decoder(dit_type type) {
    switch (type) {
    case DIT_TYPE_F32: return diti_decode_f32;
    case DIT_TYPE_F16: return diti_decode_f16;
    case DIT_TYPE_BF16: return diti_decode_bf16;
    case DIT_TYPE_F8_E4M3: return diti_decode_e4m3;
    case DIT_TYPE_F8_E5M2: return diti_decode_e5m2;
    case DIT_TYPE_Q8_0: return diti_decode_q8_0;
    case DIT_TYPE_Q4_0: return diti_decode_q4_0;
    case DIT_TYPE_Q4_1: return diti_decode_q4_1;
    case DIT_TYPE_Q5_0: return diti_decode_q5_0;
    case DIT_TYPE_Q5_1: return diti_decode_q5_1;
    case DIT_TYPE_Q2_K: return diti_decode_q2_k;
    case DIT_TYPE_Q3_K: return diti_decode_q3_k;
    case DIT_TYPE_Q4_K: return diti_decode_q4_k;
    case DIT_TYPE_Q5_K: return diti_decode_q5_k;
    case DIT_TYPE_Q6_K: return diti_decode_q6_k;
    case DIT_TYPE_I32: return diti_decode_i32;
    case DIT_TYPE_I64: return diti_decode_i64;
    default: return NULL;
    }
}

DIT_INTERNAL void diti_type_to_float(dit_type type, const void *blocks, uint64_t count, float *out) {
    diti_block_decoder decode = diti_type_decoder(type);
    const uint8_t *block = (const uint8_t *)blocks;
    uint32_t elements = diti_type_block(type), bytes = diti_type_block_bytes(type);
    uint64_t done;
    if (!decode) return;
    for (done = 0; done + elements <= count; done += elements, block += bytes) decode(block, out + done);
}

/* ======== src/io/file.c (edit it there; dit.h is generated) ======== */
#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

struct diti_file {
    diti_env env;
    char *name;
    uint64_t size;
    const unsigned char *data; /* NULL: read through the callback */
    bool mapped;
    int64_t (*read_at)(uint64_t offset, void *dst, size_t size, void *user);
    void *user;
};

/* --- mapping a path: the two platforms --- */

#ifdef _WIN32
enum { DITI_WIDE_PATH = 4096 };

static bool diti_wide_path(const char *path, wchar_t *out) {
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, out, DITI_WIDE_PATH) > 0;
}

static bool diti_path_is_folder(const char *path) {
    wchar_t wide[DITI_WIDE_PATH];
    DWORD attributes = diti_wide_path(path, wide) ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

static dit_result diti_map_handle(diti_file *file, HANDLE handle, dit_error *err) {
    LARGE_INTEGER size;
    HANDLE mapping;
    if (!GetFileSizeEx(handle, &size)) return diti_fail(err, DIT_ERROR_IO, "%s: has no size", file->name);
    file->size = (uint64_t)size.QuadPart;
    if (file->size == 0) return DIT_OK;
    mapping = CreateFileMappingW(handle, NULL, PAGE_READONLY, 0, 0, NULL);
    if (!mapping) return diti_fail(err, DIT_ERROR_IO, "%s: cannot be mapped (error %lu)", file->name, GetLastError());
    file->data = (const unsigned char *)MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
    CloseHandle(mapping);
    if (!file->data)
        return diti_fail(err, DIT_ERROR_IO, "%s: cannot be mapped (error %lu)", file->name, GetLastError());
    file->mapped = true;
    return DIT_OK;
}

static dit_result diti_map_path(diti_file *file, const char *path, bool *absent, dit_error *err) {
    wchar_t wide[DITI_WIDE_PATH];
    HANDLE handle;
    dit_result result;
    if (!diti_wide_path(path, wide)) return diti_fail(err, DIT_ERROR_IO, "%s: too long, or not UTF-8", file->name);
    handle = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        DWORD error = GetLastError();
        *absent = error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND;
        if (*absent) return diti_fail(err, DIT_ERROR_IO, "%s: no such file", file->name);
        return diti_fail(err, DIT_ERROR_IO, "%s: cannot be opened (error %lu)", file->name, error);
    }
    result = diti_map_handle(file, handle, err);
    CloseHandle(handle);
    return result;
}

static void diti_unmap(diti_file *file) { UnmapViewOfFile(file->data); }
#else
static bool diti_path_is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static dit_result diti_map_descriptor(diti_file *file, int descriptor, dit_error *err) {
    struct stat status;
    void *data;
    if (fstat(descriptor, &status) != 0) return diti_fail(err, DIT_ERROR_IO, "%s: has no size", file->name);
    if (S_ISDIR(status.st_mode)) return diti_fail(err, DIT_ERROR_IO, "%s: is a folder, not a file", file->name);
    if (!S_ISREG(status.st_mode)) return diti_fail(err, DIT_ERROR_IO, "%s: is not a regular file", file->name);
    file->size = (uint64_t)status.st_size;
    if (file->size == 0) return DIT_OK;
    if (file->size > SIZE_MAX) return diti_fail(err, DIT_ERROR_IO, "%s: too large to map", file->name);
    data = mmap(NULL, (size_t)file->size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) return diti_fail(err, DIT_ERROR_IO, "%s: cannot be mapped (errno %d)", file->name, errno);
    file->data = (const unsigned char *)data;
    file->mapped = true;
    return DIT_OK;
}

static dit_result diti_map_path(diti_file *file, const char *path, bool *absent, dit_error *err) {
    dit_result result;
    int descriptor = open(path, O_RDONLY | O_NONBLOCK); /* a FIFO is refused below, not waited for */
    if (descriptor < 0) {
        *absent = errno == ENOENT || errno == ENOTDIR;
        if (*absent) return diti_fail(err, DIT_ERROR_IO, "%s: no such file", file->name);
        if (errno == EACCES) return diti_fail(err, DIT_ERROR_IO, "%s: permission denied", file->name);
        return diti_fail(err, DIT_ERROR_IO, "%s: cannot be opened (errno %d)", file->name, errno);
    }
    result = diti_map_descriptor(file, descriptor, err);
    close(descriptor);
    return result;
}

static void diti_unmap(diti_file *file) { munmap((void *)(size_t)file->data, (size_t)file->size); }
#endif

/* --- opening --- */

DIT_INTERNAL dit_result diti_no_memory(const char *name, dit_error *err) {
    return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory", name);
}

static dit_result diti_file_attach(diti_file *file, const dit_source *source, bool *absent, dit_error *err) {
    if (source->data) {
        file->data = (const unsigned char *)source->data;
        file->size = source->size;
        if (file->size <= SIZE_MAX) return DIT_OK;
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: size is beyond the address space", file->name);
    }
    if (source->read_at) {
        file->read_at = source->read_at;
        file->user = source->user;
        file->size = source->size;
        return DIT_OK;
    }
    if (source->path) return diti_map_path(file, source->path, absent, err);
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: the source has neither path, data nor read_at", file->name);
}

/* *absent tells a missing file from every other failure. */
static dit_result diti_file_create(const diti_env *env, const dit_source *source, const char *name, bool *absent,
                                   diti_file **out, dit_error *err) {
    diti_file *file = (diti_file *)diti_alloc_zero(env, sizeof *file);
    dit_result result;
    *out = NULL;
    *absent = false;
    if (!name) name = source->path ? source->path : "(memory)";
    if (!file) return diti_no_memory(name, err);
    file->env = *env;
    file->name = diti_copy_string(env, name);
    result = file->name ? diti_file_attach(file, source, absent, err) : diti_no_memory(name, err);
    if (result < 0)
        diti_file_close(file);
    else
        *out = file;
    return result;
}

DIT_INTERNAL dit_result diti_file_open(const diti_env *env, const dit_source *source, const char *name, diti_file **out,
                                       dit_error *err) {
    bool absent;
    return diti_file_create(env, source, name, &absent, out, err);
}

/* A missing file is no failure here: *out stays NULL, and err is left alone. */
static dit_result diti_file_create_if_there(const diti_env *env, const dit_source *source, const char *name,
                                            diti_file **out, dit_error *err) {
    dit_error why = DITI_ZERO;
    bool absent = false;
    dit_result result = diti_file_create(env, source, name, &absent, out, &why);
    if (absent) return DIT_OK;
    if (result < 0 && err) *err = why;
    return result;
}

/* Plain names between single slashes only: nothing that leaves the folder on any system. */
static bool diti_member_is_safe(const char *member) {
    const char *part = member;
    if (!*member) return false;
    for (;;) {
        size_t length = strcspn(part, "/");
        if (length == 0 || strcspn(part, "\\:") < length) return false;
        if ((length == 1 && part[0] == '.') || (length == 2 && part[0] == '.' && part[1] == '.')) return false;
        if (!part[length]) return true;
        part += length + 1;
    }
}

static dit_result diti_file_open_hooked(const diti_env *env, const dit_source *root, const char *member,
                                        diti_file **out, dit_error *err) {
    dit_source source = DITI_ZERO;
    dit_result result = root->open(member, &source, root->user);
    if (result == DIT_ERROR_IO || (result >= 0 && !source.path && !source.data && !source.read_at)) return DIT_OK;
    if (result < 0) return diti_fail(err, result, "%s: the open hook failed: %s", member, dit_result_string(result));
    return diti_file_create_if_there(env, &source, member, out, err);
}

static dit_result diti_file_open_below(const diti_env *env, const char *folder, const char *member, diti_file **out,
                                       dit_error *err) {
    dit_source source = DITI_ZERO;
    size_t size = strlen(folder) + strlen(member) + 2;
    dit_result result;
    char *path = (char *)diti_alloc(env, size);
    if (!path) return diti_no_memory(member, err);
    diti_format(path, size, *folder && !diti_ends_with(folder, "/") ? "%s/%s" : "%s%s", folder, member);
    source.path = path;
    result = diti_file_create_if_there(env, &source, NULL, out, err);
    diti_free(env, path);
    return result;
}

DIT_INTERNAL dit_result diti_file_open_member(const diti_env *env, const dit_source *root, const char *member,
                                              diti_file **out, dit_error *err) {
    *out = NULL;
    if (!diti_member_is_safe(member)) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "'%s': not a name inside the model's folder", member);
    }
    if (root->open) return diti_file_open_hooked(env, root, member, out, err);
    if (root->path) return diti_file_open_below(env, root->path, member, out, err);
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: the source has no open hook for its other files", member);
}

DIT_INTERNAL void diti_file_close(diti_file *file) {
    diti_env env;
    if (!file) return;
    env = file->env;
    if (file->mapped) diti_unmap(file);
    diti_free(&env, file->name);
    diti_free(&env, file);
}

/* --- reading --- */

DIT_INTERNAL uint64_t diti_file_size(const diti_file *file) { return file->size; }
DIT_INTERNAL const char *diti_file_name(const diti_file *file) { return file->name; }

static bool diti_file_holds(const diti_file *file, uint64_t offset, uint64_t size) {
    return offset <= file->size && size <= file->size - offset;
}

DIT_INTERNAL dit_result diti_file_read(const diti_file *file, uint64_t offset, void *out, size_t size, dit_error *err) {
    unsigned char *bytes = (unsigned char *)out;
    size_t done = 0;
    if (!diti_file_holds(file, offset, size)) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: %llu bytes at %llu are past the end", file->name,
                         (unsigned long long)size, (unsigned long long)offset);
    }
    if (!file->read_at) {
        if (size) memcpy(bytes, file->data + offset, size);
        return DIT_OK;
    }
    while (done < size) {
        int64_t got = file->read_at(offset + done, bytes + done, size - done, file->user);
        if (got <= 0 || (uint64_t)got > size - done) {
            return diti_fail(err, DIT_ERROR_IO, "%s: reading at %llu failed", file->name,
                             (unsigned long long)(offset + done));
        }
        done += (size_t)got;
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_file_read_all(const diti_env *env, const diti_file *file, char **out, size_t *size,
                                           dit_error *err) {
    uint64_t bytes = diti_file_size(file);
    char *text = bytes < SIZE_MAX ? (char *)diti_alloc(env, (size_t)bytes + 1) : NULL;
    dit_result result;
    if (!text) return diti_no_memory(diti_file_name(file), err);
    text[bytes] = 0;
    result = diti_file_read(file, 0, text, (size_t)bytes, err);
    if (result < 0) {
        diti_free(env, text);
        return result;
    }
    *out = text;
    *size = (size_t)bytes;
    return DIT_OK;
}

DIT_INTERNAL bool diti_source_is_folder(const dit_source *source) {
    if (source->data || source->read_at) return false;
    if (source->path) return diti_path_is_folder(source->path);
    return source->open != NULL;
}

/* ======== src/io/checkpoint.c (edit it there; dit.h is generated) ======== */

/* --- memory that lives as long as the checkpoint --- */

typedef struct diti_chunk {
    void *next;
    size_t used, size;
} diti_chunk;
enum { DITI_CHUNK_HEADER = 64, DITI_CHUNK_SIZE = 64 * 1024 };

DIT_INTERNAL void *diti_checkpoint_keep(diti_checkpoint *checkpoint, size_t size) {
    diti_chunk *chunk = (diti_chunk *)checkpoint->chunks;
    void *memory;
    if (size > SIZE_MAX - DITI_CHUNK_SIZE) return NULL;
    size = (size + 15) & ~(size_t)15;
    if (!chunk || chunk->size - chunk->used < size) {
        size_t chunk_size = DITI_CHUNK_SIZE;
        if (size > chunk_size / 4) chunk_size = size;
        chunk = (diti_chunk *)diti_alloc(&checkpoint->env, DITI_CHUNK_HEADER + chunk_size);
        if (!chunk) return NULL;
        chunk->next = checkpoint->chunks;
        chunk->used = 0;
        chunk->size = chunk_size;
        checkpoint->chunks = chunk;
    }
    memory = (char *)chunk + DITI_CHUNK_HEADER + chunk->used;
    chunk->used += size;
    return memory;
}

DIT_INTERNAL char *diti_checkpoint_keep_text(diti_checkpoint *checkpoint, const char *text, size_t length) {
    char *copy = length < SIZE_MAX ? (char *)diti_checkpoint_keep(checkpoint, length + 1) : NULL;
    if (!copy) return NULL;
    if (length) memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

/* --- structs by name --- */

static const char *diti_name_of(const void *items, size_t stride, size_t index) {
    const char *name;
    memcpy(&name, (const char *)items + index * stride, sizeof name);
    return name;
}

/* The slot that holds name, or the free one where it belongs. */
static size_t diti_name_slot(const diti_name_index *index, const void *items, size_t stride, const char *name) {
    size_t slot = (size_t)diti_hash(name, strlen(name)) & (index->size - 1);
    while (index->slots[slot] && strcmp(diti_name_of(items, stride, index->slots[slot] - 1), name) != 0) {
        slot = (slot + 1) & (index->size - 1);
    }
    return slot;
}

static bool diti_name_find(const diti_name_index *index, const void *items, size_t stride, const char *name,
                           size_t *out) {
    size_t slot;
    if (!index->size) return false;
    slot = diti_name_slot(index, items, stride, name);
    if (!index->slots[slot]) return false;
    *out = index->slots[slot] - 1;
    return true;
}

/* Two items with one name are an error that calls them what ("tensor"). */
static dit_result diti_name_build(const diti_env *env, diti_name_index *index, const void *items, size_t stride,
                                  size_t count, const char *file, const char *what, dit_error *err) {
    size_t i, size = 16;
    if (count > UINT32_MAX / 4) return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: too many names", file);
    while (size / 2 < count) size *= 2;
    index->slots = (uint32_t *)diti_alloc_array(env, size, sizeof *index->slots);
    if (!index->slots) return diti_no_memory(file, err);
    index->size = size;
    for (i = 0; i < count; i++) {
        const char *name = diti_name_of(items, stride, i);
        size_t slot = diti_name_slot(index, items, stride, name);
        if (index->slots[slot]) return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: duplicate %s '%s'", file, what, name);
        index->slots[slot] = (uint32_t)i + 1;
    }
    return DIT_OK;
}

/* --- metadata --- */

DIT_INTERNAL dit_result diti_metadata_add(diti_checkpoint *checkpoint, diti_metadata *metadata, const diti_meta *meta,
                                          dit_error *err) {
    if (!diti_grow(&checkpoint->env, (void **)&metadata->items, &metadata->capacity, metadata->count, sizeof *meta)) {
        return diti_no_memory(diti_checkpoint_name(checkpoint), err);
    }
    metadata->items[metadata->count++] = *meta;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_metadata_finish(diti_checkpoint *checkpoint, diti_metadata *metadata, dit_error *err) {
    const diti_file *file = checkpoint->files[checkpoint->file_count - 1];
    return diti_name_build(&checkpoint->env, &metadata->index, metadata->items, sizeof *metadata->items,
                           metadata->count, diti_file_name(file), "metadata key", err);
}

DIT_INTERNAL const diti_meta *diti_metadata_find(const diti_metadata *metadata, const char *name) {
    size_t found;
    if (!diti_name_find(&metadata->index, metadata->items, sizeof *metadata->items, name, &found)) return NULL;
    return &metadata->items[found];
}

DIT_INTERNAL void diti_metadata_free(const diti_env *env, diti_metadata *metadata) {
    diti_free(env, metadata->items);
    diti_free(env, metadata->index.slots);
    memset(metadata, 0, sizeof *metadata);
}

/* --- tensors --- */

DIT_INTERNAL uint64_t diti_stored_tensor_elements(const diti_stored_tensor *tensor) {
    uint64_t count = 1;
    uint32_t i;
    for (i = 0; i < tensor->rank; i++) count *= tensor->shape[i];
    return count;
}

/* Bytes of the shape; false when it overflows, even where a zero elsewhere in the shape would hide that. */
static bool diti_stored_bytes(const diti_stored_tensor *tensor, const diti_format_type *format, uint64_t *out) {
    uint64_t row = tensor->rank ? tensor->shape[tensor->rank - 1] : 1, product = 1;
    bool empty = false;
    uint32_t i;
    for (i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] == 0)
            empty = true;
        else if (!diti_mul_u64(product, tensor->shape[i], &product))
            return false;
    }
    if (row % format->block || !diti_mul_u64(product / format->block, format->bytes, out)) return false;
    if (empty) *out = 0;
    return true;
}

DIT_INTERNAL dit_result diti_checkpoint_add(diti_checkpoint *checkpoint, diti_stored_tensor *tensor,
                                            const diti_format_type *format, dit_error *err) {
    const diti_file *file = checkpoint->files[checkpoint->file_count - 1];
    tensor->type = format->type;
    tensor->type_name = format->name;
    tensor->file = (uint32_t)(checkpoint->file_count - 1);
    if (!diti_stored_bytes(tensor, format, &tensor->size)) {
        return diti_fail(err, DIT_ERROR_BAD_FILE,
                         "%s: tensor '%s': its shape does not suit %s (blocks of %u) or overflows",
                         diti_file_name(file), tensor->name, format->name, (unsigned)format->block);
    }
    if (!diti_grow(&checkpoint->env, (void **)&checkpoint->tensors, &checkpoint->tensor_capacity,
                   checkpoint->tensor_count, sizeof *tensor)) {
        return diti_no_memory(diti_file_name(file), err);
    }
    checkpoint->tensors[checkpoint->tensor_count++] = *tensor;
    return DIT_OK;
}

/* Heapsort by offset (libc's qsort may allocate behind the caller's hooks). */
static void diti_offset_sift(const diti_stored_tensor *tensors, uint32_t *order, size_t root, size_t count) {
    for (;;) {
        size_t child = 2 * root + 1;
        uint32_t swap;
        if (child >= count) return;
        if (child + 1 < count && tensors[order[child]].offset < tensors[order[child + 1]].offset) child++;
        if (tensors[order[root]].offset >= tensors[order[child]].offset) return;
        swap = order[root];
        order[root] = order[child];
        order[child] = swap;
        root = child;
    }
}

static void diti_sort_by_offset(const diti_stored_tensor *tensors, uint32_t *order, size_t count) {
    size_t i;
    for (i = count / 2; i-- > 0;) diti_offset_sift(tensors, order, i, count);
    for (i = count; i-- > 1;) {
        uint32_t last = order[0];
        order[0] = order[i];
        order[i] = last;
        diti_offset_sift(tensors, order, 0, i);
    }
}

static dit_result diti_place_tensor(const diti_checkpoint *checkpoint, diti_stored_tensor *tensor, uint64_t data_offset,
                                    dit_error *err) {
    const diti_file *file = checkpoint->files[tensor->file];
    uint64_t end, size = diti_file_size(file);
    if (diti_add_u64(tensor->offset, data_offset, &tensor->offset) &&
        diti_add_u64(tensor->offset, tensor->size, &end) && end <= size) {
        return DIT_OK;
    }
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor '%s': its data is past the end of the file (%llu bytes)",
                     diti_file_name(file), tensor->name, (unsigned long long)size);
}

/* Empty tensors take no place. */
static dit_result diti_refuse_overlaps(const diti_checkpoint *checkpoint, size_t first, dit_error *err) {
    const diti_stored_tensor *tensors = checkpoint->tensors, *before = NULL;
    size_t i, count = 0;
    uint32_t *order = (uint32_t *)diti_alloc_array(&checkpoint->env, checkpoint->tensor_count - first, sizeof *order);
    dit_result result = DIT_OK;
    if (!order) return diti_no_memory(diti_checkpoint_name(checkpoint), err);
    for (i = first; i < checkpoint->tensor_count; i++) {
        if (tensors[i].size) order[count++] = (uint32_t)i;
    }
    diti_sort_by_offset(tensors, order, count);
    for (i = 0; i < count && result >= 0; i++) {
        const diti_stored_tensor *tensor = &tensors[order[i]];
        if (before && tensor->offset - before->offset < before->size) {
            result = diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensors '%s' and '%s' overlap",
                               diti_file_name(checkpoint->files[tensor->file]), before->name, tensor->name);
        }
        before = tensor;
    }
    diti_free(&checkpoint->env, order);
    return result;
}

DIT_INTERNAL dit_result diti_checkpoint_place(diti_checkpoint *checkpoint, size_t first, uint64_t data_offset,
                                              dit_error *err) {
    size_t i;
    for (i = first; i < checkpoint->tensor_count; i++) {
        dit_result result = diti_place_tensor(checkpoint, &checkpoint->tensors[i], data_offset, err);
        if (result < 0) return result;
    }
    return diti_refuse_overlaps(checkpoint, first, err);
}

/* --- opening: which format, which other files --- */

typedef enum diti_file_kind { DITI_FILE_SAFETENSORS, DITI_FILE_GGUF, DITI_FILE_INDEX } diti_file_kind;

static dit_result diti_file_recognise(const diti_file *file, diti_file_kind *out, dit_error *err) {
    unsigned char head[9] = DITI_ZERO;
    size_t have = diti_file_size(file) < sizeof head ? (size_t)diti_file_size(file) : sizeof head, i = 0;
    dit_result result = diti_file_read(file, 0, head, have, err);
    if (result < 0) return result;
    *out = DITI_FILE_SAFETENSORS;
    if (have == sizeof head && head[8] == '{' && !head[6] && !head[7]) return DIT_OK;
    if (have >= 4 && memcmp(head, "GGUF", 4) == 0) {
        *out = DITI_FILE_GGUF;
        return DIT_OK;
    }
    while (i < have && (head[i] == ' ' || head[i] == '\t' || head[i] == '\n' || head[i] == '\r')) i++;
    if (i < have && head[i] == '{') {
        *out = DITI_FILE_INDEX;
        return DIT_OK;
    }
    if (have >= 2 && (memcmp(head, "PK", 2) == 0 || head[0] == 0x80)) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: a PyTorch pickle; convert it to safetensors",
                         diti_file_name(file));
    }
    return DIT_OK; /* the safetensors parser says what is wrong with it */
}

/* Takes the file over, also on failure. */
static dit_result diti_checkpoint_take_file(diti_checkpoint *checkpoint, diti_file *file, dit_error *err) {
    if (!diti_grow(&checkpoint->env, (void **)&checkpoint->files, &checkpoint->file_capacity, checkpoint->file_count,
                   sizeof *checkpoint->files)) {
        dit_result result = diti_no_memory(diti_file_name(file), err);
        diti_file_close(file);
        return result;
    }
    checkpoint->files[checkpoint->file_count++] = file;
    return DIT_OK;
}

static dit_result diti_index_tensors(diti_checkpoint *checkpoint, dit_error *err) {
    return diti_name_build(&checkpoint->env, &checkpoint->index, checkpoint->tensors, sizeof *checkpoint->tensors,
                           checkpoint->tensor_count, diti_checkpoint_name(checkpoint), "tensor", err);
}

/* Where the other files of a checkpoint are: members of root, beside the first one. */
typedef struct diti_siblings {
    const dit_source *root;
    const char *first; /* member name of the first file; "" when it has none */
} diti_siblings;

/* The path of name in the folder of the first file. */
static dit_result diti_open_sibling(diti_checkpoint *checkpoint, const diti_siblings *siblings, const char *name,
                                    dit_error *err) {
    const char *slash = strrchr(siblings->first, '/');
    size_t folder = slash ? (size_t)(slash - siblings->first) + 1 : 0, size = folder + strlen(name) + 1;
    char *member = (char *)diti_alloc(&checkpoint->env, size);
    diti_file *file = NULL;
    dit_result result;
    if (!member) return diti_no_memory(name, err);
    diti_format(member, size, "%.*s%s", (int)folder, siblings->first, name);
    result = diti_file_open_member(&checkpoint->env, siblings->root, member, &file, err);
    if (result >= 0 && !file) {
        result = diti_fail(err, DIT_ERROR_BAD_FILE, "%s: names the file '%s', which does not exist",
                           diti_checkpoint_name(checkpoint), member);
    }
    diti_free(&checkpoint->env, member);
    return result < 0 ? result : diti_checkpoint_take_file(checkpoint, file, err);
}

/* --- sharded safetensors --- */

static dit_result diti_index_read(const diti_checkpoint *checkpoint, diti_json **out, dit_error *err) {
    const diti_file *file = checkpoint->files[0];
    char *text;
    size_t size;
    dit_result result = diti_file_read_all(&checkpoint->env, file, &text, &size, err);
    if (result < 0) return result;
    result = diti_json_parse(&checkpoint->env, text, size, diti_file_name(file), out, err);
    diti_free(&checkpoint->env, text);
    return result;
}

/* weight_map while its shards are opened: shards[i] is the name of the checkpoint's file i + 1. */
typedef struct diti_shard_list {
    const char **shards;
    size_t count, capacity;
} diti_shard_list;

static bool diti_shard_is_open(const diti_shard_list *list, const char *shard) {
    size_t i;
    for (i = 0; i < list->count; i++) {
        if (strcmp(list->shards[i], shard) == 0) return true;
    }
    return false;
}

static dit_result diti_open_shard(diti_checkpoint *checkpoint, const diti_siblings *siblings, diti_shard_list *list,
                                  const diti_json *entry, dit_error *err) {
    dit_result result;
    if (entry->kind != DITI_JSON_STRING || strlen(entry->text) != entry->text_length ||
        !diti_ends_with(entry->text, ".safetensors")) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor '%s': its shard '%s' is not a .safetensors file",
                         diti_checkpoint_name(checkpoint), entry->key, entry->text ? entry->text : "");
    }
    if (diti_shard_is_open(list, entry->text)) return DIT_OK;
    if (!diti_grow(&checkpoint->env, (void **)&list->shards, &list->capacity, list->count, sizeof *list->shards)) {
        return diti_no_memory(diti_checkpoint_name(checkpoint), err);
    }
    result = diti_open_sibling(checkpoint, siblings, entry->text, err);
    if (result < 0) return result;
    list->shards[list->count++] = entry->text;
    return diti_safetensors_parse(checkpoint, err);
}

static dit_result diti_check_shard(const diti_checkpoint *checkpoint, const diti_shard_list *list,
                                   const diti_json *entry, dit_error *err) {
    const diti_stored_tensor *tensor = diti_checkpoint_find(checkpoint, entry->key);
    if (tensor && strcmp(list->shards[tensor->file - 1], entry->text) == 0) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor '%s' is not in its shard '%s'",
                     diti_checkpoint_name(checkpoint), entry->key, entry->text);
}

static dit_result diti_open_shards(diti_checkpoint *checkpoint, const diti_siblings *siblings, const diti_json *map,
                                   dit_error *err) {
    diti_shard_list list = DITI_ZERO;
    const diti_json *entry;
    dit_result result = DIT_OK;
    for (entry = map->first; entry && result >= 0; entry = entry->next) {
        result = diti_open_shard(checkpoint, siblings, &list, entry, err);
    }
    if (result >= 0) result = diti_index_tensors(checkpoint, err);
    for (entry = map->first; entry && result >= 0; entry = entry->next) {
        result = diti_check_shard(checkpoint, &list, entry, err);
    }
    diti_free(&checkpoint->env, (void *)list.shards);
    return result;
}

static dit_result diti_open_index(diti_checkpoint *checkpoint, const diti_siblings *siblings, dit_error *err) {
    diti_json *root;
    const diti_json *map;
    dit_result result = diti_index_read(checkpoint, &root, err);
    if (result < 0) return result;
    map = diti_json_get(root, "weight_map");
    if (!map || map->kind != DITI_JSON_OBJECT) {
        result = diti_fail(err, DIT_ERROR_BAD_FILE, "%s: JSON without a weight_map, so no index of shards",
                           diti_checkpoint_name(checkpoint));
    } else {
        result = diti_open_shards(checkpoint, siblings, map, err);
    }
    diti_json_free(&checkpoint->env, root);
    return result;
}

/* --- GGUF, split or not --- */

/* The part of "name-00001-of-00003.gguf" that all files share. */
static bool diti_split_stem(const char *first, uint32_t count, size_t *stem) {
    char tail[32];
    const char *slash = strrchr(first, '/');
    const char *name = slash ? slash + 1 : first;
    if (!diti_format(tail, sizeof tail, "-00001-of-%05u.gguf", (unsigned)count) || !diti_ends_with(name, tail))
        return false;
    *stem = strlen(name) - strlen(tail);
    return true;
}

static dit_result diti_open_split(diti_checkpoint *checkpoint, const diti_siblings *siblings, size_t stem,
                                  uint32_t number, uint32_t count, dit_error *err) {
    const char *slash = strrchr(siblings->first, '/');
    char name[512];
    uint32_t own_number, own_count;
    dit_result result;
    if (!diti_format(name, sizeof name, "%.*s-%05u-of-%05u.gguf", (int)stem, slash ? slash + 1 : siblings->first,
                     (unsigned)number + 1, (unsigned)count)) {
        return diti_fail(err, DIT_ERROR_IO, "%s: its name is too long", siblings->first);
    }
    result = diti_open_sibling(checkpoint, siblings, name, err);
    if (result >= 0) result = diti_gguf_parse(checkpoint, &own_number, &own_count, err);
    if (result < 0) return result;
    if (own_number == number && own_count == count) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: calls itself part %u of %u", name, (unsigned)own_number + 1,
                     (unsigned)own_count);
}

static dit_result diti_open_gguf(diti_checkpoint *checkpoint, const diti_siblings *siblings, dit_error *err) {
    uint32_t number, count, i;
    size_t stem = 0;
    dit_result result = diti_gguf_parse(checkpoint, &number, &count, err);
    if (result < 0) return result;
    if (count > 1 && (number != 0 || !diti_split_stem(siblings->first, count, &stem))) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: part %u of %u; open the first, named ...-00001-of-%05u.gguf",
                         diti_checkpoint_name(checkpoint), (unsigned)number + 1, (unsigned)count, (unsigned)count);
    }
    for (i = 1; i < count; i++) {
        result = diti_open_split(checkpoint, siblings, stem, i, count, err);
        if (result < 0) return result;
    }
    return diti_index_tensors(checkpoint, err);
}

/* --- opening --- */

static dit_result diti_open_safetensors(diti_checkpoint *checkpoint, dit_error *err) {
    dit_result result = diti_safetensors_parse(checkpoint, err);
    return result < 0 ? result : diti_index_tensors(checkpoint, err);
}

static dit_result diti_open_contents(diti_checkpoint *checkpoint, const diti_siblings *siblings, dit_error *err) {
    diti_file_kind kind;
    dit_result result = diti_file_recognise(checkpoint->files[0], &kind, err);
    if (result < 0) return result;
    switch (kind) {
    case DITI_FILE_GGUF: return diti_open_gguf(checkpoint, siblings, err);
    case DITI_FILE_INDEX: return diti_open_index(checkpoint, siblings, err);
    default: return diti_open_safetensors(checkpoint, err);
    }
}

/* Takes the first file over. */
static dit_result diti_checkpoint_create(const diti_env *env, diti_file *file, const diti_siblings *siblings,
                                         diti_checkpoint **out, dit_error *err) {
    diti_checkpoint *checkpoint = (diti_checkpoint *)diti_alloc_zero(env, sizeof *checkpoint);
    dit_result result;
    if (!checkpoint) {
        result = diti_no_memory(diti_file_name(file), err);
        diti_file_close(file);
        return result;
    }
    checkpoint->env = *env;
    result = diti_checkpoint_take_file(checkpoint, file, err);
    if (result >= 0) result = diti_open_contents(checkpoint, siblings, err);
    if (result < 0)
        diti_checkpoint_close(checkpoint);
    else
        *out = checkpoint;
    return result;
}

/* Length of the folder in a path, its last slash included. */
static size_t diti_folder_length(const char *path) {
    size_t length = strlen(path);
#ifdef _WIN32
    while (length && path[length - 1] != '/' && path[length - 1] != '\\') length--;
#else
    while (length && path[length - 1] != '/') length--;
#endif
    return length;
}

DIT_INTERNAL dit_result diti_checkpoint_open(const diti_env *env, const dit_source *source, diti_checkpoint **out,
                                             dit_error *err) {
    const char *path = source->path ? source->path : "";
    size_t length = diti_folder_length(path);
    dit_source root = *source;
    diti_siblings siblings;
    diti_file *file;
    dit_result result;
    char *folder = (char *)diti_alloc(env, length + 1);
    *out = NULL;
    if (!folder) return diti_no_memory(path, err);
    memcpy(folder, path, length);
    folder[length] = 0;
    root.path = source->path ? folder : NULL;
    siblings.root = &root;
    siblings.first = path + length;
    result = diti_file_open(env, source, NULL, &file, err);
    if (result >= 0) result = diti_checkpoint_create(env, file, &siblings, out, err);
    diti_free(env, folder);
    return result;
}

DIT_INTERNAL dit_result diti_checkpoint_open_member(const diti_env *env, const dit_source *root, const char *member,
                                                    diti_checkpoint **out, dit_error *err) {
    diti_siblings siblings;
    diti_file *file;
    dit_result result = diti_file_open_member(env, root, member, &file, err);
    *out = NULL;
    if (result < 0 || !file) return result;
    siblings.root = root;
    siblings.first = member;
    return diti_checkpoint_create(env, file, &siblings, out, err);
}

DIT_INTERNAL void diti_checkpoint_close(diti_checkpoint *checkpoint) {
    diti_env env;
    void *chunk, *next;
    size_t i;
    if (!checkpoint) return;
    env = checkpoint->env;
    for (i = 0; i < checkpoint->file_count; i++) diti_file_close(checkpoint->files[i]);
    for (chunk = checkpoint->chunks; chunk; chunk = next) {
        next = ((diti_chunk *)chunk)->next;
        diti_free(&env, chunk);
    }
    diti_metadata_free(&env, &checkpoint->metadata);
    diti_free(&env, (void *)checkpoint->files);
    diti_free(&env, checkpoint->tensors);
    diti_free(&env, checkpoint->index.slots);
    diti_free(&env, checkpoint);
}

/* --- asking --- */

DIT_INTERNAL const char *diti_checkpoint_name(const diti_checkpoint *checkpoint) {
    return diti_file_name(checkpoint->files[0]);
}

DIT_INTERNAL uint32_t diti_checkpoint_count(const diti_checkpoint *checkpoint) {
    return (uint32_t)checkpoint->tensor_count;
}

DIT_INTERNAL const diti_stored_tensor *diti_checkpoint_tensor(const diti_checkpoint *checkpoint, uint32_t index) {
    return index < checkpoint->tensor_count ? &checkpoint->tensors[index] : NULL;
}

DIT_INTERNAL const diti_stored_tensor *diti_checkpoint_find(const diti_checkpoint *checkpoint, const char *name) {
    size_t found;
    if (!diti_name_find(&checkpoint->index, checkpoint->tensors, sizeof *checkpoint->tensors, name, &found))
        return NULL;
    return &checkpoint->tensors[found];
}

DIT_INTERNAL bool diti_checkpoint_has_prefix(const diti_checkpoint *checkpoint, const char *prefix) {
    size_t i;
    for (i = 0; i < checkpoint->tensor_count; i++) {
        if (diti_starts_with(checkpoint->tensors[i].name, prefix)) return true;
    }
    return false;
}

static dit_result diti_refuse_type(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                   dit_error *err) {
    if (tensor->type != DIT_TYPE_STORED) return DIT_OK;
    return diti_fail(
        err, DIT_ERROR_UNSUPPORTED_MODEL,
        "%s: tensor '%s' is stored as %s; dit.h reads F32, F16, BF16, F8, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and Q2_K to Q6_K",
        diti_file_name(checkpoint->files[tensor->file]), tensor->name, tensor->type_name);
}

DIT_INTERNAL dit_result diti_checkpoint_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                             uint64_t offset, void *out, size_t size, dit_error *err) {
    dit_result result = diti_refuse_type(checkpoint, tensor, err);
    if (result < 0) return result;
    if (offset > tensor->size || size > tensor->size - offset) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: reading past the end of tensor '%s'",
                         diti_file_name(checkpoint->files[tensor->file]), tensor->name);
    }
    return diti_file_read(checkpoint->files[tensor->file], tensor->offset + offset, out, size, err);
}

DIT_INTERNAL dit_result diti_checkpoint_read_float(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                                   float *out, uint64_t count, dit_error *err) {
    unsigned char blocks[4096];
    uint32_t block = diti_type_block(tensor->type), bytes = diti_type_block_bytes(tensor->type);
    uint64_t done = 0;
    dit_result result = diti_refuse_type(checkpoint, tensor, err);
    if (result < 0) return result;
    if (count != diti_stored_tensor_elements(tensor)) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor '%s' has %llu elements, expected %llu",
                         diti_file_name(checkpoint->files[tensor->file]), tensor->name,
                         (unsigned long long)diti_stored_tensor_elements(tensor), (unsigned long long)count);
    }
    while (done < count && result >= 0) {
        uint64_t left = (count - done) / block, fit = sizeof blocks / bytes, take = left < fit ? left : fit;
        result = diti_checkpoint_read(checkpoint, tensor, done / block * bytes, blocks, (size_t)take * bytes, err);
        if (result >= 0) diti_type_to_float(tensor->type, blocks, take * block, out + done);
        done += take * block;
    }
    return result;
}

DIT_INTERNAL const char *diti_checkpoint_text(const diti_checkpoint *checkpoint, const char *key) {
    const diti_meta *meta = diti_metadata_find(&checkpoint->metadata, key);
    return meta ? meta->text : NULL;
}

DIT_INTERNAL bool diti_checkpoint_array(const diti_checkpoint *checkpoint, const char *key, const void **data,
                                        uint64_t *count, uint32_t *gguf_type) {
    const diti_meta *meta = diti_metadata_find(&checkpoint->metadata, key);
    if (!meta || !meta->array || !meta->data) return false;
    *data = meta->data;
    *count = meta->count;
    *gguf_type = meta->type;
    return true;
}

DIT_INTERNAL const char *diti_checkpoint_array_text(const diti_checkpoint *checkpoint, const char *key, uint64_t index,
                                                    size_t *length) {
    const diti_meta *meta = diti_metadata_find(&checkpoint->metadata, key);
    if (!meta || !meta->texts || index >= meta->count) return NULL;
    if (length) *length = meta->texts[index].length;
    return meta->texts[index].text;
}

/* ======== src/io/safetensors.c (edit it there; dit.h is generated) ======== */
/* safetensors: a 64-bit header length, a JSON header, the data (models.md 9.1). */

enum { DITI_SAFETENSORS_MAX_HEADER = 100000000 }; /* the limit of the reference implementation */

static const diti_format_type diti_safetensors_types[] = {
    {"F32", 0, DIT_TYPE_F32, 1, 4},         {"F16", 0, DIT_TYPE_F16, 1, 2},         {"BF16", 0, DIT_TYPE_BF16, 1, 2},
    {"F8_E4M3", 0, DIT_TYPE_F8_E4M3, 1, 1}, {"F8_E5M2", 0, DIT_TYPE_F8_E5M2, 1, 1}, {"I64", 0, DIT_TYPE_I64, 1, 8},
    {"I32", 0, DIT_TYPE_I32, 1, 4},         {"F64", 0, DIT_TYPE_STORED, 1, 8},      {"I16", 0, DIT_TYPE_STORED, 1, 2},
    {"I8", 0, DIT_TYPE_STORED, 1, 1},       {"U8", 0, DIT_TYPE_STORED, 1, 1},       {"BOOL", 0, DIT_TYPE_STORED, 1, 1},
    {"U16", 0, DIT_TYPE_STORED, 1, 2},      {"U32", 0, DIT_TYPE_STORED, 1, 4},      {"U64", 0, DIT_TYPE_STORED, 1, 8},
    {"F8_E8M0", 0, DIT_TYPE_STORED, 1, 1},  {"C64", 0, DIT_TYPE_STORED, 1, 8},
};

typedef struct diti_safetensors {
    diti_checkpoint *checkpoint;
    const char *name;
    uint64_t data_size;
    dit_error *err;
} diti_safetensors;

static dit_result diti_safetensors_fail(const diti_safetensors *file, const char *tensor, const char *message) {
    return diti_fail(file->err, DIT_ERROR_BAD_FILE, "%s: tensor '%s': %s", file->name, tensor, message);
}

static const diti_format_type *diti_safetensors_find_type(const char *name) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_safetensors_types); i++) {
        if (strcmp(name, diti_safetensors_types[i].name) == 0) return &diti_safetensors_types[i];
    }
    return NULL;
}

static dit_result diti_safetensors_shape(const diti_safetensors *file, const diti_json *entry,
                                         diti_stored_tensor *tensor) {
    const diti_json *shape = diti_json_get(entry, "shape"), *dimension;
    if (!shape || shape->kind != DITI_JSON_ARRAY) return diti_safetensors_fail(file, tensor->name, "has no shape");
    if (shape->count > DITI_COUNT(tensor->shape)) {
        return diti_safetensors_fail(file, tensor->name, "has more than five dimensions");
    }
    for (dimension = shape->first; dimension; dimension = dimension->next) {
        if (!diti_json_u64(dimension, &tensor->shape[tensor->rank++])) {
            return diti_safetensors_fail(file, tensor->name, "a dimension is not a whole number");
        }
    }
    return DIT_OK;
}

static dit_result diti_safetensors_range(const diti_safetensors *file, const diti_json *entry, const char *tensor,
                                         uint64_t *begin, uint64_t *end) {
    const diti_json *offsets = diti_json_get(entry, "data_offsets");
    if (!offsets || offsets->kind != DITI_JSON_ARRAY || offsets->count != 2 || !diti_json_u64(offsets->first, begin) ||
        !diti_json_u64(offsets->first->next, end)) {
        return diti_safetensors_fail(file, tensor, "data_offsets are not two whole numbers");
    }
    if (*begin > *end || *end > file->data_size) {
        return diti_fail(file->err, DIT_ERROR_BAD_FILE,
                         "%s: tensor '%s': data_offsets %llu to %llu are not inside the file's %llu data bytes",
                         file->name, tensor, (unsigned long long)*begin, (unsigned long long)*end,
                         (unsigned long long)file->data_size);
    }
    return DIT_OK;
}

static dit_result diti_safetensors_tensor(const diti_safetensors *file, const diti_json *entry) {
    diti_stored_tensor tensor = DITI_ZERO;
    const char *dtype = diti_json_string(entry, "dtype", NULL);
    const diti_format_type *type;
    uint64_t begin = 0, end = 0;
    dit_result result;
    if (strlen(entry->key) != entry->key_length) return diti_safetensors_fail(file, entry->key, "NUL byte in the name");
    if (!dtype) return diti_safetensors_fail(file, entry->key, "has no dtype");
    type = diti_safetensors_find_type(dtype);
    if (!type) {
        return diti_fail(file->err, DIT_ERROR_BAD_FILE, "%s: tensor '%s': unknown dtype '%s'", file->name, entry->key,
                         dtype);
    }
    tensor.name = diti_checkpoint_keep_text(file->checkpoint, entry->key, entry->key_length);
    if (!tensor.name) return diti_no_memory(file->name, file->err);
    result = diti_safetensors_shape(file, entry, &tensor);
    if (result >= 0) result = diti_safetensors_range(file, entry, tensor.name, &begin, &end);
    if (result < 0) return result;
    tensor.offset = begin;
    result = diti_checkpoint_add(file->checkpoint, &tensor, type, file->err);
    if (result < 0) return result;
    return tensor.size == end - begin ? DIT_OK
                                      : diti_safetensors_fail(file, tensor.name, "size does not match its shape");
}

static dit_result diti_safetensors_metadata(const diti_safetensors *file, const diti_json *entry) {
    diti_metadata *metadata = &file->checkpoint->metadata;
    const diti_json *value;
    if (metadata->index.size) return DIT_OK; /* an earlier shard's stays */
    if (entry->kind != DITI_JSON_OBJECT) {
        return diti_fail(file->err, DIT_ERROR_BAD_FILE, "%s: __metadata__ is not an object", file->name);
    }
    for (value = entry->first; value; value = value->next) {
        diti_meta meta = DITI_ZERO;
        dit_result result;
        if (value->kind != DITI_JSON_STRING) {
            return diti_fail(file->err, DIT_ERROR_BAD_FILE, "%s: __metadata__ '%s' is not text", file->name,
                             value->key);
        }
        meta.name = diti_checkpoint_keep_text(file->checkpoint, value->key, strlen(value->key));
        meta.text = diti_checkpoint_keep_text(file->checkpoint, value->text, value->text_length);
        meta.type = DITI_GGUF_STRING;
        meta.count = 1;
        if (!meta.name || !meta.text) return diti_no_memory(file->name, file->err);
        result = diti_metadata_add(file->checkpoint, metadata, &meta, file->err);
        if (result < 0) return result;
    }
    return diti_metadata_finish(file->checkpoint, metadata, file->err);
}

static dit_result diti_safetensors_header(const diti_safetensors *file, const diti_json *root) {
    const diti_json *entry;
    if (root->kind != DITI_JSON_OBJECT) {
        return diti_fail(file->err, DIT_ERROR_BAD_FILE, "%s: the header is not an object", file->name);
    }
    for (entry = root->first; entry; entry = entry->next) {
        dit_result result = strcmp(entry->key, "__metadata__") == 0 ? diti_safetensors_metadata(file, entry)
                                                                    : diti_safetensors_tensor(file, entry);
        if (result < 0) return result;
    }
    return DIT_OK;
}

static dit_result diti_safetensors_header_size(const diti_file *bytes, size_t *out, dit_error *err) {
    unsigned char head[8] = DITI_ZERO;
    uint64_t size = 0;
    int i;
    if (diti_file_size(bytes) >= 8) {
        dit_result result = diti_file_read(bytes, 0, head, sizeof head, err);
        if (result < 0) return result;
    } else {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: too short for a model file", diti_file_name(bytes));
    }
    for (i = 8; i-- > 0;) size = size << 8 | head[i];
    if (size > DITI_SAFETENSORS_MAX_HEADER || size > diti_file_size(bytes) - 8) {
        return diti_fail(err, DIT_ERROR_BAD_FILE,
                         "%s: neither GGUF nor safetensors, or cut off: a header of %llu bytes in a file of %llu",
                         diti_file_name(bytes), (unsigned long long)size, (unsigned long long)diti_file_size(bytes));
    }
    *out = (size_t)size;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_safetensors_parse(diti_checkpoint *checkpoint, dit_error *err) {
    const diti_file *bytes = checkpoint->files[checkpoint->file_count - 1];
    diti_safetensors file = DITI_ZERO;
    diti_json *root = NULL;
    size_t size = 0, first = checkpoint->tensor_count;
    uint64_t data_offset;
    char *text;
    dit_result result = diti_safetensors_header_size(bytes, &size, err);
    if (result < 0) return result;
    file.checkpoint = checkpoint;
    file.name = diti_file_name(bytes);
    data_offset = 8 + (uint64_t)size;
    file.data_size = diti_file_size(bytes) - data_offset;
    file.err = err;
    text = (char *)diti_alloc(&checkpoint->env, size);
    if (!text) return diti_no_memory(file.name, err);
    result = diti_file_read(bytes, 8, text, size, err);
    if (result >= 0) result = diti_json_parse(&checkpoint->env, text, size, file.name, &root, err);
    if (result >= 0) result = diti_safetensors_header(&file, root);
    if (result >= 0) result = diti_checkpoint_place(checkpoint, first, data_offset, err);
    diti_json_free(&checkpoint->env, root);
    diti_free(&checkpoint->env, text);
    return result;
}

/* ======== src/io/gguf.c (edit it there; dit.h is generated) ======== */
/* GGUF versions 2 and 3, little-endian (models.md 9.2). */

static const diti_format_type diti_gguf_types[] = {
    {"F32", 0, DIT_TYPE_F32, 1, 4},
    {"F16", 1, DIT_TYPE_F16, 1, 2},
    {"Q4_0", 2, DIT_TYPE_Q4_0, 32, 18},
    {"Q4_1", 3, DIT_TYPE_Q4_1, 32, 20},
    {"Q5_0", 6, DIT_TYPE_Q5_0, 32, 22},
    {"Q5_1", 7, DIT_TYPE_Q5_1, 32, 24},
    {"Q8_0", 8, DIT_TYPE_Q8_0, 32, 34},
    {"Q8_1", 9, DIT_TYPE_STORED, 32, 36},
    {"Q2_K", 10, DIT_TYPE_Q2_K, 256, 84},
    {"Q3_K", 11, DIT_TYPE_Q3_K, 256, 110},
    {"Q4_K", 12, DIT_TYPE_Q4_K, 256, 144},
    {"Q5_K", 13, DIT_TYPE_Q5_K, 256, 176},
    {"Q6_K", 14, DIT_TYPE_Q6_K, 256, 210},
    {"Q8_K", 15, DIT_TYPE_STORED, 256, 292},
    {"IQ2_XXS", 16, DIT_TYPE_STORED, 256, 66},
    {"IQ2_XS", 17, DIT_TYPE_STORED, 256, 74},
    {"IQ3_XXS", 18, DIT_TYPE_STORED, 256, 98},
    {"IQ1_S", 19, DIT_TYPE_STORED, 256, 50},
    {"IQ4_NL", 20, DIT_TYPE_STORED, 32, 18},
    {"IQ3_S", 21, DIT_TYPE_STORED, 256, 110},
    {"IQ2_S", 22, DIT_TYPE_STORED, 256, 82},
    {"IQ4_XS", 23, DIT_TYPE_STORED, 256, 136},
    {"I8", 24, DIT_TYPE_STORED, 1, 1},
    {"I16", 25, DIT_TYPE_STORED, 1, 2},
    {"I32", 26, DIT_TYPE_I32, 1, 4},
    {"I64", 27, DIT_TYPE_I64, 1, 8},
    {"F64", 28, DIT_TYPE_STORED, 1, 8},
    {"IQ1_M", 29, DIT_TYPE_STORED, 256, 56},
    {"BF16", 30, DIT_TYPE_BF16, 1, 2},
    {"TQ1_0", 34, DIT_TYPE_STORED, 256, 54},
    {"TQ2_0", 35, DIT_TYPE_STORED, 256, 66},
    {"MXFP4", 39, DIT_TYPE_STORED, 32, 17},
};

/* Bytes of a value by its type; 0 for strings and arrays. */
static const uint8_t diti_gguf_value_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* Reads forward through the file. The little buffer spares callback sources a call per number. */
typedef struct diti_gguf {
    diti_checkpoint *checkpoint;
    const diti_file *file;
    const char *name;    /* of the file */
    const char *subject; /* what is being read: a key's or tensor's name, for messages */
    uint64_t at, size;
    uint64_t buffer_at;
    size_t buffer_size;
    unsigned char buffer[4096];
    diti_metadata metadata;
    dit_error *err;
} diti_gguf;

static dit_result diti_gguf_fail(const diti_gguf *gguf, const char *message) {
    return diti_fail(gguf->err, DIT_ERROR_BAD_FILE, "%s: %s: %s", gguf->name, gguf->subject, message);
}

static dit_result diti_gguf_fill(diti_gguf *gguf) {
    uint64_t left = gguf->size - gguf->at;
    gguf->buffer_at = gguf->at;
    gguf->buffer_size = left < sizeof gguf->buffer ? (size_t)left : sizeof gguf->buffer;
    return diti_file_read(gguf->file, gguf->at, gguf->buffer, gguf->buffer_size, gguf->err);
}

static dit_result diti_gguf_take(diti_gguf *gguf, void *out, size_t size) {
    dit_result result = DIT_OK;
    if (size > gguf->size - gguf->at) return diti_gguf_fail(gguf, "the file ends here: cut off, or a length is wrong");
    if (size > sizeof gguf->buffer) {
        result = diti_file_read(gguf->file, gguf->at, out, size, gguf->err);
    } else {
        if (gguf->at < gguf->buffer_at || gguf->at + size > gguf->buffer_at + gguf->buffer_size)
            result = diti_gguf_fill(gguf);
        if (result >= 0 && size) memcpy(out, gguf->buffer + (gguf->at - gguf->buffer_at), size);
    }
    gguf->at += size;
    return result;
}

static dit_result diti_gguf_take_number(diti_gguf *gguf, size_t size, uint64_t *out) {
    unsigned char bytes[8] = DITI_ZERO;
    dit_result result = diti_gguf_take(gguf, bytes, size);
    int i;
    *out = 0;
    for (i = 8; i-- > 0;) *out = *out << 8 | bytes[i];
    return result;
}

static dit_result diti_gguf_take_u32(diti_gguf *gguf, uint32_t *out) {
    uint64_t wide;
    dit_result result = diti_gguf_take_number(gguf, 4, &wide);
    *out = (uint32_t)wide;
    return result;
}

static dit_result diti_gguf_take_text(diti_gguf *gguf, diti_text *out) {
    uint64_t length;
    char *text;
    dit_result result = diti_gguf_take_number(gguf, 8, &length);
    if (result < 0) return result;
    if (length > gguf->size - gguf->at) return diti_gguf_fail(gguf, "a text is longer than the file");
    text = (char *)diti_checkpoint_keep(gguf->checkpoint, (size_t)length + 1);
    if (!text) return diti_no_memory(gguf->name, gguf->err);
    text[length] = 0;
    out->text = text;
    out->length = (size_t)length;
    return diti_gguf_take(gguf, text, (size_t)length);
}

static dit_result diti_gguf_take_name(diti_gguf *gguf, const char **out) {
    diti_text text;
    dit_result result = diti_gguf_take_text(gguf, &text);
    if (result < 0) return result;
    *out = gguf->subject = text.text;
    if (strlen(text.text) != text.length) return diti_gguf_fail(gguf, "NUL byte in the name");
    return DIT_OK;
}

/* --- metadata --- */

static void diti_gguf_print_float(uint32_t type, uint64_t raw, char *out, size_t size) {
    uint32_t low = (uint32_t)raw;
    float single;
    double value;
    memcpy(&single, &low, sizeof single);
    memcpy(&value, &raw, sizeof value);
    if (type == DITI_GGUF_F32)
        diti_print_double((double)single, 9, out, size);
    else
        diti_print_double(value, 17, out, size);
}

/* A number as text; raw has its little-endian bytes, zero-extended. */
static void diti_gguf_print(uint32_t type, uint64_t raw, char *out, size_t size) {
    uint32_t bits = 8u * diti_gguf_value_bytes[type];
    bool is_signed = type == DITI_GGUF_I8 || type == DITI_GGUF_I16 || type == DITI_GGUF_I32 || type == DITI_GGUF_I64;
    if (type == DITI_GGUF_F32 || type == DITI_GGUF_F64) {
        diti_gguf_print_float(type, raw, out, size);
    } else if (type == DITI_GGUF_BOOL) {
        diti_format(out, size, raw ? "true" : "false");
    } else if (is_signed && raw >> (bits - 1)) {
        diti_format(out, size, "-%llu", (unsigned long long)((~raw + 1) & (UINT64_MAX >> (64 - bits))));
    } else {
        diti_format(out, size, "%llu", (unsigned long long)raw);
    }
}

static dit_result diti_gguf_number(diti_gguf *gguf, diti_meta *meta) {
    char text[48];
    uint64_t raw;
    void *data;
    dit_result result = diti_gguf_take_number(gguf, diti_gguf_value_bytes[meta->type], &raw);
    if (result < 0) return result;
    diti_gguf_print(meta->type, raw, text, sizeof text);
    data = diti_checkpoint_keep(gguf->checkpoint, sizeof raw);
    meta->text = diti_checkpoint_keep_text(gguf->checkpoint, text, strlen(text));
    if (!data || !meta->text) return diti_no_memory(gguf->name, gguf->err);
    memcpy(data, &raw, sizeof raw);
    meta->data = data;
    return DIT_OK;
}

static dit_result diti_gguf_text_array(diti_gguf *gguf, diti_meta *meta) {
    diti_text *texts;
    uint64_t i;
    size_t bytes;
    dit_result result = DIT_OK;
    if (meta->count > (gguf->size - gguf->at) / 8)
        return diti_gguf_fail(gguf, "more array elements than the file has bytes");
    if (!diti_mul_size((size_t)meta->count, sizeof *texts, &bytes)) return diti_no_memory(gguf->name, gguf->err);
    texts = (diti_text *)diti_checkpoint_keep(gguf->checkpoint, bytes);
    if (!texts) return diti_no_memory(gguf->name, gguf->err);
    meta->texts = texts;
    for (i = 0; i < meta->count && result >= 0; i++) result = diti_gguf_take_text(gguf, &texts[i]);
    return result;
}

static dit_result diti_gguf_number_array(diti_gguf *gguf, diti_meta *meta) {
    size_t element = diti_gguf_value_bytes[meta->type];
    void *data;
    if (meta->count > (gguf->size - gguf->at) / element) {
        return diti_gguf_fail(gguf, "more array elements than the file has bytes");
    }
    data = diti_checkpoint_keep(gguf->checkpoint, (size_t)meta->count * element);
    if (!data) return diti_no_memory(gguf->name, gguf->err);
    meta->data = data;
    return diti_gguf_take(gguf, data, (size_t)meta->count * element);
}

static dit_result diti_gguf_array(diti_gguf *gguf, diti_meta *meta) {
    dit_result result = diti_gguf_take_u32(gguf, &meta->type);
    if (result >= 0) result = diti_gguf_take_number(gguf, 8, &meta->count);
    if (result < 0) return result;
    meta->array = true;
    if (meta->type == DITI_GGUF_STRING) return diti_gguf_text_array(gguf, meta);
    if (meta->type > DITI_GGUF_F64 || meta->type == DITI_GGUF_ARRAY) {
        return diti_gguf_fail(gguf, "an array of arrays or of an unknown type");
    }
    return diti_gguf_number_array(gguf, meta);
}

static dit_result diti_gguf_value(diti_gguf *gguf, diti_meta *meta) {
    diti_text text = DITI_ZERO;
    dit_result result = diti_gguf_take_u32(gguf, &meta->type);
    if (result < 0) return result;
    if (meta->type > DITI_GGUF_F64) return diti_gguf_fail(gguf, "unknown metadata type");
    if (meta->type == DITI_GGUF_ARRAY) return diti_gguf_array(gguf, meta);
    meta->count = 1;
    if (meta->type != DITI_GGUF_STRING) return diti_gguf_number(gguf, meta);
    result = diti_gguf_take_text(gguf, &text);
    meta->text = text.text;
    return result;
}

static dit_result diti_gguf_metadata(diti_gguf *gguf, uint64_t count) {
    uint64_t i;
    for (i = 0; i < count; i++) {
        diti_meta meta = DITI_ZERO;
        dit_result result;
        gguf->subject = "metadata";
        result = diti_gguf_take_name(gguf, &meta.name);
        if (result >= 0) result = diti_gguf_value(gguf, &meta);
        if (result >= 0) result = diti_metadata_add(gguf->checkpoint, &gguf->metadata, &meta, gguf->err);
        if (result < 0) return result;
    }
    return diti_metadata_finish(gguf->checkpoint, &gguf->metadata, gguf->err);
}

/* A whole number's value; otherwise where the key is absent. */
static uint64_t diti_gguf_integer(const diti_gguf *gguf, const char *key, uint64_t otherwise) {
    const diti_meta *meta = diti_metadata_find(&gguf->metadata, key);
    uint64_t value;
    if (!meta || meta->array || !meta->data || meta->type == DITI_GGUF_F32 || meta->type == DITI_GGUF_F64)
        return otherwise;
    memcpy(&value, meta->data, sizeof value);
    return value;
}

/* --- tensors --- */

static const diti_format_type *diti_gguf_find_type(uint32_t id) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_gguf_types); i++) {
        if (diti_gguf_types[i].id == id) return &diti_gguf_types[i];
    }
    return NULL;
}

/* Dimensions stand fastest first in the file. */
static dit_result diti_gguf_shape(diti_gguf *gguf, diti_stored_tensor *tensor) {
    uint32_t i;
    dit_result result = diti_gguf_take_u32(gguf, &tensor->rank);
    if (result < 0) return result;
    if (tensor->rank > 4) return diti_gguf_fail(gguf, "has more than four dimensions");
    for (i = tensor->rank; i-- > 0 && result >= 0;) result = diti_gguf_take_number(gguf, 8, &tensor->shape[i]);
    return result;
}

/* The torch shape of a tensor that was reshaped to fill its blocks (city96's metadata). */
static dit_result diti_gguf_original_shape(diti_gguf *gguf, diti_stored_tensor *tensor) {
    char key[512];
    const diti_meta *meta = NULL;
    uint64_t elements = diti_stored_tensor_elements(tensor);
    uint32_t i;
    if (diti_format(key, sizeof key, "comfy.gguf.orig_shape.%s", tensor->name))
        meta = diti_metadata_find(&gguf->metadata, key);
    if (!meta) return DIT_OK;
    if (!meta->array || meta->type != DITI_GGUF_I32 || meta->count > DITI_COUNT(tensor->shape)) {
        return diti_gguf_fail(gguf, "its orig_shape is not an array of at most five i32");
    }
    tensor->rank = (uint32_t)meta->count;
    for (i = 0; i < tensor->rank; i++) {
        int32_t dimension;
        memcpy(&dimension, (const char *)meta->data + 4 * i, sizeof dimension);
        if (dimension <= 0 || elements % (uint64_t)dimension)
            return diti_gguf_fail(gguf, "its orig_shape does not suit its size");
        elements /= (uint64_t)dimension;
        tensor->shape[i] = (uint64_t)dimension;
    }
    return elements == 1 ? DIT_OK : diti_gguf_fail(gguf, "its orig_shape does not suit its size");
}

static dit_result diti_gguf_tensor(diti_gguf *gguf, uint64_t alignment) {
    diti_stored_tensor tensor = DITI_ZERO;
    const diti_format_type *type;
    uint32_t id;
    dit_result result;
    gguf->subject = "tensor list";
    result = diti_gguf_take_name(gguf, &tensor.name);
    if (result >= 0) result = diti_gguf_shape(gguf, &tensor);
    if (result >= 0) result = diti_gguf_take_u32(gguf, &id);
    if (result >= 0) result = diti_gguf_take_number(gguf, 8, &tensor.offset);
    if (result < 0) return result;
    type = diti_gguf_find_type(id);
    if (!type) {
        return diti_fail(gguf->err, DIT_ERROR_BAD_FILE, "%s: tensor '%s': unknown type number %lu", gguf->name,
                         tensor.name, (unsigned long)id);
    }
    if (tensor.offset % alignment) {
        return diti_fail(gguf->err, DIT_ERROR_BAD_FILE, "%s: tensor '%s': offset %llu is not aligned to %llu",
                         gguf->name, tensor.name, (unsigned long long)tensor.offset, (unsigned long long)alignment);
    }
    result = diti_checkpoint_add(gguf->checkpoint, &tensor, type, gguf->err);
    return result < 0 ? result
                      : diti_gguf_original_shape(gguf, &gguf->checkpoint->tensors[gguf->checkpoint->tensor_count - 1]);
}

static dit_result diti_gguf_tensors(diti_gguf *gguf, uint64_t count) {
    size_t first = gguf->checkpoint->tensor_count;
    uint64_t alignment = diti_gguf_integer(gguf, "general.alignment", 32), i;
    gguf->subject = "general.alignment";
    if (alignment == 0 || alignment > (1u << 20) || (alignment & (alignment - 1))) {
        return diti_gguf_fail(gguf, "not a power of two up to 1 MiB");
    }
    for (i = 0; i < count; i++) {
        dit_result result = diti_gguf_tensor(gguf, alignment);
        if (result < 0) return result;
    }
    return diti_checkpoint_place(gguf->checkpoint, first, (gguf->at + alignment - 1) / alignment * alignment,
                                 gguf->err);
}

/* --- the file --- */

static dit_result diti_gguf_version(diti_gguf *gguf) {
    char magic[4];
    uint32_t version = 0;
    dit_result result = diti_gguf_take(gguf, magic, sizeof magic);
    if (result >= 0 && memcmp(magic, "GGUF", 4) != 0) return diti_gguf_fail(gguf, "no GGUF file");
    if (result >= 0) result = diti_gguf_take_u32(gguf, &version);
    if (result < 0 || version == 2 || version == 3) return result;
    if (version == 0x02000000 || version == 0x03000000)
        return diti_gguf_fail(gguf, "a big-endian file; dit.h reads little-endian ones");
    return diti_fail(gguf->err, DIT_ERROR_BAD_FILE, "%s: GGUF version %lu; dit.h reads 2 and 3", gguf->name,
                     (unsigned long)version);
}

/* A count of things that take at least size bytes each. */
static dit_result diti_gguf_take_count(diti_gguf *gguf, uint64_t size, uint64_t *out) {
    dit_result result = diti_gguf_take_number(gguf, 8, out);
    if (result < 0 || *out <= (gguf->size - gguf->at) / size) return result;
    return diti_fail(gguf->err, DIT_ERROR_BAD_FILE, "%s: %s: %llu are more than the file can hold", gguf->name,
                     gguf->subject, (unsigned long long)*out);
}

static dit_result diti_gguf_contents(diti_gguf *gguf) {
    uint64_t tensors = 0, keys = 0;
    dit_result result;
    gguf->subject = "header";
    result = diti_gguf_version(gguf);
    gguf->subject = "tensors";
    if (result >= 0) result = diti_gguf_take_count(gguf, 24, &tensors);
    gguf->subject = "metadata keys";
    if (result >= 0) result = diti_gguf_take_count(gguf, 13, &keys);
    if (result >= 0) result = diti_gguf_metadata(gguf, keys);
    return result < 0 ? result : diti_gguf_tensors(gguf, tensors);
}

DIT_INTERNAL dit_result diti_gguf_parse(diti_checkpoint *checkpoint, uint32_t *split_number, uint32_t *split_count,
                                        dit_error *err) {
    diti_gguf gguf = DITI_ZERO;
    dit_result result;
    gguf.checkpoint = checkpoint;
    gguf.file = checkpoint->files[checkpoint->file_count - 1];
    gguf.name = diti_file_name(gguf.file);
    gguf.size = diti_file_size(gguf.file);
    gguf.err = err;
    result = diti_gguf_contents(&gguf);
    *split_number = (uint32_t)diti_gguf_integer(&gguf, "split.no", 0);
    *split_count = (uint32_t)diti_gguf_integer(&gguf, "split.count", 1);
    if (checkpoint->file_count == 1)
        checkpoint->metadata = gguf.metadata;
    else
        diti_metadata_free(&checkpoint->env, &gguf.metadata);
    return result;
}

/* ======== src/io/package.c (edit it there; dit.h is generated) ======== */

/* A component that was looked for, found or not. */
typedef struct diti_package_part {
    char *component, *prefix;
    diti_checkpoint *checkpoint; /* NULL: the package's single file */
    bool found;
} diti_package_part;

struct diti_package {
    diti_env env;
    dit_source root; /* the folder; its path is owned */
    char *path;
    diti_checkpoint *single; /* the whole package in one checkpoint; NULL for a folder */
    diti_package_part *parts;
    size_t part_count, part_capacity;
};

/* --- opening --- */

static dit_result diti_package_fill(diti_package *package, const dit_source *source, dit_error *err) {
    package->root = *source;
    if (!diti_source_is_folder(source)) return diti_checkpoint_open(&package->env, source, &package->single, err);
    package->path = diti_copy_string(&package->env, source->path);
    if (source->path && !package->path) return diti_no_memory(source->path, err);
    package->root.path = package->path;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_package_open(const diti_env *env, const dit_source *source, diti_package **out,
                                          dit_error *err) {
    diti_package *package = (diti_package *)diti_alloc_zero(env, sizeof *package);
    dit_result result;
    *out = NULL;
    if (!package) return diti_no_memory(source->path ? source->path : "model", err);
    package->env = *env;
    result = diti_package_fill(package, source, err);
    if (result < 0)
        diti_package_close(package);
    else
        *out = package;
    return result;
}

static void diti_package_part_free(const diti_env *env, diti_package_part *part) {
    diti_free(env, part->component);
    diti_free(env, part->prefix);
    diti_checkpoint_close(part->checkpoint);
}

DIT_INTERNAL void diti_package_close(diti_package *package) {
    diti_env env;
    size_t i;
    if (!package) return;
    env = package->env;
    for (i = 0; i < package->part_count; i++) diti_package_part_free(&env, &package->parts[i]);
    diti_free(&env, package->parts);
    diti_checkpoint_close(package->single);
    diti_free(&env, package->path);
    diti_free(&env, package);
}

/* --- small files --- */

static dit_result diti_package_read_bundled(const diti_package *package, const char *path, char **out, size_t *size,
                                            dit_error *err) {
    char key[512];
    const void *data;
    uint64_t count;
    uint32_t type;
    if (!diti_format(key, sizeof key, "dit.file.%s", path) ||
        !diti_checkpoint_array(package->single, key, &data, &count, &type) || type != DITI_GGUF_U8) {
        return DIT_OK;
    }
    *out = (char *)diti_alloc(&package->env, (size_t)count + 1);
    if (!*out) return diti_no_memory(path, err);
    memcpy(*out, data, (size_t)count);
    (*out)[count] = 0;
    *size = (size_t)count;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_package_read(const diti_package *package, const char *path, char **out, size_t *size,
                                          dit_error *err) {
    diti_file *file;
    dit_result result;
    *out = NULL;
    *size = 0;
    if (package->single) return diti_package_read_bundled(package, path, out, size, err);
    result = diti_file_open_member(&package->env, &package->root, path, &file, err);
    if (result < 0 || !file) return result;
    result = diti_file_read_all(&package->env, file, out, size, err);
    diti_file_close(file);
    return result;
}

/* --- components in a folder --- */

/* In the order that diffusers and transformers prefer them. */
static const char *const diti_weight_files[] = {
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.safetensors.index.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "diffusion_pytorch_model.fp16.safetensors",
    "diffusion_pytorch_model.safetensors.index.fp16.json",
    "model.fp16.safetensors",
    "model.safetensors.index.fp16.json",
    "diffusion_pytorch_model.bf16.safetensors",
    "diffusion_pytorch_model.safetensors.index.bf16.json",
    "model.bf16.safetensors",
    "model.safetensors.index.bf16.json",
    "diffusion_pytorch_model.gguf",
    "model.gguf",
};

static dit_result diti_package_find_weights(const diti_package *package, diti_package_part *part, dit_error *err) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_weight_files) && !part->checkpoint; i++) {
        char member[256];
        dit_result result;
        if (!diti_format(member, sizeof member, "%s%s%s", part->component, *part->component ? "/" : "",
                         diti_weight_files[i])) {
            return DIT_OK;
        }
        result = diti_checkpoint_open_member(&package->env, &package->root, member, &part->checkpoint, err);
        if (result < 0) return result;
    }
    part->found = part->checkpoint != NULL;
    return DIT_OK;
}

/* --- components in one file --- */

typedef struct diti_known_prefix {
    const char *component, *prefix;
} diti_known_prefix;

/* Of original checkpoints and stable-diffusion.cpp (models.md 9.3). */
static const diti_known_prefix diti_known_prefixes[] = {
    {"transformer", "model.diffusion_model."},
    {"vae", "first_stage_model."},
};

/* Text encoders of such files in the order in which diffusers numbers them; those that a file lacks are not counted. */
static const char *const diti_encoder_prefixes[][3] = {
    {"text_encoders.clip_l.transformer.", "cond_stage_model.transformer.", "conditioner.embedders.0.transformer."},
    {"text_encoders.clip_g.transformer.", NULL, NULL},
    {"text_encoders.t5xxl.transformer.", NULL, NULL},
};

static const char *diti_find_encoder(const diti_checkpoint *checkpoint, const char *component) {
    static const char *const numbers[] = {"text_encoder", "text_encoder_2", "text_encoder_3"};
    size_t i, j, found = 0;
    for (i = 0; i < DITI_COUNT(diti_encoder_prefixes); i++) {
        for (j = 0; j < 3; j++) {
            const char *prefix = diti_encoder_prefixes[i][j];
            if (!prefix || !diti_checkpoint_has_prefix(checkpoint, prefix)) continue;
            if (diti_equal(numbers[found++], component)) return prefix;
            break;
        }
    }
    return NULL;
}

static const char *diti_find_known_prefix(const diti_checkpoint *checkpoint, const char *component) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_known_prefixes); i++) {
        const diti_known_prefix *known = &diti_known_prefixes[i];
        if (diti_equal(known->component, component) && diti_checkpoint_has_prefix(checkpoint, known->prefix)) {
            return known->prefix;
        }
    }
    return diti_find_encoder(checkpoint, component);
}

static dit_result diti_package_find_prefix(const diti_package *package, diti_package_part *part, dit_error *err) {
    const char *known;
    char own[128] = "";
    if (*part->component && !diti_format(own, sizeof own, "%s.", part->component)) return DIT_OK;
    if (!*own || diti_checkpoint_has_prefix(package->single, own))
        known = own;
    else
        known = diti_find_known_prefix(package->single, part->component);
    if (!known) return DIT_OK;
    part->prefix = diti_copy_string(&package->env, known);
    part->found = true;
    return part->prefix ? DIT_OK : diti_no_memory(diti_checkpoint_name(package->single), err);
}

/* --- components --- */

static diti_package_part *diti_package_known_part(const diti_package *package, const char *component) {
    size_t i;
    for (i = 0; i < package->part_count; i++) {
        if (strcmp(package->parts[i].component, component) == 0) return &package->parts[i];
    }
    return NULL;
}

static dit_result diti_package_part_fill(const diti_package *package, const char *component, diti_package_part *part,
                                         dit_error *err) {
    part->component = diti_copy_string(&package->env, component);
    if (!part->component) return diti_no_memory(component, err);
    return package->single ? diti_package_find_prefix(package, part, err)
                           : diti_package_find_weights(package, part, err);
}

/* What could not be opened is not remembered, so that the next call tells the error again. */
static dit_result diti_package_new_part(diti_package *package, const char *component, diti_package_part **out,
                                        dit_error *err) {
    diti_package_part part = DITI_ZERO;
    dit_result result = diti_package_part_fill(package, component, &part, err);
    if (result >= 0 && !diti_grow(&package->env, (void **)&package->parts, &package->part_capacity, package->part_count,
                                  sizeof part)) {
        result = diti_no_memory(component, err);
    }
    if (result < 0) {
        diti_package_part_free(&package->env, &part);
        return result;
    }
    *out = &package->parts[package->part_count++];
    **out = part;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_package_component(diti_package *package, const char *component,
                                               const diti_checkpoint **out, const char **prefix, dit_error *err) {
    diti_package_part *part = diti_package_known_part(package, component);
    dit_result result = part ? DIT_OK : diti_package_new_part(package, component, &part, err);
    *out = NULL;
    *prefix = "";
    if (result < 0 || !part->found) return result;
    *out = part->checkpoint ? part->checkpoint : package->single;
    if (part->prefix) *prefix = part->prefix;
    return DIT_OK;
}

/* ======== src/vk/vk.h (edit it there; dit.h is generated) ======== */
/* vk: loader table, device choice and feature ladder, memory, pipelines, submission. */
#ifndef DITI_VK_H
#define DITI_VK_H

/* Every Vulkan function that dit calls, fetched with get_instance_proc_addr; nothing is linked. */
/* clang-format off */
#define DITI_VK_INSTANCE_FUNCTIONS(X) \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceFeatures2) \
    X(GetPhysicalDeviceMemoryProperties2) X(GetPhysicalDeviceQueueFamilyProperties) \
    X(EnumerateDeviceExtensionProperties) X(CreateDevice) X(GetDeviceProcAddr)
#define DITI_VK_DEVICE_FUNCTIONS(X) \
    X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueSubmit) X(QueueWaitIdle) \
    X(AllocateMemory) X(FreeMemory) X(MapMemory) X(FlushMappedMemoryRanges) \
    X(InvalidateMappedMemoryRanges) X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements) \
    X(BindBufferMemory) X(CreateImage) X(DestroyImage) X(GetImageMemoryRequirements) X(BindImageMemory) \
    X(CreateImageView) X(DestroyImageView) X(CreateShaderModule) X(DestroyShaderModule) X(CreateComputePipelines) \
    X(DestroyPipeline) X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreatePipelineCache) \
    X(DestroyPipelineCache) X(GetPipelineCacheData) X(CreateDescriptorSetLayout) X(DestroyDescriptorSetLayout) \
    X(CreateDescriptorPool) X(DestroyDescriptorPool) X(AllocateDescriptorSets) X(UpdateDescriptorSets) \
    X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) \
    X(CmdBindPipeline) X(CmdBindDescriptorSets) X(CmdPushConstants) X(CmdDispatch) X(CmdPipelineBarrier) \
    X(CmdCopyBuffer) X(CmdFillBuffer) X(CmdCopyBufferToImage) X(CmdExecuteCommands) X(CmdResetQueryPool) \
    X(CmdWriteTimestamp) X(CreateQueryPool) X(DestroyQueryPool) X(GetQueryPoolResults) \
    X(CreateSemaphore) X(DestroySemaphore) X(GetSemaphoreCounterValue) X(WaitSemaphores)
/* clang-format on */

typedef struct diti_vk_api {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    PFN_vkCreateInstance CreateInstance;
    PFN_vkEnumerateInstanceVersion EnumerateInstanceVersion;
    PFN_vkEnumerateInstanceExtensionProperties EnumerateInstanceExtensionProperties;
#define DITI_VK_MEMBER(name) PFN_vk##name name;
    DITI_VK_INSTANCE_FUNCTIONS(DITI_VK_MEMBER) DITI_VK_DEVICE_FUNCTIONS(DITI_VK_MEMBER)
#undef DITI_VK_MEMBER
} diti_vk_api;

/* The ladder (architecture.md 4). Higher rungs follow; everything that asks "which rung" compares with >=. */
typedef enum diti_rung { DITI_RUNG_BASE, DITI_RUNG_FP16, DITI_RUNG_COUNT } diti_rung;

/* What a plan must respect: the device's own limits, lowered by overrides in tests. */
typedef struct diti_limits {
    VkDeviceSize storage_range;     /* maxStorageBufferRange */
    VkDeviceSize allocation;        /* largest single VkDeviceMemory, at most 1 GiB */
    VkDeviceSize storage_alignment; /* minStorageBufferOffsetAlignment */
    uint32_t group_count;           /* maxComputeWorkGroupCount[0] */
    uint32_t group_invocations;     /* maxComputeWorkGroupInvocations */
    uint32_t shared_bytes;          /* maxComputeSharedMemorySize */
    uint32_t subgroup_size;
    float timestamp_period; /* ns per tick; 0 when the queue has no timestamps */
    uint32_t timestamp_bits;
} diti_limits;

/* Every kernel uses this one interface, so one layout serves all pipelines: */
#define DITI_MAX_BINDINGS 8u   /* storage buffers 0..7 of set 0 */
#define DITI_PUSH_WORDS 32u    /* 128 bytes; word 0 is always the first workgroup of this slice on x */
#define DITI_MAX_CONSTANTS 16u /* specialization constants with ids 0..15, all uint32 */

typedef struct diti_pipeline {
    uint32_t module;
    uint32_t constants[DITI_MAX_CONSTANTS];
    uint32_t constant_count;
    VkPipeline pipeline;
} diti_pipeline;

typedef enum diti_memory_kind {
    DITI_MEMORY_DEVICE,  /* device local; mapped only where all memory is host visible */
    DITI_MEMORY_UPLOAD,  /* host visible and coherent, written by the host */
    DITI_MEMORY_READBACK /* host visible, cached where possible, read by the host */
} diti_memory_kind;

typedef struct diti_buffer {
    VkBuffer buffer;
    VkDeviceSize size;
    dit_block block; /* block.mapped: host address of the buffer's first byte, or NULL */
    diti_memory_kind kind;
    bool coherent;
    VkDeviceSize charged; /* counted in memory_used */
    void *hook_mapped;    /* block.mapped as the application's allocator gave it, for its free */
} diti_buffer;

typedef struct diti_device {
    diti_env env;
    diti_vk_api vk;
    void *library; /* of dlopen, when dit opened the loader */
    bool owns_instance, owns_device;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t queue_family;
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    void *lock_user;
    const VkAllocationCallbacks *callbacks;
    dit_device_allocator allocator;
    dit_device_info info;
    diti_limits limits;
    VkPhysicalDeviceMemoryProperties memory;
    uint32_t ordinal;        /* of this device in its context, for the allocator hook */
    bool unified;            /* every heap is device local: host buffers count against memory_limit too */
    bool maps_device_memory; /* DITI_MEMORY_DEVICE buffers may be mapped; the override mapped=0 forbids it */
    bool is_cpu;             /* a software driver: gets its own tile choices */
    bool has_fp16;           /* shaderFloat16 and 16-bit storage are enabled */
    bool has_memory_budget, has_portability_subset; /* extensions */
    diti_rung rung;                                 /* the rung in use, after overrides and the self-test */
    uint32_t max_dispatch_us;
    VkDeviceSize memory_limit, memory_used; /* of dit's own allocations; used only under the lock */
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout pipeline_layout;
    VkPipelineCache pipeline_cache;
    bool owns_pipeline_cache;
    diti_pipeline **pipelines;
    size_t pipeline_count, pipeline_capacity;
    uint64_t pipelines_compiled, allocations; /* counters */
    int lock;                                 /* spin lock: pipelines, memory accounting, the staging slot */
    int queue_lock;                           /* spin lock around the queue when the application gave no lock_queue */
    diti_buffer staging;                      /* a slot: whoever copies takes it out and puts it back */
    VkDeviceSize staging_bytes;
    int lost;                                      /* latched: nothing is submitted any more */
    uint32_t fail_submit_after;                    /* test override: the n-th submit reports device lost; 0: never */
    uint32_t fail_pipeline_after, pipelines_tried; /* test override: the n-th pipeline fails */
    uint64_t submits;
    float us_per_gflop; /* GEMM cost at the rung in use: a guess, or the cache blob's figure, until calibrated */
} diti_device;

/* "VK_ERROR_…" for messages. */
DIT_INTERNAL const char *diti_vk_name(VkResult result);

/* --- inside the room --- */
DIT_INTERNAL dit_result diti_vulkan_load(const char *loader, PFN_vkGetInstanceProcAddr given, diti_vk_api *vk,
                                         void **library, dit_error *err);
DIT_INTERNAL void diti_vulkan_unload(void **library);
DIT_INTERNAL dit_result diti_instance_create(const diti_env *env, diti_vk_api *vk, VkInstance *out, dit_error *err);
DIT_INTERNAL void diti_instance_destroy(diti_vk_api *vk, VkInstance instance); /* NULL is fine */
DIT_INTERNAL dit_result diti_instance_functions(diti_vk_api *vk, VkInstance instance, dit_error *err);
DIT_INTERNAL dit_result diti_device_functions(diti_vk_api *vk, VkDevice device, dit_error *err);
typedef struct diti_features { /* what the ladder asks for; filled with what exists or with what is enabled */
    bool timeline, fp16, storage16;
} diti_features;
DIT_INTERNAL void diti_features_supported(const diti_vk_api *vk, VkPhysicalDevice physical, diti_features *out);
DIT_INTERNAL void diti_features_enabled(const VkDeviceCreateInfo *info, diti_features *out);
typedef struct diti_candidate { /* a physical device, seen from dit */
    VkPhysicalDevice physical;
    dit_device_info info;
    uint32_t queue_family; /* the first with COMPUTE */
    char reason[160];      /* why dit cannot use it; empty: it can */
} diti_candidate;
/* All physical devices in Vulkan's order; freed with diti_free. */
DIT_INTERNAL dit_result diti_candidates_list(const diti_env *env, const diti_vk_api *vk, VkInstance instance,
                                             diti_candidate **out, uint32_t *count, dit_error *err);
DIT_INTERNAL void diti_candidate_fill(const diti_vk_api *vk, VkPhysicalDevice physical, diti_candidate *out);
/* The candidate that choice names; NULL with an error that lists what there is. */
DIT_INTERNAL const diti_candidate *diti_candidate_choose(const diti_candidate *list, uint32_t count, const char *choice,
                                                         dit_error *err);
DIT_INTERNAL void diti_memory_init(diti_device *device, VkDeviceSize limit);
DIT_INTERNAL void diti_staging_free(diti_device *device);
DIT_INTERNAL dit_result diti_layouts_create(diti_device *device, dit_error *err);
DIT_INTERNAL dit_result diti_cache_load(diti_device *device, const void *blob, size_t size, dit_error *err);
DIT_INTERNAL void diti_pipelines_free(diti_device *device);
/* DIT_ERROR_DEVICE_LOST once the device is lost: calls that need not ask the driver ask here. */
DIT_INTERNAL dit_result diti_device_check(diti_device *device, dit_error *err);
/* Fills err for a failed Vulkan call and latches device loss. */
DIT_INTERNAL dit_result diti_device_fail(diti_device *device, VkResult vr, const char *call, dit_error *err);
DIT_INTERNAL void diti_queue_idle(diti_device *device);

/* --- atomics (C99 has none) --- */
DIT_INTERNAL int diti_atomic_load(const int *value);
DIT_INTERNAL void diti_atomic_store(int *value, int to);
DIT_INTERNAL void diti_lock(int *lock);
DIT_INTERNAL void diti_unlock(int *lock);

/* --- devices --- */
/* Opens the device that desc names (index, part of the name, "uuid:..."; NULL: the best) or wraps the application's. */
DIT_INTERNAL dit_result diti_device_open(const dit_context_desc *desc, const diti_env *env, diti_device **out,
                                         dit_error *err);
DIT_INTERNAL void diti_device_close(diti_device *device);
DIT_INTERNAL const char *diti_rung_name(diti_rung rung);
/* The value of key in "key=value,key=value" (desc->overrides), K/M/G suffixes understood; otherwise when absent. */
DIT_INTERNAL uint64_t diti_override_number(const char *overrides, const char *key, uint64_t otherwise);
/* Copies the value of key; false when the key is absent or out is too small. */
DIT_INTERNAL bool diti_override_text(const char *overrides, const char *key, char *out, size_t size);
/* Unknown keys and malformed entries are errors that name the known keys. */
DIT_INTERNAL dit_result diti_overrides_check(const char *overrides, dit_error *err);
DIT_INTERNAL bool diti_override_is(const char *overrides, const char *key, const char *value);

/* --- memory --- */
DIT_INTERNAL dit_result diti_buffer_create(diti_device *device, VkDeviceSize size, diti_memory_kind kind,
                                           const char *what, diti_buffer *out, dit_error *err);
/* Memory for anything else (images): fills all of out (zeroed) but buffer and size; the caller binds it. */
DIT_INTERNAL dit_result diti_block_create(diti_device *device, const VkMemoryRequirements *need, diti_memory_kind kind,
                                          const char *what, diti_buffer *out, dit_error *err);
DIT_INTERNAL void diti_block_destroy(diti_device *device, diti_buffer *buffer);
DIT_INTERNAL void diti_buffer_destroy(diti_device *device, diti_buffer *buffer); /* a zeroed buffer is fine */
/* Host copies that wait: for loading and reading back, never inside the step loop. Direct where mapped, else staged. */
DIT_INTERNAL dit_result diti_buffer_write(diti_device *device, diti_buffer *buffer, VkDeviceSize offset,
                                          const void *data, VkDeviceSize size, dit_error *err);
DIT_INTERNAL dit_result diti_buffer_read(diti_device *device, diti_buffer *buffer, VkDeviceSize offset, void *data,
                                         VkDeviceSize size, dit_error *err);
/* Makes host writes visible to the device, or the device's writes readable; nothing to do for coherent memory. */
DIT_INTERNAL void diti_buffer_flush(diti_device *device, const diti_buffer *buffer);
DIT_INTERNAL void diti_buffer_invalidate(diti_device *device, const diti_buffer *buffer);

/* --- pipelines: created on first use, shared by everything on the device --- */
DIT_INTERNAL dit_result diti_pipeline_get(diti_device *device, uint32_t module, const uint32_t *constants,
                                          uint32_t constant_count, VkPipeline *out, dit_error *err);
DIT_INTERNAL dit_result diti_cache_save(diti_device *device, void *blob, size_t *size, dit_error *err);

/* --- submission --- */
/* Submits command buffers under the queue lock and then signals timeline, when set, with value. Latches device loss. */
DIT_INTERNAL dit_result diti_submit(diti_device *device, const VkCommandBuffer *commands, uint32_t count,
                                    VkSemaphore timeline, uint64_t value, dit_error *err);
DIT_INTERNAL dit_result diti_timeline_create(diti_device *device, VkSemaphore *out, dit_error *err);
DIT_INTERNAL dit_result diti_timeline_value(diti_device *device, VkSemaphore timeline, uint64_t *out, dit_error *err);
/* DIT_WORKING when the time ran out. */
DIT_INTERNAL dit_result diti_timeline_wait(diti_device *device, VkSemaphore timeline, uint64_t value,
                                           uint64_t timeout_ns, dit_error *err);
/* Records and runs one command buffer now, and waits: for set-up work only. */
typedef void (*diti_record_function)(diti_device *device, VkCommandBuffer commands, void *user);
DIT_INTERNAL dit_result diti_run_now(diti_device *device, diti_record_function record, void *user, dit_error *err);

/* --- embedded SPIR-V (vk/spirv.inc, generated by make shaders) --- */
DIT_INTERNAL uint32_t diti_spirv_count(void);
DIT_INTERNAL const char *diti_spirv_name(uint32_t module);
DIT_INTERNAL bool diti_spirv_find(const char *name, uint32_t *module);
/* One embedded module: LEB128-coded words as base85 text, in pieces that every compiler accepts; NULL ends them. */
typedef struct diti_spirv_module {
    const char *name; /* NULL ends the table */
    const char *const *pieces;
    uint32_t word_count;
} diti_spirv_module;
/* Defined at the end of spirv.inc, which stands last in dit.h. */
DIT_INTERNAL const diti_spirv_module *diti_spirv_table(void);
DIT_INTERNAL uint64_t diti_spirv_hash(void); /* of all modules */
/* Decodes a module; words is freed with diti_free. */
DIT_INTERNAL dit_result diti_spirv_decode(const diti_env *env, uint32_t module, uint32_t **words, size_t *count,
                                          dit_error *err);
#endif

/* ======== src/vk/atomic.c (edit it there; dit.h is generated) ======== */
#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
static int diti_atomic_exchange(int *value, int to) {
    return (int)_InterlockedExchange((volatile long *)value, (long)to);
}
DIT_INTERNAL int diti_atomic_load(const int *value) { return (int)_InterlockedOr((volatile long *)value, 0); }
DIT_INTERNAL void diti_atomic_store(int *value, int to) { diti_atomic_exchange(value, to); }
#else
static int diti_atomic_exchange(int *value, int to) { return __atomic_exchange_n(value, to, __ATOMIC_ACQ_REL); }
DIT_INTERNAL int diti_atomic_load(const int *value) { return __atomic_load_n(value, __ATOMIC_ACQUIRE); }
DIT_INTERNAL void diti_atomic_store(int *value, int to) { __atomic_store_n(value, to, __ATOMIC_RELEASE); }
#endif

/* Held for a few instructions only, or around one vkQueueSubmit: spinning is cheaper than any mutex C99 does not have.
 */
DIT_INTERNAL void diti_lock(int *lock) {
    while (diti_atomic_exchange(lock, 1)) {
        while (diti_atomic_load(lock)) {
        }
    }
}

DIT_INTERNAL void diti_unlock(int *lock) { diti_atomic_store(lock, 0); }

/* ======== src/vk/overrides.c (edit it there; dit.h is generated) ======== */

/* desc->overrides: "key=value,key=value". Numbers take K, M and G (powers of 1024). */
static const char *const diti_override_keys[] = {
    "rung",          /* base, fp16: no higher than this */
    "loader",        /* file name of the Vulkan loader */
    "storage_range", /* bytes in one storage buffer binding */
    "allocation",    /* bytes in one device memory allocation */
    "shared",        /* bytes of shared memory in a workgroup */
    "groups",        /* workgroups in a dispatch */
    "invocations",   /* invocations in a workgroup */
    "staging",       /* bytes copied to or from the device at a time */
    "mapped",        /* 0: copy through a staging buffer even where device memory is visible to the host */
    "cpu",           /* 0 or 1: choose kernels as for a GPU or as for a software driver */
    "timestamps",    /* 0: as on a queue without timestamps */
    "selftest_fail", /* this rung fails its self-test */
    "fail_submit",   /* the n-th submit loses the device */
    "fail_pipeline", /* the n-th pipeline cannot be compiled */
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
    return diti_equal(key, "rung") || diti_equal(key, "loader") || diti_equal(key, "selftest_fail");
}

static dit_result diti_override_unknown(const char *entry, size_t length, dit_error *err) {
    char known[400];
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
        dit_result result = diti_override_check(at, length, err);
        if (result < 0) return result;
        at += length;
        if (*at) at++;
    }
    return DIT_OK;
}

/* ======== src/vk/loader.c (edit it there; dit.h is generated) ======== */
#if defined(_WIN32) /* before vk.h: windows.h makes CreateSemaphore a macro, which must then hold everywhere */
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#if defined(_WIN32)
static const char *const diti_loader_names[] = {"vulkan-1.dll"};
#define DITI_LOADER_HELP "install the graphics driver of the device's vendor"
static void *diti_library_open(const char *name) { return (void *)LoadLibraryA(name); }
static void diti_library_close(void *library) { FreeLibrary((HMODULE)library); }
static PFN_vkGetInstanceProcAddr diti_library_entry(void *library) {
    FARPROC symbol = GetProcAddress((HMODULE)library, "vkGetInstanceProcAddr");
    PFN_vkGetInstanceProcAddr entry = NULL;
    memcpy(&entry, &symbol, sizeof entry);
    return entry;
}
#else
#if defined(__APPLE__)
static const char *const diti_loader_names[] = {"libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"};
#define DITI_LOADER_HELP "install the Vulkan SDK, or MoltenVK: brew install molten-vk vulkan-loader"
#else
static const char *const diti_loader_names[] = {"libvulkan.so.1", "libvulkan.so"};
#define DITI_LOADER_HELP "install the Vulkan loader: apt-get install libvulkan1, or dnf install vulkan-loader"
#endif
static void *diti_library_open(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
static void diti_library_close(void *library) { dlclose(library); }
static PFN_vkGetInstanceProcAddr diti_library_entry(void *library) {
    void *symbol = dlsym(library, "vkGetInstanceProcAddr");
    PFN_vkGetInstanceProcAddr entry = NULL;
    memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from data to function pointers */
    return entry;
}
#endif
#define DITI_DRIVER_HELP                                                                                               \
    "install a driver for this machine's GPU, or a software one: apt-get install mesa-vulkan-drivers"

static dit_result diti_loader_open(const char *name, void **library, dit_error *err) {
    size_t i;
    if (name) {
        *library = diti_library_open(name);
        if (*library) return DIT_OK;
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "cannot load the Vulkan loader %s; %s", name,
                         DITI_LOADER_HELP);
    }
    for (i = 0; i < DITI_COUNT(diti_loader_names); i++) {
        *library = diti_library_open(diti_loader_names[i]);
        if (*library) return DIT_OK;
    }
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "cannot load the Vulkan loader %s; %s", diti_loader_names[0],
                     DITI_LOADER_HELP);
}

DIT_INTERNAL dit_result diti_vulkan_load(const char *loader, PFN_vkGetInstanceProcAddr given, diti_vk_api *vk,
                                         void **library, dit_error *err) {
    dit_result result = DIT_OK;
    *library = NULL;
    if (!given) result = diti_loader_open(loader, library, err);
    if (result < 0) return result;
    vk->GetInstanceProcAddr = given ? given : diti_library_entry(*library);
    if (!vk->GetInstanceProcAddr) {
        diti_vulkan_unload(library);
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "the Vulkan loader has no vkGetInstanceProcAddr; %s",
                         DITI_LOADER_HELP);
    }
    return DIT_OK;
}

DIT_INTERNAL void diti_vulkan_unload(void **library) {
    if (*library) diti_library_close(*library);
    *library = NULL;
}

static dit_result diti_global_functions(diti_vk_api *vk, dit_error *err) {
    PFN_vkGetInstanceProcAddr get = vk->GetInstanceProcAddr;
    vk->CreateInstance = (PFN_vkCreateInstance)get(NULL, "vkCreateInstance");
    vk->EnumerateInstanceVersion = (PFN_vkEnumerateInstanceVersion)get(NULL, "vkEnumerateInstanceVersion");
    vk->EnumerateInstanceExtensionProperties =
        (PFN_vkEnumerateInstanceExtensionProperties)get(NULL, "vkEnumerateInstanceExtensionProperties");
    if (vk->CreateInstance && vk->EnumerateInstanceVersion && vk->EnumerateInstanceExtensionProperties) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "the Vulkan loader is older than Vulkan 1.1; dit needs 1.2: %s",
                     DITI_LOADER_HELP);
}

/* Devices that are not fully conformant (MoltenVK) show up only where this extension is enabled. */
static dit_result diti_instance_has_portability(const diti_env *env, const diti_vk_api *vk, bool *found,
                                                dit_error *err) {
    VkExtensionProperties *list;
    uint32_t i, count = 0;
    *found = false;
    if (vk->EnumerateInstanceExtensionProperties(NULL, &count, NULL) < 0 || !count) return DIT_OK;
    list = (VkExtensionProperties *)diti_alloc_array(env, count, sizeof *list);
    if (!list) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no memory to list %u instance extensions", count);
    if (vk->EnumerateInstanceExtensionProperties(NULL, &count, list) < 0) count = 0;
    for (i = 0; i < count; i++) {
        if (diti_equal(list[i].extensionName, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) *found = true;
    }
    diti_free(env, list);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_instance_create(const diti_env *env, diti_vk_api *vk, VkInstance *out, dit_error *err) {
    const char *portability = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
    VkApplicationInfo application = DITI_ZERO;
    VkInstanceCreateInfo info = DITI_ZERO;
    VkResult vr;
    bool portable;
    dit_result result = diti_global_functions(vk, err);
    if (result >= 0) result = diti_instance_has_portability(env, vk, &portable, err);
    if (result < 0) return result;
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.pEngineName = "dit.h";
    application.engineVersion = DIT_VERSION;
    application.apiVersion = VK_API_VERSION_1_3; /* the newest that dit knows; older devices are fine */
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &application;
    if (portable) {
        info.flags = VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
        info.enabledExtensionCount = 1;
        info.ppEnabledExtensionNames = &portability;
    }
    vr = vk->CreateInstance(&info, NULL, out);
    if (vr == VK_ERROR_INCOMPATIBLE_DRIVER) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "no Vulkan driver is installed: %s", DITI_DRIVER_HELP);
    }
    if (vr < 0) return diti_fail_vk(err, vr, "vkCreateInstance: %s", diti_vk_name(vr));
    return DIT_OK;
}

DIT_INTERNAL void diti_instance_destroy(diti_vk_api *vk, VkInstance instance) {
    if (!instance) return;
    if (!vk->DestroyInstance) {
        vk->DestroyInstance = (PFN_vkDestroyInstance)vk->GetInstanceProcAddr(instance, "vkDestroyInstance");
    }
    if (vk->DestroyInstance) vk->DestroyInstance(instance, NULL);
}

DIT_INTERNAL dit_result diti_instance_functions(diti_vk_api *vk, VkInstance instance, dit_error *err) {
    const char *missing = NULL;
#define DITI_VK_LOAD(name)                                                                                             \
    vk->name = (PFN_vk##name)vk->GetInstanceProcAddr(instance, "vk" #name);                                            \
    if (!vk->name) missing = "vk" #name;
    DITI_VK_INSTANCE_FUNCTIONS(DITI_VK_LOAD)
#undef DITI_VK_LOAD
    if (!missing) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "the Vulkan instance has no %s; dit needs Vulkan 1.2", missing);
}

DIT_INTERNAL dit_result diti_device_functions(diti_vk_api *vk, VkDevice device, dit_error *err) {
    const char *missing = NULL;
#define DITI_VK_LOAD(name)                                                                                             \
    vk->name = (PFN_vk##name)vk->GetDeviceProcAddr(device, "vk" #name);                                                \
    if (!vk->name) missing = "vk" #name;
    DITI_VK_DEVICE_FUNCTIONS(DITI_VK_LOAD)
#undef DITI_VK_LOAD
    if (!missing) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "the Vulkan device has no %s; dit needs Vulkan 1.2", missing);
}

DIT_INTERNAL const char *diti_vk_name(VkResult result) {
    switch ((int)result) {
    case VK_SUCCESS: return "VK_SUCCESS";
    case VK_TIMEOUT: return "VK_TIMEOUT";
    case VK_INCOMPLETE: return "VK_INCOMPLETE";
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED: return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST: return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED: return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT: return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS: return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_FORMAT_NOT_SUPPORTED: return "VK_ERROR_FORMAT_NOT_SUPPORTED";
    case VK_ERROR_FRAGMENTED_POOL: return "VK_ERROR_FRAGMENTED_POOL";
    case VK_ERROR_OUT_OF_POOL_MEMORY: return "VK_ERROR_OUT_OF_POOL_MEMORY";
    case VK_ERROR_FRAGMENTATION: return "VK_ERROR_FRAGMENTATION";
    case VK_ERROR_UNKNOWN: return "VK_ERROR_UNKNOWN";
    default: return "an unexpected VkResult";
    }
}

/* ======== src/vk/features.c (edit it there; dit.h is generated) ======== */

DIT_INTERNAL void diti_features_supported(const diti_vk_api *vk, VkPhysicalDevice physical, diti_features *out) {
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = DITI_ZERO;
    VkPhysicalDeviceShaderFloat16Int8Features fp16 = DITI_ZERO;
    VkPhysicalDevice16BitStorageFeatures storage = DITI_ZERO;
    VkPhysicalDeviceFeatures2 features = DITI_ZERO;
    timeline.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
    fp16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
    fp16.pNext = &timeline;
    storage.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
    storage.pNext = &fp16;
    features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    features.pNext = &storage;
    vk->GetPhysicalDeviceFeatures2(physical, &features);
    out->timeline = timeline.timelineSemaphore != VK_FALSE;
    out->fp16 = fp16.shaderFloat16 != VK_FALSE;
    out->storage16 = storage.storageBuffer16BitAccess != VK_FALSE;
}

static void diti_features_of_struct(const VkBaseInStructure *at, diti_features *out) {
    switch ((int)at->sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES:
        if (((const VkPhysicalDeviceVulkan11Features *)at)->storageBuffer16BitAccess) out->storage16 = true;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES:
        if (((const VkPhysicalDevice16BitStorageFeatures *)at)->storageBuffer16BitAccess) out->storage16 = true;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES:
        if (((const VkPhysicalDeviceVulkan12Features *)at)->timelineSemaphore) out->timeline = true;
        if (((const VkPhysicalDeviceVulkan12Features *)at)->shaderFloat16) out->fp16 = true;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES:
        if (((const VkPhysicalDeviceTimelineSemaphoreFeatures *)at)->timelineSemaphore) out->timeline = true;
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES:
        if (((const VkPhysicalDeviceShaderFloat16Int8Features *)at)->shaderFloat16) out->fp16 = true;
        break;
    default: break;
    }
}

DIT_INTERNAL void diti_features_enabled(const VkDeviceCreateInfo *info, diti_features *out) {
    const VkBaseInStructure *at;
    memset(out, 0, sizeof *out);
    for (at = (const VkBaseInStructure *)info->pNext; at; at = at->pNext) diti_features_of_struct(at, out);
}

/* ======== src/vk/devices.c (edit it there; dit.h is generated) ======== */

DIT_INTERNAL const char *diti_rung_name(diti_rung rung) {
    switch (rung) {
    case DITI_RUNG_BASE: return "base";
    case DITI_RUNG_FP16: return "fp16";
    case DITI_RUNG_COUNT: break;
    }
    return "none";
}

static bool diti_candidate_queue(const diti_vk_api *vk, VkPhysicalDevice physical, uint32_t *family) {
    VkQueueFamilyProperties families[64];
    uint32_t i, count = DITI_COUNT(families);
    vk->GetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
    for (i = 0; i < count; i++) {
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
        *family = i;
        return true;
    }
    return false;
}

static VkDeviceSize diti_candidate_memory(const diti_vk_api *vk, VkPhysicalDevice physical) {
    VkPhysicalDeviceMemoryProperties2 memory = DITI_ZERO;
    VkDeviceSize largest = 0;
    uint32_t i;
    memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
    vk->GetPhysicalDeviceMemoryProperties2(physical, &memory);
    for (i = 0; i < memory.memoryProperties.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &memory.memoryProperties.memoryHeaps[i];
        if ((heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && heap->size > largest) largest = heap->size;
    }
    return largest;
}

/* What the base rung needs, beyond what Vulkan 1.2 promises everywhere. */
static void diti_candidate_examine(const diti_vk_api *vk, const VkPhysicalDeviceProperties *properties,
                                   diti_candidate *out) {
    const VkPhysicalDeviceLimits *limits = &properties->limits;
    diti_features features = DITI_ZERO;
    out->reason[0] = 0;
    out->info.rung[0] = 0;
    if (properties->apiVersion < VK_API_VERSION_1_2) {
        diti_format(out->reason, sizeof out->reason, "its driver has Vulkan %u.%u, dit needs 1.2",
                    VK_API_VERSION_MAJOR(properties->apiVersion), VK_API_VERSION_MINOR(properties->apiVersion));
        return;
    }
    diti_features_supported(vk, out->physical, &features);
    if (!features.timeline) {
        diti_format(out->reason, sizeof out->reason, "it has no timeline semaphores");
    } else if (!diti_candidate_queue(vk, out->physical, &out->queue_family)) {
        diti_format(out->reason, sizeof out->reason, "it has no compute queue");
    } else if (limits->maxComputeSharedMemorySize < 16384 || limits->maxComputeWorkGroupInvocations < 256) {
        diti_format(out->reason, sizeof out->reason,
                    "workgroups of 256 with 16 KB of shared memory are too large for it");
    } else if (limits->maxPerStageDescriptorStorageBuffers < DITI_MAX_BINDINGS) {
        diti_format(out->reason, sizeof out->reason, "a shader can use only %u storage buffers, dit needs %u",
                    limits->maxPerStageDescriptorStorageBuffers, DITI_MAX_BINDINGS);
    } else {
        diti_format(out->info.rung, sizeof out->info.rung, "%s",
                    diti_rung_name(features.fp16 && features.storage16 ? DITI_RUNG_FP16 : DITI_RUNG_BASE));
    }
}

DIT_INTERNAL void diti_candidate_fill(const diti_vk_api *vk, VkPhysicalDevice physical, diti_candidate *out) {
    VkPhysicalDeviceIDProperties id = DITI_ZERO;
    VkPhysicalDeviceProperties2 properties = DITI_ZERO;
    memset(out, 0, sizeof *out);
    id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &id;
    vk->GetPhysicalDeviceProperties2(physical, &properties);
    out->physical = physical;
    diti_format(out->info.name, sizeof out->info.name, "%s", properties.properties.deviceName);
    memcpy(out->info.uuid, id.deviceUUID, sizeof out->info.uuid);
    out->info.vendor = properties.properties.vendorID;
    out->info.type = (uint32_t)properties.properties.deviceType;
    out->info.api_version = properties.properties.apiVersion;
    out->info.driver_version = properties.properties.driverVersion;
    out->info.memory = diti_candidate_memory(vk, physical);
    diti_candidate_examine(vk, &properties.properties, out);
}

DIT_INTERNAL dit_result diti_candidates_list(const diti_env *env, const diti_vk_api *vk, VkInstance instance,
                                             diti_candidate **out, uint32_t *count, dit_error *err) {
    VkPhysicalDevice physical[64]; /* more are ignored: VK_INCOMPLETE is a success */
    diti_candidate *list;
    uint32_t i, found = DITI_COUNT(physical);
    VkResult vr = vk->EnumeratePhysicalDevices(instance, &found, physical);
    *out = NULL;
    *count = 0;
    if (vr < 0) return diti_fail_vk(err, vr, "vkEnumeratePhysicalDevices: %s", diti_vk_name(vr));
    list = (diti_candidate *)diti_alloc_array(env, found ? found : 1, sizeof *list);
    if (!list) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no memory to list %u Vulkan devices", found);
    for (i = 0; i < found; i++) diti_candidate_fill(vk, physical[i], &list[i]);
    *out = list;
    *count = found;
    return DIT_OK;
}

/* --- choosing --- */

static int diti_candidate_score(const diti_candidate *candidate) {
    switch (candidate->info.type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 5;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 4;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 3;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return 2;
    default: return 1;
    }
}

static bool diti_candidate_better(const diti_candidate *a, const diti_candidate *b) {
    if (!b) return true;
    if (diti_candidate_score(a) != diti_candidate_score(b)) return diti_candidate_score(a) > diti_candidate_score(b);
    return a->info.memory > b->info.memory;
}

static int diti_hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* 32 hexadecimal digits, dashes anywhere between them. */
static bool diti_uuid_parse(const char *text, uint8_t out[16]) {
    int digits = 0, digit;
    memset(out, 0, 16);
    for (; *text; text++) {
        if (*text == '-') continue;
        digit = diti_hex_digit(*text);
        if (digit < 0 || digits == 32) return false;
        out[digits / 2] = (uint8_t)(out[digits / 2] * 16 + digit);
        digits++;
    }
    return digits == 32;
}

/* The whole text as a number; false when it is none or too large for an index. */
static bool diti_index_parse(const char *text, uint32_t *out) {
    *out = 0;
    if (!*text) return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || *out > 99999) return false;
        *out = *out * 10 + (uint32_t)(*text - '0');
    }
    return true;
}

static char diti_lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* Case is ignored, as people write "nvidia" and drivers "NVIDIA". */
static bool diti_name_contains(const char *name, const char *part) {
    size_t i;
    for (; *name; name++) {
        for (i = 0; part[i] && diti_lower(name[i]) == diti_lower(part[i]); i++) {
        }
        if (!part[i]) return true;
    }
    return false;
}

static bool diti_candidate_matches(const diti_candidate *candidate, const char *choice, const uint8_t *uuid) {
    if (uuid) return !memcmp(candidate->info.uuid, uuid, 16);
    return !choice || diti_name_contains(candidate->info.name, choice);
}

static const diti_candidate *diti_candidate_none(const diti_candidate *list, uint32_t count, const char *choice,
                                                 dit_error *err) {
    char names[300];
    size_t used = 0;
    uint32_t i;
    names[0] = 0;
    for (i = 0; i < count && used < sizeof names; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%u: %s", i ? ", " : "", i, list[i].info.name);
    }
    if (!count) {
        diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE,
                  "there is no Vulkan device: install a driver for this machine's GPU, or a software one: "
                  "apt-get install mesa-vulkan-drivers");
    } else if (choice && strchr(choice, ',')) {
        diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "devices '%s': this version works with one device; name one of %s",
                  choice, names);
    } else {
        diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "no Vulkan device is called '%s'; there are %s",
                  choice ? choice : "", names);
    }
    return NULL;
}

static const diti_candidate *diti_candidate_usable(const diti_candidate *candidate, dit_error *err) {
    if (!candidate->reason[0]) return candidate;
    diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "dit cannot use %s: %s", candidate->info.name, candidate->reason);
    return NULL;
}

DIT_INTERNAL const diti_candidate *diti_candidate_choose(const diti_candidate *list, uint32_t count, const char *choice,
                                                         dit_error *err) {
    const diti_candidate *best = NULL, *unusable = NULL;
    bool by_uuid = choice && diti_starts_with(choice, "uuid:");
    uint8_t uuid[16];
    uint32_t i, index;
    if (choice && !*choice) choice = NULL;
    if (choice && diti_index_parse(choice, &index) && index < count) return diti_candidate_usable(&list[index], err);
    if (by_uuid && !diti_uuid_parse(choice + 5, uuid)) {
        diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "devices '%s': a UUID has 32 hexadecimal digits", choice);
        return NULL;
    }
    for (i = 0; i < count; i++) {
        if (!diti_candidate_matches(&list[i], choice, by_uuid ? uuid : NULL)) continue;
        if (list[i].reason[0])
            unusable = &list[i];
        else if (diti_candidate_better(&list[i], best))
            best = &list[i];
    }
    if (best) return best;
    return unusable ? diti_candidate_usable(unusable, err) : diti_candidate_none(list, count, choice, err);
}

/* --- the public list --- */

static void diti_candidates_copy(const diti_candidate *list, uint32_t found, dit_device_info *out, uint32_t *count) {
    uint32_t i;
    if (!out || *count > found) *count = found;
    for (i = 0; out && i < *count; i++) out[i] = list[i].info;
}

DIT_API dit_result dit_device_list(dit_device_info *out, uint32_t *count, dit_error *err) {
    diti_vk_api vk = DITI_ZERO;
    VkInstance instance = NULL;
    diti_candidate *list = NULL;
    void *library = NULL;
    uint32_t found = 0;
    diti_env env;
    dit_result result = diti_env_init(&env, NULL, NULL, err);
    if (!count) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_device_list: count is NULL");
    if (result >= 0) result = diti_vulkan_load(NULL, NULL, &vk, &library, err);
    if (result >= 0) result = diti_instance_create(&env, &vk, &instance, err);
    if (result >= 0) result = diti_instance_functions(&vk, instance, err);
    if (result >= 0) result = diti_candidates_list(&env, &vk, instance, &list, &found, err);
    if (result < 0)
        *count = 0;
    else
        diti_candidates_copy(list, found, out, count);
    diti_free(&env, list);
    diti_instance_destroy(&vk, instance);
    diti_vulkan_unload(&library);
    return result;
}

/* ======== src/vk/submit.c (edit it there; dit.h is generated) ======== */

static void diti_queue_lock(diti_device *device) {
    if (device->lock_queue)
        device->lock_queue(device->lock_user);
    else
        diti_lock(&device->queue_lock);
}

static void diti_queue_unlock(diti_device *device) {
    if (device->unlock_queue)
        device->unlock_queue(device->lock_user);
    else
        diti_unlock(&device->queue_lock);
}

static dit_result diti_device_lost(dit_error *err) {
    return diti_fail_vk(err, VK_ERROR_DEVICE_LOST, "the Vulkan device was lost; make a new context to go on");
}

DIT_INTERNAL dit_result diti_device_check(diti_device *device, dit_error *err) {
    return diti_atomic_load(&device->lost) ? diti_device_lost(err) : DIT_OK;
}

/* Every failing call on the device passes here, so that a loss is remembered whoever met it first. */
DIT_INTERNAL dit_result diti_device_fail(diti_device *device, VkResult vr, const char *call, dit_error *err) {
    if (vr == VK_ERROR_DEVICE_LOST) {
        diti_atomic_store(&device->lost, 1);
        return diti_device_lost(err);
    }
    return diti_fail_vk(err, vr, "%s: %s", call, diti_vk_name(vr));
}

DIT_INTERNAL void diti_queue_idle(diti_device *device) {
    diti_queue_lock(device);
    if (!diti_atomic_load(&device->lost)) device->vk.QueueWaitIdle(device->queue);
    diti_queue_unlock(device);
}

/* Under the queue lock. A simulated loss leaves nothing running, as a real one does. */
static VkResult diti_queue_submit(diti_device *device, const VkSubmitInfo *info) {
    if (diti_atomic_load(&device->lost)) return VK_ERROR_DEVICE_LOST;
    device->submits++;
    if (device->fail_submit_after && device->submits >= device->fail_submit_after) {
        device->vk.QueueWaitIdle(device->queue);
        diti_atomic_store(&device->lost, 1);
        return VK_ERROR_DEVICE_LOST;
    }
    return device->vk.QueueSubmit(device->queue, 1, info, VK_NULL_HANDLE);
}

DIT_INTERNAL dit_result diti_submit(diti_device *device, const VkCommandBuffer *commands, uint32_t count,
                                    VkSemaphore timeline, uint64_t value, dit_error *err) {
    VkTimelineSemaphoreSubmitInfo values = DITI_ZERO;
    VkSubmitInfo info = DITI_ZERO;
    VkResult vr;
    values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    values.signalSemaphoreValueCount = timeline ? 1 : 0;
    values.pSignalSemaphoreValues = &value;
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.pNext = &values;
    info.commandBufferCount = count;
    info.pCommandBuffers = commands;
    info.signalSemaphoreCount = timeline ? 1 : 0;
    info.pSignalSemaphores = &timeline;
    diti_queue_lock(device);
    vr = diti_queue_submit(device, &info);
    diti_queue_unlock(device);
    return vr < 0 ? diti_device_fail(device, vr, "vkQueueSubmit", err) : DIT_OK;
}

DIT_INTERNAL dit_result diti_timeline_create(diti_device *device, VkSemaphore *out, dit_error *err) {
    VkSemaphoreTypeCreateInfo type = DITI_ZERO;
    VkSemaphoreCreateInfo info = DITI_ZERO;
    VkResult vr;
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    info.pNext = &type;
    vr = device->vk.CreateSemaphore(device->device, &info, device->callbacks, out);
    return vr < 0 ? diti_device_fail(device, vr, "vkCreateSemaphore", err) : DIT_OK;
}

DIT_INTERNAL dit_result diti_timeline_value(diti_device *device, VkSemaphore timeline, uint64_t *out, dit_error *err) {
    VkResult vr;
    dit_result result = diti_device_check(device, err);
    if (result < 0) return result;
    vr = device->vk.GetSemaphoreCounterValue(device->device, timeline, out);
    return vr < 0 ? diti_device_fail(device, vr, "vkGetSemaphoreCounterValue", err) : DIT_OK;
}

DIT_INTERNAL dit_result diti_timeline_wait(diti_device *device, VkSemaphore timeline, uint64_t value,
                                           uint64_t timeout_ns, dit_error *err) {
    VkSemaphoreWaitInfo info = DITI_ZERO;
    VkResult vr;
    if (diti_atomic_load(&device->lost)) return diti_device_lost(err); /* what it waits for may never come */
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &timeline;
    info.pValues = &value;
    vr = device->vk.WaitSemaphores(device->device, &info, timeout_ns);
    if (vr == VK_TIMEOUT) return DIT_WORKING;
    return vr < 0 ? diti_device_fail(device, vr, "vkWaitSemaphores", err) : DIT_OK;
}

static dit_result diti_run_record(diti_device *device, VkCommandPool pool, diti_record_function record, void *user,
                                  VkCommandBuffer *out, dit_error *err) {
    VkCommandBufferAllocateInfo allocate = DITI_ZERO;
    VkCommandBufferBeginInfo begin = DITI_ZERO;
    VkResult vr;
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = pool;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    vr = device->vk.AllocateCommandBuffers(device->device, &allocate, out);
    if (vr < 0) return diti_device_fail(device, vr, "vkAllocateCommandBuffers", err);
    vr = device->vk.BeginCommandBuffer(*out, &begin);
    if (vr < 0) return diti_device_fail(device, vr, "vkBeginCommandBuffer", err);
    record(device, *out, user);
    vr = device->vk.EndCommandBuffer(*out);
    return vr < 0 ? diti_device_fail(device, vr, "vkEndCommandBuffer", err) : DIT_OK;
}

static dit_result diti_run_in_pool(diti_device *device, VkCommandPool pool, diti_record_function record, void *user,
                                   dit_error *err) {
    VkCommandBuffer commands = NULL;
    VkSemaphore timeline = VK_NULL_HANDLE;
    dit_result result = diti_run_record(device, pool, record, user, &commands, err);
    if (result >= 0) result = diti_timeline_create(device, &timeline, err);
    if (result >= 0) result = diti_submit(device, &commands, 1, timeline, 1, err);
    if (result >= 0) {
        result = diti_timeline_wait(device, timeline, 1, UINT64_MAX, err);
        if (result < 0) diti_queue_idle(device); /* a wait that failed must not free what still runs */
    }
    if (timeline) device->vk.DestroySemaphore(device->device, timeline, device->callbacks);
    return result;
}

DIT_INTERNAL dit_result diti_run_now(diti_device *device, diti_record_function record, void *user, dit_error *err) {
    VkCommandPoolCreateInfo info = DITI_ZERO;
    VkCommandPool pool = VK_NULL_HANDLE;
    dit_result result;
    VkResult vr;
    info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    info.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
    info.queueFamilyIndex = device->queue_family;
    vr = device->vk.CreateCommandPool(device->device, &info, device->callbacks, &pool);
    if (vr < 0) return diti_device_fail(device, vr, "vkCreateCommandPool", err);
    result = diti_run_in_pool(device, pool, record, user, err);
    device->vk.DestroyCommandPool(device->device, pool, device->callbacks);
    return result;
}

/* ======== src/vk/memory.c (edit it there; dit.h is generated) ======== */

#define DITI_HOST_COHERENT (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)
#define DITI_LARGEST_ALLOCATION ((VkDeviceSize)1 << 30)

/* --- limits --- */

static VkDeviceSize diti_memory_free_budget(diti_device *device, uint32_t heap) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = DITI_ZERO;
    VkPhysicalDeviceMemoryProperties2 memory = DITI_ZERO;
    if (!device->has_memory_budget) return 0;
    budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
    memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
    memory.pNext = &budget;
    device->vk.GetPhysicalDeviceMemoryProperties2(device->physical, &memory);
    if (budget.heapBudget[heap] <= budget.heapUsage[heap]) return 0;
    return budget.heapBudget[heap] - budget.heapUsage[heap];
}

static uint32_t diti_memory_largest_heap(const diti_device *device) {
    uint32_t i, best = 0;
    VkDeviceSize size = 0;
    for (i = 0; i < device->memory.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &device->memory.memoryHeaps[i];
        if (!(heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) || heap->size <= size) continue;
        size = heap->size;
        best = i;
    }
    return best;
}

DIT_INTERNAL void diti_memory_init(diti_device *device, VkDeviceSize limit) {
    VkPhysicalDeviceMemoryProperties2 memory = DITI_ZERO;
    uint32_t i, heap;
    memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
    device->vk.GetPhysicalDeviceMemoryProperties2(device->physical, &memory);
    device->memory = memory.memoryProperties;
    device->unified = true;
    for (i = 0; i < device->memory.memoryHeapCount; i++) {
        if (!(device->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) device->unified = false;
    }
    heap = diti_memory_largest_heap(device);
    device->memory_limit = limit ? limit : diti_memory_free_budget(device, heap);
    if (!device->memory_limit) device->memory_limit = device->memory.memoryHeaps[heap].size / 5 * 4;
}

/* Host buffers take from the device's memory only where there is no other. */
static bool diti_memory_counts(const diti_device *device, diti_memory_kind kind) {
    return kind == DITI_MEMORY_DEVICE || device->unified;
}

static dit_result diti_memory_reserve(diti_device *device, VkDeviceSize size, const char *what, dit_error *err) {
    VkDeviceSize used;
    bool fits;
    diti_lock(&device->lock);
    used = device->memory_used;
    fits = size <= device->memory_limit && used <= device->memory_limit - size;
    if (fits) device->memory_used += size;
    diti_unlock(&device->lock);
    if (fits) return DIT_OK;
    return diti_fail(err, DIT_ERROR_OUT_OF_DEVICE_MEMORY,
                     "%s needs %.1f MB of device memory, but %.1f of the allowed %.1f MB are in use "
                     "(device_memory_limit in the context's desc)",
                     what, (double)size / 1e6, (double)used / 1e6, (double)device->memory_limit / 1e6);
}

static void diti_memory_release(diti_device *device, VkDeviceSize size) {
    diti_lock(&device->lock);
    device->memory_used -= size;
    diti_unlock(&device->lock);
}

/* --- memory types --- */

static VkMemoryPropertyFlags diti_memory_required(diti_memory_kind kind) {
    switch (kind) {
    case DITI_MEMORY_UPLOAD: return DITI_HOST_COHERENT;
    case DITI_MEMORY_READBACK: return VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    case DITI_MEMORY_DEVICE: break;
    }
    return 0;
}

/* How well a type serves a kind, from 1 up; 0: not at all. Host types avoid device local memory (the small window of a
   discrete GPU), device types avoid the host's. */
static uint32_t diti_memory_score(VkMemoryPropertyFlags flags, diti_memory_kind kind) {
    const VkMemoryPropertyFlags special = VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |
                                          VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD;
    uint32_t local = (flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) ? 1 : 0;
    uint32_t visible = (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) ? 1 : 0;
    uint32_t cached = (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) ? 1 : 0;
    uint32_t coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) ? 1 : 0;
    if ((flags & special) || (flags & diti_memory_required(kind)) != diti_memory_required(kind)) return 0;
    switch (kind) {
    case DITI_MEMORY_DEVICE: return 1 + 2 * local + (1 - visible);
    case DITI_MEMORY_UPLOAD: return 1 + 2 * (1 - local) + (1 - cached);
    case DITI_MEMORY_READBACK: return 1 + 4 * cached + 2 * coherent + (1 - local);
    }
    return 0;
}

/* The best type of those in bits; false when none is left. */
static bool diti_memory_type(const diti_device *device, uint32_t bits, diti_memory_kind kind, uint32_t *out) {
    uint32_t i, score, best = 0;
    for (i = 0; i < device->memory.memoryTypeCount; i++) {
        if (!(bits >> i & 1u)) continue;
        score = diti_memory_score(device->memory.memoryTypes[i].propertyFlags, kind);
        if (score <= best) continue;
        best = score;
        *out = i;
    }
    return best > 0;
}

/* --- blocks --- */

static dit_result diti_block_map(diti_device *device, VkMemoryPropertyFlags flags, diti_buffer *out, dit_error *err) {
    bool wanted = out->kind != DITI_MEMORY_DEVICE;
    VkResult vr;
    out->coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
    if (!wanted && (!device->maps_device_memory || (flags & DITI_HOST_COHERENT) != DITI_HOST_COHERENT)) return DIT_OK;
    vr = device->vk.MapMemory(device->device, out->block.memory, 0, VK_WHOLE_SIZE, 0, &out->block.mapped);
    if (vr >= 0) return DIT_OK;
    out->block.mapped = NULL;
    return wanted ? diti_device_fail(device, vr, "vkMapMemory", err) : DIT_OK; /* device memory can be staged */
}

/* Own memory: the next best type is tried when a heap is full, but device memory never falls back to the host's. */
static VkResult diti_block_allocate(diti_device *device, const VkMemoryRequirements *need, diti_buffer *out,
                                    uint32_t *type) {
    VkMemoryAllocateInfo info = DITI_ZERO;
    VkResult vr = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    uint32_t bits = need->memoryTypeBits, first_score = 0;
    info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    info.allocationSize = need->size;
    while (diti_memory_type(device, bits, out->kind, type)) {
        uint32_t score = diti_memory_score(device->memory.memoryTypes[*type].propertyFlags, out->kind);
        if (!first_score) first_score = score;
        if (out->kind == DITI_MEMORY_DEVICE && first_score >= 3 && score < 3) break;
        info.memoryTypeIndex = *type;
        vr = device->vk.AllocateMemory(device->device, &info, device->callbacks, &out->block.memory);
        if (vr != VK_ERROR_OUT_OF_DEVICE_MEMORY) break;
        bits &= ~(1u << *type);
    }
    return vr;
}

static dit_result diti_block_own(diti_device *device, const VkMemoryRequirements *need, const char *what,
                                 diti_buffer *out, dit_error *err) {
    dit_result result;
    uint32_t type = 0;
    VkResult vr = diti_block_allocate(device, need, out, &type);
    if (vr < 0) {
        out->block.memory = VK_NULL_HANDLE;
        return diti_fail_vk(err, vr, "%s: vkAllocateMemory of %.1f MB: %s", what, (double)need->size / 1e6,
                            diti_vk_name(vr));
    }
    out->block.size = need->size;
    result = diti_block_map(device, device->memory.memoryTypes[type].propertyFlags, out, err);
    if (result < 0) {
        device->vk.FreeMemory(device->device, out->block.memory, device->callbacks);
        memset(&out->block, 0, sizeof out->block);
    }
    return result;
}

/* True when every type that such memory can come from is coherent host memory: then a mapping may be used as it is. */
static bool diti_memory_always_coherent(const diti_device *device, uint32_t bits) {
    uint32_t i;
    for (i = 0; i < device->memory.memoryTypeCount; i++) {
        VkMemoryPropertyFlags flags = device->memory.memoryTypes[i].propertyFlags;
        if ((bits >> i & 1u) && (flags & DITI_HOST_COHERENT) != DITI_HOST_COHERENT) return false;
    }
    return true;
}

/* The application's memory: its type is unknown, so host kinds ask for coherent memory. */
static dit_result diti_block_hooked(diti_device *device, const VkMemoryRequirements *need, const char *what,
                                    diti_buffer *out, dit_error *err) {
    const dit_device_allocator *hook = &device->allocator;
    bool host = out->kind != DITI_MEMORY_DEVICE;
    VkMemoryPropertyFlags required = host ? DITI_HOST_COHERENT : 0;
    VkMemoryPropertyFlags preferred = host ? 0 : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    VkResult vr;
    if (out->kind == DITI_MEMORY_READBACK) preferred = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    vr = hook->alloc(device->ordinal, need, required, preferred, &out->block, hook->user);
    if (vr < 0) {
        memset(&out->block, 0, sizeof out->block);
        return diti_fail_vk(err, vr, "%s: the device_allocator refused %.1f MB: %s", what, (double)need->size / 1e6,
                            diti_vk_name(vr));
    }
    out->hook_mapped = out->block.mapped;
    out->coherent = host || diti_memory_always_coherent(device, need->memoryTypeBits);
    if (!host && (!device->maps_device_memory || !out->coherent)) out->block.mapped = NULL;
    if (!host || out->block.mapped) return DIT_OK;
    hook->free(device->ordinal, &out->block, hook->user);
    memset(&out->block, 0, sizeof out->block);
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "%s: the device_allocator must map memory that it was asked for as HOST_VISIBLE", what);
}

DIT_INTERNAL dit_result diti_block_create(diti_device *device, const VkMemoryRequirements *need, diti_memory_kind kind,
                                          const char *what, diti_buffer *out, dit_error *err) {
    bool counts = diti_memory_counts(device, kind);
    dit_result result = counts ? diti_memory_reserve(device, need->size, what, err) : DIT_OK;
    if (result < 0) return result;
    out->kind = kind;
    out->charged = counts ? need->size : 0;
    if (device->allocator.alloc)
        result = diti_block_hooked(device, need, what, out, err);
    else
        result = diti_block_own(device, need, what, out, err);
    if (result < 0) {
        if (counts) diti_memory_release(device, need->size);
        return result;
    }
    diti_lock(&device->lock);
    device->allocations++;
    diti_unlock(&device->lock);
    return DIT_OK;
}

DIT_INTERNAL void diti_block_destroy(diti_device *device, diti_buffer *buffer) {
    if (!buffer->block.memory) return;
    if (device->allocator.free) {
        buffer->block.mapped = buffer->hook_mapped;
        device->allocator.free(device->ordinal, &buffer->block, device->allocator.user);
    } else { /* freeing unmaps */
        device->vk.FreeMemory(device->device, buffer->block.memory, device->callbacks);
    }
    diti_memory_release(device, buffer->charged);
    memset(&buffer->block, 0, sizeof buffer->block);
}

/* --- buffers --- */

static dit_result diti_buffer_bind(diti_device *device, const char *what, diti_buffer *out, dit_error *err) {
    VkMemoryRequirements need;
    dit_result result;
    VkResult vr;
    device->vk.GetBufferMemoryRequirements(device->device, out->buffer, &need);
    result = diti_block_create(device, &need, out->kind, what, out, err);
    if (result < 0) return result;
    vr = device->vk.BindBufferMemory(device->device, out->buffer, out->block.memory, out->block.offset);
    return vr < 0 ? diti_device_fail(device, vr, "vkBindBufferMemory", err) : DIT_OK;
}

DIT_INTERNAL dit_result diti_buffer_create(diti_device *device, VkDeviceSize size, diti_memory_kind kind,
                                           const char *what, diti_buffer *out, dit_error *err) {
    VkBufferCreateInfo info = DITI_ZERO;
    dit_result result = diti_device_check(device, err);
    VkResult vr;
    memset(out, 0, sizeof *out);
    if (result < 0) return result;
    if (!size || size > device->limits.allocation) {
        return diti_fail(err, DIT_ERROR_OUT_OF_DEVICE_MEMORY,
                         "%s: %llu bytes is not a size between 1 and the device's largest allocation, %llu", what,
                         (unsigned long long)size, (unsigned long long)device->limits.allocation);
    }
    out->kind = kind;
    out->size = size;
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.size = size;
    info.usage =
        VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
    vr = device->vk.CreateBuffer(device->device, &info, device->callbacks, &out->buffer);
    if (vr < 0) {
        memset(out, 0, sizeof *out);
        return diti_device_fail(device, vr, "vkCreateBuffer", err);
    }
    result = diti_buffer_bind(device, what, out, err);
    if (result < 0) diti_buffer_destroy(device, out);
    return result;
}

DIT_INTERNAL void diti_buffer_destroy(diti_device *device, diti_buffer *buffer) {
    if (buffer->buffer) device->vk.DestroyBuffer(device->device, buffer->buffer, device->callbacks);
    diti_block_destroy(device, buffer);
    memset(buffer, 0, sizeof *buffer);
}

/* Only own memory can be incoherent, and that is mapped whole, so no range needs rounding to nonCoherentAtomSize. */
static VkMappedMemoryRange diti_buffer_range(const diti_buffer *buffer) {
    VkMappedMemoryRange range = DITI_ZERO;
    range.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE;
    range.memory = buffer->block.memory;
    range.size = VK_WHOLE_SIZE;
    return range;
}

DIT_INTERNAL void diti_buffer_flush(diti_device *device, const diti_buffer *buffer) {
    VkMappedMemoryRange range = diti_buffer_range(buffer);
    if (buffer->coherent || !buffer->block.mapped) return;
    device->vk.FlushMappedMemoryRanges(device->device, 1, &range);
}

DIT_INTERNAL void diti_buffer_invalidate(diti_device *device, const diti_buffer *buffer) {
    VkMappedMemoryRange range = diti_buffer_range(buffer);
    if (buffer->coherent || !buffer->block.mapped) return;
    device->vk.InvalidateMappedMemoryRanges(device->device, 1, &range);
}

/* ======== src/vk/transfer.c (edit it there; dit.h is generated) ======== */

/* Copies between host and device that wait. What is mapped is copied directly, the rest in chunks through one staging
   buffer that the device keeps. */

static dit_result diti_transfer_check(const diti_buffer *buffer, VkDeviceSize offset, VkDeviceSize size,
                                      dit_error *err) {
    if (size <= buffer->size && offset <= buffer->size - size) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "bytes %llu to %llu are outside a buffer of %llu",
                     (unsigned long long)offset, (unsigned long long)(offset + size), (unsigned long long)buffer->size);
}

/* Two threads may copy at once: the second finds the slot empty and makes a staging buffer of its own. */
static dit_result diti_staging_take(diti_device *device, diti_buffer *out, dit_error *err) {
    VkDeviceSize size = device->staging_bytes;
    diti_lock(&device->lock);
    *out = device->staging;
    memset(&device->staging, 0, sizeof device->staging);
    diti_unlock(&device->lock);
    if (out->buffer) return DIT_OK;
    return diti_buffer_create(device, size, DITI_MEMORY_READBACK, "the staging buffer", out, err);
}

static void diti_staging_give(diti_device *device, diti_buffer *staging) {
    diti_lock(&device->lock);
    if (!device->staging.buffer) {
        device->staging = *staging;
        memset(staging, 0, sizeof *staging);
    }
    diti_unlock(&device->lock);
    diti_buffer_destroy(device, staging);
}

DIT_INTERNAL void diti_staging_free(diti_device *device) { diti_buffer_destroy(device, &device->staging); }

static void diti_transfer_barrier(diti_device *device, VkCommandBuffer commands, VkPipelineStageFlags from,
                                  VkAccessFlags from_access, VkPipelineStageFlags to, VkAccessFlags to_access) {
    VkMemoryBarrier barrier = DITI_ZERO;
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = from_access;
    barrier.dstAccessMask = to_access;
    device->vk.CmdPipelineBarrier(commands, from, to, 0, 1, &barrier, 0, NULL, 0, NULL);
}

typedef struct diti_transfer {
    VkBuffer from, to;
    VkBufferCopy region;
} diti_transfer;

static void diti_transfer_record(diti_device *device, VkCommandBuffer commands, void *user) {
    const diti_transfer *transfer = (const diti_transfer *)user;
    diti_transfer_barrier(device, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                          VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    device->vk.CmdCopyBuffer(commands, transfer->from, transfer->to, 1, &transfer->region);
    diti_transfer_barrier(device, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                          VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT,
                          VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
}

static dit_result diti_transfer_run(diti_device *device, VkBuffer from, VkDeviceSize from_offset, VkBuffer to,
                                    VkDeviceSize to_offset, VkDeviceSize size, dit_error *err) {
    diti_transfer transfer = DITI_ZERO;
    transfer.from = from;
    transfer.to = to;
    transfer.region.srcOffset = from_offset;
    transfer.region.dstOffset = to_offset;
    transfer.region.size = size;
    return diti_run_now(device, diti_transfer_record, &transfer, err);
}

static dit_result diti_transfer_write(diti_device *device, diti_buffer *buffer, VkDeviceSize offset,
                                      const unsigned char *data, VkDeviceSize size, dit_error *err) {
    diti_buffer staging = DITI_ZERO;
    VkDeviceSize done, part;
    dit_result result = diti_staging_take(device, &staging, err);
    for (done = 0; result >= 0 && done < size; done += part) {
        part = size - done < staging.size ? size - done : staging.size;
        memcpy(staging.block.mapped, data + done, (size_t)part);
        diti_buffer_flush(device, &staging);
        result = diti_transfer_run(device, staging.buffer, 0, buffer->buffer, offset + done, part, err);
    }
    diti_staging_give(device, &staging);
    return result;
}

static dit_result diti_transfer_read(diti_device *device, diti_buffer *buffer, VkDeviceSize offset, unsigned char *data,
                                     VkDeviceSize size, dit_error *err) {
    diti_buffer staging = DITI_ZERO;
    VkDeviceSize done, part;
    dit_result result = diti_staging_take(device, &staging, err);
    for (done = 0; result >= 0 && done < size; done += part) {
        part = size - done < staging.size ? size - done : staging.size;
        result = diti_transfer_run(device, buffer->buffer, offset + done, staging.buffer, 0, part, err);
        if (result < 0) break;
        diti_buffer_invalidate(device, &staging);
        memcpy(data + done, staging.block.mapped, (size_t)part);
    }
    diti_staging_give(device, &staging);
    return result;
}

static void diti_transfer_to_host(diti_device *device, VkCommandBuffer commands, void *user) {
    (void)user;
    diti_transfer_barrier(device, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                          VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
}

DIT_INTERNAL dit_result diti_buffer_write(diti_device *device, diti_buffer *buffer, VkDeviceSize offset,
                                          const void *data, VkDeviceSize size, dit_error *err) {
    dit_result result = diti_transfer_check(buffer, offset, size, err);
    if (result >= 0) result = diti_device_check(device, err);
    if (result < 0 || !size) return result;
    if (!buffer->block.mapped) {
        return diti_transfer_write(device, buffer, offset, (const unsigned char *)data, size, err);
    }
    memcpy((unsigned char *)buffer->block.mapped + offset, data, (size_t)size);
    diti_buffer_flush(device, buffer);
    return DIT_OK;
}

/* Waiting alone does not make the device's writes visible to the host: a barrier to the host does, on any path. */
DIT_INTERNAL dit_result diti_buffer_read(diti_device *device, diti_buffer *buffer, VkDeviceSize offset, void *data,
                                         VkDeviceSize size, dit_error *err) {
    dit_result result = diti_transfer_check(buffer, offset, size, err);
    if (result < 0 || !size) return result;
    if (!buffer->block.mapped) return diti_transfer_read(device, buffer, offset, (unsigned char *)data, size, err);
    result = diti_run_now(device, diti_transfer_to_host, NULL, err);
    if (result < 0) return result;
    diti_buffer_invalidate(device, buffer);
    memcpy(data, (const unsigned char *)buffer->block.mapped + offset, (size_t)size);
    return DIT_OK;
}

/* ======== src/vk/pipeline.c (edit it there; dit.h is generated) ======== */

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

/* Under the lock. */
static diti_pipeline *diti_pipeline_find(diti_device *device, const diti_pipeline *key) {
    size_t i;
    for (i = 0; i < device->pipeline_count; i++) {
        diti_pipeline *pipeline = device->pipelines[i];
        if (pipeline->module != key->module || pipeline->constant_count != key->constant_count) continue;
        if (!memcmp(pipeline->constants, key->constants, sizeof key->constants)) return pipeline;
    }
    return NULL;
}

static VkResult diti_pipeline_create(diti_device *device, VkShaderModule module, const diti_pipeline *key,
                                     VkPipeline *out) {
    VkSpecializationMapEntry entries[DITI_MAX_CONSTANTS];
    VkSpecializationInfo constants = DITI_ZERO;
    VkComputePipelineCreateInfo info = DITI_ZERO;
    uint32_t i;
    for (i = 0; i < key->constant_count; i++) {
        entries[i].constantID = i;
        entries[i].offset = i * 4;
        entries[i].size = 4;
    }
    constants.mapEntryCount = key->constant_count;
    constants.pMapEntries = entries;
    constants.dataSize = key->constant_count * 4;
    constants.pData = key->constants;
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.stage.pSpecializationInfo = &constants;
    info.layout = device->pipeline_layout;
    return device->vk.CreateComputePipelines(device->device, device->pipeline_cache, 1, &info, device->callbacks, out);
}

static VkResult diti_pipeline_from_words(diti_device *device, const uint32_t *words, size_t count,
                                         const diti_pipeline *key, VkPipeline *out) {
    VkShaderModuleCreateInfo info = DITI_ZERO;
    VkShaderModule module = VK_NULL_HANDLE;
    VkResult vr;
    info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    info.codeSize = count * 4;
    info.pCode = words;
    vr = device->vk.CreateShaderModule(device->device, &info, device->callbacks, &module);
    if (vr < 0) return vr;
    vr = diti_pipeline_create(device, module, key, out);
    device->vk.DestroyShaderModule(device->device, module, device->callbacks);
    return vr;
}

static bool diti_pipeline_must_fail(diti_device *device) {
    bool fail;
    diti_lock(&device->lock);
    fail = device->fail_pipeline_after && ++device->pipelines_tried >= device->fail_pipeline_after;
    diti_unlock(&device->lock);
    return fail;
}

static dit_result diti_pipeline_compile(diti_device *device, diti_pipeline *key, dit_error *err) {
    uint32_t *words = NULL;
    size_t count = 0;
    dit_result result = diti_spirv_decode(&device->env, key->module, &words, &count, err);
    VkResult vr = VK_ERROR_UNKNOWN;
    if (result < 0) return result;
    if (!diti_pipeline_must_fail(device)) vr = diti_pipeline_from_words(device, words, count, key, &key->pipeline);
    diti_free(&device->env, words);
    if (vr >= 0) return DIT_OK;
    key->pipeline = VK_NULL_HANDLE;
    if (vr == VK_ERROR_DEVICE_LOST) return diti_device_fail(device, vr, "vkCreateComputePipelines", err);
    return diti_fail_vk(err, vr, "the driver of %s cannot compile %s: %s", device->info.name,
                        diti_spirv_name(key->module), diti_vk_name(vr));
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
    if (!made) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no memory for a pipeline");
    *made = *key;
    result = diti_pipeline_compile(device, made, err);
    kept = result < 0 ? NULL : diti_pipeline_insert(device, made);
    if (kept)
        *out = kept->pipeline;
    else if (result >= 0)
        result = diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no memory for a pipeline");
    if (kept == made) return result;
    if (made->pipeline) device->vk.DestroyPipeline(device->device, made->pipeline, device->callbacks);
    diti_free(&device->env, made);
    return result;
}

DIT_INTERNAL dit_result diti_pipeline_get(diti_device *device, uint32_t module, const uint32_t *constants,
                                          uint32_t constant_count, VkPipeline *out, dit_error *err) {
    diti_pipeline *found, key = DITI_ZERO;
    *out = VK_NULL_HANDLE;
    if (constant_count > DITI_MAX_CONSTANTS) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%u specialization constants; at most %u", constant_count,
                         DITI_MAX_CONSTANTS);
    }
    key.module = module;
    key.constant_count = constant_count;
    if (constant_count) memcpy(key.constants, constants, constant_count * sizeof *constants);
    diti_lock(&device->lock);
    found = diti_pipeline_find(device, &key);
    diti_unlock(&device->lock);
    if (!found) return diti_pipeline_make(device, &key, out, err);
    *out = found->pipeline;
    return DIT_OK;
}

DIT_INTERNAL void diti_pipelines_free(diti_device *device) {
    size_t i;
    for (i = 0; i < device->pipeline_count; i++) {
        device->vk.DestroyPipeline(device->device, device->pipelines[i]->pipeline, device->callbacks);
        diti_free(&device->env, device->pipelines[i]);
    }
    diti_free(&device->env, device->pipelines);
    if (device->pipeline_layout) {
        device->vk.DestroyPipelineLayout(device->device, device->pipeline_layout, device->callbacks);
    }
    if (device->set_layout) {
        device->vk.DestroyDescriptorSetLayout(device->device, device->set_layout, device->callbacks);
    }
    if (device->pipeline_cache && device->owns_pipeline_cache) {
        device->vk.DestroyPipelineCache(device->device, device->pipeline_cache, device->callbacks);
    }
}

/* ======== src/vk/cache.c (edit it there; dit.h is generated) ======== */

/* The cache blob: this header, then what vkGetPipelineCacheData gave. It is only good for the driver that made it, on
   the machine that made it, so the header is stored as it lies in memory. */
#define DITI_CACHE_MAGIC 0x63746964u /* "ditc" */
#define DITI_CACHE_VERSION 1u
typedef struct diti_cache_header {
    uint32_t magic, version;
    uint8_t uuid[16]; /* pipelineCacheUUID */
    uint32_t vendor, device, driver_version;
    uint32_t rung;      /* of us_per_gflop */
    float us_per_gflop; /* measured earlier, so that the next context can skip the measurement; 0: unknown */
    uint32_t reserved;
    uint64_t spirv_hash, data_size;
    uint64_t checksum; /* of everything else, header first */
} diti_cache_header;

static uint64_t diti_cache_checksum(const diti_cache_header *header, const void *data, size_t size) {
    diti_cache_header copy = *header;
    uint64_t parts[2];
    copy.checksum = 0;
    parts[0] = diti_hash(&copy, sizeof copy);
    parts[1] = diti_hash(data, size);
    return diti_hash(parts, sizeof parts);
}

/* What every good blob of this device and this build starts with. */
static void diti_cache_identity(diti_device *device, diti_cache_header *out) {
    VkPhysicalDeviceProperties2 properties = DITI_ZERO;
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    device->vk.GetPhysicalDeviceProperties2(device->physical, &properties);
    memset(out, 0, sizeof *out);
    out->magic = DITI_CACHE_MAGIC;
    out->version = DITI_CACHE_VERSION;
    memcpy(out->uuid, properties.properties.pipelineCacheUUID, sizeof out->uuid);
    out->vendor = properties.properties.vendorID;
    out->device = properties.properties.deviceID;
    out->driver_version = properties.properties.driverVersion;
    out->spirv_hash = diti_spirv_hash();
}

/* Some drivers trust the data they are given, so its own header is checked here too. */
static bool diti_cache_data_fits(const diti_cache_header *header, const unsigned char *data, size_t size) {
    uint32_t words[4]; /* VkPipelineCacheHeaderVersionOne: header size, version, vendor, device, then the UUID */
    if (!size) return true;
    if (size < sizeof words + 16) return false;
    memcpy(words, data, sizeof words);
    return words[0] == 32 && words[1] == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && words[2] == header->vendor &&
           words[3] == header->device && !memcmp(data + 16, header->uuid, 16);
}

/* NULL when the blob may be used, else what is wrong with it. */
static const char *diti_cache_check(diti_device *device, const unsigned char *blob, size_t size,
                                    diti_cache_header *header) {
    diti_cache_header mine;
    if (size < sizeof *header) return "it is too short";
    memcpy(header, blob, sizeof *header);
    diti_cache_identity(device, &mine);
    if (header->magic != mine.magic) return "it is no cache of dit";
    if (header->version != mine.version) return "another version of dit wrote it";
    if (memcmp(header->uuid, mine.uuid, sizeof mine.uuid) || header->vendor != mine.vendor ||
        header->device != mine.device || header->driver_version != mine.driver_version) {
        return "another device or driver wrote it";
    }
    if (header->spirv_hash != mine.spirv_hash) return "it belongs to other shaders";
    if (header->data_size != size - sizeof *header) return "it is cut off or too long";
    if (header->checksum != diti_cache_checksum(header, blob + sizeof *header, size - sizeof *header)) {
        return "its checksum is wrong";
    }
    if (!diti_cache_data_fits(header, blob + sizeof *header, size - sizeof *header)) return "its content is damaged";
    return NULL;
}

static bool diti_cache_accept(diti_device *device, const void *blob, size_t size) {
    diti_cache_header header;
    const char *problem = diti_cache_check(device, (const unsigned char *)blob, size, &header);
    if (problem) {
        diti_log(&device->env, DITI_LOG_INFO, "the cache blob is ignored: %s", problem);
        return false;
    }
    if (header.rung == (uint32_t)device->rung && header.us_per_gflop > 0) device->us_per_gflop = header.us_per_gflop;
    return true;
}

DIT_INTERNAL dit_result diti_cache_load(diti_device *device, const void *blob, size_t size, dit_error *err) {
    VkPipelineCacheCreateInfo info = DITI_ZERO;
    bool use = blob && size && diti_cache_accept(device, blob, size);
    VkResult vr;
    if (device->pipeline_cache) return DIT_OK; /* the application's */
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
    if (use) {
        info.initialDataSize = size - sizeof(diti_cache_header);
        info.pInitialData = (const unsigned char *)blob + sizeof(diti_cache_header);
    }
    vr = device->vk.CreatePipelineCache(device->device, &info, device->callbacks, &device->pipeline_cache);
    if (vr < 0 && use) { /* start empty rather than fail */
        diti_log(&device->env, DITI_LOG_WARNING, "the driver refused the cache blob: %s", diti_vk_name(vr));
        info.initialDataSize = 0;
        info.pInitialData = NULL;
        vr = device->vk.CreatePipelineCache(device->device, &info, device->callbacks, &device->pipeline_cache);
    }
    if (vr < 0) {
        device->pipeline_cache = VK_NULL_HANDLE;
        return diti_device_fail(device, vr, "vkCreatePipelineCache", err);
    }
    device->owns_pipeline_cache = true;
    return DIT_OK;
}

/* An application that gave a VkPipelineCache stores it itself: its data is not copied into the blob. */
static dit_result diti_cache_data_size(diti_device *device, size_t *size, dit_error *err) {
    VkResult vr;
    *size = 0;
    if (!device->owns_pipeline_cache) return DIT_OK;
    vr = device->vk.GetPipelineCacheData(device->device, device->pipeline_cache, size, NULL);
    return vr < 0 ? diti_device_fail(device, vr, "vkGetPipelineCacheData", err) : DIT_OK;
}

DIT_INTERNAL dit_result diti_cache_save(diti_device *device, void *blob, size_t *size, dit_error *err) {
    diti_cache_header header;
    unsigned char *data = (unsigned char *)blob + sizeof header;
    size_t data_size, room = *size;
    VkResult vr = VK_SUCCESS;
    dit_result result = diti_device_check(device, err);
    if (result >= 0) result = diti_cache_data_size(device, &data_size, err);
    if (result < 0) return result;
    *size = sizeof header + data_size;
    if (!blob) return DIT_OK;
    if (room < *size) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "the cache blob needs %llu bytes, only %llu were given",
                         (unsigned long long)*size, (unsigned long long)room);
    }
    /* exactly the size that was told: lavapipe returns any larger one as it came, SwiftShader refuses it */
    if (data_size) vr = device->vk.GetPipelineCacheData(device->device, device->pipeline_cache, &data_size, data);
    if (vr == VK_INCOMPLETE) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "the cache blob has grown: ask for its size again");
    }
    if (vr < 0) return diti_device_fail(device, vr, "vkGetPipelineCacheData", err);
    diti_cache_identity(device, &header);
    header.rung = (uint32_t)device->rung;
    header.us_per_gflop = device->us_per_gflop;
    header.data_size = data_size;
    header.checksum = diti_cache_checksum(&header, data, data_size);
    memcpy(blob, &header, sizeof header);
    *size = sizeof header + data_size;
    return DIT_OK;
}

/* ======== src/vk/device.c (edit it there; dit.h is generated) ======== */

#define DITI_PORTABILITY_SUBSET "VK_KHR_portability_subset" /* its macro is in vulkan_beta.h */

static void diti_device_sizes(diti_device *device, const VkPhysicalDeviceLimits *limits) {
    diti_limits *out = &device->limits;
    out->storage_range = limits->maxStorageBufferRange;
    out->storage_alignment = limits->minStorageBufferOffsetAlignment;
    out->group_count = limits->maxComputeWorkGroupCount[0];
    out->group_invocations = limits->maxComputeWorkGroupInvocations;
    if (limits->maxComputeWorkGroupSize[0] < out->group_invocations) {
        out->group_invocations = limits->maxComputeWorkGroupSize[0];
    }
    out->shared_bytes = limits->maxComputeSharedMemorySize;
    out->timestamp_period = limits->timestampPeriod;
}

static void diti_device_properties(diti_device *device) {
    VkPhysicalDeviceMaintenance3Properties memory = DITI_ZERO;
    VkPhysicalDeviceSubgroupProperties subgroup = DITI_ZERO;
    VkPhysicalDeviceProperties2 properties = DITI_ZERO;
    VkDeviceSize largest = (VkDeviceSize)1 << 30;
    memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES;
    subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    subgroup.pNext = &memory;
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &subgroup;
    device->vk.GetPhysicalDeviceProperties2(device->physical, &properties);
    diti_device_sizes(device, &properties.properties.limits);
    device->limits.subgroup_size = subgroup.subgroupSize;
    /* SwiftShader reports 1 GiB and refuses exactly that much: stay below a limit that is as low */
    if (memory.maxMemoryAllocationSize <= largest) largest = memory.maxMemoryAllocationSize / 2;
    device->limits.allocation = largest;
    device->is_cpu = properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

static void diti_device_timestamps(diti_device *device, const char *overrides) {
    VkQueueFamilyProperties families[64];
    uint32_t count = DITI_COUNT(families);
    device->vk.GetPhysicalDeviceQueueFamilyProperties(device->physical, &count, families);
    if (device->queue_family < count) device->limits.timestamp_bits = families[device->queue_family].timestampValidBits;
    if (!diti_override_number(overrides, "timestamps", 1)) device->limits.timestamp_bits = 0;
    if (!device->limits.timestamp_bits) device->limits.timestamp_period = 0;
}

static uint64_t diti_lower_limit(const char *overrides, const char *key, uint64_t limit) {
    uint64_t wanted = diti_override_number(overrides, key, limit);
    return wanted < limit && wanted ? wanted : limit;
}

static void diti_device_override(diti_device *device, const char *overrides) {
    diti_limits *limits = &device->limits;
    limits->storage_range = diti_lower_limit(overrides, "storage_range", limits->storage_range);
    limits->allocation = diti_lower_limit(overrides, "allocation", limits->allocation);
    limits->shared_bytes = (uint32_t)diti_lower_limit(overrides, "shared", limits->shared_bytes);
    limits->group_count = (uint32_t)diti_lower_limit(overrides, "groups", limits->group_count);
    limits->group_invocations = (uint32_t)diti_lower_limit(overrides, "invocations", limits->group_invocations);
    device->is_cpu = diti_override_number(overrides, "cpu", device->is_cpu) != 0;
    device->maps_device_memory = diti_override_number(overrides, "mapped", 1) != 0;
    device->staging_bytes = diti_lower_limit(overrides, "staging", (uint64_t)8 << 20);
    if (device->staging_bytes > limits->allocation) device->staging_bytes = limits->allocation;
    device->fail_submit_after = (uint32_t)diti_override_number(overrides, "fail_submit", 0);
    device->fail_pipeline_after = (uint32_t)diti_override_number(overrides, "fail_pipeline", 0);
}

/* The rung asked for, else the highest that the enabled features allow; a software driver emulates halves, so it stays
   on the base rung unless asked. */
static dit_result diti_device_rung(diti_device *device, const char *overrides, dit_error *err) {
    char wanted[32];
    int rung;
    device->rung = device->has_fp16 ? DITI_RUNG_FP16 : DITI_RUNG_BASE;
    if (!diti_override_text(overrides, "rung", wanted, sizeof wanted)) {
        if (device->is_cpu) device->rung = DITI_RUNG_BASE;
        return DIT_OK;
    }
    for (rung = 0; rung < DITI_RUNG_COUNT; rung++) {
        if (!diti_equal(wanted, diti_rung_name((diti_rung)rung))) continue;
        if (rung > (int)device->rung) {
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "overrides: %s has not what rung %s needs",
                             device->info.name, wanted);
        }
        device->rung = (diti_rung)rung;
        return DIT_OK;
    }
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "overrides: there is no rung '%s'; rungs are base and fp16",
                     wanted);
}

static dit_result diti_device_extensions(diti_device *device, dit_error *err) {
    VkExtensionProperties *list;
    uint32_t i, count = 0;
    if (device->vk.EnumerateDeviceExtensionProperties(device->physical, NULL, &count, NULL) < 0) return DIT_OK;
    list = (VkExtensionProperties *)diti_alloc_array(&device->env, count, sizeof *list);
    if (!list) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no memory to list %u device extensions", count);
    if (device->vk.EnumerateDeviceExtensionProperties(device->physical, NULL, &count, list) < 0) count = 0;
    for (i = 0; i < count; i++) {
        if (diti_equal(list[i].extensionName, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME)) device->has_memory_budget = true;
        if (diti_equal(list[i].extensionName, DITI_PORTABILITY_SUBSET)) device->has_portability_subset = true;
    }
    diti_free(&device->env, list);
    return DIT_OK;
}

/* Everything that is known once the physical device and the queue family are. */
static dit_result diti_device_describe(diti_device *device, const dit_context_desc *desc, dit_error *err) {
    dit_result result;
    diti_device_properties(device);
    diti_device_timestamps(device, desc->overrides);
    diti_device_override(device, desc->overrides);
    result = diti_device_extensions(device, err);
    if (result < 0) return result;
    diti_memory_init(device, desc->device_memory_limit);
    result = diti_device_rung(device, desc->overrides, err);
    if (result < 0) return result;
    diti_format(device->info.rung, sizeof device->info.rung, "%s", diti_rung_name(device->rung));
    device->us_per_gflop = device->is_cpu ? 100000.0f : 1000.0f; /* 10 GFLOP/s and 1 TFLOP/s: careful guesses */
    return DIT_OK;
}

/* --- a device of dit's own --- */

/* synchronization2 and all that is not needed stays off: every enabled feature is one more thing a driver can get
 * wrong. */
static VkResult diti_device_create(diti_device *device) {
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = DITI_ZERO;
    VkPhysicalDeviceShaderFloat16Int8Features fp16 = DITI_ZERO;
    VkPhysicalDevice16BitStorageFeatures storage = DITI_ZERO;
    VkDeviceQueueCreateInfo queue = DITI_ZERO;
    VkDeviceCreateInfo info = DITI_ZERO;
    const char *portability = DITI_PORTABILITY_SUBSET; /* must be enabled where it exists */
    float priority = 1.0f;
    timeline.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
    timeline.timelineSemaphore = VK_TRUE;
    fp16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
    fp16.pNext = &timeline;
    fp16.shaderFloat16 = VK_TRUE;
    storage.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
    storage.pNext = &fp16;
    storage.storageBuffer16BitAccess = VK_TRUE;
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueFamilyIndex = device->queue_family;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = device->has_fp16 ? (const void *)&storage : (const void *)&timeline;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    info.ppEnabledExtensionNames = &portability;
    info.enabledExtensionCount = device->has_portability_subset ? 1 : 0;
    return device->vk.CreateDevice(device->physical, &info, NULL, &device->device);
}

static dit_result diti_device_select(diti_device *device, const char *choice, dit_error *err) {
    const diti_candidate *chosen;
    diti_candidate *list;
    dit_error why = DITI_ZERO; /* err may be NULL, and the result is in it */
    uint32_t count;
    dit_result result = diti_candidates_list(&device->env, &device->vk, device->instance, &list, &count, err);
    if (result < 0) return result;
    chosen = diti_candidate_choose(list, count, choice, &why);
    if (chosen) {
        device->physical = chosen->physical;
        device->queue_family = chosen->queue_family;
        device->info = chosen->info;
    } else {
        result = why.result;
        if (err) *err = why;
    }
    diti_free(&device->env, list);
    return result;
}

static dit_result diti_device_open_own(diti_device *device, const dit_context_desc *desc, dit_error *err) {
    diti_features features;
    VkResult vr;
    dit_result result = diti_instance_create(&device->env, &device->vk, &device->instance, err);
    if (result < 0) return result;
    device->owns_instance = true;
    result = diti_instance_functions(&device->vk, device->instance, err);
    if (result >= 0) result = diti_device_select(device, desc->devices, err);
    if (result < 0) return result;
    diti_features_supported(&device->vk, device->physical, &features);
    device->has_fp16 = features.fp16 && features.storage16;
    result = diti_device_describe(device, desc, err);
    if (result < 0) return result;
    vr = diti_device_create(device);
    if (vr < 0) {
        device->device = NULL;
        return diti_fail_vk(err, vr, "vkCreateDevice on %s: %s", device->info.name, diti_vk_name(vr));
    }
    device->owns_device = true;
    result = diti_device_functions(&device->vk, device->device, err);
    if (result < 0) return result;
    device->vk.GetDeviceQueue(device->device, device->queue_family, 0, &device->queue);
    return DIT_OK;
}

/* --- a device of the application's --- */

static dit_result diti_wrap_check(const dit_vulkan *given, dit_error *err) {
    const char *missing = NULL;
    if (!given->get_instance_proc_addr) missing = "get_instance_proc_addr";
    if (!given->instance) missing = "instance";
    if (!given->physical_device) missing = "physical_device";
    if (!given->device) missing = "device";
    if (!given->queue) missing = "queue";
    if (missing) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_vulkan: %s is missing", missing);
    if (!given->lock_queue != !given->unlock_queue) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_vulkan: set both lock_queue and unlock_queue, or neither");
    }
    if (given->api_version && given->api_version < VK_API_VERSION_1_2) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE,
                         "dit_vulkan: the instance was made for Vulkan %u.%u; dit needs apiVersion 1.2 or newer",
                         VK_API_VERSION_MAJOR(given->api_version), VK_API_VERSION_MINOR(given->api_version));
    }
    return DIT_OK;
}

static dit_result diti_wrap_queue(diti_device *device, const dit_vulkan *given, dit_error *err) {
    VkQueueFamilyProperties families[64];
    uint32_t i, count = DITI_COUNT(families);
    bool requested = !given->device_info;
    device->vk.GetPhysicalDeviceQueueFamilyProperties(device->physical, &count, families);
    if (given->queue_family >= count || !(families[given->queue_family].queueFlags & VK_QUEUE_COMPUTE_BIT)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_vulkan: queue family %u of %s has no COMPUTE",
                         given->queue_family, device->info.name);
    }
    for (i = 0; !requested && i < given->device_info->queueCreateInfoCount; i++) {
        if (given->device_info->pQueueCreateInfos[i].queueFamilyIndex == given->queue_family) requested = true;
    }
    if (requested) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_vulkan: device_info creates no queue of family %u",
                     given->queue_family);
}

static dit_result diti_device_wrap(diti_device *device, const dit_context_desc *desc, dit_error *err) {
    const dit_vulkan *given = desc->vulkan;
    diti_features enabled = DITI_ZERO;
    diti_candidate candidate;
    dit_result result = diti_wrap_check(given, err);
    if (result < 0) return result;
    device->instance = given->instance;
    device->physical = given->physical_device;
    device->queue = given->queue;
    device->queue_family = given->queue_family;
    device->lock_queue = given->lock_queue;
    device->unlock_queue = given->unlock_queue;
    device->lock_user = given->lock_user;
    device->callbacks = given->host_callbacks;
    device->pipeline_cache = given->pipeline_cache;
    result = diti_instance_functions(&device->vk, device->instance, err);
    if (result < 0) return result;
    diti_candidate_fill(&device->vk, device->physical, &candidate);
    device->info = candidate.info;
    if (candidate.reason[0]) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "dit cannot use %s: %s", device->info.name,
                         candidate.reason);
    }
    enabled.timeline = true; /* without device_info */
    if (given->device_info) diti_features_enabled(given->device_info, &enabled);
    if (!enabled.timeline) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE,
                         "dit_vulkan: timelineSemaphore was not enabled at vkCreateDevice; dit_device_extend does it");
    }
    device->has_fp16 = enabled.fp16 && enabled.storage16;
    result = diti_wrap_queue(device, given, err);
    if (result >= 0) result = diti_device_describe(device, desc, err);
    if (result < 0) return result;
    device->device = given->device;
    return diti_device_functions(&device->vk, device->device, err);
}

/* --- both --- */

/* dit_vulkan with nothing but get_instance_proc_addr: dit's own device, found through the application's loader. */
static bool diti_device_is_given(const dit_context_desc *desc) {
    const dit_vulkan *given = desc->vulkan_count ? desc->vulkan : NULL;
    return given && (given->instance || given->physical_device || given->device || given->queue || given->device_info);
}

static dit_result diti_device_check_desc(const dit_context_desc *desc, dit_error *err) {
    if (desc->vulkan_count > 1) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "this version works with one device, %u were given",
                         desc->vulkan_count);
    }
    if (desc->vulkan_count && !desc->vulkan) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "vulkan_count is 1, but vulkan is NULL");
    }
    if (diti_device_is_given(desc) && desc->devices) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "set devices or vulkan, not both");
    }
    if (!desc->device_allocator.alloc != !desc->device_allocator.free) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "device_allocator: set both alloc and free, or neither");
    }
    return diti_overrides_check(desc->overrides, err);
}

static dit_result diti_device_start(diti_device *device, const dit_context_desc *desc, dit_error *err) {
    char loader[512];
    bool named = diti_override_text(desc->overrides, "loader", loader, sizeof loader);
    PFN_vkGetInstanceProcAddr entry = desc->vulkan_count ? desc->vulkan->get_instance_proc_addr : NULL;
    dit_result result = diti_vulkan_load(named ? loader : NULL, entry, &device->vk, &device->library, err);
    if (result < 0) return result;
    device->allocator = desc->device_allocator;
    device->max_dispatch_us = desc->max_dispatch_us ? desc->max_dispatch_us : 50000;
    result = diti_device_is_given(desc) ? diti_device_wrap(device, desc, err) : diti_device_open_own(device, desc, err);
    if (result >= 0) result = diti_cache_load(device, desc->cache, desc->cache_size, err);
    if (result >= 0) result = diti_layouts_create(device, err);
    return result;
}

DIT_INTERNAL dit_result diti_device_open(const dit_context_desc *desc, const diti_env *env, diti_device **out,
                                         dit_error *err) {
    diti_device *device;
    dit_result result = diti_device_check_desc(desc, err);
    *out = NULL;
    if (result < 0) return result;
    device = (diti_device *)diti_alloc_zero(env, sizeof *device);
    if (!device) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no memory for a device");
    device->env = *env;
    result = diti_device_start(device, desc, err);
    if (result < 0) {
        diti_device_close(device);
        return result;
    }
    diti_log(env, DITI_LOG_INFO, "%s: rung %s, %.0f MB of device memory allowed", device->info.name, device->info.rung,
             (double)device->memory_limit / 1e6);
    *out = device;
    return DIT_OK;
}

/* Whoever submitted work has waited for it; only a device of dit's own is made idle once more. */
DIT_INTERNAL void diti_device_close(diti_device *device) {
    diti_env env;
    if (!device) return;
    env = device->env;
    if (device->device && device->vk.DestroyDevice) {
        if (device->owns_device && device->vk.DeviceWaitIdle) device->vk.DeviceWaitIdle(device->device);
        diti_staging_free(device);
        diti_pipelines_free(device);
        if (device->owns_device) device->vk.DestroyDevice(device->device, NULL);
    }
    if (device->owns_instance) diti_instance_destroy(&device->vk, device->instance);
    diti_vulkan_unload(&device->library);
    diti_free(&env, device);
}

/* ======== src/vk/extend.c (edit it there; dit.h is generated) ======== */

/* dit_device_extend: the application's pNext chain with the bits that dit needs set. Its structures are const, so those
   up to the last one that must change are copied, and what follows is linked as it is. A copy needs the structure's
   size: these are the ones that engines put there. */
#define DITI_EXTEND_STRUCTURES(X)                                                                                      \
    X(DEVICE_GROUP_DEVICE_CREATE_INFO, VkDeviceGroupDeviceCreateInfo)                                                  \
    X(PHYSICAL_DEVICE_FEATURES_2, VkPhysicalDeviceFeatures2)                                                           \
    X(PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, VkPhysicalDeviceVulkan11Features)                                           \
    X(PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features)                                           \
    X(PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, VkPhysicalDeviceVulkan13Features)                                           \
    X(PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, VkPhysicalDevice16BitStorageFeatures)                                    \
    X(PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES, VkPhysicalDevice8BitStorageFeatures)                                      \
    X(PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, VkPhysicalDeviceShaderFloat16Int8Features)                         \
    X(PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES, VkPhysicalDeviceTimelineSemaphoreFeatures)                          \
    X(PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES, VkPhysicalDeviceSynchronization2Features)                            \
    X(PHYSICAL_DEVICE_DYNAMIC_RENDERING_FEATURES, VkPhysicalDeviceDynamicRenderingFeatures)                            \
    X(PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES, VkPhysicalDeviceBufferDeviceAddressFeatures)                     \
    X(PHYSICAL_DEVICE_DESCRIPTOR_INDEXING_FEATURES, VkPhysicalDeviceDescriptorIndexingFeatures)                        \
    X(PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES, VkPhysicalDeviceScalarBlockLayoutFeatures)                         \
    X(PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES, VkPhysicalDeviceHostQueryResetFeatures)                               \
    X(PHYSICAL_DEVICE_IMAGELESS_FRAMEBUFFER_FEATURES, VkPhysicalDeviceImagelessFramebufferFeatures)                    \
    X(PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, VkPhysicalDeviceVulkanMemoryModelFeatures)                         \
    X(PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES, VkPhysicalDeviceSubgroupSizeControlFeatures)                     \
    X(PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES, VkPhysicalDeviceMaintenance4Features)                                    \
    X(PHYSICAL_DEVICE_MULTIVIEW_FEATURES, VkPhysicalDeviceMultiviewFeatures)                                           \
    X(PHYSICAL_DEVICE_VARIABLE_POINTERS_FEATURES, VkPhysicalDeviceVariablePointersFeatures)                            \
    X(PHYSICAL_DEVICE_SAMPLER_YCBCR_CONVERSION_FEATURES, VkPhysicalDeviceSamplerYcbcrConversionFeatures)               \
    X(PHYSICAL_DEVICE_SHADER_DRAW_PARAMETERS_FEATURES, VkPhysicalDeviceShaderDrawParametersFeatures)                   \
    X(PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT, VkPhysicalDeviceRobustness2FeaturesEXT)                               \
    X(PHYSICAL_DEVICE_MESH_SHADER_FEATURES_EXT, VkPhysicalDeviceMeshShaderFeaturesEXT)                                 \
    X(PHYSICAL_DEVICE_ACCELERATION_STRUCTURE_FEATURES_KHR, VkPhysicalDeviceAccelerationStructureFeaturesKHR)           \
    X(PHYSICAL_DEVICE_RAY_TRACING_PIPELINE_FEATURES_KHR, VkPhysicalDeviceRayTracingPipelineFeaturesKHR)                \
    X(PHYSICAL_DEVICE_RAY_QUERY_FEATURES_KHR, VkPhysicalDeviceRayQueryFeaturesKHR)

static size_t diti_extend_size_of(VkStructureType type) {
    switch ((int)type) {
#define DITI_EXTEND_SIZE(name, structure)                                                                              \
    case VK_STRUCTURE_TYPE_##name: return sizeof(structure);
        DITI_EXTEND_STRUCTURES(DITI_EXTEND_SIZE)
#undef DITI_EXTEND_SIZE
    default: return 0;
    }
}

typedef struct diti_extend {
    diti_features missing; /* exists, is useful to dit, and is not enabled */
    unsigned char *memory; /* NULL: only count */
    size_t used, room;
    VkBaseOutStructure *first, **tail;
} diti_extend;

/* Appends a copy of size bytes to memory and to the new chain; NULL while counting or when there is no room. */
static VkBaseOutStructure *diti_extend_put(diti_extend *extend, const void *from, size_t size) {
    VkBaseOutStructure *copy = NULL;
    size_t start = extend->used;
    extend->used += (size + 7) / 8 * 8;
    if (!extend->memory || extend->used > extend->room) return NULL;
    copy = (VkBaseOutStructure *)(void *)(extend->memory + start);
    memcpy(copy, from, size);
    copy->pNext = NULL;
    *extend->tail = copy;
    extend->tail = &copy->pNext;
    return copy;
}

static bool diti_extend_has(const VkDeviceCreateInfo *app, VkStructureType type) {
    const VkBaseInStructure *at;
    for (at = (const VkBaseInStructure *)app->pNext; at; at = at->pNext) {
        if (at->sType == type) return true;
    }
    return false;
}

/* Sets what is missing in a structure of the chain; false when nothing of it belongs there. at: a copy, or NULL. */
static bool diti_extend_patch(const diti_features *missing, VkStructureType type, VkBaseOutStructure *at) {
    switch ((int)type) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES:
        if (at && missing->storage16) ((VkPhysicalDeviceVulkan11Features *)at)->storageBuffer16BitAccess = VK_TRUE;
        return missing->storage16;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES:
        if (at && missing->storage16) ((VkPhysicalDevice16BitStorageFeatures *)at)->storageBuffer16BitAccess = VK_TRUE;
        return missing->storage16;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES:
        if (at && missing->timeline) ((VkPhysicalDeviceVulkan12Features *)at)->timelineSemaphore = VK_TRUE;
        if (at && missing->fp16) ((VkPhysicalDeviceVulkan12Features *)at)->shaderFloat16 = VK_TRUE;
        return missing->timeline || missing->fp16;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES:
        if (at && missing->timeline) ((VkPhysicalDeviceTimelineSemaphoreFeatures *)at)->timelineSemaphore = VK_TRUE;
        return missing->timeline;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES:
        if (at && missing->fp16) ((VkPhysicalDeviceShaderFloat16Int8Features *)at)->shaderFloat16 = VK_TRUE;
        return missing->fp16;
    default: return false;
    }
}

/* Features for which the chain has no structure yet. Where it has VkPhysicalDeviceVulkan12Features, that one must be
   used, for the specification forbids both. */
static void diti_extend_add(diti_extend *extend, const VkDeviceCreateInfo *app) {
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = DITI_ZERO;
    VkPhysicalDeviceShaderFloat16Int8Features fp16 = DITI_ZERO;
    VkPhysicalDevice16BitStorageFeatures storage = DITI_ZERO;
    bool has11 = diti_extend_has(app, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    bool has12 = diti_extend_has(app, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    timeline.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
    timeline.timelineSemaphore = VK_TRUE;
    fp16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
    fp16.shaderFloat16 = VK_TRUE;
    storage.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
    storage.storageBuffer16BitAccess = VK_TRUE;
    if (extend->missing.timeline && !has12 && !diti_extend_has(app, timeline.sType)) {
        diti_extend_put(extend, &timeline, sizeof timeline);
    }
    if (extend->missing.fp16 && !has12 && !diti_extend_has(app, fp16.sType)) {
        diti_extend_put(extend, &fp16, sizeof fp16);
    }
    if (extend->missing.storage16 && !has11 && !diti_extend_has(app, storage.sType)) {
        diti_extend_put(extend, &storage, sizeof storage);
    }
}

static dit_result diti_extend_chain(diti_extend *extend, const VkDeviceCreateInfo *app, dit_error *err) {
    const VkBaseInStructure *at, *rest = (const VkBaseInStructure *)app->pNext;
    for (at = rest; at; at = at->pNext) {
        if (diti_extend_patch(&extend->missing, at->sType, NULL)) rest = at->pNext;
    }
    for (at = (const VkBaseInStructure *)app->pNext; at != rest; at = at->pNext) {
        size_t size = diti_extend_size_of(at->sType);
        if (!size) {
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "dit_device_extend: in the pNext chain, move the structure with sType %d behind the "
                             "Vulkan11, Vulkan12 and other core feature structures",
                             (int)at->sType);
        }
        diti_extend_patch(&extend->missing, at->sType, diti_extend_put(extend, at, size));
    }
    diti_extend_add(extend, app);
    if (extend->memory && extend->used <= extend->room) *extend->tail = (VkBaseOutStructure *)rest;
    return DIT_OK;
}

/* The device must be usable, and the application must create a queue that dit can use. */
static dit_result diti_extend_check(const diti_vk_api *vk, VkPhysicalDevice gpu, const VkDeviceCreateInfo *app,
                                    dit_error *err) {
    VkQueueFamilyProperties families[64];
    uint32_t i, count = DITI_COUNT(families);
    diti_candidate candidate;
    diti_candidate_fill(vk, gpu, &candidate);
    if (candidate.reason[0]) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE, "dit cannot use %s: %s", candidate.info.name,
                         candidate.reason);
    }
    vk->GetPhysicalDeviceQueueFamilyProperties(gpu, &count, families);
    for (i = 0; i < app->queueCreateInfoCount; i++) {
        uint32_t family = app->pQueueCreateInfos[i].queueFamilyIndex;
        if (family < count && (families[family].queueFlags & VK_QUEUE_COMPUTE_BIT)) return DIT_OK;
    }
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "dit_device_extend: create a queue of a family with COMPUTE, such as family %u of %s",
                     candidate.queue_family, candidate.info.name);
}

static dit_result diti_extend_missing(PFN_vkGetInstanceProcAddr gipa, VkInstance instance, VkPhysicalDevice gpu,
                                      const VkDeviceCreateInfo *app, diti_features *out, dit_error *err) {
    diti_vk_api vk = DITI_ZERO;
    diti_features enabled;
    dit_result result;
    vk.GetInstanceProcAddr = gipa;
    result = diti_instance_functions(&vk, instance, err);
    if (result >= 0) result = diti_extend_check(&vk, gpu, app, err);
    if (result < 0) return result;
    diti_features_supported(&vk, gpu, out);
    diti_features_enabled(app, &enabled);
    if (!out->fp16 || !out->storage16) out->fp16 = out->storage16 = false; /* either alone is of no use */
    out->timeline = out->timeline && !enabled.timeline;
    out->fp16 = out->fp16 && !enabled.fp16;
    out->storage16 = out->storage16 && !enabled.storage16;
    return DIT_OK;
}

DIT_API dit_result dit_device_extend(PFN_vkGetInstanceProcAddr gipa, VkInstance instance, VkPhysicalDevice gpu,
                                     const VkDeviceCreateInfo *app, void *memory, size_t *size, VkDeviceCreateInfo *out,
                                     dit_error *err) {
    diti_extend extend = DITI_ZERO;
    dit_result result;
    if (!gipa || !instance || !gpu || !app || !size || (memory && !out)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_device_extend: an argument is NULL");
    }
    if ((uintptr_t)memory % 8) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_device_extend: memory is not aligned to 8 bytes");
    }
    result = diti_extend_missing(gipa, instance, gpu, app, &extend.missing, err);
    if (result < 0) return result;
    extend.memory = (unsigned char *)memory;
    extend.room = *size;
    extend.tail = &extend.first;
    result = diti_extend_chain(&extend, app, err);
    if (result < 0) return result;
    if (!extend.used) extend.used = 8; /* so that no one asks malloc for nothing */
    *size = extend.used;
    if (!memory) return DIT_OK;
    if (extend.used > extend.room) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_device_extend: %llu bytes are needed, %llu were given",
                         (unsigned long long)extend.used, (unsigned long long)extend.room);
    }
    *out = *app;
    out->pNext = extend.first;
    return DIT_OK;
}

/* ======== src/vk/spirv.c (edit it there; dit.h is generated) ======== */

/* The text form: words as LEB128 bytes, four bytes (little endian) as five base85 digits, least significant first.
   Digits are the characters from '#' on without '?' (trigraphs) and '\'. */
static bool diti_spirv_digit(char c, uint32_t *out) {
    if (c < '#' || c > 'y' || c == '?' || c == '\\') return false;
    *out = (uint32_t)(c - '#') - (c > '?') - (c > '\\');
    return true;
}

typedef struct diti_spirv_reader {
    const char *const *piece;
    const char *at;        /* inside *piece */
    uint32_t bytes, count; /* decoded bytes not yet taken */
} diti_spirv_reader;

static bool diti_spirv_group(diti_spirv_reader *reader) {
    uint64_t value = 0, power = 1;
    uint32_t i, digit;
    for (i = 0; i < 5; i++) {
        while (*reader->piece && !*reader->at) {
            reader->piece++;
            reader->at = *reader->piece;
        }
        if (!*reader->piece || !diti_spirv_digit(*reader->at++, &digit)) return false;
        value += digit * power;
        power *= 85;
    }
    reader->bytes = (uint32_t)value;
    reader->count = 4;
    return value <= UINT32_MAX;
}

static bool diti_spirv_word(diti_spirv_reader *reader, uint32_t *out) {
    uint32_t shift, byte;
    *out = 0;
    for (shift = 0; shift < 35; shift += 7) {
        if (!reader->count && !diti_spirv_group(reader)) return false;
        byte = reader->bytes & 255u;
        reader->bytes >>= 8;
        reader->count--;
        *out |= (byte & 127u) << shift;
        if (byte < 128u) return true;
    }
    return false;
}

DIT_INTERNAL uint32_t diti_spirv_count(void) {
    const diti_spirv_module *table = diti_spirv_table();
    uint32_t count = 0;
    while (table[count].name) count++;
    return count;
}

DIT_INTERNAL const char *diti_spirv_name(uint32_t module) {
    return module < diti_spirv_count() ? diti_spirv_table()[module].name : "?";
}

DIT_INTERNAL bool diti_spirv_find(const char *name, uint32_t *module) {
    const diti_spirv_module *table = diti_spirv_table();
    uint32_t i;
    for (i = 0; table[i].name; i++) {
        if (!diti_equal(table[i].name, name)) continue;
        *module = i;
        return true;
    }
    return false;
}

DIT_INTERNAL uint64_t diti_spirv_hash(void) {
    const diti_spirv_module *module;
    const char *const *piece;
    uint64_t parts[2] = {0, 0};
    for (module = diti_spirv_table(); module->name; module++) {
        for (piece = module->pieces; *piece; piece++) {
            parts[1] = diti_hash(*piece, strlen(*piece));
            parts[0] = diti_hash(parts, sizeof parts);
        }
    }
    return parts[0];
}

DIT_INTERNAL dit_result diti_spirv_decode(const diti_env *env, uint32_t module, uint32_t **words, size_t *count,
                                          dit_error *err) {
    const diti_spirv_module *entry;
    diti_spirv_reader reader = DITI_ZERO;
    uint32_t *out, i;
    *words = NULL;
    *count = 0;
    if (module >= diti_spirv_count()) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "no SPIR-V module %u", module);
    entry = &diti_spirv_table()[module];
    out = (uint32_t *)diti_alloc_array(env, entry->word_count, sizeof *out);
    if (!out) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no memory to decode SPIR-V module %s", entry->name);
    reader.piece = entry->pieces;
    reader.at = *entry->pieces;
    for (i = 0; i < entry->word_count; i++) {
        if (diti_spirv_word(&reader, &out[i])) continue;
        diti_free(env, out);
        return diti_fail(err, DIT_ERROR_BAD_FILE, "embedded SPIR-V module %s is damaged at word %u", entry->name, i);
    }
    *words = out;
    *count = entry->word_count;
    return DIT_OK;
}

/* ======== src/graph/graph.h (edit it there; dit.h is generated) ======== */
/* graph: tensors, ops, and the plan that fixes memory, splits work into slices, records command buffers once and
   replays them.

   Everything a model computes is a matrix [rows, columns]: tokens or pixels are rows (batch items one after the other),
   channels are columns. Ops append dispatches to the graph's current segment; the first error sticks to the graph and
   later ops do nothing, so that a block reads like its formula. diti_plan_create then turns the whole graph into
   recorded work. */
#ifndef DITI_GRAPH_H
#define DITI_GRAPH_H

typedef enum diti_element { DITI_F32, DITI_F16, DITI_U32 } diti_element;
DIT_INTERNAL uint32_t diti_element_size(diti_element element);

/* --- weights: already on the device, packed as stored. rows = outputs, columns = inputs (convolutions: Cin*kh*kw) ---
 */
typedef struct diti_weight_part { /* rows [first_row, first_row + rows) */
    const diti_buffer *buffer;
    VkDeviceSize offset; /* bytes, multiple of 16 */
    uint32_t first_row, rows;
} diti_weight_part;
#define DITI_MAX_WEIGHT_PARTS 64u
typedef struct diti_weight {
    const char *name; /* for messages; owned by the model */
    dit_type type;    /* vectors and small tables are always F32 on the device */
    uint32_t rows, columns;
    uint32_t kernel;     /* convolution kernel size: columns are (Cin, kernel, kernel); 1 for linear layers */
    uint32_t part_count; /* 0: the model has no such weight (an absent bias) */
    diti_weight_part parts[DITI_MAX_WEIGHT_PARTS];
} diti_weight;

/* --- loading weights: from a checkpoint to device memory, in the order asked for, so that what is asked for in a row
   (q, k, v) lies in a row. Asking only notes shapes and places; diti_loader_finish makes the memory and uploads. The
   first error sticks. --- */
typedef struct diti_weight_block {
    diti_buffer buffer;
    VkDeviceSize used;
} diti_weight_block;
typedef struct diti_weights { /* the memory behind a component's weights */
    diti_weight_block **blocks;
    size_t block_count, block_capacity;
    char **names; /* what diti_weight.name points at */
    size_t name_count, name_capacity;
    uint64_t bytes, parameters;
} diti_weights;
typedef struct diti_loader {
    diti_device *device; /* NULL: dry run, only shapes and sizes */
    const diti_env *env;
    const diti_checkpoint *checkpoint;
    const char *prefix; /* in front of every stored name */
    char scope[128];    /* in front of every name asked for: "transformer_blocks.3." */
    const char *(*rename)(void *user, const char *name, char *out,
                          size_t size); /* from the names asked for to stored ones; NULL: the same */
    void *user;
    const char *what; /* for progress: "transformer" */
    const dit_progress *progress;
    dit_error error;
    diti_weights weights;
    struct diti_upload *uploads;
    size_t upload_count, upload_capacity;
} diti_loader;
/* prefix, checkpoint and progress must outlive the loader. Set rename and user afterwards where needed. */
DIT_INTERNAL void diti_loader_begin(diti_loader *loader, diti_device *device, const diti_env *env,
                                    const diti_checkpoint *checkpoint, const char *prefix, const char *what,
                                    const dit_progress *progress);
DIT_INTERNAL void diti_loader_scope(diti_loader *loader, const char *format, ...) DITI_PRINTF(2, 3); /* "" ends it */
DIT_INTERNAL const diti_stored_tensor *diti_loader_find(diti_loader *loader, const char *name); /* NULL when absent */
/* How many names before0after, before1after, ... exist. */
DIT_INTERNAL uint32_t diti_loader_count(diti_loader *loader, const char *before, const char *after);
/* One number of a tensor's shape; 0 where there is no such tensor or dimension, or it is absurd. */
DIT_INTERNAL uint32_t diti_loader_dimension(diti_loader *loader, const char *name, uint32_t index);
/* A matrix in its stored type; shape [rows, columns] is checked. Convolutions: columns = Cin*kernel*kernel, shape
   [rows, Cin, kernel, kernel]; a 1x1 convolution is a matrix. */
DIT_INTERNAL void diti_load_matrix(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   uint32_t kernel, const char *name);
/* Any stored float type, converted to F32 on the device, rows * columns values (biases: 1 x N), always one part. */
DIT_INTERNAL void diti_load_vector(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   const char *name);
/* out = out's rows, then more's. false, and nothing done, where that can't be: other types or columns, too many parts;
 * vectors must lie side by side. */
DIT_INTERNAL bool diti_weight_append(const diti_loader *loader, diti_weight *out, const diti_weight *more);
/* DIT_CANCELLED when progress said so; whatever is not DIT_OK frees everything. A dry run leaves bytes and parameters
 * in out. */
DIT_INTERNAL dit_result diti_loader_finish(diti_loader *loader, diti_weights *out, dit_error *err);
DIT_INTERNAL void diti_weights_free(diti_device *device, const diti_env *env, diti_weights *weights);

typedef struct diti_layer {
    diti_weight weight, bias;
} diti_layer;
/* NAME.weight and NAME.bias: linear layers and convolutions. */
DIT_INTERNAL void diti_load_layer(diti_loader *loader, diti_layer *out, uint32_t rows, uint32_t columns,
                                  uint32_t kernel, const char *name);
/* NAME.weight and NAME.bias of a norm with affine: vectors. */
DIT_INTERNAL void diti_load_norm(diti_loader *loader, diti_layer *out, uint32_t columns, const char *name);
/* Up to three layers on one input (q, k, v), as one matrix where types and places allow it, else one by one
 * (diti_linear_joined). */
typedef struct diti_joined {
    diti_layer layers[3];
    uint32_t count;
} diti_joined;
DIT_INTERNAL void diti_load_joined(diti_loader *loader, diti_joined *out, const char *const *names, uint32_t count,
                                   uint32_t rows, uint32_t columns, bool biased);
/* The stored name that belongs to name: the longest row of pairs (asked for, stored) that name begins with, up to a dot
   or its end, gives its start. NULL when no row fits or size is too small. */
DIT_INTERNAL const char *diti_rename(const char *const (*pairs)[2], size_t count, const char *name, char *out,
                                     size_t size);

/* --- tensors --- */
typedef uint32_t diti_tensor; /* index into the graph; 0 is "none" */
typedef enum diti_storage {
    DITI_STORAGE_ARENA, /* lives from its first write to its last read; memory is shared with others */
    DITI_STORAGE_STATE, /* keeps its content over the whole plan (latents, solver history); segment 0 starts by zeroing
                           it */
    DITI_STORAGE_INPUT, /* written by the host before a run (diti_plan_write), copied to the device by the first segment
                         */
    DITI_STORAGE_WEIGHT /* a part of a weight */
} diti_storage;
typedef struct diti_tensor_info {
    char name[48];
    diti_storage storage;
    diti_element format;
    uint32_t rows, columns;
    uint32_t pitch;               /* elements from row to row; multiple of 4 for tensors the graph makes */
    diti_tensor parent;           /* views: the tensor whose memory this is; else itself */
    uint64_t first;               /* views: element offset inside the parent */
    uint64_t bytes;               /* of a parent: rows * pitch * element size */
    const diti_weight_part *part; /* DITI_STORAGE_WEIGHT */
    uint32_t first_use, last_use; /* dispatch indices, set by the ops, widened by the planner for repeated segments */
    uint32_t block;               /* planner: which arena block */
    VkDeviceSize offset;          /* planner: byte offset in its block */
} diti_tensor_info;

/* --- dispatches ---
   Kernels number their workgroups on x only; word 0 of the push constants is the number of the first one, so that any
   range of workgroups is a valid slice with the same result. Element offsets of bindings are push constants too, so
   that a slice may bind only the part of a large tensor that it touches. */
typedef struct diti_binding {
    diti_tensor tensor;
    bool reads, writes;
    uint8_t offset_word; /* push constant word with the element offset of the tensor's first element in the binding;
                            filled by the planner */
    uint8_t
        element_bytes; /* unit of that offset: 4 for packed weights (the kernel reads words) and F32/U32, 2 for F16 */
    /* What workgroups [g0, g1) touch: elements from (g0 / group_div) * group_step - before to ((g1 - 1) / group_div +
       1) * group_step + after of the tensor. group_step 0: the whole tensor, whatever the slice. */
    uint32_t group_div;
    uint64_t group_step, before, after;
} diti_binding;
typedef enum diti_cost_kind {
    DITI_COST_GEMM,
    DITI_COST_ATTENTION,
    DITI_COST_CONV,
    DITI_COST_MEMORY,
    DITI_COST_KINDS
} diti_cost_kind;
typedef struct diti_dispatch {
    const char *name; /* static text, e.g. "gemm" */
    uint32_t module;
    uint32_t constants[DITI_MAX_CONSTANTS];
    uint32_t constant_count;
    uint32_t push[DITI_PUSH_WORDS];
    uint32_t push_count;                      /* words, word 0 included */
    diti_binding bindings[DITI_MAX_BINDINGS]; /* binding i of set 0; tensor 0: unused */
    uint32_t binding_count;
    uint32_t groups;      /* workgroups on x */
    uint32_t group_align; /* slices start at multiples of this many workgroups; 0 and 1: anywhere */
    diti_cost_kind cost_kind;
    double flops, memory_bytes; /* for slices, progress and traces */
    uint32_t segment;
} diti_dispatch;

/* --- the graph --- */
typedef struct diti_segment {
    char name[32];         /* "encode", "step", "decode"… */
    uint32_t first, count; /* dispatches */
    bool repeated;         /* replayed many times: what it reads from earlier segments stays alive to its end */
} diti_segment;
typedef struct diti_graph {
    diti_device *device;
    dit_error error;           /* sticky: the first failure */
    diti_tensor_info *tensors; /* [0] is unused */
    size_t tensor_count, tensor_capacity;
    diti_dispatch *dispatches;
    size_t dispatch_count, dispatch_capacity;
    diti_segment segments[16];
    uint32_t segment_count;
    const dit_worker *worker; /* lends a thread for compiling pipelines; NULL: none */
    diti_element activation;  /* format of activations: F16 on rungs that have it, else F32 */
} diti_graph;

DIT_INTERNAL void diti_graph_init(diti_graph *graph, diti_device *device);
DIT_INTERNAL void diti_graph_free(diti_graph *graph);
DIT_INTERNAL bool diti_graph_failed(const diti_graph *graph);
/* Keeps the first failure; returns 0 so that ops can `return diti_graph_fail(...)`. */
DIT_INTERNAL diti_tensor diti_graph_fail(diti_graph *graph, dit_result result, const char *format, ...)
    DITI_PRINTF(3, 4);
/* Starts the next segment; its number counts from 0. */
DIT_INTERNAL uint32_t diti_graph_segment(diti_graph *graph, const char *name, bool repeated);
DIT_INTERNAL diti_tensor diti_tensor_new(diti_graph *graph, diti_element format, uint32_t rows, uint32_t columns,
                                         const char *name);
DIT_INTERNAL diti_tensor diti_tensor_state(diti_graph *graph, diti_element format, uint32_t rows, uint32_t columns,
                                           const char *name);
DIT_INTERNAL diti_tensor diti_tensor_input(diti_graph *graph, diti_element format, uint32_t rows, uint32_t columns,
                                           const char *name);
/* rows x columns of tensor from (row, column) on: the same memory. */
DIT_INTERNAL diti_tensor diti_tensor_view(diti_graph *graph, diti_tensor tensor, uint32_t row, uint32_t rows,
                                          uint32_t column, uint32_t columns);
/* The same elements as [rows, columns], for tensors without padding (pitch equals columns). */
DIT_INTERNAL diti_tensor diti_tensor_reshape(diti_graph *graph, diti_tensor tensor, uint32_t rows, uint32_t columns);
/* Part of a weight as a tensor for bindings: [rows, columns] elements for F32/F16 weights, opaque words for packed
 * ones. */
DIT_INTERNAL diti_tensor diti_tensor_weight(diti_graph *graph, const diti_weight *weight, uint32_t part);
DIT_INTERNAL const diti_tensor_info *diti_tensor_get(const diti_graph *graph, diti_tensor tensor);
/* Appends a copy of dispatch; widens the life of what it binds. */
DIT_INTERNAL void diti_graph_dispatch(diti_graph *graph, const diti_dispatch *dispatch);

/* --- inside the room: how ops fill a dispatch (ops.c) --- */
/* Zeroes dispatch; false when the graph has failed already or the shader is missing. constants[0] is the workgroup's
 * size. */
DIT_INTERNAL bool diti_op_begin(diti_graph *graph, diti_dispatch *dispatch, const char *name, const char *module,
                                uint32_t group_size);
/* Binding `index`: exactly the memory of tensor, its element offset in push word `word`. Tensor 0 is skipped. */
DIT_INTERNAL void diti_op_bind(const diti_graph *graph, diti_dispatch *dispatch, uint32_t index, diti_tensor tensor,
                               uint8_t word, bool reads, bool writes);
/* Every `div` workgroups of that binding touch the next `rows` rows, from `before` rows earlier to `after` rows later.
 */
DIT_INTERNAL void diti_op_bind_rows(const diti_graph *graph, diti_dispatch *dispatch, uint32_t index, uint32_t div,
                                    uint64_t rows, uint64_t before, uint64_t after);
/* Appends the dispatch; groups is 64-bit so that too large a count is caught here. */
DIT_INTERNAL void diti_op_emit(diti_graph *graph, diti_dispatch *dispatch, uint64_t groups, uint32_t push_count);
/* Rows can be read four elements at a time (the last few of a row one by one, where columns is no multiple of 4). */
DIT_INTERNAL bool diti_op_aligned(const diti_graph *graph, diti_tensor tensor);
/* Aligned, and columns is a multiple of 4; 0 is. */
DIT_INTERNAL bool diti_op_vector(const diti_graph *graph, diti_tensor tensor);
/* tensor itself, or an aligned copy. */
DIT_INTERNAL diti_tensor diti_op_align(diti_graph *graph, diti_tensor tensor, const char *name);
DIT_INTERNAL uint32_t diti_op_float(float value); /* its bits, for push constants */
/* Fails the graph unless tensor is [rows, columns] of floats that kernels can write four (F16: two) at a time. */
DIT_INTERNAL bool diti_op_writable(diti_graph *graph, diti_tensor tensor, uint32_t rows, uint32_t columns,
                                   const char *name);
/* An F32 vector [1, columns] (a bias, a norm's weight) as a tensor; 0 when absent or the graph failed. */
DIT_INTERNAL diti_tensor diti_op_vector_weight(diti_graph *graph, const diti_weight *weight, uint32_t columns,
                                               const char *name);
/* Rows [first, first + rows) of a weight's part as [rows, columns] elements whose pitch is a multiple of 4: the weight
   itself where it is F32 or F16 and allows it, else expanded (ops_expand.c); convolutions become (k, k, Cin). */
DIT_INTERNAL diti_tensor diti_op_expand(diti_graph *graph, const diti_weight *weight, uint32_t part, uint32_t first,
                                        uint32_t rows, const char *name);
/* How many rows to expand at a time. */
DIT_INTERNAL uint32_t diti_op_expand_rows(const diti_graph *graph, const diti_weight *weight, uint32_t part);
/* A GEMM with its epilogue (ops_gemm.c); image: a convolution's geometry, or NULL. */
typedef struct diti_gemm_image {
    uint32_t height, width, out_height, out_width; /* height and width after upsampling */
    uint32_t kernel, stride, pad, upsample;
} diti_gemm_image;
typedef struct diti_gemm {
    diti_tensor x, weight; /* weight [N, taps * K padded to 4] */
    diti_tensor bias, multiply, gate, residual, out;
    uint32_t activation; /* diti_activation */
    uint32_t rows, columns, depth, rows_per_gate;
    const diti_gemm_image *image;
    const char *name;
} diti_gemm;
DIT_INTERNAL void diti_op_gemm(diti_graph *graph, const diti_gemm *gemm);

/* ================= ops: each creates its output unless told where to write ================= */

typedef enum diti_activation {
    DITI_ACTIVATION_NONE,
    DITI_ACTIVATION_GELU_TANH,
    DITI_ACTIVATION_GELU_ERF,
    DITI_ACTIVATION_SILU,
    DITI_ACTIVATION_QUICK_GELU
} diti_activation;

/* out[r, n] = residual[r, n] + gate[r / rows_per_gate, n] * (multiply[r, n] * activation(sum_k x[r, k] * weight[n, k] +
 * bias[n])) ; absent parts drop out. */
typedef struct diti_linear_desc {
    const diti_weight *bias; /* F32 [N]; NULL or part_count 0: none */
    diti_activation activation;
    diti_tensor multiply;   /* [rows, N] activation format: the other half of a GLU */
    diti_tensor gate;       /* F32 [groups, N] (or a view of columns of a modulation table) */
    uint32_t rows_per_gate; /* rows that share one gate row; 0: all */
    diti_tensor residual;   /* F32 [rows, N] */
    diti_tensor out;        /* write here (may equal residual); 0: a new tensor */
    bool out_f32;           /* new tensors: F32 instead of the activation format */
    const char *name;
} diti_linear_desc;
/* x [rows, K] F32 or activation format, weight [N, K] of any type. Chooses GEMV for few rows, expands packed weights
 * chunk by chunk. */
DIT_INTERNAL diti_tensor diti_linear(diti_graph *graph, diti_tensor x, const diti_weight *weight,
                                     const diti_linear_desc *desc);
/* All rows of joined in one tensor [rows, N0 + N1 + N2]; of desc only activation, out, out_f32 and name. */
DIT_INTERNAL diti_tensor diti_linear_joined(diti_graph *graph, diti_tensor x, const diti_joined *joined,
                                            const diti_linear_desc *desc);

/* LayerNorm or RMSNorm over columns (models.md 1), then affine, then x * (1 + scale) + shift with rows of F32 tables.
 */
typedef struct diti_norm_desc {
    bool rms;
    float eps;
    const diti_weight *weight, *bias; /* F32 [columns]; NULL: no affine */
    diti_tensor scale, shift;         /* F32 [groups, columns] (views of a modulation table); 0: none */
    uint32_t rows_per_group;          /* 0: all rows share one row of the tables */
    bool out_f32;
    const char *name;
} diti_norm_desc;
DIT_INTERNAL diti_tensor diti_norm(diti_graph *graph, diti_tensor x, const diti_norm_desc *desc);

/* softmax(scale * q k^T + bias + mask) v, per batch item and head; never an N x N buffer. q, k, v: views [batch *
 * tokens, heads * head_dim] with any pitch. */
typedef struct diti_attention_desc {
    uint32_t batch, heads, head_dim; /* head_dim <= 512 */
    float scale;
    diti_tensor key_lengths; /* U32 [1, batch]: keys beyond it are masked; 0 keys give 0; none: all keys */
    diti_tensor bias; /* F32 [heads, query_tokens + key_tokens - 1], element j - i + query_tokens - 1 (T5); none */
    diti_tensor lse;  /* F32 [batch * query_tokens, heads]: natural log of the sum of exponentials of the scaled scores;
                         0: not wanted */
    const char *name;
} diti_attention_desc;
DIT_INTERNAL diti_tensor diti_attention(diti_graph *graph, diti_tensor q, diti_tensor k, diti_tensor v,
                                        const diti_attention_desc *desc);

/* In place on the q or k columns of a QKV tensor: per-head RMS or LayerNorm, then rotary embedding (models.md 2.5). */
typedef enum diti_qkv_norm { DITI_QKV_NO_NORM, DITI_QKV_RMS, DITI_QKV_LAYER } diti_qkv_norm;
typedef struct diti_qkv_desc {
    uint32_t heads, head_dim;
    diti_qkv_norm norm;
    float eps;
    const diti_weight *weight, *bias; /* F32 [head_dim] */
    diti_tensor cosines, sines;       /* F32 [tokens, head_dim / 2]; 0: no rotation */
    bool half_split;                  /* pairs (i, i + d/2) instead of (2i, 2i + 1) */
    uint32_t tokens;                  /* rows per batch item: row r uses table row r % tokens */
    const char *name;
} diti_qkv_desc;
DIT_INTERNAL DITI_UNUSED void diti_qkv_post(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc);

/* Rows of a weight by index: ids U32 [1, count]; out F32 [count, columns]. */
DIT_INTERNAL diti_tensor diti_gather_rows(diti_graph *graph, const diti_weight *table, diti_tensor ids,
                                          const char *name);

/* y[r, c] = activation(x) + addend: addend F32 row r % addend_rows; formats may differ (also the format conversion op).
 */
typedef struct diti_elementwise_desc {
    diti_activation activation;
    float scale, offset; /* applied first: activation(x * scale + offset); scale 0 means 1 */
    diti_tensor add;     /* F32 [any, columns], repeated over rows; 0: none */
    diti_tensor out;
    bool out_f32;
    const char *name;
} diti_elementwise_desc;
DIT_INTERNAL diti_tensor diti_elementwise(diti_graph *graph, diti_tensor x, const diti_elementwise_desc *desc);

/* Copies row `*step` of table (F32 [steps, columns]) to out (F32 [1, columns], a state or arena tensor it creates when
 * 0). step: U32 [1,1] state. */
DIT_INTERNAL diti_tensor diti_select_row(diti_graph *graph, diti_tensor table, diti_tensor step, const char *name);
DIT_INTERNAL void diti_advance_step(diti_graph *graph,
                                    diti_tensor step); /* *step += 1, the last op of a repeated segment */

/* Latents are planar: F32 [batch * C, h * w]. Patches (models.md 2.6): out [copies * batch * (h/p) * (w/p), C*p*p],
   column (c, dy, dx), times *input when given (F32 [1, 1], the schedule's input scale); copies 2 repeats the batch for
   guidance. */
DIT_INTERNAL diti_tensor diti_patchify(diti_graph *graph, diti_tensor latent, uint32_t batch, uint32_t channels,
                                       uint32_t height, uint32_t width, uint32_t patch, uint32_t copies,
                                       diti_tensor input);
/* tokens [batch * (h/p) * (w/p), p*p*out_channels] with column (dy, dx, c) -> F32 planar [batch * channels, h*w] of the
 * first `channels` channels. */
DIT_INTERNAL diti_tensor diti_unpatchify(diti_graph *graph, diti_tensor tokens, uint32_t batch, uint32_t channels,
                                         uint32_t out_channels, uint32_t height, uint32_t width, uint32_t patch);
/* Planar F32 [batch * C, h*w] -> rows [batch * h*w, C] (activation format), value * scale + shift. */
DIT_INTERNAL diti_tensor diti_planar_to_rows(diti_graph *graph, diti_tensor planar, uint32_t batch, uint32_t channels,
                                             float scale, float shift);

/* The solver step of sample/sample.h, with guidance: prediction planar F32 [(1 or 2) * batch * C, h*w] (unconditional
   half first). coefficients: F32 [1, 12] = (x0_x, x0_m, clip, x_x, x_m, d0, d1, d2, noise, guidance, step number from 1
   on, 0). x, h1, h2 (states like x) are updated in place; x0 is written to `x0` when not 0. health: U32 [1, 4] state;
   word 0 becomes the number of the first step whose prediction or new latent is not finite. */
typedef struct diti_solver_desc {
    diti_tensor x, h1, h2, x0, noise, coefficients, health;
    bool guided;
} diti_solver_desc;
DIT_INTERNAL void diti_solver_step(diti_graph *graph, diti_tensor prediction, const diti_solver_desc *desc);

/* Convolution on rows [batch * h*w, Cin]: kernel 1 or 3, stride 1 or 2. out [batch * oh*ow, Cout]. */
typedef struct diti_conv_desc {
    uint32_t batch, height, width; /* of the input */
    uint32_t stride;
    uint32_t pad_before,
        pad_after; /* zeros on top/left and bottom/right (models.md 4.1: encoder downsampling pads 0 and 1) */
    bool upsample; /* nearest x2 of the input first, on the fly */
    const diti_weight *bias;
    diti_tensor residual; /* [out rows, Cout], any float format */
    bool out_f32;
    const char *name;
} diti_conv_desc;
DIT_INTERNAL diti_tensor diti_conv2d(diti_graph *graph, diti_tensor x, const diti_weight *weight,
                                     const diti_conv_desc *desc);

/* GroupNorm over rows [batch * pixels, C] (models.md 1), optionally followed by SiLU. */
typedef struct diti_group_norm_desc {
    uint32_t batch, groups;
    float eps;
    const diti_weight *weight, *bias; /* F32 [C] */
    bool silu;
    const char *name;
} diti_group_norm_desc;
DIT_INTERNAL diti_tensor diti_group_norm(diti_graph *graph, diti_tensor x, const diti_group_norm_desc *desc);

/* rows [pixels, >= 3] in -1..1 -> packed RGBA8 words U32 [1, pixels] in `rgba` (swap: BGRA), and planar F32 [3, pixels]
   mapped to 0..1 but not clamped in `rgb` (models.md 4.1); either may be 0. Non-finite values set word 2 of health. */
DIT_INTERNAL void diti_image_out(diti_graph *graph, diti_tensor rows, diti_tensor rgba, diti_tensor rgb, bool swap,
                                 diti_tensor health);

/* ================= the plan ================= */
typedef struct diti_plan_block { /* memory that tensors share by offset */
    diti_storage storage;
    VkDeviceSize size;
    diti_buffer buffer;
    diti_buffer staging; /* DITI_STORAGE_INPUT: what the host writes and segment 0 copies */
} diti_plan_block;
typedef struct diti_plan_dispatch { /* one slice of a dispatch, ready to record */
    uint32_t source;                /* index of its dispatch */
    uint32_t first_group, groups;
    uint32_t push[DITI_PUSH_WORDS];
    VkDescriptorSet set;
    VkPipeline pipeline;
    float us;     /* predicted */
    bool barrier; /* depends on something recorded since the last barrier */
} diti_plan_dispatch;
typedef struct diti_plan_slice {    /* one command buffer */
    uint32_t segment, first, count; /* of plan dispatches */
    float us;                       /* predicted, then measured */
    float planned_us;               /* predicted */
    bool measured;
    VkCommandBuffer primary, secondary;
} diti_plan_slice;
typedef struct diti_plan {
    diti_device *device;
    diti_segment segments[16]; /* first and count are those of slices */
    uint32_t segment_count;
    diti_tensor_info *tensors;
    size_t tensor_count;
    diti_plan_block *blocks;
    size_t block_count, block_capacity;
    diti_dispatch *sources;
    size_t source_count;
    diti_plan_dispatch *dispatches;
    size_t dispatch_count, dispatch_capacity;
    diti_plan_slice *slices;
    size_t slice_count, slice_capacity;
    VkDescriptorPool descriptors;
    VkCommandPool commands;
    VkQueryPool queries; /* two timestamps per slice; VK_NULL_HANDLE where the queue has none */
    VkSemaphore timeline;
    uint64_t submitted;     /* newest timeline value */
    uint64_t pending_value; /* newest submission whose timestamps were not read yet; 0: none */
    uint32_t pending_slice;
    uint32_t last_slice_us;
    dit_counters counters;
} diti_plan;
typedef struct diti_plan_memory {
    VkDeviceSize activations, inputs;
    uint32_t blocks;
} diti_plan_memory;
/* The steps of diti_plan_create, one file each: arena.c, slice.c, record.c. */
DIT_INTERNAL dit_result diti_plan_assign_memory(diti_graph *graph, diti_plan *plan, dit_error *err);
DIT_INTERNAL dit_result diti_plan_make_slices(diti_plan *plan, const diti_graph *graph, dit_error *err);
DIT_INTERNAL dit_result diti_plan_write_sets(diti_plan *plan, dit_error *err);
DIT_INTERNAL dit_result diti_plan_record_primaries(diti_plan *plan, dit_error *err);
/* What diti_plan_create would allocate, without allocating. */
DIT_INTERNAL dit_result diti_plan_measure(diti_graph *graph, diti_plan_memory *out, dit_error *err);
/* Takes the graph's dispatches (the graph may be freed afterwards): assigns memory, compiles missing pipelines, writes
 * descriptor sets. */
DIT_INTERNAL dit_result diti_plan_create(diti_graph *graph, const dit_progress *progress, diti_plan **out,
                                         dit_error *err);
DIT_INTERNAL void diti_plan_destroy(diti_plan *plan); /* waits for its own submissions */
/* Sets an input's content ([rows, columns] tightly packed); reaches the device when segment 0 runs. */
DIT_INTERNAL dit_result diti_plan_write(diti_plan *plan, diti_tensor input, const void *data, size_t size,
                                        dit_error *err);
/* Reads a state or (still living) tensor tightly packed, waiting for submitted work. */
DIT_INTERNAL dit_result diti_plan_read(diti_plan *plan, diti_tensor tensor, void *data, size_t size, dit_error *err);
DIT_INTERNAL VkBuffer diti_plan_buffer(const diti_plan *plan, diti_tensor tensor, VkDeviceSize *offset,
                                       VkDeviceSize *size); /* for copies into images */
/* Slices of a segment, in order; each is one pre-recorded command buffer whose cost is at most about max_dispatch_us.
 */
DIT_INTERNAL uint32_t diti_plan_slice_count(const diti_plan *plan, uint32_t segment);
DIT_INTERNAL float diti_plan_slice_us(const diti_plan *plan, uint32_t segment,
                                      uint32_t slice); /* predicted, corrected by timestamps */
DIT_INTERNAL float
diti_plan_slice_planned_us(const diti_plan *plan, uint32_t segment,
                           uint32_t slice);              /* as first predicted: for progress that never jumps back */
DIT_INTERNAL void diti_plan_wait(const diti_plan *plan); /* for everything submitted; NULL is fine */
DIT_INTERNAL dit_result diti_plan_submit(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *value,
                                         dit_error *err); /* value of the plan's timeline when it is done */
DIT_INTERNAL void diti_plan_execute(diti_plan *plan, uint32_t segment, uint32_t slice,
                                    VkCommandBuffer commands); /* into the application's command buffer */
DIT_INTERNAL dit_result diti_plan_prepare_secondaries(diti_plan *plan,
                                                      dit_error *err); /* once, before the first diti_plan_execute */
DIT_INTERNAL void diti_plan_learn(diti_plan *plan); /* takes over the timestamps of the newest finished slice */
/* Submits other commands in the plan's order, on its timeline. */
DIT_INTERNAL dit_result diti_plan_submit_commands(diti_plan *plan, VkCommandBuffer commands, uint64_t *value,
                                                  dit_error *err);
DIT_INTERNAL VkSemaphore diti_plan_timeline(const diti_plan *plan);
DIT_INTERNAL uint32_t diti_plan_last_slice_us(const diti_plan *plan);
DIT_INTERNAL void diti_plan_counters(const diti_plan *plan, dit_counters *out);
/* Submits all slices of segments [first, first + count) once, in order, and waits: tests, encoders, one-off work. */
DIT_INTERNAL dit_result diti_plan_run(diti_plan *plan, uint32_t first, uint32_t count, dit_error *err);
#endif

/* ======== src/graph/weights.c (edit it there; dit.h is generated) ======== */

/* Loading is asked for tensor by tensor and done at the end: by then the layout is known, so that every block of device
   memory has exactly the size it needs, wrong shapes are found before anything is uploaded, and progress knows its
   total. */

#define DITI_WEIGHT_ALIGN 16u

struct diti_upload {
    const diti_stored_tensor *tensor;
    uint64_t offset, size; /* stored bytes */
    uint32_t floats;       /* not 0: the whole tensor, converted to so many F32 */
    diti_weight_block *block;
    VkDeviceSize target;
};

static void diti_loader_fail_memory(diti_loader *loader) {
    diti_fail(&loader->error, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory while loading %s", loader->what);
}

DIT_INTERNAL void diti_loader_begin(diti_loader *loader, diti_device *device, const diti_env *env,
                                    const diti_checkpoint *checkpoint, const char *prefix, const char *what,
                                    const dit_progress *progress) {
    memset(loader, 0, sizeof *loader);
    loader->device = device;
    loader->env = env;
    loader->checkpoint = checkpoint;
    loader->prefix = prefix ? prefix : "";
    loader->what = what;
    loader->progress = progress && progress->func ? progress : NULL;
}

DIT_INTERNAL void diti_loader_scope(diti_loader *loader, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(loader->scope, sizeof loader->scope, format, args);
    va_end(args);
}

/* What the file calls it; false when that is longer than any name in a file that is read. */
static bool diti_loader_name(const diti_loader *loader, const char *name, char *out, size_t size) {
    char asked[256], renamed[256];
    const char *stored = asked;
    if (!diti_format(asked, sizeof asked, "%s%s", loader->scope, name)) return false;
    if (loader->rename) stored = loader->rename(loader->user, asked, renamed, sizeof renamed);
    return stored && diti_format(out, size, "%s%s", loader->prefix, stored);
}

DIT_INTERNAL const diti_stored_tensor *diti_loader_find(diti_loader *loader, const char *name) {
    char stored[512];
    if (!diti_loader_name(loader, name, stored, sizeof stored)) return NULL;
    return diti_checkpoint_find(loader->checkpoint, stored);
}

DIT_INTERNAL uint32_t diti_loader_count(diti_loader *loader, const char *before, const char *after) {
    char name[200];
    uint32_t count = 0;
    while (count < UINT16_MAX && diti_format(name, sizeof name, "%s%u%s", before, (unsigned)count, after) &&
           diti_loader_find(loader, name)) {
        count++;
    }
    return count;
}

DIT_INTERNAL uint32_t diti_loader_dimension(diti_loader *loader, const char *name, uint32_t index) {
    const diti_stored_tensor *tensor = diti_loader_find(loader, name);
    if (!tensor || index >= tensor->rank || tensor->shape[index] > (1u << 24)) return 0;
    return (uint32_t)tensor->shape[index];
}

static const diti_stored_tensor *diti_loader_expect(diti_loader *loader, const char *name) {
    const diti_stored_tensor *tensor;
    char stored[512];
    if (loader->error.result < 0) return NULL;
    tensor = diti_loader_find(loader, name);
    if (tensor) return tensor;
    if (!diti_loader_name(loader, name, stored, sizeof stored)) diti_format(stored, sizeof stored, "%s", name);
    diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: tensor %.200s is missing",
              diti_checkpoint_name(loader->checkpoint), stored);
    return NULL;
}

static void diti_shape_text(const uint64_t *shape, uint32_t rank, char *out, size_t size) {
    size_t used = 0;
    uint32_t i;
    out[0] = 0;
    for (i = 0; i < rank && used + 24 < size; i++) {
        snprintf(out + used, size - used, "%s%llu", i ? ", " : "", (unsigned long long)shape[i]);
        used += strlen(out + used);
    }
}

static bool diti_loader_fail_shape(diti_loader *loader, const diti_stored_tensor *tensor, const uint64_t *expected,
                                   uint32_t rank) {
    char found[128], wanted[128];
    diti_shape_text(tensor->shape, tensor->rank, found, sizeof found);
    diti_shape_text(expected, rank, wanted, sizeof wanted);
    diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: tensor %.160s has shape [%s], expected [%s]",
              diti_checkpoint_name(loader->checkpoint), tensor->name, found, wanted);
    return false;
}

/* [rows, columns], [rows, columns, 1, 1] or [rows, columns / kernel^2, kernel, kernel]. */
static bool diti_check_matrix(diti_loader *loader, const diti_stored_tensor *tensor, uint32_t rows, uint32_t columns,
                              uint32_t kernel) {
    uint64_t expected[4];
    uint32_t i, rank = kernel > 1 ? 4u : 2u, area = kernel * kernel;
    expected[0] = rows;
    expected[1] = columns / area;
    expected[2] = expected[3] = kernel;
    if (tensor->rank != 2 && tensor->rank != 4) return diti_loader_fail_shape(loader, tensor, expected, rank);
    if (kernel > 1 && tensor->rank != 4) return diti_loader_fail_shape(loader, tensor, expected, rank);
    for (i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] != expected[i]) return diti_loader_fail_shape(loader, tensor, expected, rank);
    return true;
}

/* Leading ones don't matter: [1, N] is as good as [N] for a vector. */
static bool diti_check_vector(diti_loader *loader, const diti_stored_tensor *tensor, uint32_t rows, uint32_t columns) {
    uint64_t expected[2];
    const uint64_t *shape = tensor->shape;
    uint32_t rank = tensor->rank;
    expected[0] = rows;
    expected[1] = columns;
    while (rank > 1 && shape[0] == 1) shape++, rank--;
    if (rows == 1 && rank == 1 && shape[0] == columns) return true;
    if (rank == 2 && shape[0] == rows && shape[1] == columns) return true;
    return diti_loader_fail_shape(loader, tensor, rows == 1 ? expected + 1 : expected, rows == 1 ? 1u : 2u);
}

static VkDeviceSize diti_loader_block_limit(const diti_loader *loader) {
    return loader->device ? loader->device->limits.allocation & ~(VkDeviceSize)0xffff : UINT64_MAX / 4;
}

/* The most bytes of one part: a binding may start up to one alignment before the part. */
static VkDeviceSize diti_loader_part_limit(const diti_loader *loader) {
    VkDeviceSize block = diti_loader_block_limit(loader), range;
    if (!loader->device) return block;
    range = loader->device->limits.storage_range - loader->device->limits.storage_alignment;
    return (range < block ? range : block) & ~(VkDeviceSize)(DITI_WEIGHT_ALIGN - 1);
}

static diti_weight_block *diti_loader_new_block(diti_loader *loader) {
    diti_weights *weights = &loader->weights;
    diti_weight_block *block = (diti_weight_block *)diti_alloc_zero(loader->env, sizeof *block);
    void *array = weights->blocks;
    if (!block || !diti_grow(loader->env, &array, &weights->block_capacity, weights->block_count, sizeof block)) {
        diti_free(loader->env, block);
        diti_loader_fail_memory(loader);
        return NULL;
    }
    weights->blocks = (diti_weight_block **)array;
    weights->blocks[weights->block_count++] = block;
    return block;
}

/* Room for bytes in the newest block, or in a new one. */
static diti_weight_block *diti_loader_place(diti_loader *loader, VkDeviceSize bytes, VkDeviceSize *offset) {
    size_t count = loader->weights.block_count;
    diti_weight_block *block = count ? loader->weights.blocks[count - 1] : NULL;
    VkDeviceSize limit = diti_loader_block_limit(loader);
    bytes = (bytes + DITI_WEIGHT_ALIGN - 1) & ~(VkDeviceSize)(DITI_WEIGHT_ALIGN - 1);
    if (!block || bytes > limit || block->used > limit - bytes) block = diti_loader_new_block(loader);
    if (!block) return NULL;
    *offset = block->used;
    block->used += bytes;
    return block;
}

static bool diti_loader_add_upload(diti_loader *loader, const struct diti_upload *upload) {
    void *array = loader->uploads;
    if (!diti_grow(loader->env, &array, &loader->upload_capacity, loader->upload_count, sizeof *upload)) {
        diti_loader_fail_memory(loader);
        return false;
    }
    loader->uploads = (struct diti_upload *)array;
    loader->uploads[loader->upload_count++] = *upload;
    return true;
}

static const char *diti_loader_keep_name(diti_loader *loader, const char *name) {
    diti_weights *weights = &loader->weights;
    char *copy = diti_copy_string(loader->env, name);
    void *array = weights->names;
    if (!copy || !diti_grow(loader->env, &array, &weights->name_capacity, weights->name_count, sizeof copy)) {
        diti_free(loader->env, copy);
        diti_loader_fail_memory(loader);
        return "";
    }
    weights->names = (char **)array;
    return weights->names[weights->name_count++] = copy;
}

static void diti_loader_start_weight(diti_loader *loader, diti_weight *out, const diti_stored_tensor *tensor,
                                     dit_type type, uint32_t rows, uint32_t columns) {
    out->name = diti_loader_keep_name(loader, tensor->name);
    out->type = type;
    out->rows = rows;
    out->columns = columns;
    out->kernel = 1;
    loader->weights.parameters += (uint64_t)rows * columns;
}

/* Places rows [first, first + rows) of a stored matrix as one part. */
static void diti_loader_add_part(diti_loader *loader, diti_weight *out, const diti_stored_tensor *tensor,
                                 uint32_t first, uint32_t rows, uint64_t row_bytes) {
    struct diti_upload upload = DITI_ZERO;
    diti_weight_part *part = &out->parts[out->part_count];
    upload.tensor = tensor;
    upload.offset = first * row_bytes;
    upload.size = rows * row_bytes;
    upload.block = diti_loader_place(loader, upload.size, &upload.target);
    if (!upload.block || !diti_loader_add_upload(loader, &upload)) return;
    part->buffer = &upload.block->buffer;
    part->offset = upload.target;
    part->first_row = first;
    part->rows = rows;
    out->part_count++;
}

static bool diti_loader_is_matrix_type(dit_type type) { return type >= DIT_TYPE_F32 && type <= DIT_TYPE_Q6_K; }

DIT_INTERNAL void diti_load_matrix(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   uint32_t kernel, const char *name) {
    const diti_stored_tensor *tensor = diti_loader_expect(loader, name);
    uint64_t row_bytes, most;
    uint32_t first, count;
    memset(out, 0, sizeof *out);
    if (!tensor || !diti_check_matrix(loader, tensor, rows, columns, kernel)) return;
    if (!diti_loader_is_matrix_type(tensor->type) || !diti_type_bytes(tensor->type, 1, columns, &row_bytes)) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL,
                  "%s: tensor %.200s: rows of %u values can't be used as %s; convert the file to another type",
                  diti_checkpoint_name(loader->checkpoint), tensor->name, columns, tensor->type_name);
        return;
    }
    most = diti_loader_part_limit(loader) / row_bytes;
    if (!most || rows / most >= DITI_MAX_WEIGHT_PARTS) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_DEVICE,
                  "%s: tensor %.200s does not fit %u parts within this device's storage buffer limit",
                  diti_checkpoint_name(loader->checkpoint), tensor->name, DITI_MAX_WEIGHT_PARTS);
        return;
    }
    diti_loader_start_weight(loader, out, tensor, tensor->type, rows, columns);
    out->kernel = kernel;
    for (first = 0; first < rows && !loader->error.result; first += count) {
        count = rows - first < most ? rows - first : (uint32_t)most;
        diti_loader_add_part(loader, out, tensor, first, count, row_bytes);
    }
}

DIT_INTERNAL void diti_load_vector(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   const char *name) {
    const diti_stored_tensor *tensor = diti_loader_expect(loader, name);
    struct diti_upload upload = DITI_ZERO;
    uint64_t count = (uint64_t)rows * columns;
    memset(out, 0, sizeof *out);
    if (!tensor || !diti_check_vector(loader, tensor, rows, columns)) return;
    if (count > diti_loader_part_limit(loader) / sizeof(float)) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_DEVICE,
                  "%s: tensor %.200s is larger than this device's storage buffer limit",
                  diti_checkpoint_name(loader->checkpoint), tensor->name);
        return;
    }
    diti_loader_start_weight(loader, out, tensor, DIT_TYPE_F32, rows, columns);
    upload.tensor = tensor;
    upload.size = tensor->size;
    upload.floats = (uint32_t)count;
    upload.block = diti_loader_place(loader, count * sizeof(float), &upload.target);
    if (!upload.block || !diti_loader_add_upload(loader, &upload)) return;
    out->parts[0].buffer = &upload.block->buffer;
    out->parts[0].offset = upload.target;
    out->parts[0].rows = rows;
    out->part_count = 1;
}

static uint64_t diti_part_bytes(const diti_weight *weight, const diti_weight_part *part) {
    uint64_t bytes = 0;
    diti_type_bytes(weight->type, part->rows, weight->columns, &bytes);
    return bytes;
}

/* Grows a's last part by b's first where b begins in memory at the byte where a ends. */
static bool diti_weight_touches(const diti_loader *loader, const diti_weight *a, const diti_weight *b) {
    const diti_weight_part *last = &a->parts[a->part_count - 1], *next = &b->parts[0];
    uint64_t bytes = diti_part_bytes(a, last);
    return last->buffer == next->buffer && last->offset + bytes == next->offset &&
           bytes + diti_part_bytes(b, next) <= diti_loader_part_limit(loader);
}

/* Vectors [1, N] grow along their only row. */
static bool diti_vector_append(const diti_loader *loader, diti_weight *out, const diti_weight *more) {
    if (out->rows != 1 || more->rows != 1 || !diti_weight_touches(loader, out, more)) return false;
    out->columns += more->columns;
    return true;
}

DIT_INTERNAL bool diti_weight_append(const diti_loader *loader, diti_weight *out, const diti_weight *more) {
    uint32_t i = 0;
    if (!out->part_count || !more->part_count || out->type != more->type || out->kernel != more->kernel) return false;
    if (out->rows == 1 && more->rows == 1 && out->type == DIT_TYPE_F32) return diti_vector_append(loader, out, more);
    if (out->columns != more->columns || out->part_count + more->part_count > DITI_MAX_WEIGHT_PARTS) return false;
    if (diti_weight_touches(loader, out, more)) out->parts[out->part_count - 1].rows += more->parts[i++].rows;
    for (; i < more->part_count; i++) {
        diti_weight_part *part = &out->parts[out->part_count++];
        *part = more->parts[i];
        part->first_row += out->rows;
    }
    out->rows += more->rows;
    return true;
}

DIT_INTERNAL void diti_load_layer(diti_loader *loader, diti_layer *out, uint32_t rows, uint32_t columns,
                                  uint32_t kernel, const char *name) {
    char full[160];
    memset(out, 0, sizeof *out);
    diti_format(full, sizeof full, "%s.weight", name);
    diti_load_matrix(loader, &out->weight, rows, columns, kernel, full);
    diti_format(full, sizeof full, "%s.bias", name);
    diti_load_vector(loader, &out->bias, 1, rows, full);
}

DIT_INTERNAL void diti_load_norm(diti_loader *loader, diti_layer *out, uint32_t columns, const char *name) {
    char full[160];
    memset(out, 0, sizeof *out);
    diti_format(full, sizeof full, "%s.weight", name);
    diti_load_vector(loader, &out->weight, 1, columns, full);
    diti_format(full, sizeof full, "%s.bias", name);
    diti_load_vector(loader, &out->bias, 1, columns, full);
}

/* One matrix of all, when every pair can be appended; else out stays as it was. */
static void diti_join(const diti_loader *loader, diti_joined *out, bool biased) {
    diti_layer all = out->layers[0];
    uint32_t i;
    for (i = 1; i < out->count; i++) {
        if (!diti_weight_append(loader, &all.weight, &out->layers[i].weight)) return;
        if (biased && !diti_weight_append(loader, &all.bias, &out->layers[i].bias)) return;
    }
    out->layers[0] = all;
    out->count = 1;
}

DIT_INTERNAL void diti_load_joined(diti_loader *loader, diti_joined *out, const char *const *names, uint32_t count,
                                   uint32_t rows, uint32_t columns, bool biased) {
    char full[160];
    uint32_t i;
    memset(out, 0, sizeof *out);
    out->count = count;
    for (i = 0; i < count; i++) {
        diti_format(full, sizeof full, "%s.weight", names[i]);
        diti_load_matrix(loader, &out->layers[i].weight, rows, columns, 1, full);
    }
    for (i = 0; biased && i < count; i++) {
        diti_format(full, sizeof full, "%s.bias", names[i]);
        diti_load_vector(loader, &out->layers[i].bias, 1, rows, full);
    }
    if (!loader->error.result) diti_join(loader, out, biased);
}

DIT_INTERNAL const char *diti_rename(const char *const (*pairs)[2], size_t count, const char *name, char *out,
                                     size_t size) {
    const char *stored = NULL;
    size_t i, length, longest = 0;
    for (i = 0; i < count; i++) {
        length = strlen(pairs[i][0]);
        if (length <= longest || strncmp(name, pairs[i][0], length) != 0) continue;
        if (name[length] && name[length] != '.') continue;
        stored = pairs[i][1];
        longest = length;
    }
    return stored && diti_format(out, size, "%s%s", stored, name + longest) ? out : NULL;
}

/* ---- uploading ---- */

typedef struct diti_upload_run {
    diti_loader *loader;
    unsigned char *chunk; /* where device memory is not mapped: host memory for the bytes under way */
    uint64_t chunk_bytes, done;
} diti_upload_run;

static dit_result diti_upload_progress(diti_upload_run *run, uint64_t bytes) {
    diti_loader *loader = run->loader;
    run->done += bytes;
    if (!loader->progress) return DIT_OK;
    if (loader->progress->func(loader->what, run->done, loader->weights.bytes, loader->progress->user)) return DIT_OK;
    return diti_fail(&loader->error, DIT_CANCELLED, "loading of the %s was cancelled", loader->what);
}

/* Stored bytes [done, done + size) of an upload: straight into mapped memory, else by way of the chunk. */
static dit_result diti_upload_part(diti_upload_run *run, const struct diti_upload *upload, uint64_t done,
                                   uint64_t size) {
    diti_loader *loader = run->loader;
    diti_buffer *buffer = &upload->block->buffer;
    unsigned char *mapped = (unsigned char *)buffer->block.mapped;
    VkDeviceSize target = upload->target + done;
    dit_result result = diti_checkpoint_read(loader->checkpoint, upload->tensor, upload->offset + done,
                                             mapped ? mapped + target : run->chunk, (size_t)size, &loader->error);
    if (result != DIT_OK || mapped) return result;
    return diti_buffer_write(loader->device, buffer, target, run->chunk, size, &loader->error);
}

static dit_result diti_upload_bytes(diti_upload_run *run, const struct diti_upload *upload) {
    uint64_t done, size;
    dit_result result = DIT_OK;
    for (done = 0; done < upload->size && result == DIT_OK; done += size) {
        size = upload->size - done < run->chunk_bytes ? upload->size - done : run->chunk_bytes;
        result = diti_upload_part(run, upload, done, size);
        if (result == DIT_OK) result = diti_upload_progress(run, size);
    }
    return result;
}

static dit_result diti_upload_floats(diti_upload_run *run, const struct diti_upload *upload) {
    diti_loader *loader = run->loader;
    size_t bytes = upload->floats * sizeof(float);
    float *values = (float *)diti_alloc_array(loader->env, upload->floats, sizeof(float));
    dit_result result;
    if (!values) {
        diti_loader_fail_memory(loader);
        return loader->error.result;
    }
    result = diti_checkpoint_read_float(loader->checkpoint, upload->tensor, values, upload->floats, &loader->error);
    if (result == DIT_OK) {
        result =
            diti_buffer_write(loader->device, &upload->block->buffer, upload->target, values, bytes, &loader->error);
    }
    diti_free(loader->env, values);
    return result == DIT_OK ? diti_upload_progress(run, bytes) : result;
}

/* Makes all blocks, and the chunk when one of them is not mapped. */
static dit_result diti_upload_begin(diti_upload_run *run) {
    diti_loader *loader = run->loader;
    bool mapped = true;
    size_t i;
    for (i = 0; i < loader->weights.block_count; i++) {
        diti_weight_block *block = loader->weights.blocks[i];
        dit_result result = diti_buffer_create(loader->device, block->used, DITI_MEMORY_DEVICE, loader->what,
                                               &block->buffer, &loader->error);
        if (result != DIT_OK) return result;
        if (!block->buffer.block.mapped) mapped = false;
    }
    run->chunk_bytes = loader->device->staging_bytes;
    if (mapped) return DIT_OK;
    run->chunk = (unsigned char *)diti_alloc(loader->env, (size_t)run->chunk_bytes);
    if (!run->chunk) diti_loader_fail_memory(loader);
    return loader->error.result;
}

static dit_result diti_loader_upload(diti_loader *loader) {
    diti_upload_run run = DITI_ZERO;
    dit_result result;
    size_t i;
    run.loader = loader;
    result = diti_upload_begin(&run);
    for (i = 0; i < loader->upload_count && result == DIT_OK; i++) {
        const struct diti_upload *upload = &loader->uploads[i];
        result = upload->floats ? diti_upload_floats(&run, upload) : diti_upload_bytes(&run, upload);
    }
    for (i = 0; i < loader->weights.block_count && result == DIT_OK; i++) {
        const diti_buffer *buffer = &loader->weights.blocks[i]->buffer;
        if (buffer->block.mapped) diti_buffer_flush(loader->device, buffer);
    }
    diti_free(loader->env, run.chunk);
    return result;
}

DIT_INTERNAL dit_result diti_loader_finish(diti_loader *loader, diti_weights *out, dit_error *err) {
    size_t i;
    dit_result result = loader->error.result;
    for (i = 0; i < loader->weights.block_count; i++) loader->weights.bytes += loader->weights.blocks[i]->used;
    if (result == DIT_OK && loader->device) result = diti_loader_upload(loader);
    diti_free(loader->env, loader->uploads);
    loader->uploads = NULL;
    if (result != DIT_OK) {
        diti_weights_free(loader->device, loader->env, &loader->weights);
        if (err) *err = loader->error;
        return result;
    }
    *out = loader->weights;
    return DIT_OK;
}

DIT_INTERNAL void diti_weights_free(diti_device *device, const diti_env *env, diti_weights *weights) {
    size_t i;
    for (i = 0; i < weights->block_count; i++) {
        if (device) diti_buffer_destroy(device, &weights->blocks[i]->buffer);
        diti_free(env, weights->blocks[i]);
    }
    for (i = 0; i < weights->name_count; i++) diti_free(env, weights->names[i]);
    diti_free(env, weights->blocks);
    diti_free(env, weights->names);
    memset(weights, 0, sizeof *weights);
}

/* ======== src/graph/graph.c (edit it there; dit.h is generated) ======== */

#define DITI_UNUSED_YET UINT32_MAX

DIT_INTERNAL uint32_t diti_element_size(diti_element element) { return element == DITI_F16 ? 2u : 4u; }

DIT_INTERNAL void diti_graph_init(diti_graph *graph, diti_device *device) {
    memset(graph, 0, sizeof *graph);
    graph->device = device;
    graph->tensor_count = 1; /* 0 means "none" */
    graph->activation = device->rung >= DITI_RUNG_FP16 ? DITI_F16 : DITI_F32;
}

DIT_INTERNAL void diti_graph_free(diti_graph *graph) {
    if (!graph->device) return;
    diti_free(&graph->device->env, graph->tensors);
    diti_free(&graph->device->env, graph->dispatches);
    memset(graph, 0, sizeof *graph);
}

DIT_INTERNAL bool diti_graph_failed(const diti_graph *graph) { return graph->error.result < 0; }

DIT_INTERNAL diti_tensor diti_graph_fail(diti_graph *graph, dit_result result, const char *format, ...) {
    va_list args;
    if (diti_graph_failed(graph)) return 0;
    graph->error.result = result;
    va_start(args, format);
    vsnprintf(graph->error.message, sizeof graph->error.message, format, args);
    va_end(args);
    return 0;
}

DIT_INTERNAL uint32_t diti_graph_segment(diti_graph *graph, const char *name, bool repeated) {
    diti_segment *segment;
    if (graph->segment_count == DITI_COUNT(graph->segments)) {
        return diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "the plan has more than %u segments",
                               (unsigned)DITI_COUNT(graph->segments));
    }
    segment = &graph->segments[graph->segment_count];
    diti_format(segment->name, sizeof segment->name, "%s", name);
    segment->first = (uint32_t)graph->dispatch_count;
    segment->repeated = repeated;
    return graph->segment_count++;
}

/* Appends a tensor; the pointer is valid until the next tensor is made. */
static diti_tensor_info *diti_graph_add(diti_graph *graph, diti_tensor *out) {
    diti_tensor_info *info;
    *out = 0;
    if (diti_graph_failed(graph)) return NULL;
    if (!diti_grow(&graph->device->env, (void **)&graph->tensors, &graph->tensor_capacity, graph->tensor_count,
                   sizeof *graph->tensors)) {
        diti_graph_fail(graph, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for %u tensors",
                        (unsigned)graph->tensor_count);
        return NULL;
    }
    *out = (diti_tensor)graph->tensor_count++;
    info = &graph->tensors[*out];
    memset(info, 0, sizeof *info);
    info->parent = *out;
    info->first_use = DITI_UNUSED_YET;
    return info;
}

static diti_tensor diti_tensor_make(diti_graph *graph, diti_storage storage, diti_element format, uint32_t rows,
                                    uint32_t columns, const char *name) {
    diti_tensor tensor;
    diti_tensor_info *info;
    uint64_t elements;
    if (rows == 0 || columns == 0 || columns > UINT32_MAX - 3u) {
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "tensor %s has the impossible shape [%u, %u]", name,
                               rows, columns);
    }
    info = diti_graph_add(graph, &tensor);
    if (!info) return 0;
    diti_format(info->name, sizeof info->name, "%s", name);
    info->storage = storage;
    info->format = format;
    info->rows = rows;
    info->columns = columns;
    info->pitch = columns == 1 ? 1 : (columns + 3u) & ~3u;
    elements = (uint64_t)rows * info->pitch;
    info->bytes = (elements * diti_element_size(format) + 15u) & ~(uint64_t)15u;
    if (elements > UINT32_MAX) {
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "tensor %s [%u, %u] has more than 2^32 elements",
                               name, rows, columns);
    }
    return tensor;
}

DIT_INTERNAL diti_tensor diti_tensor_new(diti_graph *graph, diti_element format, uint32_t rows, uint32_t columns,
                                         const char *name) {
    return diti_tensor_make(graph, DITI_STORAGE_ARENA, format, rows, columns, name);
}

DIT_INTERNAL diti_tensor diti_tensor_state(diti_graph *graph, diti_element format, uint32_t rows, uint32_t columns,
                                           const char *name) {
    return diti_tensor_make(graph, DITI_STORAGE_STATE, format, rows, columns, name);
}

DIT_INTERNAL diti_tensor diti_tensor_input(diti_graph *graph, diti_element format, uint32_t rows, uint32_t columns,
                                           const char *name) {
    return diti_tensor_make(graph, DITI_STORAGE_INPUT, format, rows, columns, name);
}

DIT_INTERNAL diti_tensor diti_tensor_view(diti_graph *graph, diti_tensor tensor, uint32_t row, uint32_t rows,
                                          uint32_t column, uint32_t columns) {
    diti_tensor view;
    diti_tensor_info *info, base;
    if (diti_graph_failed(graph)) return 0;
    base = *diti_tensor_get(graph, tensor);
    if ((uint64_t)row + rows > base.rows || (uint64_t)column + columns > base.columns || rows == 0 || columns == 0) {
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "view [%u+%u, %u+%u] lies outside tensor %s [%u, %u]",
                               row, rows, column, columns, base.name, base.rows, base.columns);
    }
    info = diti_graph_add(graph, &view);
    if (!info) return 0;
    *info = base;
    info->rows = rows;
    info->columns = columns;
    info->first = base.first + (uint64_t)row * base.pitch + column;
    return view;
}

DIT_INTERNAL diti_tensor diti_tensor_reshape(diti_graph *graph, diti_tensor tensor, uint32_t rows, uint32_t columns) {
    diti_tensor view;
    diti_tensor_info *info, base;
    if (diti_graph_failed(graph)) return 0;
    base = *diti_tensor_get(graph, tensor);
    if ((base.pitch != base.columns && base.rows > 1) ||
        (uint64_t)rows * columns != (uint64_t)base.rows * base.columns) {
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "tensor %s [%u, %u] cannot be seen as [%u, %u]",
                               base.name, base.rows, base.columns, rows, columns);
    }
    info = diti_graph_add(graph, &view);
    if (!info) return 0;
    *info = base;
    info->rows = rows;
    info->columns = columns;
    info->pitch = columns;
    return view;
}

DIT_INTERNAL diti_tensor diti_tensor_weight(diti_graph *graph, const diti_weight *weight, uint32_t part) {
    diti_tensor tensor;
    diti_tensor_info *info;
    if (part >= weight->part_count)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "the weight %s is missing",
                               weight->name ? weight->name : "");
    info = diti_graph_add(graph, &tensor);
    if (!info) return 0;
    diti_format(info->name, sizeof info->name, "%s", weight->name ? weight->name : "weight");
    info->storage = DITI_STORAGE_WEIGHT;
    info->format = weight->type == DIT_TYPE_F16 ? DITI_F16 : DITI_F32;
    info->rows = weight->parts[part].rows;
    info->columns = weight->columns;
    info->pitch = weight->columns;
    info->part = &weight->parts[part];
    diti_type_bytes(weight->type, info->rows, info->columns, &info->bytes);
    info->bytes = (info->bytes + 3u) & ~(uint64_t)3u; /* kernels read whole words */
    return tensor;
}

DIT_INTERNAL const diti_tensor_info *diti_tensor_get(const diti_graph *graph, diti_tensor tensor) {
    static const diti_tensor_info none = DITI_ZERO; /* before the first tensor could be made */
    if (!graph->tensors) return &none;
    return &graph->tensors[tensor < graph->tensor_count ? tensor : 0];
}

static void diti_graph_use(diti_graph *graph, diti_tensor tensor, uint32_t dispatch) {
    diti_tensor_info *parent = &graph->tensors[graph->tensors[tensor].parent];
    if (parent->first_use == DITI_UNUSED_YET) parent->first_use = dispatch;
    parent->last_use = dispatch;
}

DIT_INTERNAL void diti_graph_dispatch(diti_graph *graph, const diti_dispatch *dispatch) {
    diti_dispatch *copy;
    uint32_t i;
    if (diti_graph_failed(graph)) return;
    if (graph->segment_count == 0) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s comes before the first segment", dispatch->name);
        return;
    }
    if (!diti_grow(&graph->device->env, (void **)&graph->dispatches, &graph->dispatch_capacity, graph->dispatch_count,
                   sizeof *graph->dispatches)) {
        diti_graph_fail(graph, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for %u dispatches",
                        (unsigned)graph->dispatch_count);
        return;
    }
    for (i = 0; i < dispatch->binding_count; i++) {
        if (dispatch->bindings[i].tensor)
            diti_graph_use(graph, dispatch->bindings[i].tensor, (uint32_t)graph->dispatch_count);
    }
    copy = &graph->dispatches[graph->dispatch_count++];
    *copy = *dispatch;
    copy->segment = graph->segment_count - 1;
    graph->segments[copy->segment].count++;
}

/* ======== src/graph/arena.c (edit it there; dit.h is generated) ======== */
/* Where tensors live: arena tensors share memory by liveness, states and inputs get their own. */

#define DITI_NEVER_USED UINT32_MAX

static VkDeviceSize diti_align_up(VkDeviceSize value, VkDeviceSize alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

/* A run of repeated segments is one loop: whatever comes into it from before must survive until its last dispatch. */
static void diti_arena_widen_loop(diti_graph *graph, uint32_t first, uint32_t end) {
    size_t i;
    for (i = 1; i < graph->tensor_count; i++) {
        diti_tensor_info *tensor = &graph->tensors[i];
        if (tensor->first_use < first && tensor->last_use >= first && tensor->last_use < end)
            tensor->last_use = end - 1;
    }
}

static void diti_arena_widen(diti_graph *graph) {
    uint32_t s = 0, start, end;
    while (s < graph->segment_count) {
        if (!graph->segments[s].repeated) {
            s++;
            continue;
        }
        start = graph->segments[s].first;
        while (s < graph->segment_count && graph->segments[s].repeated) s++;
        end = graph->segments[s - 1].first + graph->segments[s - 1].count;
        diti_arena_widen_loop(graph, start, end);
    }
}

static bool diti_arena_overlap_in_time(const diti_tensor_info *a, const diti_tensor_info *b) {
    return a->storage != DITI_STORAGE_ARENA || (a->first_use <= b->last_use && b->first_use <= a->last_use);
}

/* Lowest offset in block where tensor fits beside everything placed there that lives at the same time. placed is
   ordered by offset, so one pass that keeps the end of what is in the way finds the first gap. */
static VkDeviceSize diti_arena_find_gap(const diti_graph *graph, const uint32_t *placed, size_t placed_count,
                                        uint32_t block, const diti_tensor_info *tensor, VkDeviceSize alignment) {
    VkDeviceSize offset = 0, end;
    size_t i;
    for (i = 0; i < placed_count; i++) {
        const diti_tensor_info *other = &graph->tensors[placed[i]];
        if (other->block != block || !diti_arena_overlap_in_time(other, tensor)) continue;
        if (offset + tensor->bytes <= other->offset) break;
        end = diti_align_up(other->offset + other->bytes, alignment);
        if (end > offset) offset = end;
    }
    return offset;
}

static void diti_arena_insert(const diti_graph *graph, uint32_t *placed, size_t count, uint32_t tensor) {
    size_t i = count;
    while (i > 0 && graph->tensors[placed[i - 1]].offset > graph->tensors[tensor].offset) {
        placed[i] = placed[i - 1];
        i--;
    }
    placed[i] = tensor;
}

static bool diti_arena_new_block(diti_plan *plan, diti_storage storage) {
    if (!diti_grow(&plan->device->env, (void **)&plan->blocks, &plan->block_capacity, plan->block_count,
                   sizeof *plan->blocks))
        return false;
    memset(&plan->blocks[plan->block_count], 0, sizeof plan->blocks[0]);
    plan->blocks[plan->block_count++].storage = storage;
    return true;
}

static dit_result diti_arena_place(diti_graph *graph, diti_plan *plan, uint32_t *placed, size_t *placed_count,
                                   uint32_t index, dit_error *err) {
    diti_tensor_info *tensor = &graph->tensors[index];
    VkDeviceSize limit = graph->device->limits.allocation, alignment = graph->device->limits.storage_alignment,
                 offset = 0;
    uint32_t block;
    if (alignment < 16) alignment = 16;
    if (tensor->bytes > limit) {
        return diti_fail(
            err, DIT_ERROR_OUT_OF_DEVICE_MEMORY,
            "tensor %s [%u, %u] needs %llu bytes in one allocation, the device allows %llu; ask for a smaller image or batch",
            tensor->name, tensor->rows, tensor->columns, (unsigned long long)tensor->bytes, (unsigned long long)limit);
    }
    for (block = 0; block < plan->block_count; block++) {
        if (plan->blocks[block].storage != tensor->storage) continue;
        offset = diti_arena_find_gap(graph, placed, *placed_count, block, tensor, alignment);
        if (offset + tensor->bytes <= limit) break;
    }
    if (block == plan->block_count) {
        if (!diti_arena_new_block(plan, tensor->storage))
            return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the plan");
        offset = 0;
    }
    tensor->block = block;
    tensor->offset = offset;
    if (offset + tensor->bytes > plan->blocks[block].size) plan->blocks[block].size = offset + tensor->bytes;
    diti_arena_insert(graph, placed, (*placed_count)++, index);
    return DIT_OK;
}

/* Large tensors first: they find gaps hardest. Stable, so that equal sizes keep their order. */
static void diti_arena_sort(const diti_graph *graph, uint32_t *order, uint32_t *scratch, size_t count) {
    size_t half = count / 2, i = 0, left = 0, right = half;
    if (count < 2) return;
    diti_arena_sort(graph, order, scratch, half);
    diti_arena_sort(graph, order + half, scratch, count - half);
    while (i < count) {
        bool take_left =
            right == count || (left < half && graph->tensors[order[left]].bytes >= graph->tensors[order[right]].bytes);
        scratch[i++] = take_left ? order[left++] : order[right++];
    }
    memcpy(order, scratch, count * sizeof *order);
}

static bool diti_arena_needs_place(const diti_graph *graph, size_t index) {
    const diti_tensor_info *tensor = &graph->tensors[index];
    return tensor->parent == index && tensor->storage != DITI_STORAGE_WEIGHT &&
           (tensor->storage != DITI_STORAGE_ARENA || tensor->first_use != DITI_NEVER_USED);
}

static void diti_arena_copy_to_views(diti_graph *graph) {
    size_t i;
    for (i = 1; i < graph->tensor_count; i++) {
        const diti_tensor_info *parent = &graph->tensors[graph->tensors[i].parent];
        graph->tensors[i].block = parent->block;
        graph->tensors[i].offset = parent->offset;
    }
}

DIT_INTERNAL dit_result diti_plan_assign_memory(diti_graph *graph, diti_plan *plan, dit_error *err) {
    const diti_env *env = &graph->device->env;
    uint32_t *order = (uint32_t *)diti_alloc_array(env, graph->tensor_count * 3, sizeof *order);
    size_t count = 0, placed_count = 0, i;
    dit_result result = DIT_OK;
    if (!order) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the plan");
    diti_arena_widen(graph);
    for (i = 1; i < graph->tensor_count; i++) {
        if (diti_arena_needs_place(graph, i)) order[count++] = (uint32_t)i;
    }
    diti_arena_sort(graph, order, order + graph->tensor_count, count);
    for (i = 0; i < count && result >= 0; i++) {
        result = diti_arena_place(graph, plan, order + 2 * graph->tensor_count, &placed_count, order[i], err);
    }
    diti_free(env, order);
    if (result >= 0) diti_arena_copy_to_views(graph);
    return result;
}

DIT_INTERNAL dit_result diti_plan_measure(diti_graph *graph, diti_plan_memory *out, dit_error *err) {
    diti_plan plan;
    dit_result result;
    size_t i;
    memset(&plan, 0, sizeof plan);
    memset(out, 0, sizeof *out);
    if (diti_graph_failed(graph)) {
        if (err) *err = graph->error;
        return graph->error.result;
    }
    plan.device = graph->device;
    result = diti_plan_assign_memory(graph, &plan, err);
    for (i = 0; i < plan.block_count && result >= 0; i++) {
        *(plan.blocks[i].storage == DITI_STORAGE_INPUT ? &out->inputs : &out->activations) += plan.blocks[i].size;
        out->blocks++;
    }
    diti_free(&graph->device->env, plan.blocks);
    return result;
}

/* ======== src/graph/slice.c (edit it there; dit.h is generated) ======== */
/* From dispatches to slices: every piece of work is cut until it respects the device's limits and the time budget, then
   gathered into command buffers of about that budget. */

/* Microseconds of the whole dispatch. A software driver computes about as fast as it moves memory, a GPU moves a byte
   in the time of ten operations; the overhead is one launch. Timestamps correct whole slices later. */
static float diti_slice_cost_us(const diti_device *device, const diti_dispatch *dispatch) {
    static const float relative[DITI_COST_KINDS] = {1.0f, 2.0f, 1.5f, 1.0f}; /* to a GEMM of as many operations */
    float us_per_gflop = device->us_per_gflop > 0 ? device->us_per_gflop : device->is_cpu ? 100000.0f : 500.0f;
    float us_per_gigabyte = us_per_gflop * (device->is_cpu ? 2.0f : 20.0f);
    float us = device->is_cpu ? 10.0f : 5.0f;
    us += (float)(dispatch->flops * 1e-9) * us_per_gflop * relative[dispatch->cost_kind];
    us += (float)(dispatch->memory_bytes * 1e-9) * us_per_gigabyte;
    return us;
}

/* Byte range of its memory that workgroups [first, end) touch through a binding. */
static void diti_slice_range(const diti_tensor_info *tensor, const diti_tensor_info *parent,
                             const diti_binding *binding, uint32_t first, uint32_t end, uint64_t *begin,
                             uint64_t *stop) {
    uint64_t size = diti_element_size(tensor->format), from, to, div = binding->group_div ? binding->group_div : 1;
    uint64_t low = tensor->first * size, high = parent->bytes;
    if (binding->group_step) {
        from = first / div * binding->group_step;
        to = ((end - 1) / div + 1) * binding->group_step + binding->after;
        from = from > binding->before ? from - binding->before : 0;
        if (tensor->first * size + to * size < high) high = (tensor->first + to) * size;
        low += from * size;
    }
    *begin = low;
    *stop = (high + 15u) & ~(uint64_t)15u;
    if (*stop > parent->bytes) *stop = parent->bytes;
}

static VkDeviceSize diti_slice_memory_offset(const diti_tensor_info *parent) {
    return parent->storage == DITI_STORAGE_WEIGHT ? parent->part->offset : parent->offset;
}

/* The largest number of workgroups from first on whose bindings all fit the device's storage range; 0: not even the
 *smallest step fits, culprit is then the binding. */
static uint32_t diti_slice_fit(const diti_plan *plan, const diti_dispatch *dispatch, uint32_t first, uint32_t groups,
                               uint32_t *culprit) {
    uint32_t align = dispatch->group_align ? dispatch->group_align : 1, i;
    for (i = 0; i < dispatch->binding_count; i++) {
        const diti_binding *binding = &dispatch->bindings[i];
        const diti_tensor_info *tensor = &plan->tensors[binding->tensor], *parent = &plan->tensors[tensor->parent];
        VkDeviceSize alignment = plan->device->limits.storage_alignment;
        if (!binding->tensor) continue;
        for (;;) {
            uint64_t begin, stop;
            diti_slice_range(tensor, parent, binding, first, first + groups, &begin, &stop);
            begin = (diti_slice_memory_offset(parent) + begin) / alignment * alignment;
            if (diti_slice_memory_offset(parent) + stop - begin <= plan->device->limits.storage_range) break;
            *culprit = i;
            if (groups <= align || binding->group_step == 0) return 0;
            groups = (groups / 2 + align - 1) / align * align;
        }
    }
    return groups;
}

static dit_result diti_slice_too_large(const diti_plan *plan, const diti_dispatch *dispatch, uint32_t culprit,
                                       dit_error *err) {
    const diti_tensor_info *tensor = &plan->tensors[dispatch->bindings[culprit].tensor];
    return diti_fail(
        err, DIT_ERROR_UNSUPPORTED_DEVICE,
        "op %s needs all of tensor %s [%u, %u] at once, more than the device's maxStorageBufferRange of %llu bytes; ask for a smaller image",
        dispatch->name, tensor->name, tensor->rows, tensor->columns,
        (unsigned long long)plan->device->limits.storage_range);
}

/* Fills in where each binding starts (offset words) and keeps the byte ranges for the descriptor set in ranges. */
static void diti_slice_bind(const diti_plan *plan, const diti_dispatch *dispatch, diti_plan_dispatch *slice,
                            VkDescriptorBufferInfo *ranges) {
    VkDeviceSize alignment = plan->device->limits.storage_alignment;
    uint32_t i;
    for (i = 0; i < dispatch->binding_count; i++) {
        const diti_binding *binding = &dispatch->bindings[i];
        const diti_tensor_info *tensor = &plan->tensors[binding->tensor], *parent = &plan->tensors[tensor->parent];
        uint64_t begin, stop, size, base, zero;
        if (!binding->tensor) continue;
        diti_slice_range(tensor, parent, binding, slice->first_group, slice->first_group + slice->groups, &begin,
                         &stop);
        base = diti_slice_memory_offset(parent);
        size = diti_element_size(tensor->format);
        zero = base + tensor->first * size; /* of the tensor's first element; may lie before the range: the difference
                                               wraps, as in the kernel */
        ranges[i].buffer = parent->storage == DITI_STORAGE_WEIGHT ? parent->part->buffer->buffer
                                                                  : plan->blocks[parent->block].buffer.buffer;
        ranges[i].offset = (base + begin) / alignment * alignment;
        ranges[i].range = base + stop - ranges[i].offset;
        slice->push[binding->offset_word] =
            (uint32_t)((int64_t)(zero - ranges[i].offset) / (int64_t)binding->element_bytes);
    }
}

/* Every binding of the layout is written, since a shader names them all. What an op leaves out repeats its first
   output: the validation layers take a named binding for a used one, and that one is ordered by barriers anyway. */
static void diti_slice_write_set(const diti_plan *plan, const diti_dispatch *dispatch, VkDescriptorSet set,
                                 const VkDescriptorBufferInfo *ranges) {
    VkWriteDescriptorSet writes[DITI_MAX_BINDINGS];
    uint32_t i, first = 0;
    while (first + 1 < dispatch->binding_count && !dispatch->bindings[first].writes) first++;
    memset(writes, 0, sizeof writes);
    for (i = 0; i < DITI_MAX_BINDINGS; i++) {
        bool used = i < dispatch->binding_count && dispatch->bindings[i].tensor;
        writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
        writes[i].dstSet = set;
        writes[i].dstBinding = i;
        writes[i].descriptorCount = 1;
        writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        writes[i].pBufferInfo = &ranges[used ? i : first];
    }
    plan->device->vk.UpdateDescriptorSets(plan->device->device, DITI_MAX_BINDINGS, writes, 0, NULL);
}

DIT_INTERNAL dit_result diti_plan_write_sets(diti_plan *plan, dit_error *err) {
    VkDescriptorBufferInfo ranges[DITI_MAX_BINDINGS];
    VkDescriptorSetAllocateInfo info;
    size_t i;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    info.descriptorPool = plan->descriptors;
    info.descriptorSetCount = 1;
    info.pSetLayouts = &plan->device->set_layout;
    for (i = 0; i < plan->dispatch_count; i++) {
        diti_plan_dispatch *slice = &plan->dispatches[i];
        VkResult vk = plan->device->vk.AllocateDescriptorSets(plan->device->device, &info, &slice->set);
        if (vk != VK_SUCCESS)
            return diti_fail_vk(err, vk, "vkAllocateDescriptorSets failed for op %s (%d)",
                                plan->sources[slice->source].name, (int)vk);
        memset(ranges, 0, sizeof ranges);
        diti_slice_bind(plan, &plan->sources[slice->source], slice, ranges);
        diti_slice_write_set(plan, &plan->sources[slice->source], slice->set, ranges);
    }
    return DIT_OK;
}

static dit_result diti_slice_append(diti_plan *plan, uint32_t source, uint32_t first, uint32_t groups, float us,
                                    dit_error *err) {
    diti_plan_dispatch *slice;
    if (!diti_grow(&plan->device->env, (void **)&plan->dispatches, &plan->dispatch_capacity, plan->dispatch_count,
                   sizeof *plan->dispatches)) {
        return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the plan");
    }
    slice = &plan->dispatches[plan->dispatch_count++];
    memset(slice, 0, sizeof *slice);
    slice->source = source;
    slice->first_group = first;
    slice->groups = groups;
    slice->us = us;
    memcpy(slice->push, plan->sources[source].push, sizeof slice->push);
    slice->push[0] = first;
    return DIT_OK;
}

static dit_result diti_slice_cut(diti_plan *plan, uint32_t source, dit_error *err) {
    const diti_dispatch *dispatch = &plan->sources[source];
    uint32_t align = dispatch->group_align ? dispatch->group_align : 1, most = plan->device->limits.group_count,
             first = 0, groups, culprit = 0;
    float us = diti_slice_cost_us(plan->device, dispatch), budget = (float)plan->device->max_dispatch_us;
    if (us > budget) {
        uint32_t by_cost = (uint32_t)((double)dispatch->groups * budget / us);
        if (by_cost < most) most = by_cost;
    }
    most = most / align * align;
    if (most == 0) most = align;
    while (first < dispatch->groups) {
        groups = dispatch->groups - first < most ? dispatch->groups - first : most;
        groups = diti_slice_fit(plan, dispatch, first, groups, &culprit);
        if (groups == 0) return diti_slice_too_large(plan, dispatch, culprit, err);
        if (diti_slice_append(plan, source, first, groups, us * (float)groups / (float)dispatch->groups, err) < 0)
            return DIT_ERROR_OUT_OF_HOST_MEMORY;
        first += groups;
    }
    return DIT_OK;
}

/* --- barriers: one is needed where a dispatch touches what another wrote, or writes what another read, since the last
 * one --- */

typedef struct diti_hazard {
    VkBuffer buffer; /* of a block; weights are never written */
    uint64_t begin, end;
    bool written;
} diti_hazard;
typedef struct diti_hazards {
    diti_hazard items[256];
    uint32_t count;
} diti_hazards;

static bool diti_hazard_conflict(const diti_hazards *hazards, const diti_hazard *with, bool reads) {
    uint32_t i;
    for (i = 0; i < hazards->count; i++) {
        const diti_hazard *item = &hazards->items[i];
        if (item->buffer != with->buffer || item->end <= with->begin || with->end <= item->begin) continue;
        if (with->written || (reads && item->written)) return true;
    }
    return false;
}

static uint32_t diti_hazards_of(const diti_plan *plan, uint32_t source, diti_hazard *out) {
    const diti_dispatch *dispatch = &plan->sources[source];
    uint32_t i, count = 0;
    for (i = 0; i < dispatch->binding_count; i++) {
        const diti_tensor_info *parent = &plan->tensors[plan->tensors[dispatch->bindings[i].tensor].parent];
        if (!dispatch->bindings[i].tensor || parent->storage == DITI_STORAGE_WEIGHT) continue;
        out[count].buffer = plan->blocks[parent->block].buffer.buffer;
        out[count].begin = parent->offset;
        out[count].end = parent->offset + parent->bytes;
        out[count].written = dispatch->bindings[i].writes;
        count++;
    }
    return count;
}

static bool diti_hazard_step(const diti_plan *plan, uint32_t source, diti_hazards *hazards) {
    diti_hazard mine[DITI_MAX_BINDINGS];
    uint32_t count = diti_hazards_of(plan, source, mine), i;
    bool barrier = hazards->count + count > DITI_COUNT(hazards->items);
    for (i = 0; i < count && !barrier; i++) barrier = diti_hazard_conflict(hazards, &mine[i], true);
    if (barrier) hazards->count = 0;
    for (i = 0; i < count; i++) hazards->items[hazards->count++] = mine[i];
    return barrier;
}

/* --- gathering into command buffers --- */

static dit_result diti_slice_open(diti_plan *plan, uint32_t segment, dit_error *err) {
    diti_plan_slice *slice;
    if (!diti_grow(&plan->device->env, (void **)&plan->slices, &plan->slice_capacity, plan->slice_count,
                   sizeof *plan->slices)) {
        return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the plan");
    }
    slice = &plan->slices[plan->slice_count++];
    memset(slice, 0, sizeof *slice);
    slice->segment = segment;
    slice->first = (uint32_t)plan->dispatch_count;
    plan->segments[segment].count++;
    return DIT_OK;
}

/* Moves the pieces of the newest dispatch, [from, dispatch_count), into command buffers. Every command buffer begins
 * with a barrier. */
static dit_result diti_slice_gather(diti_plan *plan, uint32_t segment, size_t from, diti_hazards *hazards,
                                    dit_error *err) {
    size_t i;
    for (i = from; i < plan->dispatch_count; i++) {
        diti_plan_dispatch *piece = &plan->dispatches[i];
        diti_plan_slice *slice = &plan->slices[plan->slice_count - 1];
        if (slice->count && slice->us + piece->us > (float)plan->device->max_dispatch_us) {
            if (diti_slice_open(plan, segment, err) < 0) return DIT_ERROR_OUT_OF_HOST_MEMORY;
            slice = &plan->slices[plan->slice_count - 1];
            slice->first = (uint32_t)i;
            hazards->count = 0;
        }
        piece->barrier = diti_hazard_step(plan, piece->source, hazards) || slice->count == 0;
        slice->count++;
        slice->us += piece->us;
        slice->planned_us = slice->us;
    }
    return DIT_OK;
}

static dit_result diti_slice_segment(diti_plan *plan, uint32_t segment, uint32_t first, uint32_t count,
                                     dit_error *err) {
    diti_hazards hazards;
    uint32_t i;
    dit_result result;
    hazards.count = 0;
    plan->segments[segment].first = (uint32_t)plan->slice_count;
    plan->segments[segment].count = 0;
    result = diti_slice_open(plan, segment, err);
    for (i = first; i < first + count && result >= 0; i++) {
        size_t from = plan->dispatch_count;
        result = diti_slice_cut(plan, i, err);
        if (result >= 0) result = diti_slice_gather(plan, segment, from, &hazards, err);
    }
    return result;
}

DIT_INTERNAL dit_result diti_plan_make_slices(diti_plan *plan, const diti_graph *graph, dit_error *err) {
    uint32_t segment;
    dit_result result = DIT_OK;
    plan->segment_count = graph->segment_count;
    for (segment = 0; segment < graph->segment_count && result >= 0; segment++) {
        plan->segments[segment] = graph->segments[segment];
        result = diti_slice_segment(plan, segment, graph->segments[segment].first, graph->segments[segment].count, err);
    }
    return result;
}

/* ======== src/graph/record.c (edit it there; dit.h is generated) ======== */
/* Command buffers: recorded once, submitted again and again, or executed inside the application's own. */

static void diti_record_barrier(const diti_plan *plan, VkCommandBuffer commands, VkPipelineStageFlags from,
                                VkPipelineStageFlags to) {
    VkMemoryBarrier barrier;
    memset(&barrier, 0, sizeof barrier);
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    plan->device->vk.CmdPipelineBarrier(commands, from, to, 0, 1, &barrier, 0, NULL, 0, NULL);
}

/* The start of a run: states become zero, inputs arrive from the host's staging memory. */
static void diti_record_start(const diti_plan *plan, VkCommandBuffer commands) {
    size_t i;
    for (i = 0; i < plan->block_count; i++) {
        const diti_plan_block *block = &plan->blocks[i];
        VkBufferCopy copy;
        memset(&copy, 0, sizeof copy);
        copy.size = block->size;
        if (block->storage == DITI_STORAGE_STATE)
            plan->device->vk.CmdFillBuffer(commands, block->buffer.buffer, 0, VK_WHOLE_SIZE, 0);
        if (block->storage == DITI_STORAGE_INPUT)
            plan->device->vk.CmdCopyBuffer(commands, block->staging.buffer, block->buffer.buffer, 1, &copy);
    }
    diti_record_barrier(plan, commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT);
}

static void diti_record_slice(const diti_plan *plan, const diti_plan_slice *slice, VkCommandBuffer commands) {
    const VkPipelineStageFlags work = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const diti_vk_api *vk = &plan->device->vk;
    VkPipeline bound = VK_NULL_HANDLE;
    uint32_t i;
    diti_record_barrier(plan, commands, work, work);
    if (slice == &plan->slices[0]) diti_record_start(plan, commands);
    for (i = slice->first; i < slice->first + slice->count; i++) {
        const diti_plan_dispatch *dispatch = &plan->dispatches[i];
        const diti_dispatch *source = &plan->sources[dispatch->source];
        if (dispatch->barrier && i > slice->first)
            diti_record_barrier(plan, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
        if (dispatch->pipeline != bound)
            vk->CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, dispatch->pipeline);
        bound = dispatch->pipeline;
        vk->CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, plan->device->pipeline_layout, 0, 1,
                                  &dispatch->set, 0, NULL);
        vk->CmdPushConstants(commands, plan->device->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                             source->push_count * 4u, dispatch->push);
        vk->CmdDispatch(commands, dispatch->groups, 1, 1);
    }
}

static dit_result diti_record_begin(const diti_plan *plan, VkCommandBuffer commands, bool secondary, dit_error *err) {
    VkCommandBufferInheritanceInfo inheritance;
    VkCommandBufferBeginInfo info;
    VkResult vk;
    memset(&inheritance, 0, sizeof inheritance);
    memset(&info, 0, sizeof info);
    inheritance.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO;
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    info.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT; /* the same step may be queued twice */
    info.pInheritanceInfo = secondary ? &inheritance : NULL;
    vk = plan->device->vk.BeginCommandBuffer(commands, &info);
    return vk == VK_SUCCESS ? DIT_OK : diti_fail_vk(err, vk, "vkBeginCommandBuffer failed (%d)", (int)vk);
}

static dit_result diti_record_end(diti_plan *plan, VkCommandBuffer commands, dit_error *err) {
    VkResult vk = plan->device->vk.EndCommandBuffer(commands);
    plan->counters.recordings++;
    return vk == VK_SUCCESS ? DIT_OK : diti_fail_vk(err, vk, "vkEndCommandBuffer failed (%d)", (int)vk);
}

static dit_result diti_record_allocate(const diti_plan *plan, VkCommandBufferLevel level, VkCommandBuffer *out,
                                       dit_error *err) {
    VkCommandBufferAllocateInfo info;
    VkResult vk;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    info.commandPool = plan->commands;
    info.level = level;
    info.commandBufferCount = 1;
    vk = plan->device->vk.AllocateCommandBuffers(plan->device->device, &info, out);
    return vk == VK_SUCCESS ? DIT_OK : diti_fail_vk(err, vk, "vkAllocateCommandBuffers failed (%d)", (int)vk);
}

static dit_result diti_record_primary(diti_plan *plan, size_t index, dit_error *err) {
    diti_plan_slice *slice = &plan->slices[index];
    dit_result result = diti_record_allocate(plan, VK_COMMAND_BUFFER_LEVEL_PRIMARY, &slice->primary, err);
    if (result >= 0) result = diti_record_begin(plan, slice->primary, false, err);
    if (result < 0) return result;
    if (plan->queries) {
        plan->device->vk.CmdResetQueryPool(slice->primary, plan->queries, (uint32_t)index * 2, 2);
        plan->device->vk.CmdWriteTimestamp(slice->primary, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, plan->queries,
                                           (uint32_t)index * 2);
    }
    diti_record_slice(plan, slice, slice->primary);
    if (plan->queries)
        plan->device->vk.CmdWriteTimestamp(slice->primary, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, plan->queries,
                                           (uint32_t)index * 2 + 1);
    return diti_record_end(plan, slice->primary, err);
}

static dit_result diti_record_create_pools(diti_plan *plan, dit_error *err) {
    VkCommandPoolCreateInfo commands;
    VkQueryPoolCreateInfo queries;
    VkResult vk;
    memset(&commands, 0, sizeof commands);
    memset(&queries, 0, sizeof queries);
    commands.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    commands.queueFamilyIndex = plan->device->queue_family;
    vk = plan->device->vk.CreateCommandPool(plan->device->device, &commands, plan->device->callbacks, &plan->commands);
    if (vk != VK_SUCCESS) return diti_fail_vk(err, vk, "vkCreateCommandPool failed (%d)", (int)vk);
    if (plan->device->limits.timestamp_bits == 0) return DIT_OK;
    queries.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    queries.queryType = VK_QUERY_TYPE_TIMESTAMP;
    queries.queryCount = (uint32_t)plan->slice_count * 2;
    vk = plan->device->vk.CreateQueryPool(plan->device->device, &queries, plan->device->callbacks, &plan->queries);
    return vk == VK_SUCCESS
               ? DIT_OK
               : diti_fail_vk(err, vk, "vkCreateQueryPool failed for %u timestamps (%d)", queries.queryCount, (int)vk);
}

DIT_INTERNAL dit_result diti_plan_record_primaries(diti_plan *plan, dit_error *err) {
    dit_result result = diti_record_create_pools(plan, err);
    size_t i;
    if (result >= 0) result = diti_timeline_create(plan->device, &plan->timeline, err);
    for (i = 0; i < plan->slice_count && result >= 0; i++) result = diti_record_primary(plan, i, err);
    return result;
}

DIT_INTERNAL dit_result diti_plan_prepare_secondaries(diti_plan *plan, dit_error *err) {
    dit_result result = DIT_OK;
    size_t i;
    for (i = 0; i < plan->slice_count && result >= 0; i++) {
        diti_plan_slice *slice = &plan->slices[i];
        if (slice->secondary) continue;
        result = diti_record_allocate(plan, VK_COMMAND_BUFFER_LEVEL_SECONDARY, &slice->secondary, err);
        if (result >= 0) result = diti_record_begin(plan, slice->secondary, true, err);
        if (result < 0) return result;
        diti_record_slice(plan, slice, slice->secondary);
        result = diti_record_end(plan, slice->secondary, err);
    }
    return result;
}

static diti_plan_slice *diti_record_count(diti_plan *plan, uint32_t segment, uint32_t slice) {
    diti_plan_slice *entry = &plan->slices[plan->segments[segment].first + slice];
    plan->counters.dispatches += entry->count;
    return entry;
}

DIT_INTERNAL void diti_plan_execute(diti_plan *plan, uint32_t segment, uint32_t slice, VkCommandBuffer commands) {
    plan->device->vk.CmdExecuteCommands(commands, 1, &diti_record_count(plan, segment, slice)->secondary);
}

/* Learns what the newest finished slice really took. */
DIT_INTERNAL void diti_plan_learn(diti_plan *plan) {
    uint64_t ticks[2], done = 0, mask, elapsed;
    diti_plan_slice *slice;
    if (!plan->pending_value || !plan->queries) return;
    if (diti_timeline_value(plan->device, plan->timeline, &done, NULL) < 0 || done < plan->pending_value) return;
    slice = &plan->slices[plan->pending_slice];
    plan->pending_value = 0;
    if (plan->device->vk.GetQueryPoolResults(plan->device->device, plan->queries, plan->pending_slice * 2, 2,
                                             sizeof ticks, ticks, sizeof ticks[0],
                                             VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
        return;
    mask = plan->device->limits.timestamp_bits >= 64 ? UINT64_MAX
                                                     : ((uint64_t)1 << plan->device->limits.timestamp_bits) - 1;
    elapsed = (ticks[1] - ticks[0]) & mask;
    slice->us = (float)((double)elapsed * plan->device->limits.timestamp_period * 1e-3);
    slice->measured = true;
    plan->last_slice_us = (uint32_t)slice->us;
}

DIT_INTERNAL dit_result diti_plan_submit(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *value,
                                         dit_error *err) {
    diti_plan_slice *entry;
    dit_result result;
    diti_plan_learn(plan);
    entry = &plan->slices[plan->segments[segment].first + slice];
    result = diti_submit(plan->device, &entry->primary, 1, plan->timeline, plan->submitted + 1, err);
    if (result < 0) return result;
    diti_record_count(plan, segment, slice);
    plan->counters.submits++;
    plan->submitted++;
    if (!plan->pending_value) {
        plan->pending_value = plan->submitted;
        plan->pending_slice = (uint32_t)(entry - plan->slices);
    }
    *value = plan->submitted;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_plan_submit_commands(diti_plan *plan, VkCommandBuffer commands, uint64_t *value,
                                                  dit_error *err) {
    dit_result result = diti_submit(plan->device, &commands, 1, plan->timeline, plan->submitted + 1, err);
    if (result < 0) return result;
    plan->counters.submits++;
    *value = ++plan->submitted;
    return DIT_OK;
}

DIT_INTERNAL VkSemaphore diti_plan_timeline(const diti_plan *plan) { return plan->timeline; }

DIT_INTERNAL uint32_t diti_plan_last_slice_us(const diti_plan *plan) { return plan->last_slice_us; }

DIT_INTERNAL void diti_plan_counters(const diti_plan *plan, dit_counters *out) { *out = plan->counters; }

/* ======== src/graph/plan.c (edit it there; dit.h is generated) ======== */
/* The life of a plan: memory, pipelines, descriptor sets, host access. */

static dit_result diti_plan_create_buffers(diti_plan *plan, dit_error *err) {
    size_t i;
    for (i = 0; i < plan->block_count; i++) {
        diti_plan_block *block = &plan->blocks[i];
        const char *what = block->storage == DITI_STORAGE_ARENA   ? "activations"
                           : block->storage == DITI_STORAGE_STATE ? "sampler state"
                                                                  : "inputs";
        dit_result result =
            diti_buffer_create(plan->device, block->size, DITI_MEMORY_DEVICE, what, &block->buffer, err);
        if (result >= 0 && block->storage == DITI_STORAGE_INPUT) {
            result = diti_buffer_create(plan->device, block->size, DITI_MEMORY_UPLOAD, what, &block->staging, err);
        }
        if (result < 0) return result;
        plan->counters.allocations += block->storage == DITI_STORAGE_INPUT ? 2u : 1u;
        if (block->staging.block.mapped) memset(block->staging.block.mapped, 0, (size_t)block->size);
    }
    return DIT_OK;
}

/* --- pipelines: each distinct one is compiled once, by the caller and, where a worker lends a thread, by that one too
 * --- */

typedef struct diti_plan_compile {
    diti_plan *plan;
    uint32_t *distinct; /* plan dispatches with pipelines that differ */
    uint32_t count, next;
    int lock;    /* guards next, result and error */
    int helping; /* atomic: the worker's task has not ended */
    dit_result result;
    dit_error error;
} diti_plan_compile;

static const diti_dispatch *diti_plan_source(const diti_plan *plan, uint32_t dispatch) {
    return &plan->sources[plan->dispatches[dispatch].source];
}

static bool diti_plan_same_pipeline(const diti_dispatch *a, const diti_dispatch *b) {
    return a->module == b->module && a->constant_count == b->constant_count &&
           !memcmp(a->constants, b->constants, sizeof a->constants);
}

static uint32_t diti_plan_find_distinct(const diti_plan_compile *work, uint32_t dispatch) {
    const diti_dispatch *wanted = diti_plan_source(work->plan, dispatch);
    uint32_t i;
    for (i = 0; i < work->count; i++) {
        if (diti_plan_same_pipeline(diti_plan_source(work->plan, work->distinct[i]), wanted)) break;
    }
    return i;
}

/* Compiles one more; false when there is none left or something failed. */
static bool diti_plan_compile_next(diti_plan_compile *work) {
    diti_plan_dispatch *dispatch;
    const diti_dispatch *source;
    dit_error error = DITI_ZERO;
    dit_result result;
    uint32_t mine;
    diti_lock(&work->lock);
    mine = work->result == DIT_OK && work->next < work->count ? work->next++ : UINT32_MAX;
    diti_unlock(&work->lock);
    if (mine == UINT32_MAX) return false;
    dispatch = &work->plan->dispatches[work->distinct[mine]];
    source = &work->plan->sources[dispatch->source];
    result = diti_pipeline_get(work->plan->device, source->module, source->constants, source->constant_count,
                               &dispatch->pipeline, &error);
    diti_lock(&work->lock);
    if (result < 0 && work->result == DIT_OK) {
        work->result = result;
        work->error = error;
    }
    diti_unlock(&work->lock);
    return result >= 0;
}

static void diti_plan_compile_task(void *arg) {
    diti_plan_compile *work = (diti_plan_compile *)arg;
    while (diti_plan_compile_next(work)) {
    }
    diti_atomic_store(&work->helping, 0);
}

static dit_result diti_plan_compile_all(diti_plan_compile *work, const dit_worker *worker, const dit_progress *progress,
                                        dit_error *err) {
    bool wanted = true;
    work->helping = worker && worker->run && work->count > 1;
    if (work->helping && !worker->run(diti_plan_compile_task, work, worker->user)) work->helping = 0;
    while (wanted && diti_plan_compile_next(work)) {
        if (progress && progress->func)
            wanted = progress->func("preparing kernels", work->next, work->count, progress->user);
    }
    diti_lock(&work->lock);
    if (!wanted) work->result = work->result == DIT_OK ? DIT_CANCELLED : work->result;
    diti_unlock(&work->lock);
    while (diti_atomic_load(&work->helping)) { /* the last compilation of the lent thread */
    }
    if (work->result < 0 && err) *err = work->error;
    return work->result;
}

static dit_result diti_plan_create_pipelines(diti_plan *plan, const dit_worker *worker, const dit_progress *progress,
                                             dit_error *err) {
    diti_plan_compile work = DITI_ZERO;
    uint64_t before = plan->device->pipelines_compiled;
    dit_result result;
    uint32_t i;
    work.plan = plan;
    work.distinct = (uint32_t *)diti_alloc_array(&plan->device->env, plan->dispatch_count + 1, sizeof *work.distinct);
    if (!work.distinct) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the plan");
    for (i = 0; i < plan->dispatch_count; i++) {
        if (diti_plan_find_distinct(&work, i) == work.count) work.distinct[work.count++] = i;
    }
    result = diti_plan_compile_all(&work, worker, progress, err);
    for (i = 0; i < plan->dispatch_count && result == DIT_OK; i++) {
        plan->dispatches[i].pipeline = plan->dispatches[work.distinct[diti_plan_find_distinct(&work, i)]].pipeline;
    }
    diti_free(&plan->device->env, work.distinct);
    plan->counters.pipelines = plan->device->pipelines_compiled - before;
    return result;
}

static dit_result diti_plan_create_descriptors(diti_plan *plan, dit_error *err) {
    VkDescriptorPoolSize size;
    VkDescriptorPoolCreateInfo info;
    VkResult vk;
    if (plan->dispatch_count == 0) return DIT_OK;
    memset(&info, 0, sizeof info);
    size.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    size.descriptorCount = (uint32_t)plan->dispatch_count * DITI_MAX_BINDINGS;
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    info.maxSets = (uint32_t)plan->dispatch_count;
    info.poolSizeCount = 1;
    info.pPoolSizes = &size;
    vk =
        plan->device->vk.CreateDescriptorPool(plan->device->device, &info, plan->device->callbacks, &plan->descriptors);
    if (vk != VK_SUCCESS)
        return diti_fail_vk(err, vk, "vkCreateDescriptorPool failed for %u sets (%d)", info.maxSets, (int)vk);
    return diti_plan_write_sets(plan, err);
}

/* Moves the arrays out of the graph: the plan goes on with them. */
static void diti_plan_take(diti_plan *plan, diti_graph *graph) {
    plan->tensors = graph->tensors;
    plan->tensor_count = graph->tensor_count;
    plan->sources = graph->dispatches;
    plan->source_count = graph->dispatch_count;
    graph->tensors = NULL;
    graph->dispatches = NULL;
    graph->tensor_count = graph->tensor_capacity = graph->dispatch_count = graph->dispatch_capacity = 0;
}

static dit_result diti_plan_build(diti_plan *plan, diti_graph *graph, const dit_progress *progress, dit_error *err) {
    dit_result result = diti_plan_assign_memory(graph, plan, err);
    if (result < 0) return result;
    diti_plan_take(plan, graph);
    result = diti_plan_create_buffers(plan, err);
    if (result >= 0) result = diti_plan_make_slices(plan, graph, err);
    if (result >= 0) result = diti_plan_create_pipelines(plan, graph->worker, progress, err);
    if (result != DIT_OK) return result;
    result = diti_plan_create_descriptors(plan, err);
    if (result >= 0) result = diti_plan_record_primaries(plan, err);
    return result;
}

DIT_INTERNAL dit_result diti_plan_create(diti_graph *graph, const dit_progress *progress, diti_plan **out,
                                         dit_error *err) {
    diti_plan *plan;
    dit_result result;
    *out = NULL;
    if (diti_graph_failed(graph)) {
        if (err) *err = graph->error;
        return graph->error.result;
    }
    plan = (diti_plan *)diti_alloc_zero(&graph->device->env, sizeof *plan);
    if (!plan) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the plan");
    plan->device = graph->device;
    result = diti_plan_build(plan, graph, progress, err);
    if (result != DIT_OK) {
        diti_plan_destroy(plan);
        return result;
    }
    *out = plan;
    return DIT_OK;
}

static void diti_plan_free_blocks(diti_plan *plan) {
    size_t i;
    for (i = 0; i < plan->block_count; i++) {
        diti_buffer_destroy(plan->device, &plan->blocks[i].buffer);
        diti_buffer_destroy(plan->device, &plan->blocks[i].staging);
    }
    diti_free(&plan->device->env, plan->blocks);
}

DIT_INTERNAL void diti_plan_wait(const diti_plan *plan) {
    if (plan && plan->submitted) diti_timeline_wait(plan->device, plan->timeline, plan->submitted, UINT64_MAX, NULL);
}

DIT_INTERNAL void diti_plan_destroy(diti_plan *plan) {
    diti_device *device;
    if (!plan) return;
    device = plan->device;
    diti_plan_wait(plan);
    if (plan->queries) device->vk.DestroyQueryPool(device->device, plan->queries, device->callbacks);
    if (plan->commands) device->vk.DestroyCommandPool(device->device, plan->commands, device->callbacks);
    if (plan->descriptors) device->vk.DestroyDescriptorPool(device->device, plan->descriptors, device->callbacks);
    if (plan->timeline) device->vk.DestroySemaphore(device->device, plan->timeline, device->callbacks);
    diti_plan_free_blocks(plan);
    diti_free(&device->env, plan->tensors);
    diti_free(&device->env, plan->sources);
    diti_free(&device->env, plan->dispatches);
    diti_free(&device->env, plan->slices);
    diti_free(&device->env, plan);
}

/* --- host access --- */

static bool diti_plan_size_matches(const diti_tensor_info *info, size_t size) {
    return (uint64_t)info->rows * info->columns * diti_element_size(info->format) == size;
}

DIT_INTERNAL dit_result diti_plan_write(diti_plan *plan, diti_tensor input, const void *data, size_t size,
                                        dit_error *err) {
    const diti_tensor_info *info = &plan->tensors[input];
    const unsigned char *from = (const unsigned char *)data;
    size_t element = diti_element_size(info->format), row_bytes = info->columns * element;
    diti_plan_block *block;
    unsigned char *to;
    uint32_t row;
    if (info->storage != DITI_STORAGE_INPUT || !diti_plan_size_matches(info, size)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s is [%u, %u] of %u bytes, %llu bytes were given",
                         info->name, info->rows, info->columns, (unsigned)element, (unsigned long long)size);
    }
    block = &plan->blocks[info->block];
    to = (unsigned char *)block->staging.block.mapped + info->offset + info->first * element;
    for (row = 0; row < info->rows; row++)
        memcpy(to + (size_t)row * info->pitch * element, from + row * row_bytes, row_bytes);
    diti_buffer_flush(plan->device, &block->staging);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_plan_read(diti_plan *plan, diti_tensor tensor, void *data, size_t size, dit_error *err) {
    const diti_tensor_info *info = &plan->tensors[tensor];
    size_t element = diti_element_size(info->format), row_bytes = info->columns * element,
           pitch_bytes = info->pitch * element, all;
    unsigned char *pitched;
    dit_result result;
    uint32_t row;
    if (!diti_plan_size_matches(info, size)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "tensor %s is [%u, %u] of %u bytes, room for %llu bytes was given", info->name, info->rows,
                         info->columns, (unsigned)element, (unsigned long long)size);
    }
    if (plan->submitted) {
        result = diti_timeline_wait(plan->device, plan->timeline, plan->submitted, UINT64_MAX, err);
        if (result < 0) return result;
    }
    all = (info->rows - 1) * pitch_bytes + row_bytes;
    pitched = (unsigned char *)diti_alloc(&plan->device->env, all);
    if (!pitched) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory to read tensor %s", info->name);
    result = diti_buffer_read(plan->device, &plan->blocks[info->block].buffer, info->offset + info->first * element,
                              pitched, all, err);
    for (row = 0; row < info->rows && result >= 0; row++)
        memcpy((unsigned char *)data + row * row_bytes, pitched + row * pitch_bytes, row_bytes);
    diti_free(&plan->device->env, pitched);
    return result;
}

DIT_INTERNAL VkBuffer diti_plan_buffer(const diti_plan *plan, diti_tensor tensor, VkDeviceSize *offset,
                                       VkDeviceSize *size) {
    const diti_tensor_info *info = &plan->tensors[tensor];
    VkDeviceSize element = diti_element_size(info->format);
    *offset = info->offset + info->first * element;
    *size = ((VkDeviceSize)(info->rows - 1) * info->pitch + info->columns) * element;
    return plan->blocks[info->block].buffer.buffer;
}

DIT_INTERNAL uint32_t diti_plan_slice_count(const diti_plan *plan, uint32_t segment) {
    return plan->segments[segment].count;
}

DIT_INTERNAL float diti_plan_slice_us(const diti_plan *plan, uint32_t segment, uint32_t slice) {
    return plan->slices[plan->segments[segment].first + slice].us;
}

DIT_INTERNAL float diti_plan_slice_planned_us(const diti_plan *plan, uint32_t segment, uint32_t slice) {
    return plan->slices[plan->segments[segment].first + slice].planned_us;
}

DIT_INTERNAL dit_result diti_plan_run(diti_plan *plan, uint32_t first, uint32_t count, dit_error *err) {
    uint32_t segment, slice;
    uint64_t value = 0;
    for (segment = first; segment < first + count; segment++) {
        for (slice = 0; slice < plan->segments[segment].count; slice++) {
            dit_result result = diti_plan_submit(plan, segment, slice, &value, err);
            if (result < 0) return result;
        }
    }
    return value ? diti_timeline_wait(plan->device, plan->timeline, value, UINT64_MAX, err) : DIT_OK;
}

/* ======== src/graph/ops.c (edit it there; dit.h is generated) ======== */
/* What the ops share: filling a dispatch, alignment, views of weights. */

DIT_INTERNAL bool diti_op_begin(diti_graph *graph, diti_dispatch *dispatch, const char *name, const char *module,
                                uint32_t group_size) {
    memset(dispatch, 0, sizeof *dispatch);
    if (diti_graph_failed(graph)) return false;
    if (!diti_spirv_find(module, &dispatch->module)) {
        diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_DEVICE, "the shader %s is not embedded", module);
        return false;
    }
    dispatch->name = name;
    dispatch->constants[0] = group_size;
    dispatch->cost_kind = DITI_COST_MEMORY;
    return true;
}

DIT_INTERNAL void diti_op_bind(const diti_graph *graph, diti_dispatch *dispatch, uint32_t index, diti_tensor tensor,
                               uint8_t word, bool reads, bool writes) {
    diti_binding *binding = &dispatch->bindings[index];
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    if (index >= dispatch->binding_count) dispatch->binding_count = index + 1;
    if (!tensor) return;
    binding->tensor = tensor;
    binding->reads = reads;
    binding->writes = writes;
    binding->offset_word = word;
    binding->element_bytes = (uint8_t)diti_element_size(info->format);
    binding->group_div = UINT32_MAX; /* every workgroup may touch all of it, and nothing behind it */
    binding->group_step = (uint64_t)info->rows * info->pitch;
    dispatch->memory_bytes += (double)info->rows * info->columns * binding->element_bytes * (reads && writes ? 2 : 1);
}

DIT_INTERNAL void diti_op_bind_rows(const diti_graph *graph, diti_dispatch *dispatch, uint32_t index, uint32_t div,
                                    uint64_t rows, uint64_t before, uint64_t after) {
    diti_binding *binding = &dispatch->bindings[index];
    uint64_t pitch = diti_tensor_get(graph, binding->tensor)->pitch;
    if (!binding->tensor) return;
    binding->group_div = div;
    binding->group_step = rows * pitch;
    binding->before = before * pitch;
    binding->after = after * pitch;
}

DIT_INTERNAL void diti_op_emit(diti_graph *graph, diti_dispatch *dispatch, uint64_t groups, uint32_t push_count) {
    if (groups > UINT32_MAX - 65536u) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s is too large", dispatch->name);
        return;
    }
    dispatch->groups = (uint32_t)groups;
    dispatch->push_count = push_count;
    diti_graph_dispatch(graph, dispatch);
}

DIT_INTERNAL bool diti_op_aligned(const diti_graph *graph, diti_tensor tensor) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    return !tensor || (info->first % 4 == 0 && info->pitch % 4 == 0);
}

DIT_INTERNAL bool diti_op_vector(const diti_graph *graph, diti_tensor tensor) {
    return diti_op_aligned(graph, tensor) && (!tensor || diti_tensor_get(graph, tensor)->columns % 4 == 0);
}

DIT_INTERNAL diti_tensor diti_op_align(diti_graph *graph, diti_tensor tensor, const char *name) {
    diti_elementwise_desc copy = DITI_ZERO;
    diti_tensor_info info;
    if (diti_graph_failed(graph) || diti_op_aligned(graph, tensor)) return tensor;
    info = *diti_tensor_get(graph, tensor);
    copy.name = name;
    copy.out = diti_tensor_new(graph, info.format, info.rows, (info.columns + 3u) & ~3u, name);
    copy.out = diti_tensor_view(graph, copy.out, 0, info.rows, 0, info.columns);
    return diti_elementwise(graph, tensor, &copy);
}

DIT_INTERNAL uint32_t diti_op_float(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

DIT_INTERNAL bool diti_op_writable(diti_graph *graph, diti_tensor tensor, uint32_t rows, uint32_t columns,
                                   const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    if (diti_graph_failed(graph)) return false;
    if (info->format == DITI_U32 || info->rows != rows || info->columns != columns) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s writes [%u, %u] floats, tensor %s is [%u, %u]", name,
                        rows, columns, info->name, info->rows, info->columns);
        return false;
    }
    if (info->format == DITI_F16 && (info->first % 2 || info->pitch % 2)) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                        "op %s cannot write F16 tensor %s [%u, %u]: its rows begin at odd elements", name, info->name,
                        rows, columns);
        return false;
    }
    return true;
}

DIT_INTERNAL diti_tensor diti_op_vector_weight(diti_graph *graph, const diti_weight *weight, uint32_t columns,
                                               const char *name) {
    if (!weight || !weight->part_count || diti_graph_failed(graph)) return 0;
    if (weight->type != DIT_TYPE_F32 || weight->part_count != 1 ||
        (uint64_t)weight->rows * weight->columns != columns) {
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s wants %u F32 values, %s is [%u, %u] of %s",
                               name, columns, weight->name ? weight->name : "the vector", weight->rows, weight->columns,
                               diti_type_name(weight->type));
    }
    return diti_tensor_reshape(graph, diti_tensor_weight(graph, weight, 0), 1, columns);
}

/* ======== src/graph/ops_elementwise.c (edit it there; dit.h is generated) ======== */
/* Ops that work on each element alone (shaders/elementwise.comp) or move between planes and rows (shaders/pixels.comp).
 */

#define DITI_ELEMENTWISE_GROUP 64u /* invocations; each does four columns */

/* Numbers shared with the shaders. */
enum { DITI_OP_MAP, DITI_OP_SELECT, DITI_OP_ADVANCE, DITI_OP_SOLVER };
enum { DITI_OP_PATCHIFY, DITI_OP_UNPATCHIFY, DITI_OP_PLANES_TO_ROWS, DITI_OP_IMAGE };

static bool diti_small_begin(diti_graph *graph, diti_dispatch *dispatch, const char *name, const char *module,
                             uint32_t op) {
    if (!diti_op_begin(graph, dispatch, name, module, DITI_ELEMENTWISE_GROUP)) return false;
    dispatch->constants[1] = op;
    dispatch->constant_count = 10;
    return true;
}

/* Rows without gaps are one run of elements, so a slice of workgroups touches one run of them. */
static void diti_small_bind_run(const diti_graph *graph, diti_dispatch *dispatch, uint32_t index) {
    const diti_tensor_info *info = diti_tensor_get(graph, dispatch->bindings[index].tensor);
    if (!dispatch->bindings[index].tensor || info->columns % 4 != 0 || info->pitch != info->columns) return;
    dispatch->bindings[index].group_div = 1;
    dispatch->bindings[index].group_step = DITI_ELEMENTWISE_GROUP * 4u;
}

/* rows x columns of results, four columns to an invocation. */
static void diti_small_emit(diti_graph *graph, diti_dispatch *dispatch, uint32_t rows, uint32_t columns,
                            uint32_t push_count) {
    uint64_t invocations = (uint64_t)rows * ((columns + 3u) / 4u);
    dispatch->push[1] = rows;
    dispatch->push[2] = columns;
    diti_op_emit(graph, dispatch, (invocations + DITI_ELEMENTWISE_GROUP - 1) / DITI_ELEMENTWISE_GROUP, push_count);
}

static bool diti_small_is_float(const diti_tensor_info *info) { return info->format != DITI_U32; }

/* --- elementwise.comp --- */

static bool diti_elementwise_check(diti_graph *graph, const diti_tensor_info *x, const diti_tensor_info *out,
                                   const diti_tensor_info *add, const char *name) {
    if (x->rows == out->rows && x->columns == out->columns && (!add || add->columns == x->columns) &&
        diti_small_is_float(x) && diti_small_is_float(out))
        return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s [%u, %u] and %s [%u, %u] do not fit", name, x->name,
                    x->rows, x->columns, out->name, out->rows, out->columns);
    return false;
}

DIT_INTERNAL diti_tensor diti_elementwise(diti_graph *graph, diti_tensor x, const diti_elementwise_desc *desc) {
    const diti_tensor_info *from = diti_tensor_get(graph, x), *to, *add;
    const char *name = desc->name ? desc->name : "elementwise";
    diti_tensor out = desc->out;
    diti_dispatch dispatch;
    if (!diti_small_begin(graph, &dispatch, name, "elementwise", DITI_OP_MAP)) return 0;
    if (!out)
        out = diti_tensor_new(graph, desc->out_f32 ? DITI_F32 : graph->activation, from->rows, from->columns, name);
    if (!out) return 0;
    from = diti_tensor_get(graph, x); /* making a tensor may move the table */
    to = diti_tensor_get(graph, out);
    add = desc->add ? diti_tensor_get(graph, desc->add) : NULL;
    if (!diti_elementwise_check(graph, from, to, add, name)) return 0;
    dispatch.constants[2] = from->format;
    dispatch.constants[3] = to->format;
    dispatch.constants[4] = (uint32_t)desc->activation;
    dispatch.constants[5] = add != NULL;
    dispatch.constants[6] = diti_op_vector(graph, x) && diti_op_vector(graph, out) && diti_op_vector(graph, desc->add);
    dispatch.push[4] = from->pitch;
    dispatch.push[6] = add ? add->pitch : 0;
    dispatch.push[7] = add ? add->rows : 0;
    dispatch.push[9] = to->pitch;
    dispatch.push[10] = diti_op_float(desc->scale != 0 ? desc->scale : 1.0f);
    dispatch.push[11] = diti_op_float(desc->offset);
    diti_op_bind(graph, &dispatch, 0, x, 3, true, false);
    diti_op_bind(graph, &dispatch, 1, desc->add, 5, true, false);
    diti_op_bind(graph, &dispatch, 2, out, 8, false, true);
    diti_small_bind_run(graph, &dispatch, 0);
    diti_small_bind_run(graph, &dispatch, 2);
    diti_small_emit(graph, &dispatch, from->rows, from->columns, 12);
    return out;
}

DIT_INTERNAL diti_tensor diti_select_row(diti_graph *graph, diti_tensor table, diti_tensor step, const char *name) {
    const diti_tensor_info *from = diti_tensor_get(graph, table);
    diti_dispatch dispatch;
    diti_tensor out;
    if (!diti_small_begin(graph, &dispatch, name, "elementwise", DITI_OP_SELECT)) return 0;
    out = diti_tensor_new(graph, DITI_F32, 1, from->columns, name);
    if (!out) return 0;
    from = diti_tensor_get(graph, table);
    if (from->format != DITI_F32)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: table %s must be F32", name, from->name);
    dispatch.constants[6] = diti_op_vector(graph, table);
    dispatch.push[4] = from->pitch;
    dispatch.push[9] = diti_tensor_get(graph, out)->pitch;
    diti_op_bind(graph, &dispatch, 0, table, 3, true, false);
    diti_op_bind(graph, &dispatch, 1, step, 5, true, false);
    diti_op_bind(graph, &dispatch, 2, out, 8, false, true);
    dispatch.memory_bytes = 8.0 * from->columns;
    diti_small_emit(graph, &dispatch, 1, from->columns, 12);
    return out;
}

DIT_INTERNAL void diti_advance_step(diti_graph *graph, diti_tensor step) {
    diti_dispatch dispatch;
    if (!diti_small_begin(graph, &dispatch, "advance step", "elementwise", DITI_OP_ADVANCE)) return;
    diti_op_bind(graph, &dispatch, 2, step, 8, true, true);
    diti_small_emit(graph, &dispatch, 1, 1, 12);
}

/* x, h1, h2, x0 and noise have one shape and whole groups of four columns in memory. */
static bool diti_solver_fits(diti_graph *graph, diti_tensor x, diti_tensor other) {
    const diti_tensor_info *a = diti_tensor_get(graph, x), *b = diti_tensor_get(graph, other);
    if (!other) return true;
    if (b->format == DITI_F32 && a->rows == b->rows && a->columns == b->columns && a->pitch == b->pitch &&
        b->first % 4 == 0 && b->pitch % 4 == 0)
        return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "solver step: %s [%u, %u] does not match %s [%u, %u]", b->name,
                    b->rows, b->columns, a->name, a->rows, a->columns);
    return false;
}

DIT_INTERNAL void diti_solver_step(diti_graph *graph, diti_tensor prediction, const diti_solver_desc *desc) {
    const diti_tensor_info *x = diti_tensor_get(graph, desc->x), *m = diti_tensor_get(graph, prediction);
    diti_dispatch dispatch;
    if (!diti_small_begin(graph, &dispatch, "solver step", "elementwise", DITI_OP_SOLVER)) return;
    if (!diti_solver_fits(graph, desc->x, desc->x) || !diti_solver_fits(graph, desc->x, desc->h1) ||
        !diti_solver_fits(graph, desc->x, desc->h2) || !diti_solver_fits(graph, desc->x, desc->x0) ||
        !diti_solver_fits(graph, desc->x, desc->noise)) {
        return;
    }
    if (m->format != DITI_F32 || m->rows != x->rows * (desc->guided ? 2u : 1u) || m->columns != x->columns ||
        m->pitch % 4 || m->first % 4) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                        "solver step: prediction %s [%u, %u] does not match %s [%u, %u]", m->name, m->rows, m->columns,
                        x->name, x->rows, x->columns);
        return;
    }
    dispatch.constants[7] = desc->guided;
    dispatch.constants[8] = desc->x0 != 0;
    dispatch.constants[9] = desc->noise != 0;
    dispatch.push[4] = m->pitch;
    dispatch.push[9] = x->pitch;
    diti_op_bind(graph, &dispatch, 0, prediction, 3, true, false);
    diti_op_bind(graph, &dispatch, 1, desc->coefficients, 5, true, false);
    diti_op_bind(graph, &dispatch, 2, desc->x, 8, true, true);
    diti_op_bind(graph, &dispatch, 3, desc->h1, 12, true, true);
    diti_op_bind(graph, &dispatch, 4, desc->h2, 13, true, true);
    diti_op_bind(graph, &dispatch, 5, desc->x0, 14, false, true);
    diti_op_bind(graph, &dispatch, 6, desc->noise, 15, true, false);
    diti_op_bind(graph, &dispatch, 7, desc->health, 16, true, true);
    diti_small_emit(graph, &dispatch, x->rows, x->columns, 17);
}

/* --- pixels.comp --- */

static void diti_pixels_push(diti_dispatch *dispatch, const diti_tensor_info *from, const diti_tensor_info *to,
                             uint32_t batch, uint32_t channels, uint32_t grid_height, uint32_t grid_width,
                             uint32_t patch, uint32_t token_channels) {
    dispatch->constants[2] = from->format;
    dispatch->constants[3] = to->format;
    dispatch->push[4] = from->pitch;
    dispatch->push[6] = to->pitch;
    dispatch->push[8] = batch;
    dispatch->push[9] = channels;
    dispatch->push[10] = grid_height;
    dispatch->push[11] = grid_width;
    dispatch->push[12] = patch;
    dispatch->push[13] = token_channels;
    dispatch->push[14] = diti_op_float(1.0f);
}

static void diti_pixels_emit(diti_graph *graph, diti_dispatch *dispatch, diti_tensor from, diti_tensor to) {
    diti_op_bind(graph, dispatch, 0, from, 3, true, false);
    diti_op_bind(graph, dispatch, 2, to, 5, false, true);
    diti_small_emit(graph, dispatch, diti_tensor_get(graph, to)->rows, diti_tensor_get(graph, to)->columns, 19);
}

static bool diti_pixels_fit(diti_graph *graph, const diti_tensor_info *tensor, uint64_t rows, uint64_t columns,
                            const char *name) {
    if (tensor->rows == rows && tensor->columns == columns) return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s is [%u, %u], wanted is [%llu, %llu]", name,
                    tensor->name, tensor->rows, tensor->columns, (unsigned long long)rows, (unsigned long long)columns);
    return false;
}

DIT_INTERNAL diti_tensor diti_patchify(diti_graph *graph, diti_tensor latent, uint32_t batch, uint32_t channels,
                                       uint32_t height, uint32_t width, uint32_t patch, uint32_t copies,
                                       diti_tensor input) {
    const diti_tensor_info *from = diti_tensor_get(graph, latent);
    uint32_t grid_height = height / patch, grid_width = width / patch;
    diti_dispatch dispatch;
    diti_tensor out;
    if (!diti_small_begin(graph, &dispatch, "patchify", "pixels", DITI_OP_PATCHIFY)) return 0;
    if (!diti_pixels_fit(graph, from, (uint64_t)batch * channels, (uint64_t)height * width, "patchify")) return 0;
    out = diti_tensor_new(graph, graph->activation, copies * batch * grid_height * grid_width, channels * patch * patch,
                          "patches");
    if (!out) return 0;
    diti_pixels_push(&dispatch, diti_tensor_get(graph, latent), diti_tensor_get(graph, out), batch, channels,
                     grid_height, grid_width, patch, 0);
    dispatch.constants[4] = input != 0;
    diti_op_bind(graph, &dispatch, 1, input, 7, true, false);
    diti_pixels_emit(graph, &dispatch, latent, out);
    return out;
}

DIT_INTERNAL diti_tensor diti_unpatchify(diti_graph *graph, diti_tensor tokens, uint32_t batch, uint32_t channels,
                                         uint32_t out_channels, uint32_t height, uint32_t width, uint32_t patch) {
    const diti_tensor_info *from = diti_tensor_get(graph, tokens);
    uint32_t grid_height = height / patch, grid_width = width / patch;
    diti_dispatch dispatch;
    diti_tensor out;
    if (!diti_small_begin(graph, &dispatch, "unpatchify", "pixels", DITI_OP_UNPATCHIFY)) return 0;
    if (!diti_pixels_fit(graph, from, (uint64_t)batch * grid_height * grid_width,
                         (uint64_t)patch * patch * out_channels, "unpatchify"))
        return 0;
    out = diti_tensor_new(graph, DITI_F32, batch * channels, height * width, "prediction");
    if (!out) return 0;
    diti_pixels_push(&dispatch, diti_tensor_get(graph, tokens), diti_tensor_get(graph, out), batch, channels,
                     grid_height, grid_width, patch, out_channels);
    diti_pixels_emit(graph, &dispatch, tokens, out);
    return out;
}

DIT_INTERNAL diti_tensor diti_planar_to_rows(diti_graph *graph, diti_tensor planar, uint32_t batch, uint32_t channels,
                                             float scale, float shift) {
    uint32_t area = diti_tensor_get(graph, planar)->columns;
    diti_dispatch dispatch;
    diti_tensor out;
    if (!diti_small_begin(graph, &dispatch, "planes to rows", "pixels", DITI_OP_PLANES_TO_ROWS)) return 0;
    if (!diti_pixels_fit(graph, diti_tensor_get(graph, planar), (uint64_t)batch * channels, area, "planes to rows"))
        return 0;
    out = diti_tensor_new(graph, graph->activation, batch * area, channels, "rows");
    if (!out) return 0;
    diti_pixels_push(&dispatch, diti_tensor_get(graph, planar), diti_tensor_get(graph, out), batch, channels, 1, area,
                     1, 0);
    dispatch.push[14] = diti_op_float(scale);
    dispatch.push[15] = diti_op_float(shift);
    diti_pixels_emit(graph, &dispatch, planar, out);
    return out;
}

DIT_INTERNAL void diti_image_out(diti_graph *graph, diti_tensor rows, diti_tensor rgba, diti_tensor rgb, bool swap,
                                 diti_tensor health) {
    const diti_tensor_info *from = diti_tensor_get(graph, rows);
    uint32_t pixels = from->rows;
    diti_dispatch dispatch;
    if (!diti_small_begin(graph, &dispatch, "image", "pixels", DITI_OP_IMAGE)) return;
    if (from->columns < 3 || (rgba && !diti_pixels_fit(graph, diti_tensor_get(graph, rgba), 1, pixels, "image")) ||
        (rgb && !diti_pixels_fit(graph, diti_tensor_get(graph, rgb), 3, pixels, "image"))) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op image: %s has %u channels, 3 are needed", from->name,
                        from->columns);
        return;
    }
    dispatch.constants[2] = from->format;
    dispatch.constants[5] = rgba != 0;
    dispatch.constants[6] = rgb != 0;
    dispatch.constants[7] = swap;
    dispatch.constants[8] = health != 0;
    dispatch.push[4] = from->pitch;
    dispatch.push[17] = rgb ? diti_tensor_get(graph, rgb)->pitch : 0;
    diti_op_bind(graph, &dispatch, 0, rows, 3, true, false);
    diti_op_bind(graph, &dispatch, 2, rgba, 5, false, true);
    diti_op_bind(graph, &dispatch, 3, rgb, 16, false, true);
    diti_op_bind(graph, &dispatch, 4, health, 18, true, true);
    diti_small_emit(graph, &dispatch, 1, pixels, 19);
}

/* ======== src/graph/ops_expand.c (edit it there; dit.h is generated) ======== */
/* Stored weights as matrices that kernels read (shaders/expand.comp), and rows of tables by index. */

#define DITI_EXPAND_GROUP 64u                  /* invocations; each makes four elements */
#define DITI_EXPAND_BYTES ((uint64_t)32 << 20) /* of one expanded chunk, at most */

static diti_element diti_expand_format(const diti_graph *graph) { return graph->activation; }

/* Elements of an expanded row: taps of channels, each padded to a multiple of 4. */
static uint32_t diti_expand_pitch(const diti_weight *weight) {
    uint32_t taps = weight->kernel > 1 ? weight->kernel * weight->kernel : 1;
    return (weight->columns / taps + 3u) / 4u * 4u * taps;
}

static bool diti_expand_is_direct(const diti_weight *weight) {
    return (weight->type == DIT_TYPE_F32 || weight->type == DIT_TYPE_F16) && weight->kernel <= 1 &&
           weight->columns % 4 == 0;
}

DIT_INTERNAL uint32_t diti_op_expand_rows(const diti_graph *graph, const diti_weight *weight, uint32_t part) {
    uint64_t limit = graph->device->limits.storage_range, row, rows;
    if (diti_expand_is_direct(weight)) {
        row = (uint64_t)weight->columns * (weight->type == DIT_TYPE_F16 ? 2u : 4u);
    } else {
        row = (uint64_t)diti_expand_pitch(weight) * diti_element_size(diti_expand_format(graph));
        if (limit > DITI_EXPAND_BYTES) limit = DITI_EXPAND_BYTES;
    }
    limit -= limit > 4096 ? 1024 : 0; /* bindings begin at aligned offsets */
    rows = limit / row;
    rows = rows > 64 ? rows / 64 * 64 : rows > 4 ? rows / 4 * 4 : rows ? rows : 1;
    return rows < weight->parts[part].rows ? (uint32_t)rows : weight->parts[part].rows;
}

static void diti_expand_constants(diti_dispatch *dispatch, const diti_weight *weight, diti_element format, bool gather,
                                  uint32_t run) {
    dispatch->constants[1] = (uint32_t)weight->type;
    dispatch->constants[2] = format;
    dispatch->constants[3] = weight->kernel > 1;
    dispatch->constants[4] = gather;
    dispatch->constants[5] = run;
    dispatch->constant_count = 6;
}

/* Push words that describe the stored rows; false for a type that no kernel reads. */
static bool diti_expand_source(diti_graph *graph, diti_dispatch *dispatch, const diti_weight *weight, uint32_t rows,
                               uint32_t first) {
    uint32_t taps = weight->kernel > 1 ? weight->kernel * weight->kernel : 1;
    uint64_t row_bytes;
    if (weight->type < DIT_TYPE_F32 || weight->type > DIT_TYPE_Q6_K ||
        !diti_type_bytes(weight->type, 1, weight->columns, &row_bytes)) {
        diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "weight %s [%u, %u]: no kernel reads type %s in such rows",
                        weight->name ? weight->name : "", weight->rows, weight->columns, diti_type_name(weight->type));
        return false;
    }
    dispatch->push[1] = rows;
    dispatch->push[2] = (uint32_t)row_bytes;
    dispatch->push[4] = first;
    dispatch->push[5] = weight->columns / taps;
    dispatch->push[6] = (weight->columns / taps + 3u) / 4u * 4u;
    dispatch->push[7] = taps;
    dispatch->push[10] = diti_type_block_bytes(weight->type);
    return true;
}

/* Software drivers divide slowly, one lane after the other: there an invocation makes a whole run of elements. */
static uint32_t diti_expand_run(const diti_graph *graph) { return graph->device->is_cpu ? 8 : 1; }

static void diti_expand_emit(diti_graph *graph, diti_dispatch *dispatch, diti_tensor source, diti_tensor out,
                             uint32_t rows) {
    uint32_t pitch = diti_tensor_get(graph, out)->pitch, run = dispatch->constants[5];
    uint32_t quads = dispatch->push[6] * dispatch->push[7] / 4, runs = (quads + run - 1) / run;
    dispatch->push[9] = pitch;
    diti_op_bind(graph, dispatch, 0, source, 3, true, false);
    dispatch->bindings[0].element_bytes = 4;
    dispatch->bindings[0].group_step = 0; /* packed bytes, not elements */
    diti_op_bind(graph, dispatch, 1, out, 8, false, true);
    diti_op_bind_rows(graph, dispatch, 1, runs, DITI_EXPAND_GROUP, 0,
                      0); /* `runs` workgroups make as many rows as one has invocations */
    diti_op_emit(graph, dispatch, ((uint64_t)rows * runs + DITI_EXPAND_GROUP - 1) / DITI_EXPAND_GROUP, 15);
}

DIT_INTERNAL diti_tensor diti_op_expand(diti_graph *graph, const diti_weight *weight, uint32_t part, uint32_t first,
                                        uint32_t rows, const char *name) {
    diti_tensor source = diti_tensor_weight(graph, weight, part), out;
    diti_dispatch dispatch;
    if (!source) return 0;
    if (diti_expand_is_direct(weight)) return diti_tensor_view(graph, source, first, rows, 0, weight->columns);
    if (!diti_op_begin(graph, &dispatch, "expand", "expand", DITI_EXPAND_GROUP)) return 0;
    diti_expand_constants(&dispatch, weight, diti_expand_format(graph), false, diti_expand_run(graph));
    if (!diti_expand_source(graph, &dispatch, weight, rows, first)) return 0;
    out = diti_tensor_new(graph, diti_expand_format(graph), rows, diti_expand_pitch(weight), name);
    if (!out) return 0;
    diti_expand_emit(graph, &dispatch, source, out, rows);
    return out;
}

DIT_INTERNAL diti_tensor diti_gather_rows(diti_graph *graph, const diti_weight *table, diti_tensor ids,
                                          const char *name) {
    uint32_t count, part;
    diti_tensor out, aligned;
    if (diti_graph_failed(graph)) return 0;
    count = diti_tensor_get(graph, ids)->columns;
    out = diti_tensor_new(graph, DITI_F32, count, table->columns, name);
    aligned = out;
    if (table->columns % 4) { /* the kernel writes whole groups of four */
        aligned = diti_tensor_new(graph, DITI_F32, count, (table->columns + 3u) & ~3u, name);
        out = diti_tensor_view(graph, aligned, 0, count, 0, table->columns);
    }
    for (part = 0; part < table->part_count; part++) {
        diti_tensor source = diti_tensor_weight(graph, table, part);
        diti_dispatch dispatch;
        if (!source || !diti_op_begin(graph, &dispatch, "gather rows", "expand", DITI_EXPAND_GROUP)) return 0;
        diti_expand_constants(&dispatch, table, DITI_F32, true, diti_expand_run(graph));
        if (!diti_expand_source(graph, &dispatch, table, count, 0)) return 0;
        dispatch.constants[3] = 0;
        dispatch.push[12] = table->parts[part].first_row;
        dispatch.push[13] = table->parts[part].rows;
        dispatch.push[14] = part + 1 == table->part_count;
        diti_op_bind(graph, &dispatch, 2, ids, 11, true, false);
        diti_expand_emit(graph, &dispatch, source, aligned, count);
    }
    return out;
}

/* ======== src/graph/ops_gemm.c (edit it there; dit.h is generated) ======== */
/* Matrix products with their epilogue: linear layers and convolutions (shaders/gemm_cpu.comp, gemm_gpu.comp,
 * gemv_gpu.comp). */

/* Push words of gemm.glsl. */
enum {
    DITI_GEMM_ROWS = 1,
    DITI_GEMM_COLUMNS,
    DITI_GEMM_DEPTH,
    DITI_GEMM_A,
    DITI_GEMM_A_PITCH,
    DITI_GEMM_W,
    DITI_GEMM_W_PITCH,
    DITI_GEMM_OUT,
    DITI_GEMM_OUT_PITCH,
    DITI_GEMM_BIAS,
    DITI_GEMM_MULTIPLY,
    DITI_GEMM_MULTIPLY_PITCH,
    DITI_GEMM_GATE,
    DITI_GEMM_GATE_PITCH,
    DITI_GEMM_ROWS_PER_GATE,
    DITI_GEMM_RESIDUAL,
    DITI_GEMM_RESIDUAL_PITCH,
    DITI_GEMM_TILES_M,
    DITI_GEMM_TILES_N,
    DITI_GEMM_BAND,
    DITI_GEMM_HEIGHT,
    DITI_GEMM_WIDTH,
    DITI_GEMM_OUT_HEIGHT,
    DITI_GEMM_OUT_WIDTH,
    DITI_GEMM_KERNEL,
    DITI_GEMM_STRIDE,
    DITI_GEMM_PAD,
    DITI_GEMM_UPSAMPLE,
    DITI_GEMM_PUSH_WORDS
};
enum { DITI_GEMM_PART_BIAS = 1, DITI_GEMM_PART_MULTIPLY = 2, DITI_GEMM_PART_GATE = 4, DITI_GEMM_PART_RESIDUAL = 8 };
#define DITI_GEMM_FEW_ROWS 8u /* a matrix-vector product on GPUs */

typedef struct diti_gemm_tiles {
    const char *module;
    uint32_t group, rows, columns, band;
    uint32_t constants[3], constant_count; /* from id 10 on */
} diti_gemm_tiles;

static uint64_t diti_gemm_row_bytes(const diti_graph *graph, diti_tensor tensor) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    return tensor ? (uint64_t)info->pitch * diti_element_size(info->format) : 0;
}

/* Tile rows that one binding can hold: slices are cut between bands. */
static uint64_t diti_gemm_rows_at_once(const diti_graph *graph, const diti_gemm *gemm) {
    diti_tensor tensors[4];
    uint64_t most = 1, i;
    tensors[0] = gemm->x;
    tensors[1] = gemm->out;
    tensors[2] = gemm->multiply;
    tensors[3] = gemm->residual;
    for (i = 0; i < 4; i++) {
        uint64_t bytes = diti_gemm_row_bytes(graph, tensors[i]);
        if (bytes > most) most = bytes;
    }
    return graph->device->limits.storage_range / most;
}

static uint32_t diti_gemm_ceil(uint32_t a, uint32_t b) { return a / b + (a % b != 0); }

/* Lanes run over rows of A, or over W's where A has few; each lane owns four. */
static void diti_gemm_tiles_cpu(const diti_graph *graph, const diti_gemm *gemm, diti_gemm_tiles *out) {
    uint32_t lanes = graph->device->limits.subgroup_size, spread = 32;
    bool swap = gemm->rows <= 16 && !gemm->image;
    if (swap) spread = gemm->rows <= lanes ? lanes : 2 * lanes;
    out->module = "gemm_cpu";
    out->group = lanes;
    out->rows = swap ? spread : lanes * 4;
    out->columns = swap ? lanes * 4 : spread;
    out->band = 4;
    out->constants[0] = 4;
    out->constants[1] = spread;
    out->constants[2] = swap;
    out->constant_count = 3;
}

static void diti_gemm_tiles_gpu(const diti_graph *graph, const diti_gemm *gemm, diti_gemm_tiles *out) {
    const diti_limits *limits = &graph->device->limits;
    uint64_t tiles = (uint64_t)diti_gemm_ceil(gemm->rows, 128) * diti_gemm_ceil(gemm->columns, 64);
    bool large = limits->group_invocations >= 256 && tiles >= 256 && diti_gemm_rows_at_once(graph, gemm) >= 256;
    if (gemm->rows <= DITI_GEMM_FEW_ROWS && !gemm->image) {
        out->module = "gemv_gpu";
        out->group = 64;
        out->rows = gemm->rows <= 1 ? 1 : gemm->rows <= 2 ? 2 : gemm->rows <= 4 ? 4 : 8;
        out->columns = 4;
        out->constants[0] = out->rows;
        out->constant_count = 1;
        out->band = 1;
        return;
    }
    out->module = "gemm_gpu";
    out->group = large ? 256 : 128;
    out->rows = large ? 128 : 64;
    out->columns = 64;
    out->constants[0] = 8;
    out->constants[1] = 4;
    out->constant_count = 2;
    out->band = 8;
}

static uint32_t diti_gemm_pitch(const diti_graph *graph, diti_tensor tensor) {
    return tensor ? diti_tensor_get(graph, tensor)->pitch : 0;
}

static uint32_t diti_gemm_format(const diti_graph *graph, diti_tensor tensor) {
    return tensor ? (uint32_t)diti_tensor_get(graph, tensor)->format : 0;
}

static void diti_gemm_constants(const diti_graph *graph, const diti_gemm *gemm, const diti_gemm_tiles *tiles,
                                diti_dispatch *dispatch) {
    uint32_t *c = dispatch->constants;
    c[1] = diti_gemm_format(graph, gemm->x);
    c[2] = diti_gemm_format(graph, gemm->weight);
    c[3] = diti_gemm_format(graph, gemm->out);
    c[4] = diti_gemm_format(graph, gemm->residual) | diti_gemm_format(graph, gemm->multiply) << 1;
    c[5] = (gemm->bias ? (uint32_t)DITI_GEMM_PART_BIAS : 0) | (gemm->multiply ? (uint32_t)DITI_GEMM_PART_MULTIPLY : 0) |
           (gemm->gate ? (uint32_t)DITI_GEMM_PART_GATE : 0) | (gemm->residual ? (uint32_t)DITI_GEMM_PART_RESIDUAL : 0);
    c[6] = gemm->activation;
    c[7] = diti_op_vector(graph, gemm->out) && diti_op_vector(graph, gemm->bias) && diti_op_vector(graph, gemm->gate) &&
           diti_op_vector(graph, gemm->multiply) && diti_op_vector(graph, gemm->residual);
    c[8] = gemm->depth % 4 != 0;
    c[9] = gemm->image != NULL;
    memcpy(c + 10, tiles->constants, sizeof tiles->constants);
    dispatch->constant_count = 10 + tiles->constant_count;
}

static void diti_gemm_push(const diti_graph *graph, const diti_gemm *gemm, const diti_gemm_tiles *tiles,
                           uint32_t *push) {
    push[DITI_GEMM_ROWS] = gemm->rows;
    push[DITI_GEMM_COLUMNS] = gemm->columns;
    push[DITI_GEMM_DEPTH] = gemm->depth;
    push[DITI_GEMM_A_PITCH] = diti_gemm_pitch(graph, gemm->x);
    push[DITI_GEMM_W_PITCH] = diti_gemm_pitch(graph, gemm->weight);
    push[DITI_GEMM_OUT_PITCH] = diti_gemm_pitch(graph, gemm->out);
    push[DITI_GEMM_MULTIPLY_PITCH] = diti_gemm_pitch(graph, gemm->multiply);
    push[DITI_GEMM_GATE_PITCH] = diti_gemm_pitch(graph, gemm->gate);
    push[DITI_GEMM_ROWS_PER_GATE] = gemm->rows_per_gate;
    push[DITI_GEMM_RESIDUAL_PITCH] = diti_gemm_pitch(graph, gemm->residual);
    push[DITI_GEMM_TILES_M] = diti_gemm_ceil(gemm->rows, tiles->rows);
    push[DITI_GEMM_TILES_N] = diti_gemm_ceil(gemm->columns, tiles->columns);
    push[DITI_GEMM_BAND] = tiles->band;
    if (!gemm->image) return;
    push[DITI_GEMM_HEIGHT] = gemm->image->height;
    push[DITI_GEMM_WIDTH] = gemm->image->width;
    push[DITI_GEMM_OUT_HEIGHT] = gemm->image->out_height;
    push[DITI_GEMM_OUT_WIDTH] = gemm->image->out_width;
    push[DITI_GEMM_KERNEL] = gemm->image->kernel;
    push[DITI_GEMM_STRIDE] = gemm->image->stride;
    push[DITI_GEMM_PAD] = gemm->image->pad;
    push[DITI_GEMM_UPSAMPLE] = gemm->image->upsample;
}

/* The rows of x that output rows need: as many, or those of the image around the same place, where input and output
   pixels stand in a whole ratio; else a slice binds all of x. */
static void diti_gemm_bind_x(const diti_graph *graph, const diti_gemm *gemm, diti_dispatch *dispatch, uint32_t div,
                             uint64_t rows) {
    const diti_gemm_image *image = gemm->image;
    uint64_t in, out, margin;
    if (!image) {
        diti_op_bind_rows(graph, dispatch, 0, div, rows, 0, 0);
        return;
    }
    in = (uint64_t)(image->height >> image->upsample) * (image->width >> image->upsample);
    out = (uint64_t)image->out_height * image->out_width;
    if (rows * in % out) return;
    margin = 4 * (uint64_t)(image->width >> image->upsample) + 4;
    diti_op_bind_rows(graph, dispatch, 0, div, rows * in / out, margin, margin);
}

static void diti_gemm_bind(const diti_graph *graph, const diti_gemm *gemm, const diti_gemm_tiles *tiles,
                           diti_dispatch *dispatch) {
    uint32_t div = tiles->band * dispatch->push[DITI_GEMM_TILES_N];
    uint64_t rows = (uint64_t)tiles->band * tiles->rows;
    diti_op_bind(graph, dispatch, 0, gemm->x, DITI_GEMM_A, true, false);
    diti_op_bind(graph, dispatch, 1, gemm->weight, DITI_GEMM_W, true, false);
    diti_op_bind(graph, dispatch, 2, gemm->out, DITI_GEMM_OUT, false, true);
    diti_op_bind(graph, dispatch, 3, gemm->bias, DITI_GEMM_BIAS, true, false);
    diti_op_bind(graph, dispatch, 4, gemm->multiply, DITI_GEMM_MULTIPLY, true, false);
    diti_op_bind(graph, dispatch, 5, gemm->gate, DITI_GEMM_GATE, true, false);
    diti_op_bind(graph, dispatch, 6, gemm->residual, DITI_GEMM_RESIDUAL, true, false);
    diti_gemm_bind_x(graph, gemm, dispatch, div, rows);
    diti_op_bind_rows(graph, dispatch, 2, div, rows, 0, 0);
    diti_op_bind_rows(graph, dispatch, 4, div, rows, 0, 0);
    diti_op_bind_rows(graph, dispatch, 6, div, rows, 0, 0);
}

DIT_INTERNAL void diti_op_gemm(diti_graph *graph, const diti_gemm *gemm) {
    diti_gemm_tiles tiles = DITI_ZERO;
    diti_dispatch dispatch;
    uint32_t taps = gemm->image ? gemm->image->kernel * gemm->image->kernel : 1;
    if (diti_graph_failed(graph) || !diti_op_writable(graph, gemm->out, gemm->rows, gemm->columns, gemm->name)) return;
    if (graph->device->is_cpu)
        diti_gemm_tiles_cpu(graph, gemm, &tiles);
    else
        diti_gemm_tiles_gpu(graph, gemm, &tiles);
    while (tiles.band > 1 && (uint64_t)tiles.band * tiles.rows * 2 > diti_gemm_rows_at_once(graph, gemm))
        tiles.band /= 2;
    if (!diti_op_begin(graph, &dispatch, gemm->name, tiles.module, tiles.group)) return;
    diti_gemm_constants(graph, gemm, &tiles, &dispatch);
    diti_gemm_push(graph, gemm, &tiles, dispatch.push);
    diti_gemm_bind(graph, gemm, &tiles, &dispatch);
    dispatch.cost_kind = gemm->image ? DITI_COST_CONV : DITI_COST_GEMM;
    dispatch.flops = 2.0 * gemm->rows * gemm->columns * gemm->depth * taps;
    diti_op_emit(graph, &dispatch, (uint64_t)dispatch.push[DITI_GEMM_TILES_M] * dispatch.push[DITI_GEMM_TILES_N],
                 DITI_GEMM_PUSH_WORDS);
}

/* --- linear layers --- */

static bool diti_linear_operand(diti_graph *graph, diti_tensor tensor, uint32_t rows, uint32_t columns, bool f32,
                                const char *what, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    if (!tensor) return true;
    if (info->rows >= rows && info->columns == columns && info->format != DITI_U32 &&
        (!f32 || info->format == DITI_F32))
        return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s %s [%u, %u] does not fit [%u, %u]%s", name, what,
                    info->name, info->rows, info->columns, rows, columns, f32 ? " of F32" : "");
    return false;
}

static bool diti_linear_check(diti_graph *graph, diti_tensor x, const diti_weight *weight, const diti_linear_desc *desc,
                              const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, x);
    uint32_t gates;
    if (diti_graph_failed(graph)) return false;
    if (!weight->part_count || weight->columns != info->columns || info->format == DITI_U32) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s [%u, %u] does not fit weight %s [%u, %u]", name,
                        info->name, info->rows, info->columns, weight->name ? weight->name : "", weight->rows,
                        weight->columns);
        return false;
    }
    gates = desc->rows_per_gate ? diti_gemm_ceil(info->rows, desc->rows_per_gate) : 1;
    return diti_linear_operand(graph, desc->multiply, info->rows, weight->rows, false, "multiplier", name) &&
           diti_linear_operand(graph, desc->gate, gates, weight->rows, true, "gate", name) &&
           diti_linear_operand(graph, desc->residual, info->rows, weight->rows, false, "residual", name);
}

static diti_tensor diti_linear_columns(diti_graph *graph, diti_tensor tensor, uint32_t first, uint32_t count) {
    diti_tensor_info info = *diti_tensor_get(graph, tensor);
    if (!tensor || info.columns == count) return tensor;
    return diti_tensor_view(graph, tensor, 0, info.rows, first, count);
}

/* Output columns that belong to rows [first, first + rows) of a part of the weight. */
static void diti_linear_chunk(diti_graph *graph, diti_gemm gemm, const diti_weight *weight, uint32_t part,
                              uint32_t first, uint32_t rows) {
    uint32_t column = weight->parts[part].first_row + first;
    gemm.weight = diti_op_expand(graph, weight, part, first, rows, "expanded weight");
    gemm.columns = rows;
    gemm.bias = diti_linear_columns(graph, gemm.bias, column, rows);
    gemm.multiply = diti_linear_columns(graph, gemm.multiply, column, rows);
    gemm.gate = diti_linear_columns(graph, gemm.gate, column, rows);
    gemm.residual = diti_linear_columns(graph, gemm.residual, column, rows);
    gemm.out = diti_linear_columns(graph, gemm.out, column, rows);
    diti_op_gemm(graph, &gemm);
}

static void diti_linear_chunks(diti_graph *graph, const diti_gemm *gemm, const diti_weight *weight) {
    uint32_t part, first;
    for (part = 0; part < weight->part_count; part++) {
        uint32_t rows = weight->parts[part].rows, most = diti_op_expand_rows(graph, weight, part);
        for (first = 0; first < rows && !diti_graph_failed(graph); first += most)
            diti_linear_chunk(graph, *gemm, weight, part, first, rows - first < most ? rows - first : most);
    }
}

DIT_INTERNAL diti_tensor diti_linear(diti_graph *graph, diti_tensor x, const diti_weight *weight,
                                     const diti_linear_desc *desc) {
    const char *name = desc->name ? desc->name : "linear";
    diti_gemm gemm = DITI_ZERO;
    if (!diti_linear_check(graph, x, weight, desc, name)) return 0;
    gemm.x = diti_op_align(graph, x, name);
    gemm.rows = diti_tensor_get(graph, x)->rows;
    gemm.depth = weight->columns;
    gemm.bias = diti_op_vector_weight(graph, desc->bias, weight->rows, name);
    gemm.activation = (uint32_t)desc->activation;
    gemm.multiply = desc->multiply;
    gemm.gate = desc->gate;
    gemm.rows_per_gate = desc->rows_per_gate;
    gemm.residual = desc->residual;
    gemm.name = name;
    gemm.out = desc->out;
    if (!gemm.out) {
        gemm.out = diti_tensor_new(graph, desc->out_f32 ? DITI_F32 : graph->activation, gemm.rows, weight->rows, name);
    }
    if (!diti_op_writable(graph, gemm.out, gemm.rows, weight->rows, name)) return 0;
    diti_linear_chunks(graph, &gemm, weight);
    return gemm.out;
}

/* --- convolutions --- */

static bool diti_conv_check(diti_graph *graph, diti_tensor x, const diti_weight *weight, const diti_conv_desc *desc,
                            const diti_gemm_image *image, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, x);
    uint64_t rows = (uint64_t)desc->batch * desc->height * desc->width;
    uint32_t taps = weight->kernel * weight->kernel;
    if (diti_graph_failed(graph)) return false;
    if (info->rows != rows || info->format == DITI_U32 || !weight->part_count || !taps || weight->columns % taps ||
        info->columns != weight->columns / taps || !image->out_height || !image->out_width ||
        (uint64_t)desc->batch * image->out_height * image->out_width > UINT32_MAX) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                        "op %s: %s [%u, %u] as %u images of %u x %u does not fit weight %s [%u, %u] with kernel %u",
                        name, info->name, info->rows, info->columns, desc->batch, desc->height, desc->width,
                        weight->name ? weight->name : "", weight->rows, weight->columns, weight->kernel);
        return false;
    }
    return diti_linear_operand(graph, desc->residual, desc->batch * image->out_height * image->out_width, weight->rows,
                               false, "residual", name);
}

static uint32_t diti_conv_out(uint32_t size, const diti_conv_desc *desc, uint32_t kernel) {
    uint64_t padded = (uint64_t)size + desc->pad_before + desc->pad_after;
    return padded < kernel ? 0 : (uint32_t)((padded - kernel) / (desc->stride ? desc->stride : 1)) + 1;
}

DIT_INTERNAL diti_tensor diti_conv2d(diti_graph *graph, diti_tensor x, const diti_weight *weight,
                                     const diti_conv_desc *desc) {
    const char *name = desc->name ? desc->name : "convolution";
    diti_gemm_image image = DITI_ZERO;
    diti_gemm gemm = DITI_ZERO;
    image.kernel = weight->kernel ? weight->kernel : 1;
    image.stride = desc->stride ? desc->stride : 1;
    image.pad = desc->pad_before;
    image.upsample = desc->upsample;
    image.height = desc->height << image.upsample;
    image.width = desc->width << image.upsample;
    image.out_height = diti_conv_out(image.height, desc, image.kernel);
    image.out_width = diti_conv_out(image.width, desc, image.kernel);
    if (!diti_conv_check(graph, x, weight, desc, &image, name)) return 0;
    gemm.x = diti_op_align(graph, x, name);
    gemm.rows = desc->batch * image.out_height * image.out_width;
    gemm.depth = weight->columns / (image.kernel * image.kernel);
    gemm.bias = diti_op_vector_weight(graph, desc->bias, weight->rows, name);
    gemm.residual = desc->residual;
    gemm.name = name;
    if (image.kernel > 1 || image.stride > 1 || image.upsample || image.pad || desc->pad_after) gemm.image = &image;
    gemm.out = diti_tensor_new(graph, desc->out_f32 ? DITI_F32 : graph->activation, gemm.rows, weight->rows, name);
    if (!diti_op_writable(graph, gemm.out, gemm.rows, weight->rows, name)) return 0;
    diti_linear_chunks(graph, &gemm, weight);
    return gemm.out;
}

/* ======== src/graph/ops_attention.c (edit it there; dit.h is generated) ======== */
/* Attention (shaders/attention_cpu.comp, attention_gpu.comp) and what prepares queries and keys for it (qkv_post.comp).
 */

/* Push words of attention.glsl. */
enum {
    DITI_ATTENTION_QUERIES = 1,
    DITI_ATTENTION_KEYS,
    DITI_ATTENTION_HEADS,
    DITI_ATTENTION_HEAD_DIM,
    DITI_ATTENTION_BLOCKS,
    DITI_ATTENTION_SCALE,
    DITI_ATTENTION_Q,
    DITI_ATTENTION_Q_PITCH,
    DITI_ATTENTION_K,
    DITI_ATTENTION_K_PITCH,
    DITI_ATTENTION_V,
    DITI_ATTENTION_V_PITCH,
    DITI_ATTENTION_OUT,
    DITI_ATTENTION_OUT_PITCH,
    DITI_ATTENTION_LENGTHS,
    DITI_ATTENTION_BIAS,
    DITI_ATTENTION_BIAS_PITCH,
    DITI_ATTENTION_LSE,
    DITI_ATTENTION_LSE_PITCH,
    DITI_ATTENTION_PUSH_WORDS
};
enum { DITI_ATTENTION_PART_LENGTHS = 1, DITI_ATTENTION_PART_BIAS = 2, DITI_ATTENTION_PART_LSE = 4 };

typedef struct diti_attention_shape {
    uint32_t queries, keys, heads, head_dim, batch; /* queries and keys: per batch item */
} diti_attention_shape;

typedef struct diti_attention_tiles {
    const char *module;
    uint32_t group, block;        /* workgroup size and its queries */
    uint32_t quads, constants[2]; /* room for head_dim / 4; ids 6 and 7 */
} diti_attention_tiles;

/* Four queries to a lane, fewer where their output does not fit into shared memory. */
static bool diti_attention_tiles_cpu(const diti_device *device, uint32_t quads, double flops,
                                     diti_attention_tiles *out) {
    uint32_t lanes = device->limits.subgroup_size, each = 4;
    out->quads = (quads + 15u) / 16u * 16u;
    while (each > 1 && each * lanes * out->quads * 16u > device->limits.shared_bytes) each /= 2;
    out->module = "attention_cpu";
    out->group = lanes;
    out->block = lanes * each;
    out->constants[0] = each;
    out->constants[1] = flops < 1e8 ? 16 : 32; /* wide tiles run faster and take longer to compile */
    while (out->constants[1] < lanes) out->constants[1] *= 2;
    return each * lanes * out->quads * 16u <= device->limits.shared_bytes;
}

static bool diti_attention_tiles_gpu(const diti_device *device, uint32_t quads, diti_attention_tiles *out) {
    const uint32_t queries = 32;
    uint32_t keys = 32, bytes = 0;
    bool kept = false;
    for (; keys >= 4; keys /= 2) { /* keys or values, weights, and a little */
        bytes = keys * (quads + 1) * 16 + queries * (keys + 1) * 4 + 1024;
        if (bytes <= device->limits.shared_bytes) break;
    }
    if (keys >= 16) kept = bytes + queries * (quads + 1) * 16 <= device->limits.shared_bytes;
    out->module = "attention_gpu";
    out->group = 128;
    out->block = queries;
    out->quads = quads;
    out->constants[0] = keys;
    out->constants[1] = kept;
    return keys >= 4;
}

static bool diti_attention_input(diti_graph *graph, diti_tensor tensor, const diti_attention_shape *shape,
                                 uint32_t tokens, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    if (info->format != DITI_U32 && info->rows == shape->batch * tokens &&
        info->columns == shape->heads * shape->head_dim)
        return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s [%u, %u] is not %u x %u tokens of %u x %u channels",
                    name, info->name, info->rows, info->columns, shape->batch, tokens, shape->heads, shape->head_dim);
    return false;
}

static bool diti_attention_table(diti_graph *graph, diti_tensor tensor, diti_element format, uint32_t rows,
                                 uint32_t columns, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    if (!tensor || (info->format == format && info->rows == rows && info->columns == columns)) return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: table %s is [%u, %u], wanted is [%u, %u]", name,
                    info->name, info->rows, info->columns, rows, columns);
    return false;
}

static bool diti_attention_check(diti_graph *graph, diti_tensor q, diti_tensor k, diti_tensor v,
                                 const diti_attention_desc *desc, diti_attention_shape *shape, const char *name) {
    if (diti_graph_failed(graph)) return false;
    shape->batch = desc->batch ? desc->batch : 1;
    shape->heads = desc->heads;
    shape->head_dim = desc->head_dim;
    shape->queries = diti_tensor_get(graph, q)->rows / shape->batch;
    shape->keys = diti_tensor_get(graph, k)->rows / shape->batch;
    if (desc->head_dim == 0 || desc->head_dim > 512 || desc->heads == 0) {
        diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "op %s: %u heads of %u channels; 1 to 512 channels work",
                        name, desc->heads, desc->head_dim);
        return false;
    }
    return diti_attention_input(graph, q, shape, shape->queries, name) &&
           diti_attention_input(graph, k, shape, shape->keys, name) &&
           diti_attention_input(graph, v, shape, shape->keys, name) &&
           diti_attention_table(graph, desc->key_lengths, DITI_U32, 1, shape->batch, name) &&
           diti_attention_table(graph, desc->bias, DITI_F32, shape->heads, shape->queries + shape->keys - 1, name) &&
           diti_attention_table(graph, desc->lse, DITI_F32, shape->batch * shape->queries, shape->heads, name);
}

/* tensor, or a copy where the kernel needs another format, or where a batch item's rows (with what lies between the
   columns of a view) do not fit one binding. */
static diti_tensor diti_attention_operand(diti_graph *graph, diti_tensor tensor, diti_element format, uint32_t batch,
                                          const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    diti_elementwise_desc copy = DITI_ZERO;
    uint64_t bytes = (uint64_t)info->rows / batch * info->pitch * diti_element_size(info->format);
    if (info->format == format && bytes <= graph->device->limits.storage_range) return tensor;
    copy.name = name;
    copy.out = diti_tensor_new(graph, format, info->rows, info->columns, name);
    return diti_elementwise(graph, tensor, &copy);
}

static void diti_attention_bind(const diti_graph *graph, diti_dispatch *dispatch, const diti_attention_desc *desc,
                                const diti_tensor *qkv, diti_tensor out, const diti_attention_shape *shape) {
    uint32_t per_item = shape->heads * dispatch->push[DITI_ATTENTION_BLOCKS];
    diti_op_bind(graph, dispatch, 0, qkv[0], DITI_ATTENTION_Q, true, false);
    diti_op_bind(graph, dispatch, 1, qkv[1], DITI_ATTENTION_K, true, false);
    diti_op_bind(graph, dispatch, 2, qkv[2], DITI_ATTENTION_V, true, false);
    diti_op_bind(graph, dispatch, 3, out, DITI_ATTENTION_OUT, false, true);
    diti_op_bind(graph, dispatch, 4, desc->key_lengths, DITI_ATTENTION_LENGTHS, true, false);
    diti_op_bind(graph, dispatch, 5, desc->bias, DITI_ATTENTION_BIAS, true, false);
    diti_op_bind(graph, dispatch, 6, desc->lse, DITI_ATTENTION_LSE, false, true);
    diti_op_bind_rows(graph, dispatch, 0, per_item, shape->queries, 0, 0);
    diti_op_bind_rows(graph, dispatch, 1, per_item, shape->keys, 0, 0);
    diti_op_bind_rows(graph, dispatch, 2, per_item, shape->keys, 0, 0);
    diti_op_bind_rows(graph, dispatch, 3, per_item, shape->queries, 0, 0);
    if (desc->lse) diti_op_bind_rows(graph, dispatch, 6, per_item, shape->queries, 0, 0);
}

static void diti_attention_constants(const diti_graph *graph, diti_dispatch *dispatch, const diti_attention_desc *desc,
                                     const diti_tensor *qkv, diti_tensor out, const diti_attention_tiles *tiles) {
    uint32_t *c = dispatch->constants;
    c[1] = diti_tensor_get(graph, qkv[0])->format;
    c[2] = diti_tensor_get(graph, out)->format;
    c[3] = (desc->key_lengths ? (uint32_t)DITI_ATTENTION_PART_LENGTHS : 0) |
           (desc->bias ? (uint32_t)DITI_ATTENTION_PART_BIAS : 0) | (desc->lse ? (uint32_t)DITI_ATTENTION_PART_LSE : 0);
    c[4] = desc->head_dim % 4 == 0 && diti_op_aligned(graph, qkv[0]) && diti_op_aligned(graph, qkv[1]) &&
           diti_op_aligned(graph, qkv[2]) && diti_op_aligned(graph, out);
    c[5] = tiles->quads;
    c[6] = tiles->constants[0];
    c[7] = tiles->constants[1];
    dispatch->constant_count = 8;
}

static void diti_attention_emit(diti_graph *graph, const diti_attention_desc *desc, const diti_tensor *qkv,
                                diti_tensor out, const diti_attention_shape *shape, const char *name) {
    diti_attention_tiles tiles = DITI_ZERO;
    diti_dispatch dispatch;
    uint32_t quads = (shape->head_dim + 3) / 4;
    double flops = 4.0 * shape->batch * shape->heads * shape->queries * (double)shape->keys * shape->head_dim;
    bool fits = graph->device->is_cpu ? diti_attention_tiles_cpu(graph->device, quads, flops, &tiles)
                                      : diti_attention_tiles_gpu(graph->device, quads, &tiles);
    if (!fits) {
        diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_DEVICE,
                        "op %s: heads of %u channels need more than %u bytes of shared memory", name, shape->head_dim,
                        graph->device->limits.shared_bytes);
        return;
    }
    if (!diti_op_begin(graph, &dispatch, name, tiles.module, tiles.group)) return;
    diti_attention_constants(graph, &dispatch, desc, qkv, out, &tiles);
    dispatch.push[DITI_ATTENTION_QUERIES] = shape->queries;
    dispatch.push[DITI_ATTENTION_KEYS] = shape->keys;
    dispatch.push[DITI_ATTENTION_HEADS] = shape->heads;
    dispatch.push[DITI_ATTENTION_HEAD_DIM] = shape->head_dim;
    dispatch.push[DITI_ATTENTION_BLOCKS] = (shape->queries + tiles.block - 1) / tiles.block;
    dispatch.push[DITI_ATTENTION_SCALE] = diti_op_float(desc->scale);
    dispatch.push[DITI_ATTENTION_Q_PITCH] = diti_tensor_get(graph, qkv[0])->pitch;
    dispatch.push[DITI_ATTENTION_K_PITCH] = diti_tensor_get(graph, qkv[1])->pitch;
    dispatch.push[DITI_ATTENTION_V_PITCH] = diti_tensor_get(graph, qkv[2])->pitch;
    dispatch.push[DITI_ATTENTION_OUT_PITCH] = diti_tensor_get(graph, out)->pitch;
    dispatch.push[DITI_ATTENTION_BIAS_PITCH] = desc->bias ? diti_tensor_get(graph, desc->bias)->pitch : 0;
    dispatch.push[DITI_ATTENTION_LSE_PITCH] = desc->lse ? diti_tensor_get(graph, desc->lse)->pitch : 0;
    diti_attention_bind(graph, &dispatch, desc, qkv, out, shape);
    dispatch.cost_kind = DITI_COST_ATTENTION;
    dispatch.flops = flops;
    diti_op_emit(graph, &dispatch, (uint64_t)shape->batch * shape->heads * dispatch.push[DITI_ATTENTION_BLOCKS],
                 DITI_ATTENTION_PUSH_WORDS);
}

DIT_INTERNAL diti_tensor diti_attention(diti_graph *graph, diti_tensor q, diti_tensor k, diti_tensor v,
                                        const diti_attention_desc *desc) {
    const char *name = desc->name ? desc->name : "attention";
    diti_attention_shape shape = DITI_ZERO;
    diti_tensor qkv[3], out;
    diti_element format;
    uint32_t i;
    if (!diti_attention_check(graph, q, k, v, desc, &shape, name)) return 0;
    qkv[0] = q;
    qkv[1] = k;
    qkv[2] = v;
    format = diti_tensor_get(graph, q)->format;
    if (diti_tensor_get(graph, k)->format != format || diti_tensor_get(graph, v)->format != format) format = DITI_F32;
    for (i = 0; i < 3; i++) qkv[i] = diti_attention_operand(graph, qkv[i], format, shape.batch, name);
    out = diti_tensor_new(graph, shape.head_dim % 2 ? DITI_F32 : graph->activation, shape.batch * shape.queries,
                          shape.heads * shape.head_dim, name);
    if (diti_graph_failed(graph)) return 0;
    diti_attention_emit(graph, desc, qkv, out, &shape, name);
    if (shape.head_dim % 2 && graph->activation != DITI_F32) { /* odd heads begin inside a word of two halves */
        diti_elementwise_desc narrow = DITI_ZERO;
        narrow.name = name;
        out = diti_elementwise(graph, out, &narrow);
    }
    return out;
}

/* --- qkv_post --- */

enum {
    DITI_QKV_PART_RMS = 1,
    DITI_QKV_PART_LAYER = 2,
    DITI_QKV_PART_WEIGHT = 4,
    DITI_QKV_PART_BIAS = 8,
    DITI_QKV_PART_ROTATE = 16,
    DITI_QKV_PART_HALF_SPLIT = 32
};

static bool diti_qkv_check(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, x);
    uint32_t tokens = desc->tokens ? desc->tokens : info->rows, unit = desc->cosines && desc->half_split ? 4 : 2;
    if (diti_graph_failed(graph)) return false;
    if (!diti_op_writable(graph, x, info->rows, desc->heads * desc->head_dim, name)) return false;
    if (desc->head_dim == 0 || desc->head_dim % unit) {
        diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "op %s: heads of %u channels; a multiple of %u is needed",
                        name, desc->head_dim, unit);
        return false;
    }
    return diti_attention_table(graph, desc->cosines, DITI_F32, tokens, desc->head_dim / 2, name) &&
           diti_attention_table(graph, desc->sines, DITI_F32, tokens, desc->head_dim / 2, name);
}

DIT_INTERNAL void diti_qkv_post(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc) {
    const char *name = desc->name ? desc->name : "qkv";
    bool cpu = graph->device->is_cpu;
    uint32_t group = cpu ? graph->device->limits.subgroup_size : 128, lanes = cpu ? 1 : 32, rows;
    diti_tensor weight, bias;
    diti_dispatch dispatch;
    if (!diti_qkv_check(graph, x, desc, name)) return;
    weight = diti_op_vector_weight(graph, desc->weight, desc->head_dim, name);
    bias = diti_op_vector_weight(graph, desc->bias, desc->head_dim, name);
    if (!diti_op_begin(graph, &dispatch, name, "qkv_post", group)) return;
    rows = diti_tensor_get(graph, x)->rows;
    dispatch.constants[1] = lanes;
    dispatch.constants[2] = diti_tensor_get(graph, x)->format;
    dispatch.constants[3] = (desc->norm == DITI_QKV_RMS ? (uint32_t)DITI_QKV_PART_RMS : 0) |
                            (desc->norm == DITI_QKV_LAYER ? (uint32_t)DITI_QKV_PART_LAYER : 0) |
                            (weight ? (uint32_t)DITI_QKV_PART_WEIGHT : 0) | (bias ? (uint32_t)DITI_QKV_PART_BIAS : 0) |
                            (desc->cosines ? (uint32_t)DITI_QKV_PART_ROTATE : 0) |
                            (desc->half_split ? (uint32_t)DITI_QKV_PART_HALF_SPLIT : 0);
    dispatch.constant_count = 4;
    dispatch.push[1] = rows;
    dispatch.push[2] = desc->heads;
    dispatch.push[3] = desc->head_dim;
    dispatch.push[4] = desc->tokens ? desc->tokens : rows;
    dispatch.push[5] = diti_op_float(desc->eps);
    dispatch.push[7] = diti_tensor_get(graph, x)->pitch;
    dispatch.push[11] = desc->cosines ? diti_tensor_get(graph, desc->cosines)->pitch : 0;
    dispatch.push[13] = desc->sines ? diti_tensor_get(graph, desc->sines)->pitch : 0;
    diti_op_bind(graph, &dispatch, 0, x, 6, true, true);
    diti_op_bind(graph, &dispatch, 1, weight, 8, true, false);
    diti_op_bind(graph, &dispatch, 2, bias, 9, true, false);
    diti_op_bind(graph, &dispatch, 3, desc->cosines, 10, true, false);
    diti_op_bind(graph, &dispatch, 4, desc->sines, 12, true, false);
    if (rows > 1)
        diti_op_bind_rows(graph, &dispatch, 0, desc->heads, group / lanes, 0,
                          0); /* heads workgroups do group / lanes rows */
    diti_op_emit(graph, &dispatch, ((uint64_t)rows * desc->heads + group / lanes - 1) / (group / lanes), 14);
}

/* ======== src/graph/ops_norm.c (edit it there; dit.h is generated) ======== */
/* LayerNorm, RMSNorm and modulation (shaders/norm.comp); GroupNorm (group_norm.comp). */

enum {
    DITI_NORM_PART_RMS = 1,
    DITI_NORM_PART_WEIGHT = 2,
    DITI_NORM_PART_BIAS = 4,
    DITI_NORM_PART_SCALE = 8,
    DITI_NORM_PART_SHIFT = 16
};

static bool diti_norm_table(diti_graph *graph, diti_tensor table, uint32_t groups, uint32_t columns, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, table);
    if (!table || (info->format == DITI_F32 && info->rows >= groups && info->columns == columns)) return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: table %s is [%u, %u], wanted is F32 [%u, %u]", name,
                    info->name, info->rows, info->columns, groups, columns);
    return false;
}

static bool diti_norm_check(diti_graph *graph, diti_tensor x, const diti_norm_desc *desc, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, x);
    uint32_t groups = desc->rows_per_group ? (info->rows + desc->rows_per_group - 1) / desc->rows_per_group : 1;
    if (diti_graph_failed(graph)) return false;
    if (info->format == DITI_U32) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s holds no floats", name, info->name);
        return false;
    }
    return diti_norm_table(graph, desc->scale, groups, info->columns, name) &&
           diti_norm_table(graph, desc->shift, groups, info->columns, name);
}

DIT_INTERNAL diti_tensor diti_norm(diti_graph *graph, diti_tensor x, const diti_norm_desc *desc) {
    const char *name = desc->name ? desc->name : "norm";
    bool cpu = graph->device->is_cpu;
    uint32_t group = cpu ? graph->device->limits.subgroup_size : 128, lanes = cpu ? 1 : 128, per_group = group / lanes;
    diti_tensor weight, bias, out;
    diti_tensor_info info;
    diti_dispatch dispatch;
    if (!diti_norm_check(graph, x, desc, name)) return 0;
    info = *diti_tensor_get(graph, x);
    weight = diti_op_vector_weight(graph, desc->weight, info.columns, name);
    bias = diti_op_vector_weight(graph, desc->bias, info.columns, name);
    out = diti_tensor_new(graph, desc->out_f32 ? DITI_F32 : graph->activation, info.rows, info.columns, name);
    if (!diti_op_writable(graph, out, info.rows, info.columns, name)) return 0;
    if (!diti_op_begin(graph, &dispatch, name, "norm", group)) return 0;
    dispatch.constants[1] = lanes;
    dispatch.constants[2] = info.format;
    dispatch.constants[3] = diti_tensor_get(graph, out)->format;
    dispatch.constants[4] =
        (desc->rms ? (uint32_t)DITI_NORM_PART_RMS : 0) | (weight ? (uint32_t)DITI_NORM_PART_WEIGHT : 0) |
        (bias ? (uint32_t)DITI_NORM_PART_BIAS : 0) | (desc->scale ? (uint32_t)DITI_NORM_PART_SCALE : 0) |
        (desc->shift ? (uint32_t)DITI_NORM_PART_SHIFT : 0);
    dispatch.constants[5] = diti_op_vector(graph, x) && diti_op_vector(graph, weight) && diti_op_vector(graph, bias) &&
                            diti_op_vector(graph, desc->scale) && diti_op_vector(graph, desc->shift);
    dispatch.constant_count = 6;
    dispatch.push[1] = info.rows;
    dispatch.push[2] = info.columns;
    dispatch.push[3] = diti_op_float(desc->eps);
    dispatch.push[5] = info.pitch;
    dispatch.push[7] = diti_tensor_get(graph, out)->pitch;
    dispatch.push[11] = desc->scale ? diti_tensor_get(graph, desc->scale)->pitch : 0;
    dispatch.push[13] = desc->shift ? diti_tensor_get(graph, desc->shift)->pitch : 0;
    dispatch.push[14] = desc->rows_per_group;
    diti_op_bind(graph, &dispatch, 0, x, 4, true, false);
    diti_op_bind(graph, &dispatch, 1, out, 6, false, true);
    diti_op_bind(graph, &dispatch, 2, weight, 8, true, false);
    diti_op_bind(graph, &dispatch, 3, bias, 9, true, false);
    diti_op_bind(graph, &dispatch, 4, desc->scale, 10, true, false);
    diti_op_bind(graph, &dispatch, 5, desc->shift, 12, true, false);
    diti_op_bind_rows(graph, &dispatch, 0, 1, per_group, 0, 0);
    diti_op_bind_rows(graph, &dispatch, 1, 1, per_group, 0, 0);
    diti_op_emit(graph, &dispatch, ((uint64_t)info.rows + per_group - 1) / per_group, 15);
    return out;
}

/* --- GroupNorm --- */

enum { DITI_GROUP_NORM_CHUNKS, DITI_GROUP_NORM_COMBINE, DITI_GROUP_NORM_APPLY };

typedef struct diti_group_norm_plan {
    diti_tensor x, out, partial, stats, weight, bias;
    uint32_t batch, pixels, columns, groups, chunks, chunk_pixels;
    float eps;
    bool silu;
    const char *name;
} diti_group_norm_plan;

static void diti_group_norm_stage(diti_graph *graph, const diti_group_norm_plan *plan, uint32_t stage, uint32_t group,
                                  uint64_t groups) {
    diti_dispatch dispatch;
    uint32_t *push = dispatch.push;
    if (!diti_op_begin(graph, &dispatch, plan->name, "group_norm", group)) return;
    dispatch.constants[1] = stage;
    dispatch.constants[2] = diti_tensor_get(graph, plan->x)->format;
    dispatch.constants[3] = diti_tensor_get(graph, plan->out)->format;
    dispatch.constants[4] = stage == DITI_GROUP_NORM_APPLY && plan->silu ? DITI_ACTIVATION_SILU : DITI_ACTIVATION_NONE;
    dispatch.constants[5] = diti_op_vector(graph, plan->x) && diti_op_vector(graph, plan->out);
    dispatch.constant_count = 6;
    push[1] = plan->batch;
    push[2] = plan->pixels;
    push[3] = plan->columns;
    push[4] = plan->groups;
    push[5] = plan->chunks;
    push[6] = plan->chunk_pixels;
    push[7] = diti_op_float(plan->eps);
    push[9] = diti_tensor_get(graph, plan->x)->pitch;
    push[11] = diti_tensor_get(graph, plan->out)->pitch;
    push[13] = diti_tensor_get(graph, plan->partial)->pitch;
    push[15] = diti_tensor_get(graph, plan->stats)->pitch;
    if (stage != DITI_GROUP_NORM_COMBINE) diti_op_bind(graph, &dispatch, 0, plan->x, 8, true, false);
    if (stage == DITI_GROUP_NORM_APPLY) diti_op_bind(graph, &dispatch, 1, plan->out, 10, false, true);
    if (stage != DITI_GROUP_NORM_APPLY)
        diti_op_bind(graph, &dispatch, 2, plan->partial, 12, stage == DITI_GROUP_NORM_COMBINE,
                     stage == DITI_GROUP_NORM_CHUNKS);
    if (stage != DITI_GROUP_NORM_CHUNKS)
        diti_op_bind(graph, &dispatch, 3, plan->stats, 14, stage == DITI_GROUP_NORM_APPLY,
                     stage == DITI_GROUP_NORM_COMBINE);
    if (stage == DITI_GROUP_NORM_APPLY) {
        uint32_t quads = (plan->columns + 3) / 4; /* `quads` workgroups do `group` rows */
        diti_op_bind(graph, &dispatch, 4, plan->weight, 16, true, false);
        diti_op_bind(graph, &dispatch, 5, plan->bias, 17, true, false);
        diti_op_bind_rows(graph, &dispatch, 0, quads, group, 0, 0);
        diti_op_bind_rows(graph, &dispatch, 1, quads, group, 0, 0);
    }
    if (stage == DITI_GROUP_NORM_CHUNKS) /* the last chunk of an item may be short, so later items lie earlier */
        diti_op_bind_rows(graph, &dispatch, 0, 1, plan->chunk_pixels, (uint64_t)plan->batch * plan->chunk_pixels, 0);
    diti_op_emit(graph, &dispatch, groups, 18);
}

DIT_INTERNAL diti_tensor diti_group_norm(diti_graph *graph, diti_tensor x, const diti_group_norm_desc *desc) {
    bool cpu = graph->device->is_cpu;
    uint32_t lanes = graph->device->limits.subgroup_size, small = cpu ? lanes : 32, apply = 64;
    uint64_t invocations;
    diti_group_norm_plan plan = DITI_ZERO;
    diti_tensor_info info;
    if (diti_graph_failed(graph)) return 0;
    info = *diti_tensor_get(graph, x);
    plan.name = desc->name ? desc->name : "group norm";
    plan.batch = desc->batch ? desc->batch : 1;
    if (info.rows % plan.batch || !desc->groups || info.columns % desc->groups || info.format == DITI_U32) {
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s [%u, %u] is not %u images in %u groups",
                               plan.name, info.name, info.rows, info.columns, plan.batch, desc->groups);
    }
    plan.x = x;
    plan.pixels = info.rows / plan.batch;
    plan.columns = info.columns;
    plan.groups = desc->groups;
    plan.chunk_pixels = cpu ? 64 : 256;
    plan.chunks = (plan.pixels + plan.chunk_pixels - 1) / plan.chunk_pixels;
    plan.eps = desc->eps;
    plan.silu = desc->silu;
    plan.weight = diti_op_vector_weight(graph, desc->weight, info.columns, plan.name);
    plan.bias = diti_op_vector_weight(graph, desc->bias, info.columns, plan.name);
    plan.partial = diti_tensor_new(graph, DITI_F32, plan.batch * plan.chunks, 3 * plan.groups, plan.name);
    plan.stats = diti_tensor_new(graph, DITI_F32, plan.batch, 3 * plan.groups, plan.name);
    plan.out = diti_tensor_new(graph, graph->activation, info.rows, info.columns, plan.name);
    if (diti_graph_failed(graph)) return 0;
    if (!plan.weight || !plan.bias)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: weight or bias is missing", plan.name);
    diti_group_norm_stage(graph, &plan, DITI_GROUP_NORM_CHUNKS, small, (uint64_t)plan.batch * plan.chunks);
    diti_group_norm_stage(graph, &plan, DITI_GROUP_NORM_COMBINE, small, (uint64_t)plan.batch * plan.groups);
    invocations = (uint64_t)info.rows * ((info.columns + 3) / 4);
    diti_group_norm_stage(graph, &plan, DITI_GROUP_NORM_APPLY, apply, (invocations + apply - 1) / apply);
    return plan.out;
}

/* ======== src/graph/joined.c (edit it there; dit.h is generated) ======== */

DIT_INTERNAL diti_tensor diti_linear_joined(diti_graph *graph, diti_tensor x, const diti_joined *joined,
                                            const diti_linear_desc *desc) {
    diti_linear_desc one = *desc;
    uint32_t i, total = 0, column = 0;
    uint32_t rows = diti_graph_failed(graph) ? 0 : diti_tensor_get(graph, x)->rows;
    if (diti_graph_failed(graph)) return 0;
    for (i = 0; i < joined->count; i++) total += joined->layers[i].weight.rows;
    if (!one.out) one.out = diti_tensor_new(graph, one.out_f32 ? DITI_F32 : graph->activation, rows, total, one.name);
    for (i = 0; i < joined->count; i++) {
        const diti_layer *layer = &joined->layers[i];
        diti_linear_desc part = one;
        part.bias = &layer->bias;
        if (joined->count > 1) part.out = diti_tensor_view(graph, one.out, 0, rows, column, layer->weight.rows);
        diti_linear(graph, x, &layer->weight, &part);
        column += layer->weight.rows;
    }
    return one.out;
}

/* ======== src/text/tokenizer.h (edit it there; dit.h is generated) ======== */
/* text: tokenizers. Apart from text.h because they need nothing of the graph. */
#ifndef DITI_TOKENIZER_H
#define DITI_TOKENIZER_H

/* --- SentencePiece's normaliser (models.md 6.2): a byte trie whose values are offsets of replacement strings --- */
typedef struct diti_normalizer {
    uint32_t *trie; /* Darts units; NULL: characters stay as they are */
    uint32_t trie_count;
    char *replacements; /* NUL-terminated strings, and one NUL more at the end */
    uint32_t replacements_size;
    bool add_prefix;      /* one space before the first character */
    bool collapse_spaces; /* runs become one space, none at the ends */
    bool unicode_spaces;  /* whatever white space the trie leaves counts as a space */
} diti_normalizer;
DIT_INTERNAL dit_result diti_normalizer_set_charsmap(const diti_env *env, diti_normalizer *normalizer, const void *data,
                                                     size_t size, const char *name, dit_error *err);
DIT_INTERNAL void diti_normalizer_free(const diti_env *env, diti_normalizer *normalizer);
/* Normalised text with spaces written as U+2581; broken UTF-8 bytes become U+FFFD. *out is freed with diti_free. */
DIT_INTERNAL dit_result diti_normalizer_run(const diti_env *env, const diti_normalizer *normalizer, const char *text,
                                            size_t length, char **out, size_t *out_length, dit_error *err);

/* --- T5's SentencePiece unigram (models.md 6.2) --- */
typedef enum diti_piece_type {
    DITI_PIECE_NORMAL = 1,
    DITI_PIECE_UNKNOWN = 2,
    DITI_PIECE_CONTROL = 3,
    DITI_PIECE_USER = 4,
    DITI_PIECE_UNUSED = 5,
    DITI_PIECE_BYTE = 6
} diti_piece_type;
typedef struct diti_piece {
    const char *text; /* length bytes in the tokenizer's pool */
    uint32_t length;
    int32_t id;
    float score;
    diti_piece_type type;
} diti_piece;
typedef struct diti_piece_index { /* sorted by bytes, so that the pieces with a common beginning are neighbours */
    diti_piece *pieces;
    size_t capacity;
    uint32_t count;
} diti_piece_index;
typedef struct diti_tokenizer {
    diti_env env;
    char *name; /* for messages */
    diti_normalizer normalizer;
    char *pool; /* the bytes of all pieces */
    size_t pool_size, pool_used;
    diti_piece_index words;    /* what Viterbi may choose */
    diti_piece_index specials; /* "</s>" and its like: cut out of the text before anything else */
    uint32_t capacity, count;  /* pieces announced, added so far */
    int32_t byte_ids[256];     /* -1: no such piece */
    bool byte_fallback;        /* unknown characters are spelled in bytes */
    int32_t unknown, end, padding;
    float unknown_score, min_score, max_score;
} diti_tokenizer;

/* data: the bytes of spiece.model, or of a tokenizer.json whose model is Unigram (told apart by content). */
DIT_INTERNAL dit_result diti_tokenizer_load(const diti_env *env, const void *data, size_t size, const char *name,
                                            diti_tokenizer **out, dit_error *err);
/* tokenizer.ggml.* metadata of a llama.cpp T5 GGUF. */
DIT_INTERNAL dit_result diti_tokenizer_load_gguf(const diti_env *env, const diti_checkpoint *checkpoint,
                                                 diti_tokenizer **out, dit_error *err);
DIT_INTERNAL void diti_tokenizer_free(diti_tokenizer *tokenizer);
/* Writes exactly capacity ids: the tokens of text (UTF-8; broken bytes become U+FFFD), </s>, then <pad>. *count = ids
   before the padding. Longer text is cut with </s> kept last; *lost = tokens that did not fit. */
DIT_INTERNAL dit_result diti_tokenizer_encode(const diti_tokenizer *tokenizer, const char *text, int32_t *ids,
                                              uint32_t capacity, uint32_t *count, uint32_t *lost, dit_error *err);

/* How the readers fill a tokenizer: create with room for so many pieces, add each, finish. */
DIT_INTERNAL dit_result diti_tokenizer_create(const diti_env *env, const char *name, uint64_t piece_count,
                                              uint64_t piece_bytes, diti_tokenizer **out, dit_error *err);
DIT_INTERNAL dit_result diti_tokenizer_add(diti_tokenizer *tokenizer, const char *text, size_t length, int32_t id,
                                           float score, diti_piece_type type, dit_error *err);
DIT_INTERNAL dit_result diti_tokenizer_finish(diti_tokenizer *tokenizer, dit_error *err);
DIT_INTERNAL dit_result diti_tokenizer_load_json(const diti_env *env, const void *data, size_t size, const char *name,
                                                 diti_tokenizer **out, dit_error *err);
#endif

/* ======== src/text/text.h (edit it there; dit.h is generated) ======== */
/* text: tokenizers and text encoders. */
#ifndef DITI_TEXT_H
#define DITI_TEXT_H

/* --- T5, mT5, umT5 encoders (models.md 5.1) --- */
typedef struct diti_t5 diti_t5;
typedef struct diti_t5_traits {
    uint32_t columns, vocabulary, layers;
} diti_t5_traits;
/* transformers or llama.cpp key names; config NULL: sizes from metadata and shapes. */
DIT_INTERNAL dit_result diti_t5_load(diti_device *device, const diti_env *env, const diti_json *config,
                                     const diti_checkpoint *checkpoint, const char *prefix,
                                     const dit_progress *progress, diti_t5 **out, dit_error *err);
DIT_INTERNAL void diti_t5_destroy(diti_t5 *t5);
DIT_INTERNAL const diti_t5_traits *diti_t5_get_traits(const diti_t5 *t5);
DIT_INTERNAL const diti_weights *diti_t5_weights(const diti_t5 *t5);
/* ids U32 [1, batch * tokens]; lengths U32 [1, batch] masks the padding (0: padding is attended, as SD3 and FLUX do)
   -> F32 [batch * tokens, columns]. diti_t5_encode declares inputs for relative positions, one for each table of the
   model; diti_t5_write_inputs fills them once the plan exists. */
#define DITI_T5_MAX_BLOCKS 64u
typedef struct diti_t5_use {
    uint32_t batch, tokens;
    diti_tensor ids, lengths;
    diti_tensor bias[DITI_T5_MAX_BLOCKS]; /* F32 [heads, 2 * tokens - 1] */
} diti_t5_use;
DIT_INTERNAL diti_tensor diti_t5_encode(const diti_t5 *t5, diti_graph *graph, diti_t5_use *use);
DIT_INTERNAL dit_result diti_t5_write_inputs(const diti_t5 *t5, diti_plan *plan, const diti_t5_use *use,
                                             dit_error *err);
#endif

/* ======== src/text/normalize.c (edit it there; dit.h is generated) ======== */

/* Bounds that no real map comes near; they keep hostile maps from costing more than the prompt's length. */
#define DITI_NORMALIZED_LIMIT (16u << 20) /* bytes of normalised prompt */
#define DITI_CHARSMAP_KEY 256u            /* bytes of a trie key */
#define DITI_CHARSMAP_REPLACEMENT 1024u   /* bytes of a replacement string */

/* --- the precompiled map: u32 byte size of the trie, the trie, the replacement strings --- */
static uint32_t diti_normalize_u32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static bool diti_charsmap_strings_good(const diti_normalizer *normalizer) {
    uint32_t i, length = 0;
    for (i = 0; i < normalizer->replacements_size; i++) {
        length = normalizer->replacements[i] ? length + 1 : 0;
        if (length > DITI_CHARSMAP_REPLACEMENT) return false;
    }
    return true;
}

DIT_INTERNAL dit_result diti_normalizer_set_charsmap(const diti_env *env, diti_normalizer *normalizer, const void *data,
                                                     size_t size, const char *name, dit_error *err) {
    const uint8_t *bytes = (const uint8_t *)data;
    uint32_t trie_size, i;
    if (size == 0) return DIT_OK;
    trie_size = size < 4 ? 0 : diti_normalize_u32(bytes);
    if (trie_size == 0 || trie_size % 4 != 0 || trie_size > size - 4 || size - 4 - trie_size > UINT32_MAX - 1) {
        return diti_fail(err, DIT_ERROR_BAD_FILE,
                         "%s: the normaliser's character map is damaged: a trie of %lu bytes in a map of %lu", name,
                         (unsigned long)trie_size, (unsigned long)size);
    }
    diti_normalizer_free(env, normalizer);
    normalizer->trie_count = trie_size / 4;
    normalizer->replacements_size = (uint32_t)(size - 4 - trie_size);
    normalizer->trie = (uint32_t *)diti_alloc_array(env, normalizer->trie_count, sizeof(uint32_t));
    normalizer->replacements = (char *)diti_alloc_zero(env, (size_t)normalizer->replacements_size + 1);
    if (!normalizer->trie || !normalizer->replacements)
        return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory for the character map", name);
    for (i = 0; i < normalizer->trie_count; i++) normalizer->trie[i] = diti_normalize_u32(bytes + 4 + (size_t)i * 4);
    memcpy(normalizer->replacements, bytes + 4 + trie_size, normalizer->replacements_size);
    if (diti_charsmap_strings_good(normalizer)) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE,
                     "%s: the normaliser's character map is damaged: a replacement longer than %u bytes", name,
                     DITI_CHARSMAP_REPLACEMENT);
}

DIT_INTERNAL void diti_normalizer_free(const diti_env *env, diti_normalizer *normalizer) {
    diti_free(env, normalizer->trie);
    diti_free(env, normalizer->replacements);
    normalizer->trie = NULL;
    normalizer->replacements = NULL;
    normalizer->trie_count = 0;
}

static uint32_t diti_darts_offset(uint32_t unit) { return (unit >> 10) << ((unit & 512u) >> 6); }

/* Longest key of the trie that text starts with: its length (0: none) and the offset of its replacement. */
static size_t diti_darts_longest(const diti_normalizer *normalizer, const char *text, size_t length, uint32_t *value) {
    size_t i, matched = 0;
    uint32_t unit, position;
    if (!normalizer->trie) return 0;
    position = diti_darts_offset(normalizer->trie[0]);
    for (i = 0; i < length && i < DITI_CHARSMAP_KEY; i++) {
        uint32_t byte = (uint8_t)text[i];
        position ^= byte;
        if (position >= normalizer->trie_count) break;
        unit = normalizer->trie[position];
        if ((unit & 0x800000ffu) != byte) break;
        position ^= diti_darts_offset(unit);
        if (position >= normalizer->trie_count) break;
        if (!((unit >> 8) & 1u)) continue;
        matched = i + 1;
        *value = normalizer->trie[position] & 0x7fffffffu;
    }
    return matched;
}

/* --- normalising --- */
typedef struct diti_normalize_run {
    const diti_env *env;
    char *text;
    size_t size, capacity;
} diti_normalize_run;

static dit_result diti_normalize_append(diti_normalize_run *run, const char *text, size_t length, dit_error *err) {
    if (run->size + length > DITI_NORMALIZED_LIMIT) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "the prompt is longer than %u bytes after normalisation",
                         DITI_NORMALIZED_LIMIT);
    }
    if (run->size + length > run->capacity) {
        size_t wanted = (run->size + length) * 2;
        char *bigger = (char *)diti_alloc(run->env, wanted);
        if (!bigger) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of memory for the normalised prompt");
        if (run->size) memcpy(bigger, run->text, run->size);
        diti_free(run->env, run->text);
        run->text = bigger;
        run->capacity = wanted;
    }
    if (length) memcpy(run->text + run->size, text, length);
    run->size += length;
    return DIT_OK;
}

static dit_result diti_normalize_append_escaped(diti_normalize_run *run, const char *text, size_t length,
                                                dit_error *err) {
    size_t start = 0, i;
    for (i = 0; i <= length; i++) {
        dit_result result;
        if (i < length && text[i] != ' ') continue;
        result = diti_normalize_append(run, text + start, i - start, err);
        if (result == DIT_OK && i < length) result = diti_normalize_append(run, "\xe2\x96\x81", 3, err);
        if (result < 0) return result;
        start = i + 1;
    }
    return DIT_OK;
}

/* Unicode's White_Space. */
static bool diti_normalize_is_space(const char *text, size_t length) {
    static const char spaces[][4] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\xa8",
                                     "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    size_t i;
    if (length == 1) return (*text >= '\t' && *text <= '\r') || *text == ' ';
    if (length == 3 && memcmp(text, "\xe2\x80", 2) == 0 && (uint8_t)text[2] <= 0x8a) return true; /* U+2000..U+200A */
    for (i = 0; i < DITI_COUNT(spaces); i++) {
        if (strlen(spaces[i]) == length && memcmp(text, spaces[i], length) == 0) return true;
    }
    return false;
}

/* What the beginning of text becomes, and how many bytes of it that takes. */
static size_t diti_normalize_prefix(const diti_normalizer *normalizer, const char *text, size_t length,
                                    const char **piece, size_t *piece_length) {
    uint32_t value = 0;
    size_t matched = diti_darts_longest(normalizer, text, length, &value);
    if (matched && value < normalizer->replacements_size) {
        *piece = normalizer->replacements + value;
        *piece_length = strlen(*piece);
        return matched;
    }
    matched = diti_utf8_length(text, length);
    if (normalizer->unicode_spaces && diti_normalize_is_space(text, matched)) {
        *piece = " ";
        *piece_length = 1;
        return matched;
    }
    *piece = matched ? text : "\xef\xbf\xbd";
    *piece_length = matched ? matched : 3;
    return matched ? matched : 1;
}

static void diti_normalize_trim_end(diti_normalize_run *run) {
    while (run->size >= 3 && memcmp(run->text + run->size - 3, "\xe2\x96\x81", 3) == 0) run->size -= 3;
}

static dit_result diti_normalize_all(diti_normalize_run *run, const diti_normalizer *normalizer, const char *text,
                                     size_t length, dit_error *err) {
    bool after_space = normalizer->collapse_spaces, begun = false;
    size_t position = 0;
    while (position < length) {
        const char *piece;
        size_t piece_length;
        dit_result result = DIT_OK;
        position += diti_normalize_prefix(normalizer, text + position, length - position, &piece, &piece_length);
        while (after_space && piece_length && *piece == ' ') piece++, piece_length--;
        if (piece_length == 0) continue;
        if (!begun && normalizer->add_prefix) result = diti_normalize_append_escaped(run, " ", 1, err);
        begun = true;
        if (result == DIT_OK) result = diti_normalize_append_escaped(run, piece, piece_length, err);
        if (result < 0) return result;
        after_space = normalizer->collapse_spaces && piece[piece_length - 1] == ' ';
    }
    if (normalizer->collapse_spaces) diti_normalize_trim_end(run);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_normalizer_run(const diti_env *env, const diti_normalizer *normalizer, const char *text,
                                            size_t length, char **out, size_t *out_length, dit_error *err) {
    diti_normalize_run run = DITI_ZERO;
    dit_result result;
    run.env = env;
    result = diti_normalize_all(&run, normalizer, text, length, err);
    if (result < 0) {
        diti_free(env, run.text);
        return result;
    }
    *out = run.text;
    *out_length = run.size;
    return DIT_OK;
}

/* ======== src/text/unigram.c (edit it there; dit.h is generated) ======== */

#define DITI_PIECE_LIMIT 1024u /* bytes of one piece; SentencePiece trains pieces of at most 16 characters */
#define DITI_PIECE_COUNT_LIMIT (4u << 20)

/* --- the index: pieces sorted by bytes, searched by narrowing a range one byte at a time --- */
static int diti_piece_compare(const diti_piece *a, const diti_piece *b) {
    int order = memcmp(a->text, b->text, a->length < b->length ? a->length : b->length);
    if (order) return order;
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    return a->id < b->id ? -1 : 1; /* of equal pieces the lowest id is found */
}

static void diti_piece_sift_down(diti_piece *pieces, uint32_t parent, uint32_t count) {
    diti_piece moved = pieces[parent];
    uint32_t child;
    while ((child = parent * 2 + 1) < count) {
        if (child + 1 < count && diti_piece_compare(&pieces[child], &pieces[child + 1]) < 0) child++;
        if (diti_piece_compare(&moved, &pieces[child]) >= 0) break;
        pieces[parent] = pieces[child];
        parent = child;
    }
    pieces[parent] = moved;
}

/* Heap sort: no memory of its own and no slow case that a hostile file could choose. */
static void diti_piece_index_sort(diti_piece_index *index) {
    uint32_t i;
    for (i = index->count / 2; i-- > 0;) diti_piece_sift_down(index->pieces, i, index->count);
    for (i = index->count; i-- > 1;) {
        diti_piece last = index->pieces[i];
        index->pieces[i] = index->pieces[0];
        index->pieces[0] = last;
        diti_piece_sift_down(index->pieces, 0, i);
    }
}

typedef struct diti_piece_range { /* the pieces that begin with the depth bytes read so far */
    uint32_t low, high, depth;
} diti_piece_range;

static diti_piece_range diti_piece_range_all(const diti_piece_index *index) {
    diti_piece_range range = DITI_ZERO;
    range.high = index->count;
    return range;
}

/* First piece of the range whose next byte is at least byte (0..256); pieces that end here come first. */
static uint32_t diti_piece_bound(const diti_piece_index *index, diti_piece_range range, uint32_t byte) {
    while (range.low < range.high) {
        uint32_t middle = range.low + (range.high - range.low) / 2;
        const diti_piece *piece = &index->pieces[middle];
        if (piece->length <= range.depth || (uint8_t)piece->text[range.depth] < byte)
            range.low = middle + 1;
        else
            range.high = middle;
    }
    return range.low;
}

static bool diti_piece_range_narrow(const diti_piece_index *index, diti_piece_range *range, char next) {
    uint32_t byte = (uint8_t)next;
    range->low = diti_piece_bound(index, *range, byte);
    range->high = diti_piece_bound(index, *range, byte + 1);
    range->depth++;
    return range->low < range->high;
}

/* The piece that the bytes read so far spell, or NULL. */
static const diti_piece *diti_piece_range_exact(const diti_piece_index *index, const diti_piece_range *range) {
    const diti_piece *first = &index->pieces[range->low];
    return first->length == range->depth ? first : NULL;
}

static const diti_piece *diti_piece_longest(const diti_piece_index *index, const char *text, size_t length) {
    diti_piece_range range = diti_piece_range_all(index);
    const diti_piece *found = NULL;
    size_t i;
    for (i = 0; i < length && diti_piece_range_narrow(index, &range, text[i]); i++) {
        const diti_piece *piece = diti_piece_range_exact(index, &range);
        if (piece) found = piece;
    }
    return found;
}

static int32_t diti_piece_find(const diti_piece_index *index, const char *text) {
    size_t length = strlen(text);
    const diti_piece *piece = diti_piece_longest(index, text, length);
    return piece && piece->length == length ? piece->id : -1;
}

/* --- building --- */
DIT_INTERNAL void diti_tokenizer_free(diti_tokenizer *tokenizer) {
    diti_env env;
    if (!tokenizer) return;
    env = tokenizer->env;
    diti_normalizer_free(&env, &tokenizer->normalizer);
    diti_free(&env, tokenizer->words.pieces);
    diti_free(&env, tokenizer->specials.pieces);
    diti_free(&env, tokenizer->pool);
    diti_free(&env, tokenizer->name);
    diti_free(&env, tokenizer);
}

DIT_INTERNAL dit_result diti_tokenizer_create(const diti_env *env, const char *name, uint64_t piece_count,
                                              uint64_t piece_bytes, diti_tokenizer **out, dit_error *err) {
    diti_tokenizer *tokenizer;
    if (piece_count == 0) return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary is empty", name);
    if (piece_count > DITI_PIECE_COUNT_LIMIT || piece_bytes > (uint64_t)DITI_PIECE_COUNT_LIMIT * 64) {
        return diti_fail(err, DIT_ERROR_BAD_FILE,
                         "%s: a vocabulary of %llu pieces in %llu bytes is too large (at most %u pieces)", name,
                         (unsigned long long)piece_count, (unsigned long long)piece_bytes, DITI_PIECE_COUNT_LIMIT);
    }
    tokenizer = (diti_tokenizer *)diti_alloc_zero(env, sizeof *tokenizer);
    if (!tokenizer) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory for the tokenizer", name);
    tokenizer->env = *env;
    tokenizer->name = diti_copy_string(env, name);
    tokenizer->pool = (char *)diti_alloc(env, (size_t)piece_bytes + 1);
    tokenizer->pool_size = (size_t)piece_bytes;
    tokenizer->capacity = (uint32_t)piece_count;
    if (!tokenizer->name || !tokenizer->pool) {
        diti_tokenizer_free(tokenizer);
        return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory for %llu pieces", name,
                         (unsigned long long)piece_count);
    }
    memset(tokenizer->byte_ids, -1, sizeof tokenizer->byte_ids);
    tokenizer->unknown = tokenizer->end = tokenizer->padding = -1;
    tokenizer->min_score = INFINITY;
    tokenizer->max_score = -INFINITY;
    tokenizer->normalizer.add_prefix = tokenizer->normalizer.collapse_spaces = true;
    *out = tokenizer;
    return DIT_OK;
}

/* "<0x0A>" -> 10; -1 for anything else. */
static int diti_piece_byte_value(const char *text, size_t length) {
    int value = 0, i;
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    for (i = 3; i < 5; i++) {
        const char *digits = "0123456789ABCDEF";
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit) return -1;
        value = value * 16 + (int)(digit - digits);
    }
    return value;
}

static bool diti_piece_index_add(const diti_env *env, diti_piece_index *index, const diti_piece *piece) {
    void *pieces = index->pieces;
    bool good = diti_grow(env, &pieces, &index->capacity, index->count, sizeof *piece);
    index->pieces = (diti_piece *)pieces;
    if (good) index->pieces[index->count++] = *piece;
    return good;
}

static bool diti_tokenizer_place(diti_tokenizer *tokenizer, const diti_piece *piece) {
    int byte = diti_piece_byte_value(piece->text, piece->length);
    switch (piece->type) {
    case DITI_PIECE_NORMAL:
        tokenizer->min_score = fminf(tokenizer->min_score, piece->score);
        tokenizer->max_score = fmaxf(tokenizer->max_score, piece->score);
        return diti_piece_index_add(&tokenizer->env, &tokenizer->words, piece);
    case DITI_PIECE_USER: return diti_piece_index_add(&tokenizer->env, &tokenizer->words, piece);
    case DITI_PIECE_UNKNOWN:
        if (tokenizer->unknown < 0) tokenizer->unknown = piece->id;
        return diti_piece_index_add(&tokenizer->env, &tokenizer->specials, piece);
    case DITI_PIECE_CONTROL: return diti_piece_index_add(&tokenizer->env, &tokenizer->specials, piece);
    case DITI_PIECE_BYTE:
        if (byte >= 0) tokenizer->byte_ids[byte] = piece->id;
        return true;
    case DITI_PIECE_UNUSED: return true;
    }
    return false;
}

DIT_INTERNAL dit_result diti_tokenizer_add(diti_tokenizer *tokenizer, const char *text, size_t length, int32_t id,
                                           float score, diti_piece_type type, dit_error *err) {
    const char *name = tokenizer->name;
    diti_piece piece;
    if (tokenizer->count >= tokenizer->capacity || length > tokenizer->pool_size - tokenizer->pool_used)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: more pieces than announced", name);
    if (length > DITI_PIECE_LIMIT)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: piece %d is %lu bytes long (at most %u)", name, id,
                         (unsigned long)length, DITI_PIECE_LIMIT);
    if (!isfinite(score))
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the score of piece %d is not a finite number", name, id);
    piece.text = tokenizer->pool + tokenizer->pool_used;
    piece.length = (uint32_t)length;
    piece.id = id;
    piece.score = score;
    piece.type = type;
    if (length) memcpy(tokenizer->pool + tokenizer->pool_used, text, length);
    tokenizer->pool_used += length;
    tokenizer->count++;
    if (length == 0 || diti_tokenizer_place(tokenizer, &piece)) return DIT_OK; /* an empty piece never matches */
    return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory for %u pieces", name, tokenizer->capacity);
}

static bool diti_tokenizer_spells_bytes(const diti_tokenizer *tokenizer) {
    int i;
    for (i = 0; i < 256; i++) {
        if (tokenizer->byte_ids[i] < 0) return false;
    }
    return true;
}

DIT_INTERNAL dit_result diti_tokenizer_finish(diti_tokenizer *tokenizer, dit_error *err) {
    const char *name = tokenizer->name;
    diti_piece_index_sort(&tokenizer->words);
    diti_piece_index_sort(&tokenizer->specials);
    if (tokenizer->end < 0) tokenizer->end = diti_piece_find(&tokenizer->specials, "</s>");
    if (tokenizer->padding < 0) tokenizer->padding = diti_piece_find(&tokenizer->specials, "<pad>");
    if (tokenizer->words.count == 0)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary has no piece of text", name);
    if (tokenizer->unknown < 0)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary has no unknown piece (<unk>)", name);
    if (tokenizer->end < 0)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary has no end piece (</s>)", name);
    if (tokenizer->padding < 0)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary has no padding piece (<pad>)", name);
    if (tokenizer->min_score > tokenizer->max_score) tokenizer->min_score = tokenizer->max_score = 0.0f;
    tokenizer->unknown_score = tokenizer->min_score - 10.0f;
    tokenizer->byte_fallback = diti_tokenizer_spells_bytes(tokenizer);
    return DIT_OK;
}

/* --- Viterbi: the segmentation with the largest sum of scores --- */
typedef struct diti_lattice { /* per byte position: the best path that ends there */
    float *score;
    uint32_t *from; /* where its last piece begins; UINT32_MAX: not reached */
    int32_t *id;    /* that piece */
} diti_lattice;

static void diti_lattice_free(const diti_env *env, diti_lattice *lattice) {
    diti_free(env, lattice->score);
    diti_free(env, lattice->from);
    diti_free(env, lattice->id);
}

static bool diti_lattice_create(const diti_env *env, size_t length, diti_lattice *lattice) {
    lattice->score = (float *)diti_alloc_array(env, length + 1, sizeof(float));
    lattice->from = (uint32_t *)diti_alloc_array(env, length + 1, sizeof(uint32_t));
    lattice->id = (int32_t *)diti_alloc_array(env, length + 1, sizeof(int32_t));
    if (!lattice->score || !lattice->from || !lattice->id) return false;
    memset(lattice->from, 0xff, (length + 1) * sizeof(uint32_t));
    return true;
}

static void diti_lattice_relax(diti_lattice *lattice, uint32_t start, uint32_t end, float score, int32_t id) {
    float total = lattice->score[start] + score;
    if (lattice->from[end] != UINT32_MAX && total <= lattice->score[end]) return;
    lattice->score[end] = total;
    lattice->from[end] = start;
    lattice->id[end] = id;
}

/* SentencePiece favours user pieces so much that they always win. */
static float diti_piece_path_score(const diti_tokenizer *tokenizer, const diti_piece *piece) {
    return piece->type == DITI_PIECE_USER ? (float)piece->length * tokenizer->max_score - 0.1f : piece->score;
}

static void diti_lattice_extend(const diti_tokenizer *tokenizer, diti_lattice *lattice, const char *text,
                                uint32_t length, uint32_t start, uint32_t character) {
    diti_piece_range range = diti_piece_range_all(&tokenizer->words);
    bool known = false;
    uint32_t end;
    for (end = start + 1; end <= length && diti_piece_range_narrow(&tokenizer->words, &range, text[end - 1]); end++) {
        const diti_piece *piece = diti_piece_range_exact(&tokenizer->words, &range);
        if (!piece) continue;
        diti_lattice_relax(lattice, start, end, diti_piece_path_score(tokenizer, piece), piece->id);
        if (end == start + character) known = true;
    }
    if (!known) diti_lattice_relax(lattice, start, start + character, tokenizer->unknown_score, tokenizer->unknown);
}

/* Turns the chain of beginnings around: afterwards from[p] is the end of the piece that starts at p. */
static void diti_lattice_reverse(diti_lattice *lattice, uint32_t length) {
    uint32_t position = length, next = UINT32_MAX;
    while (position) {
        uint32_t before = lattice->from[position];
        lattice->from[position] = next;
        next = position;
        position = before;
    }
    lattice->from[0] = next;
}

static void diti_lattice_fill(const diti_tokenizer *tokenizer, diti_lattice *lattice, const char *text,
                              uint32_t length) {
    uint32_t start, character;
    for (start = 0; start < length; start += character) {
        character = (uint32_t)diti_utf8_length(text + start, length - start);
        if (character == 0) character = 1; /* a damaged character map can write broken text */
        diti_lattice_extend(tokenizer, lattice, text, length, start, character);
    }
    diti_lattice_reverse(lattice, length);
}

/* --- encoding --- */
typedef struct diti_token_sink {
    int32_t *ids;
    uint32_t room, count, lost;
} diti_token_sink;

static void diti_token_emit(diti_token_sink *sink, int32_t id) {
    if (sink->count < sink->room)
        sink->ids[sink->count++] = id;
    else
        sink->lost++;
}

static void diti_token_emit_bytes(const diti_tokenizer *tokenizer, diti_token_sink *sink, const char *text,
                                  uint32_t length) {
    uint32_t i;
    for (i = 0; i < length; i++) diti_token_emit(sink, tokenizer->byte_ids[(uint8_t)text[i]]);
}

static void diti_token_emit_path(const diti_tokenizer *tokenizer, const diti_lattice *lattice, const char *text,
                                 uint32_t length, diti_token_sink *sink) {
    bool after_unknown = false;
    uint32_t start, end;
    for (start = 0; start < length; start = end) {
        bool unknown;
        end = lattice->from[start];
        unknown = lattice->id[end] == tokenizer->unknown;
        if (unknown && tokenizer->byte_fallback)
            diti_token_emit_bytes(tokenizer, sink, text + start, end - start);
        else if (!unknown || !after_unknown)
            diti_token_emit(sink, lattice->id[end]);
        after_unknown = unknown;
    }
}

static dit_result diti_tokenizer_encode_segment(const diti_tokenizer *tokenizer, const char *text, size_t length,
                                                diti_token_sink *sink, dit_error *err) {
    diti_lattice lattice = DITI_ZERO;
    char *normalized = NULL;
    size_t size = 0;
    dit_result result =
        diti_normalizer_run(&tokenizer->env, &tokenizer->normalizer, text, length, &normalized, &size, err);
    if (result < 0 || size == 0) {
        diti_free(&tokenizer->env, normalized);
        return result;
    }
    if (diti_lattice_create(&tokenizer->env, size, &lattice)) {
        diti_lattice_fill(tokenizer, &lattice, normalized, (uint32_t)size);
        diti_token_emit_path(tokenizer, &lattice, normalized, (uint32_t)size, sink);
    } else {
        result = diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of memory for a prompt of %lu bytes",
                           (unsigned long)size);
    }
    diti_lattice_free(&tokenizer->env, &lattice);
    diti_free(&tokenizer->env, normalized);
    return result;
}

/* Text between special pieces is encoded piece by piece, as transformers does. */
static dit_result diti_tokenizer_encode_all(const diti_tokenizer *tokenizer, const char *text, size_t length,
                                            diti_token_sink *sink, dit_error *err) {
    size_t start = 0, position = 0;
    while (position < length) {
        const diti_piece *special = diti_piece_longest(&tokenizer->specials, text + position, length - position);
        dit_result result;
        if (!special) {
            position++;
            continue;
        }
        result = diti_tokenizer_encode_segment(tokenizer, text + start, position - start, sink, err);
        if (result < 0) return result;
        diti_token_emit(sink, special->id);
        start = position += special->length;
    }
    return diti_tokenizer_encode_segment(tokenizer, text + start, length - start, sink, err);
}

DIT_INTERNAL dit_result diti_tokenizer_encode(const diti_tokenizer *tokenizer, const char *text, int32_t *ids,
                                              uint32_t capacity, uint32_t *count, uint32_t *lost, dit_error *err) {
    diti_token_sink sink = DITI_ZERO;
    dit_result result;
    uint32_t i;
    if (capacity == 0)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: room for at least one token is needed", tokenizer->name);
    sink.ids = ids;
    sink.room = capacity - 1; /* </s> always fits */
    result = diti_tokenizer_encode_all(tokenizer, text ? text : "", text ? strlen(text) : 0, &sink, err);
    if (result < 0) return result;
    ids[sink.count++] = tokenizer->end;
    for (i = sink.count; i < capacity; i++) ids[i] = tokenizer->padding;
    if (count) *count = sink.count;
    if (lost) *lost = sink.lost;
    return DIT_OK;
}

/* ======== src/text/unigram_spiece.c (edit it there; dit.h is generated) ======== */

/* --- protobuf, as far as SentencePiece's ModelProto needs it --- */
typedef struct diti_protobuf {
    const uint8_t *data;
    size_t size, position;
} diti_protobuf;
typedef struct diti_protobuf_field {
    uint64_t number;     /* 1..2^29-1 */
    uint64_t value;      /* varints and fixed sizes */
    const uint8_t *data; /* length-delimited fields; NULL otherwise */
    size_t size;
} diti_protobuf_field;

static bool diti_protobuf_varint(diti_protobuf *message, uint64_t *out) {
    uint32_t shift;
    *out = 0;
    for (shift = 0; shift < 64 && message->position < message->size; shift += 7) {
        uint8_t byte = message->data[message->position++];
        *out |= (uint64_t)(byte & 0x7fu) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool diti_protobuf_fixed(diti_protobuf *message, uint32_t bytes, uint64_t *out) {
    uint32_t i;
    if (message->size - message->position < bytes) return false;
    *out = 0;
    for (i = 0; i < bytes; i++) *out |= (uint64_t)message->data[message->position++] << (8 * i);
    return true;
}

static bool diti_protobuf_bytes(diti_protobuf *message, diti_protobuf_field *field) {
    uint64_t size;
    if (!diti_protobuf_varint(message, &size) || size > message->size - message->position) return false;
    field->data = message->data + message->position;
    field->size = (size_t)size;
    message->position += (size_t)size;
    return true;
}

/* 1: a field was read, 0: the message ended, -1: it is damaged. */
static int diti_protobuf_next(diti_protobuf *message, diti_protobuf_field *field) {
    uint64_t tag;
    bool good;
    memset(field, 0, sizeof *field);
    if (message->position == message->size) return 0;
    if (!diti_protobuf_varint(message, &tag)) return -1;
    field->number = tag >> 3;
    switch (tag & 7u) {
    case 0: good = diti_protobuf_varint(message, &field->value); break;
    case 1: good = diti_protobuf_fixed(message, 8, &field->value); break;
    case 2: good = diti_protobuf_bytes(message, field); break;
    case 5: good = diti_protobuf_fixed(message, 4, &field->value); break;
    default: good = false;
    }
    return good && field->number ? 1 : -1;
}

static diti_protobuf diti_protobuf_open(const void *data, size_t size) {
    diti_protobuf message = DITI_ZERO;
    message.data = (const uint8_t *)data;
    message.size = size;
    return message;
}

/* --- spiece.model: ModelProto {1 pieces, 2 trainer, 3 normalizer} --- */
typedef struct diti_spiece { /* SentencePiece {1 piece, 2 score, 3 type} */
    const char *text;
    size_t length;
    float score;
    uint64_t type;
} diti_spiece;

static bool diti_spiece_read(const diti_protobuf_field *source, diti_spiece *out) {
    diti_protobuf message = diti_protobuf_open(source->data, source->size);
    diti_protobuf_field field;
    int more;
    memset(out, 0, sizeof *out);
    out->type = DITI_PIECE_NORMAL;
    while ((more = diti_protobuf_next(&message, &field)) > 0) {
        if (field.number == 1 && field.data) out->text = (const char *)field.data, out->length = field.size;
        if (field.number == 2) {
            uint32_t bits = (uint32_t)field.value;
            memcpy(&out->score, &bits, sizeof bits);
        }
        if (field.number == 3) out->type = field.value;
    }
    return more == 0;
}

static dit_result diti_spiece_damaged(const char *name, size_t position, dit_error *err) {
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: no SentencePiece model, or a damaged one (at byte %lu)", name,
                     (unsigned long)position);
}

static dit_result diti_spiece_measure(const void *data, size_t size, const char *name, uint64_t *count, uint64_t *bytes,
                                      dit_error *err) {
    diti_protobuf message = diti_protobuf_open(data, size);
    diti_protobuf_field field;
    int more;
    while ((more = diti_protobuf_next(&message, &field)) > 0) {
        diti_spiece piece;
        if (field.number != 1) continue;
        if (!field.data || !diti_spiece_read(&field, &piece)) return diti_spiece_damaged(name, message.position, err);
        *count += 1;
        *bytes += piece.length;
    }
    return more < 0 ? diti_spiece_damaged(name, message.position, err) : DIT_OK;
}

static dit_result diti_spiece_add(diti_tokenizer *tokenizer, const diti_protobuf_field *field, dit_error *err) {
    diti_spiece piece;
    if (!diti_spiece_read(field, &piece)) return diti_spiece_damaged(tokenizer->name, 0, err);
    if (piece.type < DITI_PIECE_NORMAL || piece.type > DITI_PIECE_BYTE) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: piece %u has the unknown type %llu", tokenizer->name,
                         tokenizer->count, (unsigned long long)piece.type);
    }
    return diti_tokenizer_add(tokenizer, piece.text, piece.length, (int32_t)tokenizer->count, piece.score,
                              (diti_piece_type)piece.type, err);
}

/* TrainerSpec {3 model_type, 24 treat_whitespace_as_suffix} */
static dit_result diti_spiece_check_trainer(const diti_tokenizer *tokenizer, const diti_protobuf_field *source,
                                            dit_error *err) {
    static const char *const types[] = {"?", "unigram", "BPE", "word", "character"};
    diti_protobuf message = diti_protobuf_open(source->data, source->size);
    diti_protobuf_field field;
    int more;
    while ((more = diti_protobuf_next(&message, &field)) > 0) {
        if (field.number == 3 && field.value != 1) {
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                             "%s: a SentencePiece model of type %s; only unigram is supported", tokenizer->name,
                             field.value < DITI_COUNT(types) ? types[field.value] : "?");
        }
        if (field.number == 24 && field.value)
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: treat_whitespace_as_suffix is not supported",
                             tokenizer->name);
    }
    return more < 0 ? diti_spiece_damaged(tokenizer->name, message.position, err) : DIT_OK;
}

/* NormalizerSpec {2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces, 5 escape_whitespaces} */
static dit_result diti_spiece_read_normalizer(diti_tokenizer *tokenizer, const diti_protobuf_field *source,
                                              dit_error *err) {
    diti_protobuf message = diti_protobuf_open(source->data, source->size);
    diti_protobuf_field field;
    dit_result result;
    int more;
    while ((more = diti_protobuf_next(&message, &field)) > 0) {
        if (field.number == 2 && field.data) {
            result = diti_normalizer_set_charsmap(&tokenizer->env, &tokenizer->normalizer, field.data, field.size,
                                                  tokenizer->name, err);
            if (result < 0) return result;
        }
        if (field.number == 3) tokenizer->normalizer.add_prefix = field.value != 0;
        if (field.number == 4) tokenizer->normalizer.collapse_spaces = field.value != 0;
        if (field.number == 5 && !field.value)
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: escape_whitespaces false is not supported",
                             tokenizer->name);
    }
    return more < 0 ? diti_spiece_damaged(tokenizer->name, message.position, err) : DIT_OK;
}

static dit_result diti_spiece_fill(diti_tokenizer *tokenizer, const void *data, size_t size, dit_error *err) {
    diti_protobuf message = diti_protobuf_open(data, size);
    diti_protobuf_field field;
    dit_result result = DIT_OK;
    while (result == DIT_OK && diti_protobuf_next(&message, &field) > 0) {
        if (!field.data) continue;
        if (field.number == 1) result = diti_spiece_add(tokenizer, &field, err);
        if (field.number == 2) result = diti_spiece_check_trainer(tokenizer, &field, err);
        if (field.number == 3) result = diti_spiece_read_normalizer(tokenizer, &field, err);
    }
    return result == DIT_OK ? diti_tokenizer_finish(tokenizer, err) : result;
}

static dit_result diti_tokenizer_load_spiece(const diti_env *env, const void *data, size_t size, const char *name,
                                             diti_tokenizer **out, dit_error *err) {
    uint64_t count = 0, bytes = 0;
    diti_tokenizer *tokenizer;
    dit_result result = diti_spiece_measure(data, size, name, &count, &bytes, err);
    if (result == DIT_OK) result = diti_tokenizer_create(env, name, count, bytes, &tokenizer, err);
    if (result < 0) return result;
    result = diti_spiece_fill(tokenizer, data, size, err);
    if (result == DIT_OK)
        *out = tokenizer;
    else
        diti_tokenizer_free(tokenizer);
    return result;
}

/* A ModelProto begins with the tag of its first piece (a line feed), JSON with a brace. */
DIT_INTERNAL dit_result diti_tokenizer_load(const diti_env *env, const void *data, size_t size, const char *name,
                                            diti_tokenizer **out, dit_error *err) {
    const char *text = (const char *)data;
    size_t i = 0;
    while (i < size && text[0] != '\n' && (text[i] == ' ' || text[i] == '\r' || text[i] == '\n' || text[i] == '\t'))
        i++;
    if (i < size && text[i] == '{') return diti_tokenizer_load_json(env, data, size, name, out, err);
    return diti_tokenizer_load_spiece(env, data, size, name, out, err);
}

/* ======== src/text/unigram_json.c (edit it there; dit.h is generated) ======== */

/* tokenizer.json of the tokenizers library, as transformers writes it for SentencePiece unigram models. What its
   normalizer and pre_tokenizer say must amount to SentencePiece's own rules (models.md 6.2); anything else is refused
   by name. */

/* --- base64 --- */
static int diti_base64_value(char digit) {
    if (digit >= 'A' && digit <= 'Z') return digit - 'A';
    if (digit >= 'a' && digit <= 'z') return digit - 'a' + 26;
    if (digit >= '0' && digit <= '9') return digit - '0' + 52;
    if (digit == '+') return 62;
    return digit == '/' ? 63 : -1;
}

/* Writes at most length * 3 / 4 bytes. */
static bool diti_base64_decode(const char *text, size_t length, uint8_t *out, size_t *size) {
    uint32_t bits = 0, held = 0;
    size_t i;
    while (length && text[length - 1] == '=') length--;
    for (*size = 0, i = 0; i < length; i++) {
        int value = diti_base64_value(text[i]);
        if (value < 0) return false;
        bits = bits << 6 | (uint32_t)value;
        held += 6;
        if (held < 8) continue;
        held -= 8;
        out[(*size)++] = (uint8_t)(bits >> held);
    }
    return true;
}

/* --- normalizer and pre_tokenizer --- */
static dit_result diti_unigram_unsupported(const diti_tokenizer *tokenizer, const char *what, const char *type,
                                           dit_error *err) {
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: %s \"%.60s\" is not supported for a unigram model",
                     tokenizer->name, what, type);
}

static dit_result diti_unigram_read_charsmap(diti_tokenizer *tokenizer, const diti_json *object, dit_error *err) {
    const diti_json *map = diti_json_get(object, "precompiled_charsmap");
    uint8_t *bytes;
    size_t size = 0;
    dit_result result;
    if (!map || map->kind != DITI_JSON_STRING)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the Precompiled normalizer has no precompiled_charsmap",
                         tokenizer->name);
    bytes = (uint8_t *)diti_alloc(&tokenizer->env, map->text_length + 1);
    if (!bytes)
        return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory for the character map", tokenizer->name);
    if (diti_base64_decode(map->text, map->text_length, bytes, &size))
        result =
            diti_normalizer_set_charsmap(&tokenizer->env, &tokenizer->normalizer, bytes, size, tokenizer->name, err);
    else
        result = diti_fail(err, DIT_ERROR_BAD_FILE, "%s: precompiled_charsmap is not base64", tokenizer->name);
    diti_free(&tokenizer->env, bytes);
    return result;
}

/* Only the replacement of runs of spaces is known; collapse_spaces does it. */
static bool diti_unigram_collapses(const diti_json *replace) {
    const diti_json *pattern = diti_json_get(replace, "pattern");
    const char *regex = diti_json_string(pattern, "Regex", ""), *content = diti_json_string(replace, "content", "");
    return diti_equal(regex, " {2,}") && (diti_equal(content, " ") || diti_equal(content, "\xe2\x96\x81"));
}

static dit_result diti_unigram_read_normalizer(diti_tokenizer *tokenizer, const diti_json *normalizer, dit_error *err) {
    const char *type = diti_json_string(normalizer, "type", "");
    const diti_json *member;
    if (!normalizer || normalizer->kind == DITI_JSON_NULL || diti_equal(type, "Strip"))
        return DIT_OK; /* collapse_spaces strips */
    if (diti_equal(type, "Precompiled")) return diti_unigram_read_charsmap(tokenizer, normalizer, err);
    if (diti_equal(type, "Replace") && diti_unigram_collapses(normalizer)) return DIT_OK;
    if (!diti_equal(type, "Sequence")) return diti_unigram_unsupported(tokenizer, "normalizer", type, err);
    member = diti_json_get(normalizer, "normalizers");
    for (member = member ? member->first : NULL; member; member = member->next) {
        dit_result result = diti_unigram_read_normalizer(tokenizer, member, err);
        if (result < 0) return result;
    }
    return DIT_OK;
}

static dit_result diti_unigram_read_metaspace(diti_tokenizer *tokenizer, const diti_json *metaspace, dit_error *err) {
    const char *scheme = diti_json_string(metaspace, "prepend_scheme", "always");
    const char *replacement = diti_json_string(metaspace, "replacement", "\xe2\x96\x81");
    if (!diti_equal(replacement, "\xe2\x96\x81"))
        return diti_unigram_unsupported(tokenizer, "Metaspace replacement", replacement, err);
    tokenizer->normalizer.add_prefix =
        diti_json_bool(metaspace, "add_prefix_space", true) && !diti_equal(scheme, "never");
    return DIT_OK;
}

static dit_result diti_unigram_read_pre_tokenizer(diti_tokenizer *tokenizer, const diti_json *pre_tokenizer,
                                                  dit_error *err) {
    const char *type = diti_json_string(pre_tokenizer, "type", "");
    const diti_json *member;
    if (diti_equal(type, "WhitespaceSplit")) {
        tokenizer->normalizer.unicode_spaces = true; /* no piece spans two words, so splitting adds nothing else */
        return DIT_OK;
    }
    if (diti_equal(type, "Metaspace")) return diti_unigram_read_metaspace(tokenizer, pre_tokenizer, err);
    if (!diti_equal(type, "Sequence")) return diti_unigram_unsupported(tokenizer, "pre_tokenizer", type, err);
    member = diti_json_get(pre_tokenizer, "pretokenizers");
    for (member = member ? member->first : NULL; member; member = member->next) {
        dit_result result = diti_unigram_read_pre_tokenizer(tokenizer, member, err);
        if (result < 0) return result;
    }
    return DIT_OK;
}

/* --- vocabulary: [[piece, score], …] in the order of the ids --- */
typedef struct diti_unigram_source {
    const diti_json *vocab, *added; /* arrays */
    uint64_t unknown;
    bool byte_fallback;
    uint8_t *special; /* per id of the vocabulary: an added token, cut out of the text before anything else */
} diti_unigram_source;

static dit_result diti_unigram_read_model(const diti_json *root, const char *name, diti_unigram_source *source,
                                          dit_error *err) {
    const diti_json *model = diti_json_get(root, "model"), *unknown = diti_json_get(model, "unk_id");
    const char *type = diti_json_string(model, "type", "Unigram");
    source->vocab = diti_json_get(model, "vocab");
    source->added = diti_json_get(root, "added_tokens");
    source->byte_fallback = diti_json_bool(model, "byte_fallback", false);
    if (!diti_equal(type, "Unigram"))
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: a tokenizer of type %.60s; only Unigram is supported",
                         name, type);
    if (!source->vocab || source->vocab->kind != DITI_JSON_ARRAY)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: model.vocab is no array of pieces", name);
    if (!diti_json_u64(unknown, &source->unknown) || source->unknown >= source->vocab->count)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: model.unk_id names none of the %u pieces", name,
                         source->vocab->count);
    return DIT_OK;
}

static bool diti_unigram_added(const diti_json *token, const diti_json **content, uint64_t *id) {
    *content = diti_json_get(token, "content");
    return *content && (*content)->kind == DITI_JSON_STRING && diti_json_u64(diti_json_get(token, "id"), id) &&
           *id <= INT32_MAX;
}

static dit_result diti_unigram_measure(const char *name, const diti_unigram_source *source, uint64_t *count,
                                       uint64_t *bytes, dit_error *err) {
    const diti_json *item, *content;
    uint64_t id;
    for (item = source->vocab->first; item; item = item->next) {
        const diti_json *text = item->kind == DITI_JSON_ARRAY ? item->first : NULL;
        if (!text || text->kind != DITI_JSON_STRING || !text->next || text->next->kind != DITI_JSON_NUMBER)
            return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: piece %llu of model.vocab is no [text, score]", name,
                             (unsigned long long)*count);
        *bytes += text->text_length;
        *count += 1;
    }
    for (item = source->added ? source->added->first : NULL; item; item = item->next) {
        if (!diti_unigram_added(item, &content, &id))
            return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: an entry of added_tokens has no content or no id", name);
        if (id < source->vocab->count) source->special[id] = 1;
        *bytes += content->text_length;
        *count += 1;
    }
    return DIT_OK;
}

static bool diti_unigram_is_byte(const char *text, size_t length) { return length == 6 && memcmp(text, "<0x", 3) == 0; }

static diti_piece_type diti_unigram_type(const diti_unigram_source *source, uint32_t id, const diti_json *text) {
    if (id == source->unknown) return DITI_PIECE_UNKNOWN;
    if (source->special[id]) return DITI_PIECE_UNUSED; /* added_tokens adds it as a special */
    return source->byte_fallback && diti_unigram_is_byte(text->text, text->text_length) ? DITI_PIECE_BYTE
                                                                                        : DITI_PIECE_NORMAL;
}

static dit_result diti_unigram_add_pieces(diti_tokenizer *tokenizer, const diti_unigram_source *source,
                                          dit_error *err) {
    const diti_json *item, *content;
    dit_result result = DIT_OK;
    uint32_t id = 0;
    uint64_t added_id;
    for (item = source->vocab->first; item && result == DIT_OK; item = item->next, id++) {
        const diti_json *text = item->first;
        result = diti_tokenizer_add(tokenizer, text->text, text->text_length, (int32_t)id, (float)text->next->number,
                                    diti_unigram_type(source, id, text), err);
    }
    for (item = source->added ? source->added->first : NULL; item && result == DIT_OK; item = item->next) {
        if (!diti_unigram_added(item, &content, &added_id)) continue;
        result = diti_tokenizer_add(tokenizer, content->text, content->text_length, (int32_t)added_id, 0.0f,
                                    DITI_PIECE_CONTROL, err);
    }
    return result;
}

static dit_result diti_unigram_fill(diti_tokenizer *tokenizer, const diti_json *root, const diti_unigram_source *source,
                                    dit_error *err) {
    dit_result result = diti_unigram_read_normalizer(tokenizer, diti_json_get(root, "normalizer"), err);
    if (result == DIT_OK)
        result = diti_unigram_read_pre_tokenizer(tokenizer, diti_json_get(root, "pre_tokenizer"), err);
    if (result == DIT_OK) result = diti_unigram_add_pieces(tokenizer, source, err);
    return result == DIT_OK ? diti_tokenizer_finish(tokenizer, err) : result;
}

static dit_result diti_unigram_build(const diti_env *env, const diti_json *root, const char *name,
                                     diti_unigram_source *source, diti_tokenizer **out, dit_error *err) {
    uint64_t count = 0, bytes = 0;
    diti_tokenizer *tokenizer = NULL;
    dit_result result = diti_unigram_measure(name, source, &count, &bytes, err);
    if (result == DIT_OK) result = diti_tokenizer_create(env, name, count, bytes, &tokenizer, err);
    if (result == DIT_OK) result = diti_unigram_fill(tokenizer, root, source, err);
    if (result == DIT_OK)
        *out = tokenizer;
    else
        diti_tokenizer_free(tokenizer);
    return result;
}

DIT_INTERNAL dit_result diti_tokenizer_load_json(const diti_env *env, const void *data, size_t size, const char *name,
                                                 diti_tokenizer **out, dit_error *err) {
    diti_unigram_source source = DITI_ZERO;
    diti_json *root = NULL;
    dit_result result = diti_json_parse(env, (const char *)data, size, name, &root, err);
    if (result < 0) return result;
    result = diti_unigram_read_model(root, name, &source, err);
    if (result == DIT_OK) {
        source.special = (uint8_t *)diti_alloc_zero(env, (size_t)source.vocab->count + 1);
        if (!source.special)
            result = diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory for the vocabulary", name);
    }
    if (result == DIT_OK) result = diti_unigram_build(env, root, name, &source, out, err);
    diti_free(env, source.special);
    diti_json_free(env, root);
    return result;
}

/* ======== src/text/unigram_gguf.c (edit it there; dit.h is generated) ======== */

/* --- tokenizer.ggml.* of a GGUF (models.md 9.3) --- */
typedef struct diti_ggml_vocabulary {
    uint64_t count;
    const void *scores; /* count floats, not aligned; NULL: all 0 */
    const void *types;  /* count int32, not aligned; NULL: all normal */
} diti_ggml_vocabulary;

/* A GGUF array of count 4-byte elements, whatever of the two type codes it has; NULL when the key is absent. */
static dit_result diti_ggml_array(const diti_checkpoint *checkpoint, const char *key, uint32_t type, uint32_t or_type,
                                  uint64_t count, const void **out, dit_error *err) {
    uint64_t found = 0;
    uint32_t found_type = 0;
    *out = NULL;
    if (!diti_checkpoint_array(checkpoint, key, out, &found, &found_type)) return DIT_OK;
    if (found == count && (found_type == type || found_type == or_type)) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE,
                     "GGUF metadata: %s has %llu values of type %u where %llu pieces are named", key,
                     (unsigned long long)found, found_type, (unsigned long long)count);
}

static dit_result diti_ggml_measure(const diti_checkpoint *checkpoint, diti_ggml_vocabulary *vocabulary,
                                    uint64_t *bytes, dit_error *err) {
    static const char key[] = "tokenizer.ggml.tokens";
    size_t length = 0;
    dit_result result;
    *bytes = 0;
    for (vocabulary->count = 0; diti_checkpoint_array_text(checkpoint, key, vocabulary->count, &length);
         vocabulary->count++) {
        if (!diti_add_u64(*bytes, length, bytes))
            return diti_fail(err, DIT_ERROR_BAD_FILE, "GGUF metadata: %s is too long", key);
    }
    result = diti_ggml_array(checkpoint, "tokenizer.ggml.scores", 6, 6, vocabulary->count, &vocabulary->scores, err);
    if (result < 0) return result;
    return diti_ggml_array(checkpoint, "tokenizer.ggml.token_type", 5, 4, vocabulary->count, &vocabulary->types, err);
}

static dit_result diti_ggml_add_pieces(const diti_checkpoint *checkpoint, const diti_ggml_vocabulary *vocabulary,
                                       diti_tokenizer *tokenizer, dit_error *err) {
    dit_result result = DIT_OK;
    uint64_t i;
    for (i = 0; i < vocabulary->count && result == DIT_OK; i++) {
        size_t length = 0;
        const char *text = diti_checkpoint_array_text(checkpoint, "tokenizer.ggml.tokens", i, &length);
        float score = 0.0f;
        int32_t type = DITI_PIECE_NORMAL;
        if (vocabulary->scores) memcpy(&score, (const char *)vocabulary->scores + i * 4, 4);
        if (vocabulary->types) memcpy(&type, (const char *)vocabulary->types + i * 4, 4);
        if (type < DITI_PIECE_NORMAL || type > DITI_PIECE_BYTE)
            return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: piece %llu has the unknown type %d", tokenizer->name,
                             (unsigned long long)i, type);
        result = diti_tokenizer_add(tokenizer, text, length, (int32_t)i, score, (diti_piece_type)type, err);
    }
    return result;
}

/* An id of the metadata, when it is there; one outside the vocabulary is an error. */
static dit_result diti_ggml_id(const diti_checkpoint *checkpoint, const char *key, const diti_tokenizer *tokenizer,
                               int32_t *id, dit_error *err) {
    const char *text = diti_checkpoint_text(checkpoint, key);
    unsigned long value;
    if (!text) return DIT_OK;
    value = strtoul(text, NULL, 10);
    if (value >= tokenizer->count)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: %s is %s, but there are %u pieces", tokenizer->name, key, text,
                         tokenizer->count);
    *id = (int32_t)value;
    return DIT_OK;
}

static bool diti_ggml_flag(const diti_checkpoint *checkpoint, const char *key, bool otherwise) {
    const char *text = diti_checkpoint_text(checkpoint, key);
    return text ? !diti_equal(text, "0") && !diti_equal(text, "false") : otherwise;
}

static dit_result diti_ggml_read_normalizer(const diti_checkpoint *checkpoint, diti_tokenizer *tokenizer,
                                            dit_error *err) {
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    diti_normalizer *normalizer = &tokenizer->normalizer;
    const void *map = NULL;
    uint64_t size = 0;
    uint32_t type = 0;
    normalizer->add_prefix = diti_ggml_flag(checkpoint, "tokenizer.ggml.add_space_prefix", true);
    normalizer->collapse_spaces = diti_ggml_flag(checkpoint, "tokenizer.ggml.remove_extra_whitespaces", true);
    normalizer->unicode_spaces = true; /* older files carry no map, and every T5 map does at least this */
    if (!diti_checkpoint_array(checkpoint, key, &map, &size, &type)) return DIT_OK;
    if (type > 1) return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: %s must be an array of bytes", tokenizer->name, key);
    return diti_normalizer_set_charsmap(&tokenizer->env, normalizer, map, (size_t)size, tokenizer->name, err);
}

static dit_result diti_ggml_fill(const diti_checkpoint *checkpoint, const diti_ggml_vocabulary *vocabulary,
                                 diti_tokenizer *tokenizer, dit_error *err) {
    dit_result result = diti_ggml_add_pieces(checkpoint, vocabulary, tokenizer, err);
    if (result == DIT_OK)
        result = diti_ggml_id(checkpoint, "tokenizer.ggml.eos_token_id", tokenizer, &tokenizer->end, err);
    if (result == DIT_OK)
        result = diti_ggml_id(checkpoint, "tokenizer.ggml.padding_token_id", tokenizer, &tokenizer->padding, err);
    if (result == DIT_OK)
        result = diti_ggml_id(checkpoint, "tokenizer.ggml.unknown_token_id", tokenizer, &tokenizer->unknown, err);
    if (result == DIT_OK) result = diti_ggml_read_normalizer(checkpoint, tokenizer, err);
    return result == DIT_OK ? diti_tokenizer_finish(tokenizer, err) : result;
}

DIT_INTERNAL dit_result diti_tokenizer_load_gguf(const diti_env *env, const diti_checkpoint *checkpoint,
                                                 diti_tokenizer **out, dit_error *err) {
    const char *model = diti_checkpoint_text(checkpoint, "tokenizer.ggml.model");
    diti_ggml_vocabulary vocabulary = DITI_ZERO;
    diti_tokenizer *tokenizer;
    uint64_t bytes = 0;
    dit_result result;
    if (!diti_equal(model, "t5"))
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "GGUF metadata: tokenizer.ggml.model is \"%s\"; only \"t5\" is supported",
                         model ? model : "(absent)");
    result = diti_ggml_measure(checkpoint, &vocabulary, &bytes, err);
    if (result == DIT_OK)
        result = diti_tokenizer_create(env, "GGUF tokenizer", vocabulary.count, bytes, &tokenizer, err);
    if (result < 0) return result;
    result = diti_ggml_fill(checkpoint, &vocabulary, tokenizer, err);
    if (result == DIT_OK)
        *out = tokenizer;
    else
        diti_tokenizer_free(tokenizer);
    return result;
}

/* ======== src/text/t5.c (edit it there; dit.h is generated) ======== */

/* T5 1.1, mT5 and umT5 encoders (models.md 5.1): RMS norms, no biases, unscaled scores with a relative position bias
   that depends on key - query only, and a gated feed-forward. */

typedef struct diti_t5_block {
    diti_weight norm;           /* [d] */
    diti_joined qkv;            /* [3 * inner, d] */
    diti_weight out;            /* [d, inner] */
    diti_weight ff_norm;        /* [d] */
    diti_weight gate, up, down; /* wi_0, wi_1 [ff, d]; wo [d, ff] */
    float *bias;                /* own table [buckets, heads] on the host; NULL: that of the blocks before */
} diti_t5_block;

typedef struct diti_t5_config {
    uint32_t columns, vocabulary, blocks; /* columns: d */
    uint32_t heads, head_dim, inner, hidden;
    uint32_t buckets, max_distance;
    float eps;
} diti_t5_config;

struct diti_t5 {
    diti_device *device;
    diti_env env;
    diti_t5_config config;
    diti_t5_traits traits;
    diti_weights weights;
    diti_weight embedding;  /* [vocabulary, d] */
    diti_weight final_norm; /* [d] */
    diti_t5_block *blocks;
};

/* ---- key table: names asked for are transformers'; llama.cpp calls them so ---- */

static const char *const diti_t5_llama_keys[][2] = {
    {"shared", "token_embd"},
    {"encoder.final_layer_norm", "enc.output_norm"},
};
static const char *const diti_t5_llama_block_keys[][2] = {
    {"layer.0.layer_norm", "attn_norm"},       {"layer.0.SelfAttention.q", "attn_q"},
    {"layer.0.SelfAttention.k", "attn_k"},     {"layer.0.SelfAttention.v", "attn_v"},
    {"layer.0.SelfAttention.o", "attn_o"},     {"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"},
    {"layer.1.layer_norm", "ffn_norm"},        {"layer.1.DenseReluDense.wi_0", "ffn_gate"},
    {"layer.1.DenseReluDense.wi_1", "ffn_up"}, {"layer.1.DenseReluDense.wo", "ffn_down"},
};

/* "encoder.block.3.layer.0.SelfAttention.q.weight" -> "enc.blk.3.attn_q.weight" */
static const char *diti_t5_llama_name(void *user, const char *name, char *out, size_t size) {
    static const char block[] = "encoder.block.";
    const char *number = name + sizeof block - 1, *rest;
    size_t used;
    (void)user;
    if (!diti_starts_with(name, block)) {
        return diti_rename(diti_t5_llama_keys, DITI_COUNT(diti_t5_llama_keys), name, out, size);
    }
    rest = strchr(number, '.');
    if (!rest || !diti_format(out, size, "enc.blk.%.*s.", (int)(rest - number), number)) return NULL;
    used = strlen(out);
    rest =
        diti_rename(diti_t5_llama_block_keys, DITI_COUNT(diti_t5_llama_block_keys), rest + 1, out + used, size - used);
    return rest ? out : NULL;
}

/* ---- configuration: sizes from shapes, the rest from config.json or GGUF metadata ---- */

static float diti_t5_eps(const diti_json *json, const diti_checkpoint *checkpoint) {
    const char *text = diti_checkpoint_text(checkpoint, "t5encoder.attention.layer_norm_rms_epsilon");
    double eps = diti_json_number(json, "layer_norm_epsilon", text ? diti_parse_double(text) : 1e-6);
    return eps > 0 && eps < 1 ? (float)eps : 1e-6f;
}

static dit_result diti_t5_check_activation(const diti_json *json, dit_error *err) {
    const char *name = diti_json_string(json, "feed_forward_proj", "gated-gelu");
    if (diti_equal(name, "gated-gelu")) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "config.json: a T5 encoder with feed_forward_proj %.60s is not known, only gated-gelu", name);
}

static dit_result diti_t5_read_config(diti_loader *loader, const diti_json *json, diti_t5_config *config,
                                      dit_error *err) {
    static const char q[] = "encoder.block.0.layer.0.SelfAttention.q.weight";
    static const char bias[] = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
    dit_result result = diti_t5_check_activation(json, err);
    config->columns = diti_loader_dimension(loader, q, 1);
    config->inner = diti_loader_dimension(loader, q, 0);
    config->buckets = diti_loader_dimension(loader, bias, 0);
    config->heads = diti_loader_dimension(loader, bias, 1);
    config->hidden = diti_loader_dimension(loader, "encoder.block.0.layer.1.DenseReluDense.wi_0.weight", 0);
    config->vocabulary = diti_loader_dimension(loader, "shared.weight", 0);
    if (!config->vocabulary) config->vocabulary = diti_loader_dimension(loader, "encoder.embed_tokens.weight", 0);
    config->blocks = diti_loader_count(loader, "encoder.block.", ".layer.0.SelfAttention.q.weight");
    config->eps = diti_t5_eps(json, loader->checkpoint);
    if (result == DIT_OK) {
        result = diti_json_size(json, "relative_attention_max_distance", 128, 1u << 20, &config->max_distance, err);
    }
    if (result == DIT_OK) result = diti_json_size(json, "num_layers", config->blocks, 1024, &config->blocks, err);
    return result;
}

static dit_result diti_t5_check(const diti_loader *loader, diti_t5_config *config, dit_error *err) {
    const char *file = diti_checkpoint_name(loader->checkpoint);
    if (!config->columns || !config->heads || !config->hidden || !config->vocabulary || !config->blocks) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: not a T5 encoder with a gated feed-forward: %s is missing or has an impossible shape",
                         file,
                         !config->heads        ? "the relative position table of block 0"
                         : !config->vocabulary ? "the token embedding"
                                               : "a matrix of block 0");
    }
    config->head_dim = config->inner / config->heads;
    if (config->inner % config->heads || config->head_dim > 256 || config->blocks > DITI_T5_MAX_BLOCKS ||
        config->buckets < 4 || config->buckets % 4 || config->buckets / 4 >= config->max_distance) {
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "%s: a T5 encoder of %u blocks with %u columns in %u heads and %u position buckets is not known", file,
            (unsigned)config->blocks, (unsigned)config->inner, (unsigned)config->heads, (unsigned)config->buckets);
    }
    return DIT_OK;
}

/* ---- loading ---- */

static void diti_t5_load_table(diti_loader *loader, diti_t5 *t5, diti_t5_block *block) {
    static const char name[] = "layer.0.SelfAttention.relative_attention_bias.weight";
    const diti_stored_tensor *tensor = diti_loader_find(loader, name);
    uint64_t count = (uint64_t)t5->config.buckets * t5->config.heads;
    if (!tensor || loader->error.result) return;
    block->bias = (float *)diti_alloc_array(&t5->env, (size_t)count, sizeof(float));
    if (!block->bias) {
        diti_fail(&loader->error, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the text encoder");
        return;
    }
    diti_checkpoint_read_float(loader->checkpoint, tensor, block->bias, count, &loader->error);
}

static void diti_t5_load_block(diti_loader *loader, diti_t5 *t5, uint32_t index) {
    static const char *const qkv[] = {"layer.0.SelfAttention.q", "layer.0.SelfAttention.k", "layer.0.SelfAttention.v"};
    const diti_t5_config *config = &t5->config;
    diti_t5_block *block = &t5->blocks[index];
    uint32_t d = config->columns, hidden = config->hidden;
    diti_loader_scope(loader, "encoder.block.%u.", (unsigned)index);
    diti_load_vector(loader, &block->norm, 1, d, "layer.0.layer_norm.weight");
    diti_load_joined(loader, &block->qkv, qkv, 3, config->inner, d, false);
    diti_load_matrix(loader, &block->out, d, config->inner, 1, "layer.0.SelfAttention.o.weight");
    diti_load_vector(loader, &block->ff_norm, 1, d, "layer.1.layer_norm.weight");
    diti_load_matrix(loader, &block->gate, hidden, d, 1, "layer.1.DenseReluDense.wi_0.weight");
    diti_load_matrix(loader, &block->up, hidden, d, 1, "layer.1.DenseReluDense.wi_1.weight");
    diti_load_matrix(loader, &block->down, d, hidden, 1, "layer.1.DenseReluDense.wo.weight");
    diti_t5_load_table(loader, t5, block);
    diti_loader_scope(loader, "%s", "");
}

static void diti_t5_load_weights(diti_loader *loader, diti_t5 *t5) {
    const diti_t5_config *config = &t5->config;
    const char *embedding = "shared.weight";
    uint32_t i;
    if (!diti_loader_find(loader, embedding)) embedding = "encoder.embed_tokens.weight"; /* the same, tied */
    diti_load_matrix(loader, &t5->embedding, config->vocabulary, config->columns, 1, embedding);
    for (i = 0; i < config->blocks; i++) diti_t5_load_block(loader, t5, i);
    diti_load_vector(loader, &t5->final_norm, 1, config->columns, "encoder.final_layer_norm.weight");
}

static dit_result diti_t5_fill(diti_t5 *t5, diti_loader *loader, dit_error *err) {
    t5->blocks = (diti_t5_block *)diti_alloc_array(&t5->env, t5->config.blocks, sizeof *t5->blocks);
    if (!t5->blocks) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the text encoder");
    t5->traits.columns = t5->config.columns;
    t5->traits.vocabulary = t5->config.vocabulary;
    t5->traits.layers = t5->config.blocks;
    diti_t5_load_weights(loader, t5);
    return diti_loader_finish(loader, &t5->weights, err);
}

DIT_INTERNAL dit_result diti_t5_load(diti_device *device, const diti_env *env, const diti_json *config,
                                     const diti_checkpoint *checkpoint, const char *prefix,
                                     const dit_progress *progress, diti_t5 **out, dit_error *err) {
    diti_t5_config read = DITI_ZERO;
    diti_loader loader;
    diti_t5 *t5;
    dit_result result;
    *out = NULL;
    diti_loader_begin(&loader, device, env, checkpoint, prefix, "text encoder", progress);
    if (!diti_loader_find(&loader, "encoder.final_layer_norm.weight")) loader.rename = diti_t5_llama_name;
    result = diti_t5_read_config(&loader, config, &read, err);
    if (result == DIT_OK) result = diti_t5_check(&loader, &read, err);
    if (result != DIT_OK) return result;
    t5 = (diti_t5 *)diti_alloc_zero(env, sizeof *t5);
    if (!t5) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the text encoder");
    t5->device = device;
    t5->env = *env;
    t5->config = read;
    result = diti_t5_fill(t5, &loader, err);
    if (result != DIT_OK)
        diti_t5_destroy(t5);
    else
        *out = t5;
    return result;
}

DIT_INTERNAL void diti_t5_destroy(diti_t5 *t5) {
    diti_env env;
    uint32_t i;
    if (!t5) return;
    env = t5->env;
    diti_weights_free(t5->device, &env, &t5->weights);
    for (i = 0; t5->blocks && i < t5->config.blocks; i++) diti_free(&env, t5->blocks[i].bias);
    diti_free(&env, t5->blocks);
    diti_free(&env, t5);
}

DIT_INTERNAL const diti_t5_traits *diti_t5_get_traits(const diti_t5 *t5) { return &t5->traits; }

DIT_INTERNAL const diti_weights *diti_t5_weights(const diti_t5 *t5) { return &t5->weights; }

/* ---- relative positions ---- */

/* The bucket of key - query: half of them for keys behind the query, exact near it, logarithmic up to max_distance.
   The logarithm is float32 and truncated, as in the reference. */
static uint32_t diti_t5_bucket(const diti_t5_config *config, int64_t relative) {
    uint32_t half = config->buckets / 2, exact = half / 2, first = relative > 0 ? half : 0, far;
    uint64_t distance = (uint64_t)(relative < 0 ? -relative : relative);
    float place;
    if (distance < exact) return first + (uint32_t)distance;
    place = logf((float)distance / (float)exact) / (float)log((double)config->max_distance / exact);
    far = exact + (uint32_t)(place * (float)(half - exact));
    return first + (far < half ? far : half - 1);
}

/* out [heads, 2 * tokens - 1]: element key - query + tokens - 1. */
static void diti_t5_fill_table(const diti_t5_config *config, const float *bias, uint32_t tokens, float *out) {
    uint32_t width = 2 * tokens - 1, head, i;
    for (i = 0; i < width; i++) {
        const float *row = bias + (size_t)diti_t5_bucket(config, (int64_t)i - (int64_t)tokens + 1) * config->heads;
        for (head = 0; head < config->heads; head++) out[(size_t)head * width + i] = row[head];
    }
}

DIT_INTERNAL dit_result diti_t5_write_inputs(const diti_t5 *t5, diti_plan *plan, const diti_t5_use *use,
                                             dit_error *err) {
    size_t count = (size_t)t5->config.heads * (2 * (size_t)use->tokens - 1);
    float *table = (float *)diti_alloc_array(&t5->env, count, sizeof(float));
    dit_result result = DIT_OK;
    uint32_t i;
    if (!table) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the text encoder");
    for (i = 0; i < t5->config.blocks && result == DIT_OK; i++) {
        if (!t5->blocks[i].bias) continue;
        diti_t5_fill_table(&t5->config, t5->blocks[i].bias, use->tokens, table);
        result = diti_plan_write(plan, use->bias[i], table, count * sizeof(float), err);
    }
    diti_free(&t5->env, table);
    return result;
}

/* ---- the encoder ---- */

static diti_tensor diti_t5_norm(diti_graph *graph, const diti_t5 *t5, diti_tensor x, const diti_weight *weight,
                                bool out_f32, const char *name) {
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = true;
    desc.eps = t5->config.eps;
    desc.weight = weight;
    desc.out_f32 = out_f32;
    desc.name = name;
    return diti_norm(graph, x, &desc);
}

/* x += weight h, in place. */
static void diti_t5_residual(diti_graph *graph, diti_tensor x, diti_tensor h, const diti_weight *weight,
                             const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.residual = x;
    desc.out = x;
    desc.name = name;
    diti_linear(graph, h, weight, &desc);
}

static diti_tensor diti_t5_attention(const diti_t5 *t5, diti_graph *graph, const diti_t5_use *use,
                                     const diti_t5_block *block, diti_tensor h, diti_tensor bias) {
    const diti_t5_config *config = &t5->config;
    uint32_t rows = use->batch * use->tokens, inner = config->inner;
    diti_attention_desc desc = DITI_ZERO;
    diti_linear_desc joined = DITI_ZERO;
    diti_tensor qkv;
    joined.name = "t5_qkv";
    qkv = diti_linear_joined(graph, h, &block->qkv, &joined);
    desc.batch = use->batch;
    desc.heads = config->heads;
    desc.head_dim = config->head_dim;
    desc.scale = 1.0f;
    desc.key_lengths = use->lengths;
    desc.bias = bias;
    desc.name = "t5_attention";
    return diti_attention(graph, diti_tensor_view(graph, qkv, 0, rows, 0, inner),
                          diti_tensor_view(graph, qkv, 0, rows, inner, inner),
                          diti_tensor_view(graph, qkv, 0, rows, 2 * inner, inner), &desc);
}

/* gelu(wi_0 h) * (wi_1 h) */
static diti_tensor diti_t5_gated(diti_graph *graph, const diti_t5_block *block, diti_tensor h) {
    diti_linear_desc up = DITI_ZERO, gate = DITI_ZERO;
    up.name = "t5_up";
    gate.multiply = diti_linear(graph, h, &block->up, &up);
    gate.activation = DITI_ACTIVATION_GELU_TANH;
    gate.name = "t5_gate";
    return diti_linear(graph, h, &block->gate, &gate);
}

/* x F32 [batch * tokens, d] is changed in place. */
static void diti_t5_run_block(const diti_t5 *t5, diti_graph *graph, const diti_t5_use *use, uint32_t index,
                              diti_tensor x, diti_tensor bias) {
    const diti_t5_block *block = &t5->blocks[index];
    diti_tensor h = diti_t5_norm(graph, t5, x, &block->norm, false, "t5_norm1");
    h = diti_t5_attention(t5, graph, use, block, h, bias);
    diti_t5_residual(graph, x, h, &block->out, "t5_attention_out");
    h = diti_t5_norm(graph, t5, x, &block->ff_norm, false, "t5_norm2");
    h = diti_t5_gated(graph, block, h);
    diti_t5_residual(graph, x, h, &block->down, "t5_down");
}

/* The table that block index uses: its own, else that of the last block before it that has one. */
static diti_tensor diti_t5_bias(const diti_t5 *t5, diti_graph *graph, diti_t5_use *use, uint32_t index) {
    if (!t5->blocks[index].bias) return index ? diti_t5_bias(t5, graph, use, index - 1) : 0;
    if (!use->bias[index]) {
        use->bias[index] =
            diti_tensor_input(graph, DITI_F32, t5->config.heads, 2 * use->tokens - 1, "relative_positions");
    }
    return use->bias[index];
}

DIT_INTERNAL diti_tensor diti_t5_encode(const diti_t5 *t5, diti_graph *graph, diti_t5_use *use) {
    diti_tensor x = diti_gather_rows(graph, &t5->embedding, use->ids, "t5_embedding");
    uint32_t i;
    for (i = 0; i < t5->config.blocks && !diti_graph_failed(graph); i++) {
        diti_t5_run_block(t5, graph, use, i, x, diti_t5_bias(t5, graph, use, i));
    }
    return diti_t5_norm(graph, t5, x, &t5->final_norm, true, "t5_final_norm");
}

/* ======== src/model/model.h (edit it there; dit.h is generated) ======== */
/* model: one file per transformer family. It reads its config and key names, loads weights, and emits the ops of one
 * denoiser evaluation. */
#ifndef DITI_MODEL_H
#define DITI_MODEL_H

/* What a family tells the job. */
typedef struct diti_model_traits {
    const char *family, *variant; /* "pixart", "sigma": a guess from the transformer alone */
    uint32_t latent_channels;     /* C */
    uint32_t out_channels;        /* of the transformer: C, or 2C with the learned sigma that is dropped */
    uint32_t patch;
    uint32_t default_size; /* latent height and width */
    uint32_t text_tokens,
        text_columns; /* of the encoder output it wants; the pipeline's class may say another number of tokens */
    uint32_t default_steps;
    float default_guidance;
    bool wants_size; /* resolution and aspect below are used */
} diti_model_traits;

/* One denoiser evaluation inside a plan. Rows of the batch: the `copies` (unconditional, then conditional) of `batch`
 * images. */
typedef struct diti_denoise {
    uint32_t batch, copies;
    uint32_t height, width;           /* of the latent, multiples of the patch */
    uint32_t steps;                   /* rows of the timestep tables */
    uint32_t text_batch, text_tokens; /* text rows are [text_batch * text_tokens, text_columns]; text_batch is copies
                                         (images share a prompt) or copies * batch */
    float resolution[2], aspect;      /* micro-conditions: pixels (height, width), and height / width */
    diti_tensor latent;               /* state, planar F32 [batch * C, height * width] */
    diti_tensor input_scale;          /* F32 [1, 1], or 0 */
    diti_tensor text;                 /* F32 or activation format [text_batch * text_tokens, text_columns] */
    diti_tensor text_lengths;         /* U32 [1, text_batch] valid tokens of each; 0: all */
    diti_tensor step;                 /* U32 [1, 1] state: which row of the tables */
    void *family; /* family's own tensors between prepare and step; freed with diti_free by the caller */
} diti_denoise;

typedef struct diti_transformer diti_transformer;
typedef struct diti_family {
    const char *name;
    /* true when config (may be NULL) or the tensors under prefix are this family's. */
    bool (*recognise)(const diti_json *config, const diti_checkpoint *checkpoint, const char *prefix);
    /* What config (may be NULL) does not say comes from shapes. */
    dit_result (*load)(diti_device *device, const diti_env *env, const diti_json *config,
                       const diti_checkpoint *checkpoint, const char *prefix, const dit_progress *progress,
                       diti_transformer **out, dit_error *err);
    void (*destroy)(diti_transformer *transformer);
    void (*prepare)(const diti_transformer *transformer, diti_graph *graph,
                    diti_denoise *denoise); /* once per image: modulation of all steps, text projections */
    diti_tensor (*step)(const diti_transformer *transformer, diti_graph *graph,
                        diti_denoise *denoise); /* prediction planar F32 [copies * batch * C, height * width] */
    /* Host inputs that prepare declared; timesteps: one for each of denoise->steps. */
    dit_result (*write_inputs)(const diti_transformer *transformer, diti_plan *plan, const diti_denoise *denoise,
                               const float *timesteps, dit_error *err);
} diti_family;
struct diti_transformer { /* first member of every family's own struct */
    const diti_family *family;
    diti_model_traits traits;
    diti_device *device; /* NULL after a dry run */
    diti_env env;
    diti_weights weights;
};
/* Finds the family; the error names what the file looks like. */
DIT_INTERNAL dit_result diti_transformer_load(diti_device *device, const diti_env *env, const diti_json *config,
                                              const diti_checkpoint *checkpoint, const char *prefix,
                                              const dit_progress *progress, diti_transformer **out, dit_error *err);
DIT_INTERNAL void diti_transformer_destroy(diti_transformer *transformer); /* NULL is fine */

/* --- for the families --- */
/* The tensor prefix + name, NULL when absent. */
DIT_INTERNAL const diti_stored_tensor *diti_model_find(const diti_checkpoint *checkpoint, const char *prefix,
                                                       const char *name);
/* models.md 2.1: rows [count, dim] of scaled timesteps, cosines first, in float32 as the references round. dim is even.
 */
DIT_INTERNAL void diti_sinusoid(const float *timesteps, uint32_t count, uint32_t dim, float *out);
/* models.md 2.4: rows [gh * gw, dim]. A token's coordinate is y / divide_y / interpolation in float32, as the
 * references round. dim is a multiple of 4. */
DIT_INTERNAL void diti_position_table(uint32_t grid_height, uint32_t grid_width, uint32_t dim, float divide_y,
                                      float divide_x, float interpolation, float *out);

DIT_INTERNAL const diti_family *diti_pixart_family(void);
#endif

/* ======== src/model/common.c (edit it there; dit.h is generated) ======== */

DIT_INTERNAL const diti_stored_tensor *diti_model_find(const diti_checkpoint *checkpoint, const char *prefix,
                                                       const char *name) {
    char full[320];
    if (!diti_format(full, sizeof full, "%s%s", prefix, name)) return NULL;
    return diti_checkpoint_find(checkpoint, full);
}

DIT_INTERNAL void diti_sinusoid(const float *timesteps, uint32_t count, uint32_t dim, float *out) {
    uint32_t row, i, half = dim / 2;
    for (i = 0; i < half; i++) {
        float exponent = (float)-9.210340371976184 * (float)i / (float)half; /* -ln(10000) */
        float frequency = expf(exponent);
        for (row = 0; row < count; row++) {
            float angle = timesteps[row] * frequency;
            out[(size_t)row * dim + i] = cosf(angle);
            out[(size_t)row * dim + half + i] = sinf(angle);
        }
    }
}

/* models.md 2.3: sines, then cosines of position * 10000^(-i / (dim / 2)). */
static void diti_position_row(double position, uint32_t dim, float *out) {
    uint32_t i, half = dim / 2;
    for (i = 0; i < half; i++) {
        double angle = position * (1.0 / pow(10000.0, (double)i / (double)half));
        out[i] = (float)sin(angle);
        out[half + i] = (float)cos(angle);
    }
}

DIT_INTERNAL void diti_position_table(uint32_t grid_height, uint32_t grid_width, uint32_t dim, float divide_y,
                                      float divide_x, float interpolation, float *out) {
    uint32_t x, y, half = dim / 2; /* the horizontal half comes first */
    size_t line = (size_t)grid_width * dim;
    for (x = 0; x < grid_width; x++) {
        diti_position_row((double)((float)x / divide_x / interpolation), half, out + (size_t)x * dim);
    }
    for (y = 0; y < grid_height; y++) {
        float *first = out + y * line + half;
        diti_position_row((double)((float)y / divide_y / interpolation), half, first);
        for (x = 0; x < grid_width; x++) {
            float *token = out + y * line + (size_t)x * dim;
            if (y > 0) memcpy(token, out + (size_t)x * dim, half * sizeof(float));
            if (x > 0) memcpy(token + half, first, half * sizeof(float));
        }
    }
}

/* ======== src/model/pixart.c (edit it there; dit.h is generated) ======== */

/* PixArt-alpha and PixArt-Sigma (models.md 3.2). D is the width of the residual stream; the text is attended by every
   block, and one timestep embedding modulates all of them through small tables of their own. */

#define DITI_PIXART_MAX_BLOCKS 64u

/* ---- configuration ---- */

typedef struct diti_pixart_config {
    uint32_t blocks, heads, head_dim, width; /* width: D */
    uint32_t channels, out_channels, patch;
    uint32_t caption;     /* columns of the text encoder's output */
    uint32_t sample_size; /* latent size of the training: its grid is the unit of positions */
    float interpolation, eps;
    bool sized; /* micro-conditions: resolution and aspect ratio */
} diti_pixart_config;

/* ---- key table: names asked for here are diffusers'; the original code base calls them so ---- */

static const char *const diti_pixart_keys[][2] = {
    {"pos_embed.proj", "x_embedder.proj"},
    {"adaln_single.emb.timestep_embedder.linear_1", "t_embedder.mlp.0"},
    {"adaln_single.emb.timestep_embedder.linear_2", "t_embedder.mlp.2"},
    {"adaln_single.emb.resolution_embedder.linear_1", "csize_embedder.mlp.0"},
    {"adaln_single.emb.resolution_embedder.linear_2", "csize_embedder.mlp.2"},
    {"adaln_single.emb.aspect_ratio_embedder.linear_1", "ar_embedder.mlp.0"},
    {"adaln_single.emb.aspect_ratio_embedder.linear_2", "ar_embedder.mlp.2"},
    {"adaln_single.linear", "t_block.1"},
    {"caption_projection.linear_1", "y_embedder.y_proj.fc1"},
    {"caption_projection.linear_2", "y_embedder.y_proj.fc2"},
    {"scale_shift_table", "final_layer.scale_shift_table"},
    {"proj_out", "final_layer.linear"},
};
static const char *const diti_pixart_block_keys[][2] = {
    {"scale_shift_table", "scale_shift_table"},
    {"attn1.qkv", "attn.qkv"}, /* rows q, k, v; three matrices in diffusers */
    {"attn1.to_out.0", "attn.proj"},
    {"attn2.to_q", "cross_attn.q_linear"},
    {"attn2.kv", "cross_attn.kv_linear"}, /* rows k, v */
    {"attn2.to_out.0", "cross_attn.proj"},
    {"ff.net.0.proj", "mlp.fc1"},
    {"ff.net.2", "mlp.fc2"},
};

/* "transformer_blocks.3.attn1.to_out.0.bias" -> "blocks.3.attn.proj.bias" */
static const char *diti_pixart_original_name(void *user, const char *name, char *out, size_t size) {
    static const char blocks[] = "transformer_blocks.";
    const char *rest;
    size_t start;
    (void)user;
    if (!diti_starts_with(name, blocks)) {
        return diti_rename(diti_pixart_keys, DITI_COUNT(diti_pixart_keys), name, out, size);
    }
    rest = strchr(name + sizeof blocks - 1, '.');
    name += strlen("transformer_");
    if (!rest) return NULL;
    start = (size_t)(rest + 1 - name);
    if (start >= size) return NULL;
    memcpy(out, name, start);
    rest = diti_rename(diti_pixart_block_keys, DITI_COUNT(diti_pixart_block_keys), rest + 1, out + start, size - start);
    return rest ? out : NULL;
}

/* ---- weights ---- */

typedef struct diti_pixart_embedder { /* sinusoids -> linear -> silu -> linear */
    diti_layer in, out;
} diti_pixart_embedder;

typedef struct diti_pixart_block {
    diti_joined qkv;     /* [3D, D] */
    diti_layer out;      /* [D, D] */
    diti_layer text_q;   /* [D, D] */
    diti_joined text_kv; /* [2D, D] */
    diti_layer text_out; /* [D, D] */
    diti_layer ff_in;    /* [4D, D] */
    diti_layer ff_out;   /* [D, 4D] */
} diti_pixart_block;

typedef struct diti_pixart {
    diti_transformer base;
    diti_pixart_config config;
    diti_layer patch;                              /* [D, C * p * p] */
    diti_pixart_embedder time, resolution, aspect; /* [D, 256], [D, D]; the others [D/3, 256], [D/3, D/3] */
    diti_layer modulation;                         /* [6D, D] */
    diti_layer caption_in, caption_out;            /* [D, caption], [D, D] */
    diti_weight tables;                            /* F32 [6 * blocks, D] */
    diti_weight final_table;                       /* F32 [2, D] */
    diti_layer proj_out;                           /* [p * p * out_channels, D] */
    diti_pixart_block *blocks;
} diti_pixart;

static const diti_pixart *diti_pixart_of(const diti_transformer *transformer) {
    return (const diti_pixart *)(const void *)transformer;
}

static bool diti_pixart_is_original(const diti_checkpoint *checkpoint, const char *prefix) {
    return diti_model_find(checkpoint, prefix, "t_block.1.weight") &&
           diti_model_find(checkpoint, prefix, "y_embedder.y_proj.fc1.weight") &&
           diti_model_find(checkpoint, prefix, "blocks.0.scale_shift_table");
}

static bool diti_pixart_is_diffusers(const diti_checkpoint *checkpoint, const char *prefix) {
    return diti_model_find(checkpoint, prefix, "adaln_single.linear.weight") &&
           diti_model_find(checkpoint, prefix, "pos_embed.proj.weight") &&
           diti_model_find(checkpoint, prefix, "transformer_blocks.0.scale_shift_table");
}

/* Video models share the names, but have a five-dimensional patch embedding or temporal blocks. */
static bool diti_pixart_recognise(const diti_json *config, const diti_checkpoint *checkpoint, const char *prefix) {
    const char *name = diti_json_string(config, "_class_name", "");
    const diti_stored_tensor *patch;
    if (diti_equal(name, "PixArtTransformer2DModel")) return true;
    if (diti_equal(name, "Transformer2DModel")) {
        return diti_equal(diti_json_string(config, "norm_type", ""), "ada_norm_single");
    }
    if (name[0] || diti_model_find(checkpoint, prefix, "temporal_transformer_blocks.0.scale_shift_table")) return false;
    patch = diti_model_find(checkpoint, prefix, "x_embedder.proj.weight");
    if (diti_pixart_is_original(checkpoint, prefix)) return patch && patch->rank == 4;
    return diti_pixart_is_diffusers(checkpoint, prefix);
}

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

/* Originals were trained on 1024 pixels where they have micro-conditions or a long caption, else on 512, unless they
   keep their position table [1, grid * grid, D]. */
static uint32_t diti_pixart_training_size(diti_loader *loader, const diti_pixart_config *config) {
    const char *prefix = loader->prefix;
    const diti_stored_tensor *table = diti_model_find(loader->checkpoint, prefix, "pos_embed");
    const diti_stored_tensor *caption = diti_model_find(loader->checkpoint, prefix, "y_embedder.y_embedding");
    if (table && table->rank == 3 && table->shape[1] <= 1u << 20) {
        return (uint32_t)lround(sqrt((double)table->shape[1])) * config->patch;
    }
    return config->sized || (caption && caption->rank == 2 && caption->shape[0] > 120) ? 128u : 64u;
}

/* Everything but what only config.json knows, from the tensors. */
static dit_result diti_pixart_read_shapes(diti_loader *loader, diti_pixart_config *config, dit_error *err) {
    config->width = diti_loader_dimension(loader, "pos_embed.proj.weight", 0);
    config->channels = diti_loader_dimension(loader, "pos_embed.proj.weight", 1);
    config->patch = diti_loader_dimension(loader, "pos_embed.proj.weight", 2);
    config->caption = diti_loader_dimension(loader, "caption_projection.linear_1.weight", 1);
    config->blocks = diti_loader_count(loader, "transformer_blocks.", ".scale_shift_table");
    config->sized = diti_loader_find(loader, "adaln_single.emb.resolution_embedder.linear_1.weight") != NULL;
    if (!config->width || !config->channels || !config->patch || !config->caption || !config->blocks) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: a PixArt transformer without %s: the file is incomplete",
                         diti_checkpoint_name(loader->checkpoint),
                         !config->blocks    ? "blocks"
                         : !config->caption ? "caption_projection"
                                            : "patch embedding");
    }
    if (config->patch > 16 || config->channels > 1024) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: a PixArt transformer with patches of %u and %u channels is out of range",
                         diti_checkpoint_name(loader->checkpoint), (unsigned)config->patch, (unsigned)config->channels);
    }
    config->out_channels = diti_loader_dimension(loader, "proj_out.weight", 0) / (config->patch * config->patch);
    config->head_dim = config->width % 72 == 0 ? 72 : 64; /* as published: 16 heads of 72 */
    return DIT_OK;
}

static dit_result diti_pixart_check(const diti_pixart_config *config, const diti_json *json, dit_error *err) {
    const char *activation = diti_json_string(json, "activation_fn", "gelu-approximate");
    const char *norm = diti_json_string(json, "norm_type", "ada_norm_single");
    if (!diti_equal(activation, "gelu-approximate") || !diti_equal(norm, "ada_norm_single")) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "config.json: a PixArt transformer with activation_fn %.40s and norm_type %.40s is not known",
                         activation, norm);
    }
    if ((uint64_t)config->heads * config->head_dim != config->width || config->head_dim > 256 ||
        config->width % (config->sized ? 12u : 4u)) {
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "PixArt transformer: %u heads of %u don't make a width of %u (a multiple of 4; of 12 with micro-conditions)",
            (unsigned)config->heads, (unsigned)config->head_dim, (unsigned)config->width);
    }
    if (config->out_channels < config->channels || config->blocks > DITI_PIXART_MAX_BLOCKS || config->patch > 16 ||
        config->sample_size < config->patch) {
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "PixArt transformer: %u blocks, patches of %u in a size of %u, %u channels out of %u are out of range",
            (unsigned)config->blocks, (unsigned)config->patch, (unsigned)config->sample_size,
            (unsigned)config->out_channels, (unsigned)config->channels);
    }
    return DIT_OK;
}

static dit_result diti_pixart_read_config(diti_loader *loader, const diti_json *json, diti_pixart_config *config,
                                          dit_error *err) {
    uint32_t widest;
    dit_result result = diti_pixart_read_shapes(loader, config, err);
    if (result == DIT_OK) result = diti_json_size(json, "num_layers", config->blocks, 1024, &config->blocks, err);
    if (result == DIT_OK) result = diti_json_size(json, "in_channels", config->channels, 1024, &config->channels, err);
    if (result == DIT_OK) result = diti_json_size(json, "patch_size", config->patch, 1024, &config->patch, err);
    if (result == DIT_OK) {
        result = diti_json_size(json, "out_channels", config->out_channels, 1024, &config->out_channels, err);
    }
    if (result == DIT_OK) {
        result = diti_json_size(json, "attention_head_dim", config->head_dim, 1024, &config->head_dim, err);
    }
    widest = result == DIT_OK ? config->width / config->head_dim : 0;
    if (result == DIT_OK) result = diti_json_size(json, "num_attention_heads", widest, 1024, &config->heads, err);
    config->sized = diti_json_bool(json, "use_additional_conditions", config->sized);
    if (result == DIT_OK) {
        result = diti_json_size(json, "sample_size", diti_pixart_training_size(loader, config), 4096,
                                &config->sample_size, err);
    }
    if (result != DIT_OK) return result;
    config->interpolation = config->sample_size >= 128 ? (float)(config->sample_size / 64) : 1.0f;
    config->interpolation = (float)diti_json_number(json, "interpolation_scale", (double)config->interpolation);
    config->eps = (float)diti_json_number(json, "norm_eps", 1e-6);
    if (!(config->interpolation > 0) || !(config->eps >= 0)) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "config.json: interpolation_scale and norm_eps must be positive");
    }
    return diti_pixart_check(config, json, err);
}

/* ---- loading ---- */

static void diti_pixart_load_embedder(diti_loader *loader, diti_pixart_embedder *out, uint32_t width,
                                      const char *name) {
    diti_loader_scope(loader, "adaln_single.emb.%s.", name);
    diti_load_layer(loader, &out->in, width, 256, 1, "linear_1");
    diti_load_layer(loader, &out->out, width, width, 1, "linear_2");
    diti_loader_scope(loader, "%s", "");
}

static void diti_pixart_load_block(diti_loader *loader, diti_pixart_block *block, uint32_t index, uint32_t width) {
    static const char *const qkv[] = {"attn1.to_q", "attn1.to_k", "attn1.to_v"}, *const kv[] = {"attn2.to_k",
                                                                                                "attn2.to_v"};
    static const char *const fused_qkv[] = {"attn1.qkv"}, *const fused_kv[] = {"attn2.kv"};
    bool original = loader->rename != NULL;
    diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)index);
    if (original)
        diti_load_joined(loader, &block->qkv, fused_qkv, 1, 3 * width, width, true);
    else
        diti_load_joined(loader, &block->qkv, qkv, 3, width, width, true);
    diti_load_layer(loader, &block->out, width, width, 1, "attn1.to_out.0");
    diti_load_layer(loader, &block->text_q, width, width, 1, "attn2.to_q");
    if (original)
        diti_load_joined(loader, &block->text_kv, fused_kv, 1, 2 * width, width, true);
    else
        diti_load_joined(loader, &block->text_kv, kv, 2, width, width, true);
    diti_load_layer(loader, &block->text_out, width, width, 1, "attn2.to_out.0");
    diti_load_layer(loader, &block->ff_in, 4 * width, width, 1, "ff.net.0.proj");
    diti_load_layer(loader, &block->ff_out, width, 4 * width, 1, "ff.net.2");
    diti_loader_scope(loader, "%s", "");
}

/* All blocks' tables in a row, so that one op can add the timestep to all of them. */
static void diti_pixart_load_tables(diti_loader *loader, diti_pixart *model) {
    diti_weight one;
    uint32_t i;
    for (i = 0; i < model->config.blocks; i++) {
        diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)i);
        diti_load_vector(loader, i ? &one : &model->tables, 6, model->config.width, "scale_shift_table");
        if (i && !loader->error.result) diti_weight_append(loader, &model->tables, &one);
    }
    diti_loader_scope(loader, "%s", "");
}

static void diti_pixart_load_weights(diti_loader *loader, diti_pixart *model) {
    const diti_pixart_config *config = &model->config;
    uint32_t i, width = config->width, area = config->patch * config->patch;
    diti_load_layer(loader, &model->patch, width, config->channels * area, config->patch, "pos_embed.proj");
    model->patch.weight.kernel = 1; /* used as a matrix on flattened patches */
    diti_pixart_load_embedder(loader, &model->time, width, "timestep_embedder");
    if (config->sized) {
        diti_pixart_load_embedder(loader, &model->resolution, width / 3, "resolution_embedder");
        diti_pixart_load_embedder(loader, &model->aspect, width / 3, "aspect_ratio_embedder");
    }
    diti_load_layer(loader, &model->modulation, 6 * width, width, 1, "adaln_single.linear");
    diti_load_layer(loader, &model->caption_in, width, config->caption, 1, "caption_projection.linear_1");
    diti_load_layer(loader, &model->caption_out, width, width, 1, "caption_projection.linear_2");
    diti_pixart_load_tables(loader, model);
    for (i = 0; i < config->blocks; i++) diti_pixart_load_block(loader, &model->blocks[i], i, width);
    diti_load_vector(loader, &model->final_table, 2, width, "scale_shift_table");
    diti_load_layer(loader, &model->proj_out, config->out_channels * area, width, 1, "proj_out");
}

static void diti_pixart_set_traits(diti_pixart *model) {
    const diti_pixart_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->family = "pixart";
    traits->variant = config->sized ? "alpha" : "sigma";
    traits->latent_channels = config->channels;
    traits->out_channels = config->out_channels;
    traits->patch = config->patch;
    traits->default_size = config->sample_size;
    traits->text_tokens = config->sized ? 120 : 300;
    traits->text_columns = config->caption;
    traits->default_steps = 20;
    traits->default_guidance = 4.5f;
    traits->wants_size = config->sized;
}

static void diti_pixart_destroy(diti_transformer *transformer) {
    diti_pixart *model = (diti_pixart *)(void *)transformer;
    diti_env env = transformer->env;
    diti_weights_free(transformer->device, &env, &transformer->weights);
    diti_free(&env, model->blocks);
    diti_free(&env, model);
}

static dit_result diti_pixart_fill(diti_pixart *model, diti_loader *loader, dit_error *err) {
    model->blocks =
        (diti_pixart_block *)diti_alloc_array(&model->base.env, model->config.blocks, sizeof *model->blocks);
    if (!model->blocks) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the transformer");
    diti_pixart_load_weights(loader, model);
    diti_pixart_set_traits(model);
    return diti_loader_finish(loader, &model->base.weights, err);
}

static dit_result diti_pixart_load(diti_device *device, const diti_env *env, const diti_json *config,
                                   const diti_checkpoint *checkpoint, const char *prefix, const dit_progress *progress,
                                   diti_transformer **out, dit_error *err) {
    diti_pixart_config read = DITI_ZERO;
    diti_loader loader;
    diti_pixart *model;
    dit_result result;
    diti_loader_begin(&loader, device, env, checkpoint, prefix, "transformer", progress);
    if (!diti_pixart_is_diffusers(checkpoint, prefix)) loader.rename = diti_pixart_original_name;
    result = diti_pixart_read_config(&loader, config, &read, err);
    if (result != DIT_OK) return result;
    model = (diti_pixart *)diti_alloc_zero(env, sizeof *model);
    if (!model) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the transformer");
    model->base.family = diti_pixart_family();
    model->base.device = device;
    model->base.env = *env;
    model->config = read;
    result = diti_pixart_fill(model, &loader, err);
    if (result != DIT_OK)
        diti_pixart_destroy(&model->base);
    else
        *out = &model->base;
    return result;
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_pixart_state { /* what prepare leaves for the steps */
    diti_tensor sinusoids;         /* input F32 [steps, 256] */
    diti_tensor sizes;             /* input F32 [3, 256]: height, width, aspect ratio; 0: the model has none */
    diti_tensor positions;         /* input F32 [tokens, D] */
    diti_tensor modulation;        /* F32 [steps, 8D]: six rows for the blocks, two for the final layer */
    diti_tensor text[DITI_PIXART_MAX_BLOCKS]; /* [text rows, 2D]: k and v of the cross attention */
} diti_pixart_state;

static diti_tensor diti_pixart_linear(diti_graph *graph, diti_tensor x, const diti_layer *layer,
                                      diti_activation activation, diti_tensor out, bool out_f32, const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.activation = activation;
    desc.out = out;
    desc.out_f32 = out_f32;
    desc.name = name;
    return diti_linear(graph, x, &layer->weight, &desc);
}

/* TMLP of models.md 2.2: F32 rows. */
static diti_tensor diti_pixart_embed(diti_graph *graph, const diti_pixart_embedder *embedder, diti_tensor sinusoids,
                                     diti_tensor out) {
    diti_tensor h = diti_pixart_linear(graph, sinusoids, &embedder->in, DITI_ACTIVATION_SILU, 0, true, "embed_in");
    return diti_pixart_linear(graph, h, &embedder->out, DITI_ACTIVATION_NONE, out, true, "embed_out");
}

static diti_tensor diti_pixart_add(diti_graph *graph, diti_tensor x, diti_tensor add, diti_tensor out,
                                   const char *name) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.add = add;
    desc.out = out;
    desc.out_f32 = true;
    desc.name = name;
    return diti_elementwise(graph, x, &desc);
}

/* Thirds of D: height, width, aspect ratio. */
static diti_tensor diti_pixart_size_embedding(const diti_pixart *model, diti_graph *graph, diti_tensor sizes) {
    uint32_t i, third = model->config.width / 3;
    diti_tensor out = diti_tensor_new(graph, DITI_F32, 1, model->config.width, "size_embedding");
    for (i = 0; i < 3; i++) {
        diti_pixart_embed(graph, i < 2 ? &model->resolution : &model->aspect,
                          diti_tensor_view(graph, sizes, i, 1, 0, 256),
                          diti_tensor_view(graph, out, 0, 1, i * third, third));
    }
    return out;
}

/* Modulation of all steps (models.md 3.2, 2, 3 and 6): F32 [steps, 8D]. */
static diti_tensor diti_pixart_modulation(const diti_pixart *model, diti_graph *graph, const diti_pixart_state *state,
                                          uint32_t steps) {
    uint32_t i, width = model->config.width;
    diti_tensor all = diti_tensor_new(graph, DITI_F32, steps, 8 * width, "modulation");
    diti_tensor time = diti_pixart_embed(graph, &model->time, state->sinusoids, 0);
    diti_tensor active, final_rows = diti_tensor_weight(graph, &model->final_table, 0);
    diti_elementwise_desc silu = DITI_ZERO;
    if (state->sizes) {
        time = diti_pixart_add(graph, time, diti_pixart_size_embedding(model, graph, state->sizes), 0, "add_sizes");
    }
    silu.activation = DITI_ACTIVATION_SILU;
    silu.out_f32 = true;
    silu.name = "modulation_silu";
    active = diti_elementwise(graph, time, &silu);
    diti_pixart_linear(graph, active, &model->modulation, DITI_ACTIVATION_NONE,
                       diti_tensor_view(graph, all, 0, steps, 0, 6 * width), true, "modulation");
    for (i = 0; i < 2; i++) { /* from the embedding itself, neither activated nor projected */
        diti_pixart_add(graph, time, diti_tensor_view(graph, final_rows, i, 1, 0, width),
                        diti_tensor_view(graph, all, 0, steps, (6 + i) * width, width), "final_modulation");
    }
    return all;
}

/* Caption projection, then keys and values of every block's cross attention. */
static void diti_pixart_project_text(const diti_pixart *model, diti_graph *graph, diti_tensor text,
                                     diti_pixart_state *state) {
    diti_linear_desc desc = DITI_ZERO;
    uint32_t i;
    diti_tensor y =
        diti_pixart_linear(graph, text, &model->caption_in, DITI_ACTIVATION_GELU_TANH, 0, false, "caption_in");
    y = diti_pixart_linear(graph, y, &model->caption_out, DITI_ACTIVATION_NONE, 0, false, "caption_out");
    desc.name = "text_kv";
    for (i = 0; i < model->config.blocks; i++) {
        state->text[i] = diti_linear_joined(graph, y, &model->blocks[i].text_kv, &desc);
    }
}

static void diti_pixart_prepare(const diti_transformer *transformer, diti_graph *graph, diti_denoise *denoise) {
    const diti_pixart *model = diti_pixart_of(transformer);
    uint32_t patch = model->config.patch, tokens = denoise->height / patch * (denoise->width / patch);
    diti_pixart_state *state = (diti_pixart_state *)diti_alloc_zero(&transformer->env, sizeof *state);
    if (!state) {
        diti_graph_fail(graph, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the transformer's plan");
        return;
    }
    denoise->family = state;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, denoise->steps, 256, "timesteps");
    state->positions = diti_tensor_input(graph, DITI_F32, tokens, model->config.width, "positions");
    if (model->config.sized) state->sizes = diti_tensor_input(graph, DITI_F32, 3, 256, "sizes");
    state->modulation = diti_pixart_modulation(model, graph, state, denoise->steps);
    diti_pixart_project_text(model, graph, denoise->text, state);
}

static dit_result diti_pixart_write_positions(const diti_pixart *model, diti_plan *plan, const diti_denoise *denoise,
                                              diti_tensor positions, dit_error *err) {
    const diti_pixart_config *config = &model->config;
    uint32_t rows = denoise->height / config->patch, columns = denoise->width / config->patch;
    uint32_t base = config->sample_size / config->patch;
    size_t count = (size_t)rows * columns * config->width;
    float *table = (float *)diti_alloc_array(&model->base.env, count, sizeof(float));
    dit_result result;
    if (!table) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the position table");
    diti_position_table(rows, columns, config->width, (float)((double)rows / base), (float)((double)columns / base),
                        config->interpolation, table);
    result = diti_plan_write(plan, positions, table, count * sizeof(float), err);
    diti_free(&model->base.env, table);
    return result;
}

static dit_result diti_pixart_write_sinusoids(const diti_pixart *model, diti_plan *plan, diti_tensor input,
                                              const float *values, uint32_t count, dit_error *err) {
    float *rows = (float *)diti_alloc_array(&model->base.env, (size_t)count * 256, sizeof(float));
    dit_result result;
    if (!rows) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the timestep table");
    diti_sinusoid(values, count, 256, rows);
    result = diti_plan_write(plan, input, rows, (size_t)count * 256 * sizeof(float), err);
    diti_free(&model->base.env, rows);
    return result;
}

static dit_result diti_pixart_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                           const diti_denoise *denoise, const float *timesteps, dit_error *err) {
    const diti_pixart *model = diti_pixart_of(transformer);
    const diti_pixart_state *state = (const diti_pixart_state *)denoise->family;
    float sizes[3];
    dit_result result = diti_pixart_write_positions(model, plan, denoise, state->positions, err);
    if (result == DIT_OK) {
        result = diti_pixart_write_sinusoids(model, plan, state->sinusoids, timesteps, denoise->steps, err);
    }
    if (result != DIT_OK || !state->sizes) return result;
    sizes[0] = denoise->resolution[0];
    sizes[1] = denoise->resolution[1];
    sizes[2] = denoise->aspect;
    return diti_pixart_write_sinusoids(model, plan, state->sizes, sizes, 3, err);
}

/* ---- one evaluation ---- */

typedef struct diti_pixart_step {
    const diti_pixart *model;
    const diti_denoise *denoise;
    const diti_pixart_state *state;
    uint32_t batch, tokens;
    diti_tensor tables;     /* F32 [6 * blocks, D]: shift, scale, gate of the attention, then of the feed-forward */
    diti_tensor final_rows; /* F32 [2, D]: shift, scale */
} diti_pixart_step;

/* This step's rows: the timestep's modulation plus every block's own table. */
static void diti_pixart_select(diti_graph *graph, diti_pixart_step *step) {
    const diti_pixart *model = step->model;
    uint32_t i, width = model->config.width;
    diti_tensor row = diti_select_row(graph, step->state->modulation, step->denoise->step, "select_modulation");
    row = diti_tensor_reshape(graph, row, 8, width);
    step->final_rows = diti_tensor_view(graph, row, 6, 2, 0, width);
    step->tables = diti_tensor_new(graph, DITI_F32, model->tables.rows, width, "block_modulation");
    row = diti_tensor_view(graph, row, 0, 6, 0, width);
    for (i = 0; i < model->tables.part_count; i++) {
        const diti_weight_part *part = &model->tables.parts[i];
        diti_tensor out = diti_tensor_view(graph, step->tables, part->first_row, part->rows, 0, width);
        diti_pixart_add(graph, diti_tensor_weight(graph, &model->tables, i), row, out, "block_modulation");
    }
}

/* Patches, projected, plus positions: the residual stream, F32 [batch * tokens, D]. */
static diti_tensor diti_pixart_patches(diti_graph *graph, const diti_pixart_step *step) {
    const diti_denoise *d = step->denoise;
    const diti_pixart_config *config = &step->model->config;
    diti_tensor x = diti_patchify(graph, d->latent, d->batch, config->channels, d->height, d->width, config->patch,
                                  d->copies, d->input_scale);
    x = diti_pixart_linear(graph, x, &step->model->patch, DITI_ACTIVATION_NONE, 0, true, "patch_embed");
    return diti_pixart_add(graph, x, step->state->positions, 0, "positions");
}

/* LN(x) * (1 + scale) + shift with rows `row` (shift) and `row + 1` (scale) of table. */
static diti_tensor diti_pixart_norm(diti_graph *graph, diti_tensor x, diti_tensor table, uint32_t row, uint32_t width,
                                    float eps, const char *name) {
    diti_norm_desc desc = DITI_ZERO;
    desc.eps = eps;
    desc.shift = diti_tensor_view(graph, table, row, 1, 0, width);
    desc.scale = diti_tensor_view(graph, table, row + 1, 1, 0, width);
    desc.name = name;
    return diti_norm(graph, x, &desc);
}

/* x += gate * layer(h), in place; gate 0: none. */
static void diti_pixart_residual(diti_graph *graph, diti_tensor x, diti_tensor h, const diti_layer *layer,
                                 diti_tensor gate, const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.gate = gate;
    desc.residual = x;
    desc.out = x;
    desc.name = name;
    diti_linear(graph, h, &layer->weight, &desc);
}

static diti_tensor diti_pixart_self_attention(diti_graph *graph, const diti_pixart_step *step,
                                              const diti_pixart_block *block, diti_tensor h) {
    const diti_pixart_config *config = &step->model->config;
    uint32_t width = config->width, rows = step->batch * step->tokens;
    diti_attention_desc desc = DITI_ZERO;
    diti_linear_desc joined = DITI_ZERO;
    diti_tensor qkv;
    joined.name = "qkv";
    qkv = diti_linear_joined(graph, h, &block->qkv, &joined);
    desc.batch = step->batch;
    desc.heads = config->heads;
    desc.head_dim = config->head_dim;
    desc.scale = 1.0f / sqrtf((float)config->head_dim);
    desc.name = "attention";
    return diti_attention(graph, diti_tensor_view(graph, qkv, 0, rows, 0, width),
                          diti_tensor_view(graph, qkv, 0, rows, width, width),
                          diti_tensor_view(graph, qkv, 0, rows, 2 * width, width), &desc);
}

/* Images that share a prompt are queries of one attention: text_batch items. */
static diti_tensor diti_pixart_text_attention(diti_graph *graph, const diti_pixart_step *step,
                                              const diti_pixart_block *block, diti_tensor x, diti_tensor text) {
    const diti_pixart_config *config = &step->model->config;
    const diti_denoise *d = step->denoise;
    uint32_t width = config->width, rows = d->text_batch * d->text_tokens;
    diti_attention_desc desc = DITI_ZERO;
    diti_tensor q = diti_pixart_linear(graph, x, &block->text_q, DITI_ACTIVATION_NONE, 0, false, "text_q");
    desc.batch = d->text_batch;
    desc.heads = config->heads;
    desc.head_dim = config->head_dim;
    desc.scale = 1.0f / sqrtf((float)config->head_dim);
    desc.key_lengths = d->text_lengths;
    desc.name = "text_attention";
    return diti_attention(graph, q, diti_tensor_view(graph, text, 0, rows, 0, width),
                          diti_tensor_view(graph, text, 0, rows, width, width), &desc);
}

/* models.md 3.2, 5; x F32 [batch * tokens, D] is changed in place. */
static void diti_pixart_run_block(diti_graph *graph, const diti_pixart_step *step, uint32_t index, diti_tensor x) {
    const diti_pixart_block *block = &step->model->blocks[index];
    uint32_t width = step->model->config.width, first = 6 * index;
    float eps = step->model->config.eps;
    diti_tensor gate1 = diti_tensor_view(graph, step->tables, first + 2, 1, 0, width);
    diti_tensor gate2 = diti_tensor_view(graph, step->tables, first + 5, 1, 0, width);
    diti_tensor h = diti_pixart_norm(graph, x, step->tables, first, width, eps, "norm1");
    h = diti_pixart_self_attention(graph, step, block, h);
    diti_pixart_residual(graph, x, h, &block->out, gate1, "attention_out");
    h = diti_pixart_text_attention(graph, step, block, x, step->state->text[index]); /* no norm, no gate */
    diti_pixart_residual(graph, x, h, &block->text_out, 0, "text_out");
    h = diti_pixart_norm(graph, x, step->tables, first + 3, width, eps, "norm2");
    h = diti_pixart_linear(graph, h, &block->ff_in, DITI_ACTIVATION_GELU_TANH, 0, false, "ff_in");
    diti_pixart_residual(graph, x, h, &block->ff_out, gate2, "ff_out");
}

/* F32 [batch * tokens, p * p * out_channels]. */
static diti_tensor diti_pixart_final(diti_graph *graph, const diti_pixart_step *step, diti_tensor x) {
    diti_tensor h = diti_pixart_norm(graph, x, step->final_rows, 0, step->model->config.width, 1e-6f, "norm_out");
    return diti_pixart_linear(graph, h, &step->model->proj_out, DITI_ACTIVATION_NONE, 0, true, "proj_out");
}

static void diti_pixart_begin_step(const diti_pixart *model, diti_graph *graph, const diti_denoise *denoise,
                                   diti_pixart_step *step) {
    memset(step, 0, sizeof *step);
    step->model = model;
    step->denoise = denoise;
    step->state = (const diti_pixart_state *)denoise->family;
    step->batch = denoise->copies * denoise->batch;
    step->tokens = denoise->height / model->config.patch * (denoise->width / model->config.patch);
    diti_pixart_select(graph, step);
}

static diti_tensor diti_pixart_run(const diti_transformer *transformer, diti_graph *graph, diti_denoise *denoise) {
    const diti_pixart *model = diti_pixart_of(transformer);
    const diti_pixart_config *config = &model->config;
    diti_pixart_step step;
    diti_tensor x;
    uint32_t i;
    if (diti_graph_failed(graph) || !denoise->family) return 0;
    diti_pixart_begin_step(model, graph, denoise, &step);
    x = diti_pixart_patches(graph, &step);
    for (i = 0; i < config->blocks && !diti_graph_failed(graph); i++) diti_pixart_run_block(graph, &step, i, x);
    x = diti_pixart_final(graph, &step, x);
    return diti_unpatchify(graph, x, step.batch, config->channels, config->out_channels, denoise->height,
                           denoise->width, config->patch);
}

DIT_INTERNAL const diti_family *diti_pixart_family(void) {
    static const diti_family family = {
        "pixart",        diti_pixart_recognise,   diti_pixart_load, diti_pixart_destroy, diti_pixart_prepare,
        diti_pixart_run, diti_pixart_write_inputs};
    return &family;
}

/* ======== src/model/registry.c (edit it there; dit.h is generated) ======== */

static const diti_family *diti_family_at(size_t index) { return index == 0 ? diti_pixart_family() : NULL; }

/* What an unknown model looks like: its class, else one of its tensors. */
static dit_result diti_family_fail(const diti_json *config, const diti_checkpoint *checkpoint, dit_error *err) {
    const diti_stored_tensor *first = diti_checkpoint_count(checkpoint) ? diti_checkpoint_tensor(checkpoint, 0) : NULL;
    const char *name = diti_json_string(config, "_class_name", NULL);
    const char *what = name ? "its config.json says" : "it has no config.json; a tensor of it is";
    if (!name) name = first ? first->name : "none";
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: not a transformer that dit.h knows (PixArt): %s %.200s",
                     diti_checkpoint_name(checkpoint), what, name);
}

DIT_INTERNAL dit_result diti_transformer_load(diti_device *device, const diti_env *env, const diti_json *config,
                                              const diti_checkpoint *checkpoint, const char *prefix,
                                              const dit_progress *progress, diti_transformer **out, dit_error *err) {
    const diti_family *family;
    size_t i;
    *out = NULL;
    if (!prefix) prefix = "";
    for (i = 0; (family = diti_family_at(i)) != NULL; i++) {
        if (!family->recognise(config, checkpoint, prefix)) continue;
        return family->load(device, env, config, checkpoint, prefix, progress, out, err);
    }
    return diti_family_fail(config, checkpoint, err);
}

DIT_INTERNAL void diti_transformer_destroy(diti_transformer *transformer) {
    if (transformer) transformer->family->destroy(transformer);
}

/* ======== src/vae/vae.h (edit it there; dit.h is generated) ======== */
/* vae: decoders and encoders between latents and pixels. */
#ifndef DITI_VAE_H
#define DITI_VAE_H

typedef struct diti_vae diti_vae;
typedef struct diti_vae_traits {
    uint32_t latent_channels, factor; /* pixels per latent element in each direction */
    float scale, shift;               /* latent = (z - shift) * scale (models.md 4.1) */
    bool has_encoder, has_decoder;
} diti_vae_traits;
/* AutoencoderKL in diffusers or LDM/BFL key naming; config NULL: sizes from shapes. */
DIT_INTERNAL dit_result diti_vae_load(diti_device *device, const diti_env *env, const diti_json *config,
                                      const diti_checkpoint *checkpoint, const char *prefix,
                                      const dit_progress *progress, diti_vae **out, dit_error *err);
DIT_INTERNAL void diti_vae_destroy(diti_vae *vae);
DIT_INTERNAL const diti_vae_traits *diti_vae_get_traits(const diti_vae *vae);
DIT_INTERNAL const diti_weights *diti_vae_weights(const diti_vae *vae);
/* latent planar F32 [C, h * w] as the sampler leaves it -> rows [factor^2 * h * w, 3] F32 in about -1..1. */
DIT_INTERNAL diti_tensor diti_vae_decode(const diti_vae *vae, diti_graph *graph, diti_tensor latent, uint32_t height,
                                         uint32_t width);
/* image rows [height * width, 3] F32 in -1..1, both sizes multiples of factor -> moments rows [h * w, 2C] F32: mean,
   then log-variance (to be clamped to [-30, 20] by who draws from it). No public call starts from a picture yet: golden
   tests run it. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_vae_encode(const diti_vae *vae, diti_graph *graph, diti_tensor image,
                                                     uint32_t height, uint32_t width);
#endif

/* ======== src/vae/kl.c (edit it there; dit.h is generated) ======== */

/* AutoencoderKL (models.md 4.1): decoder and encoder are the same parts in another order. Pixels are rows, channels are
   columns. Residuals stay F32 where the model asks for it (force_upcast): their values can leave the range of F16. */

#define DITI_KL_MAX_LEVELS 8u
#define DITI_KL_MAX_RESNETS 8u

typedef struct diti_kl_resnet {
    diti_layer norm1, conv1, norm2, conv2;
    diti_layer shortcut; /* 1x1; no parts where input and output have the same channels */
    uint32_t channels;   /* of the output */
} diti_kl_resnet;

typedef struct diti_kl_attention {
    diti_layer norm;
    diti_joined qkv;
    diti_layer out;
    bool present;
} diti_kl_attention;

typedef struct diti_kl_level { /* in the order of computing, not of LDM's names */
    diti_kl_resnet resnets[DITI_KL_MAX_RESNETS];
    uint32_t count;
    diti_layer resample; /* 3x3 after the resnets; no parts in the last level */
} diti_kl_level;

typedef struct diti_kl_half { /* decoder or encoder */
    diti_layer conv_in, norm_out, conv_out;
    diti_kl_resnet mid[2];
    diti_kl_attention attention;
    diti_kl_level *levels;
    uint32_t level_count;
    bool present;
} diti_kl_half;

struct diti_vae {
    diti_device *device;
    diti_env env;
    diti_vae_traits traits;
    diti_weights weights;
    uint32_t groups;
    bool wide; /* residuals in F32 whatever the activation format */
    diti_kl_half decoder, encoder;
    diti_layer post_quant, quant; /* 1x1; no parts where the model has none */
};

/* ---- key names: asked for as diffusers has them ---- */

/* Replaces the first occurrence of from; false when the result does not fit. */
static bool diti_kl_replace(char *text, size_t size, const char *from, const char *to) {
    char *place = strstr(text, from);
    size_t from_length = strlen(from), to_length = strlen(to), rest;
    if (!place) return true;
    rest = strlen(place + from_length) + 1;
    if ((size_t)(place - text) + to_length + rest > size) return false;
    memmove(place + to_length, place + from_length, rest);
    memcpy(place, to, to_length);
    return true;
}

static const char *diti_kl_replace_all(const char *const (*pairs)[2], size_t count, const char *name, char *out,
                                       size_t size) {
    size_t i;
    if (!diti_format(out, size, "%s", name)) return NULL;
    for (i = 0; i < count; i++)
        if (!diti_kl_replace(out, size, pairs[i][0], pairs[i][1])) return NULL;
    return out;
}

/* Very old diffusers files differ in the attention only. */
static const char *diti_kl_old_name(void *user, const char *name, char *out, size_t size) {
    static const char *const pairs[][2] = {{"attentions.0.to_q", "attentions.0.query"},
                                           {"attentions.0.to_k", "attentions.0.key"},
                                           {"attentions.0.to_v", "attentions.0.value"},
                                           {"attentions.0.to_out.0", "attentions.0.proj_attn"}};
    (void)user;
    return diti_kl_replace_all(pairs, DITI_COUNT(pairs), name, out, size);
}

/* LDM and BFL; the decoder's levels are numbered from the pixels, user: how many there are. */
static const char *diti_kl_ldm_name(void *user, const char *name, char *out, size_t size) {
    static const char *const pairs[][2] = {{"mid_block.resnets.0.", "mid.block_1."},
                                           {"mid_block.resnets.1.", "mid.block_2."},
                                           {"mid_block.attentions.0.group_norm", "mid.attn_1.norm"},
                                           {"mid_block.attentions.0.to_out.0", "mid.attn_1.proj_out"},
                                           {"mid_block.attentions.0.to_", "mid.attn_1."},
                                           {"down_blocks.", "down."},
                                           {".resnets.", ".block."},
                                           {"upsamplers.0.conv", "upsample.conv"},
                                           {"downsamplers.0.conv", "downsample.conv"},
                                           {"conv_shortcut", "nin_shortcut"},
                                           {"conv_norm_out", "norm_out"}};
    static const char up[] = "decoder.up_blocks.";
    const uint32_t *levels = (const uint32_t *)user;
    char renumbered[256];
    unsigned level;
    const char *rest;
    if (diti_starts_with(name, up)) {
        level = (unsigned)strtoul(name + sizeof up - 1, NULL, 10);
        rest = strchr(name + sizeof up - 1, '.');
        if (!rest || level >= *levels) return NULL;
        if (!diti_format(renumbered, sizeof renumbered, "decoder.up.%u%s", *levels - 1 - level, rest)) return NULL;
        name = renumbered;
    }
    return diti_kl_replace_all(pairs, DITI_COUNT(pairs), name, out, size);
}

static void diti_kl_choose_names(diti_loader *loader, uint32_t *levels) {
    *levels = diti_loader_count(loader, "decoder.up.", ".block.0.conv1.weight");
    if (diti_loader_find(loader, "decoder.mid.block_1.conv1.weight") ||
        diti_loader_find(loader, "encoder.mid.block_1.conv1.weight")) {
        loader->rename = diti_kl_ldm_name;
        loader->user = levels;
    } else if (diti_loader_find(loader, "decoder.mid_block.attentions.0.query.weight") ||
               diti_loader_find(loader, "encoder.mid_block.attentions.0.query.weight")) {
        loader->rename = diti_kl_old_name;
    }
}

/* Single files of several models put the autoencoder under a prefix of its own. */
static void diti_kl_choose_prefix(diti_loader *loader) {
    static const char *const prefixes[] = {"first_stage_model.", "vae."};
    const char *given = loader->prefix;
    size_t i;
    if (given[0]) return;
    for (i = 0; i < DITI_COUNT(prefixes); i++) {
        loader->prefix = prefixes[i];
        if (diti_loader_find(loader, "decoder.conv_in.weight") || diti_loader_find(loader, "encoder.conv_in.weight")) {
            return;
        }
    }
    loader->prefix = given;
}

/* ---- loading: channels come from the shapes, each layer's input must be what the one before it gives ---- */

static void diti_kl_load_resnet(diti_loader *loader, diti_kl_resnet *out, uint32_t channels, const char *name) {
    char scope[sizeof loader->scope];
    memcpy(scope, loader->scope, sizeof scope);
    diti_loader_scope(loader, "%s%s.", scope, name);
    out->channels = diti_loader_dimension(loader, "conv1.weight", 0);
    diti_load_norm(loader, &out->norm1, channels, "norm1");
    diti_load_layer(loader, &out->conv1, out->channels, 9 * channels, 3, "conv1");
    diti_load_norm(loader, &out->norm2, out->channels, "norm2");
    diti_load_layer(loader, &out->conv2, out->channels, 9 * out->channels, 3, "conv2");
    if (channels != out->channels) diti_load_layer(loader, &out->shortcut, out->channels, channels, 1, "conv_shortcut");
    diti_loader_scope(loader, "%s", scope);
}

static void diti_kl_load_mid(diti_loader *loader, diti_kl_half *half, uint32_t channels, const char *name) {
    static const char *const qkv[] = {"attentions.0.to_q", "attentions.0.to_k", "attentions.0.to_v"};
    diti_loader_scope(loader, "%s.mid_block.", name);
    diti_kl_load_resnet(loader, &half->mid[0], channels, "resnets.0");
    half->attention.present = diti_loader_find(loader, "attentions.0.group_norm.weight") != NULL;
    if (half->attention.present) {
        diti_load_norm(loader, &half->attention.norm, channels, "attentions.0.group_norm");
        diti_load_joined(loader, &half->attention.qkv, qkv, 3, channels, channels, true);
        diti_load_layer(loader, &half->attention.out, channels, channels, 1, "attentions.0.to_out.0");
    }
    diti_kl_load_resnet(loader, &half->mid[1], channels, "resnets.1");
    diti_loader_scope(loader, "%s", "");
}

/* Returns the channels that the level gives. */
static uint32_t diti_kl_load_level(diti_loader *loader, diti_kl_level *level, uint32_t channels, const char *sampler) {
    char name[32];
    uint32_t i;
    level->count = diti_loader_count(loader, "resnets.", ".conv1.weight");
    if (level->count > DITI_KL_MAX_RESNETS) level->count = 0;
    if (!level->count && !loader->error.result) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: the autoencoder's %s must hold 1 to %u resnets",
                  diti_checkpoint_name(loader->checkpoint), loader->scope, DITI_KL_MAX_RESNETS);
    }
    for (i = 0; i < level->count; i++) {
        diti_format(name, sizeof name, "resnets.%u", (unsigned)i);
        diti_kl_load_resnet(loader, &level->resnets[i], channels, name);
        channels = level->resnets[i].channels;
    }
    diti_format(name, sizeof name, "%s.weight", sampler);
    if (diti_loader_find(loader, name)) diti_load_layer(loader, &level->resample, channels, 9 * channels, 3, sampler);
    return channels;
}

static uint32_t diti_kl_load_levels(diti_loader *loader, const diti_env *env, diti_kl_half *half, uint32_t channels,
                                    const char *blocks, const char *sampler) {
    uint32_t i, count = diti_loader_count(loader, blocks, ".resnets.0.conv1.weight");
    if (!count || count > DITI_KL_MAX_LEVELS) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: the autoencoder has %u levels, not 1 to %u",
                  diti_checkpoint_name(loader->checkpoint), (unsigned)count, DITI_KL_MAX_LEVELS);
        return channels;
    }
    half->levels = (diti_kl_level *)diti_alloc_array(env, count, sizeof *half->levels);
    if (!half->levels) {
        diti_fail(&loader->error, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the autoencoder");
        return channels;
    }
    half->level_count = count;
    for (i = 0; i < count && !loader->error.result; i++) {
        diti_loader_scope(loader, "%s%u.", blocks, (unsigned)i);
        channels = diti_kl_load_level(loader, &half->levels[i], channels, sampler);
    }
    diti_loader_scope(loader, "%s", "");
    return channels;
}

static void diti_kl_load_decoder(diti_loader *loader, diti_vae *vae) {
    diti_kl_half *half = &vae->decoder;
    uint32_t latent = vae->traits.latent_channels,
             channels = diti_loader_dimension(loader, "decoder.conv_in.weight", 0);
    half->present = true;
    if (diti_loader_find(loader, "post_quant_conv.weight")) {
        diti_load_layer(loader, &vae->post_quant, latent, latent, 1, "post_quant_conv");
    }
    diti_load_layer(loader, &half->conv_in, channels, 9 * latent, 3, "decoder.conv_in");
    diti_kl_load_mid(loader, half, channels, "decoder");
    channels = diti_kl_load_levels(loader, &vae->env, half, channels, "decoder.up_blocks.", "upsamplers.0.conv");
    diti_load_norm(loader, &half->norm_out, channels, "decoder.conv_norm_out");
    diti_load_layer(loader, &half->conv_out, 3, 9 * channels, 3, "decoder.conv_out");
}

static void diti_kl_load_encoder(diti_loader *loader, diti_vae *vae) {
    diti_kl_half *half = &vae->encoder;
    uint32_t moments = 2 * vae->traits.latent_channels;
    uint32_t channels = diti_loader_dimension(loader, "encoder.conv_in.weight", 0);
    half->present = true;
    diti_load_layer(loader, &half->conv_in, channels, 27, 3, "encoder.conv_in");
    channels = diti_kl_load_levels(loader, &vae->env, half, channels, "encoder.down_blocks.", "downsamplers.0.conv");
    diti_kl_load_mid(loader, half, channels, "encoder");
    diti_load_norm(loader, &half->norm_out, channels, "encoder.conv_norm_out");
    diti_load_layer(loader, &half->conv_out, moments, 9 * channels, 3, "encoder.conv_out");
    if (diti_loader_find(loader, "quant_conv.weight")) {
        diti_load_layer(loader, &vae->quant, moments, moments, 1, "quant_conv");
    }
}

/* ---- configuration ---- */

/* The most groups up to 32 that divide every number of channels, as powers of two. */
static uint32_t diti_kl_groups(diti_loader *loader, uint32_t latent) {
    const diti_checkpoint *checkpoint = loader->checkpoint;
    uint32_t i, groups = 32, count = diti_checkpoint_count(checkpoint);
    for (i = 0; i < count; i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(checkpoint, i);
        if (!diti_starts_with(tensor->name, loader->prefix) || tensor->rank != 4 || tensor->shape[2] != 3) continue;
        if (tensor->shape[1] == 3 || tensor->shape[1] == latent) continue; /* not normalised: image and latent */
        while (groups > 1 && tensor->shape[1] % groups) groups /= 2;
    }
    return groups;
}

/* By latent channels, where no config.json says them: SD, FLUX. */
static void diti_kl_read_scale(diti_vae *vae, const diti_json *json) {
    bool flux = vae->traits.latent_channels == 16;
    double scale = diti_json_number(json, "scaling_factor", 0.0);
    if (scale != 0.0)
        flux = false;
    else
        scale = flux ? 0.3611 : 0.18215;
    vae->traits.scale = (float)scale;
    vae->traits.shift = (float)diti_json_number(json, "shift_factor", flux ? 0.1159 : 0.0);
}

static dit_result diti_kl_read_config(diti_vae *vae, diti_loader *loader, const diti_json *json, dit_error *err) {
    const char *name = diti_json_string(json, "_class_name", "AutoencoderKL");
    uint32_t latent = diti_loader_dimension(loader, "decoder.conv_in.weight", 1);
    if (!latent) latent = diti_loader_dimension(loader, "encoder.conv_out.weight", 0) / 2;
    if (!diti_equal(name, "AutoencoderKL") || !latent) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: not an autoencoder that dit.h knows (AutoencoderKL): %.80s",
                         diti_checkpoint_name(loader->checkpoint), latent ? name : "conv_in is missing");
    }
    vae->traits.latent_channels = latent;
    vae->wide = diti_json_bool(json, "force_upcast", true);
    diti_kl_read_scale(vae, json);
    if (!(vae->traits.scale > 0))
        return diti_fail(err, DIT_ERROR_BAD_FILE, "config.json: scaling_factor must be positive");
    return diti_json_size(json, "norm_num_groups", diti_kl_groups(loader, latent), 1024, &vae->groups, err);
}

static dit_result diti_kl_check_groups(const diti_vae *vae, const diti_kl_half *half, dit_error *err) {
    uint32_t i, j;
    for (i = 0; i < half->level_count; i++)
        for (j = 0; j < half->levels[i].count; j++)
            if (half->levels[i].resnets[j].channels % vae->groups) {
                return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                                 "the autoencoder's %u channels don't make %u groups (config.json: norm_num_groups)",
                                 (unsigned)half->levels[i].resnets[j].channels, (unsigned)vae->groups);
            }
    return DIT_OK;
}

/* Every level but the last doubles the size. */
static uint32_t diti_kl_factor(const diti_kl_half *half) {
    uint32_t i, factor = 1;
    for (i = 0; i < half->level_count; i++) factor <<= half->levels[i].resample.weight.part_count ? 1 : 0;
    return factor;
}

static dit_result diti_kl_fill(diti_vae *vae, diti_loader *loader, dit_error *err) {
    dit_result result;
    if (diti_loader_find(loader, "decoder.conv_in.weight")) diti_kl_load_decoder(loader, vae);
    if (diti_loader_find(loader, "encoder.conv_in.weight")) diti_kl_load_encoder(loader, vae);
    vae->traits.has_decoder = vae->decoder.present;
    vae->traits.has_encoder = vae->encoder.present;
    result = diti_loader_finish(loader, &vae->weights, err);
    if (result != DIT_OK) return result; /* the halves may be incomplete */
    vae->traits.factor = diti_kl_factor(vae->decoder.present ? &vae->decoder : &vae->encoder);
    result = diti_kl_check_groups(vae, &vae->decoder, err);
    if (result == DIT_OK) result = diti_kl_check_groups(vae, &vae->encoder, err);
    return result;
}

DIT_INTERNAL dit_result diti_vae_load(diti_device *device, const diti_env *env, const diti_json *config,
                                      const diti_checkpoint *checkpoint, const char *prefix,
                                      const dit_progress *progress, diti_vae **out, dit_error *err) {
    diti_loader loader;
    uint32_t ldm_levels;
    dit_result result;
    diti_vae *vae = (diti_vae *)diti_alloc_zero(env, sizeof *vae);
    *out = NULL;
    if (!vae) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the autoencoder");
    vae->device = device;
    vae->env = *env;
    diti_loader_begin(&loader, device, env, checkpoint, prefix, "autoencoder", progress);
    diti_kl_choose_prefix(&loader);
    diti_kl_choose_names(&loader, &ldm_levels);
    result = diti_kl_read_config(vae, &loader, config, err);
    if (result == DIT_OK) result = diti_kl_fill(vae, &loader, err);
    if (result != DIT_OK)
        diti_vae_destroy(vae);
    else
        *out = vae;
    return result;
}

DIT_INTERNAL void diti_vae_destroy(diti_vae *vae) {
    diti_env env;
    if (!vae) return;
    env = vae->env;
    diti_weights_free(vae->device, &env, &vae->weights);
    diti_free(&env, vae->decoder.levels);
    diti_free(&env, vae->encoder.levels);
    diti_free(&env, vae);
}

DIT_INTERNAL const diti_vae_traits *diti_vae_get_traits(const diti_vae *vae) { return &vae->traits; }

DIT_INTERNAL const diti_weights *diti_vae_weights(const diti_vae *vae) { return &vae->weights; }

/* ---- computing ---- */

typedef struct diti_kl_size { /* of the image so far */
    uint32_t height, width;
} diti_kl_size;

static diti_tensor diti_kl_norm(diti_graph *graph, const diti_vae *vae, diti_tensor x, const diti_layer *layer,
                                bool silu, const char *name) {
    diti_group_norm_desc desc = DITI_ZERO;
    desc.batch = 1;
    desc.groups = vae->groups;
    desc.eps = 1e-6f;
    desc.weight = &layer->weight;
    desc.bias = &layer->bias;
    desc.silu = silu;
    desc.name = name;
    return diti_group_norm(graph, x, &desc);
}

/* 3x3 or 1x1 with the same size in and out. */
static diti_tensor diti_kl_conv(diti_graph *graph, diti_tensor x, const diti_layer *layer, diti_kl_size size,
                                diti_tensor residual, bool out_f32, const char *name) {
    diti_conv_desc desc = DITI_ZERO;
    desc.batch = 1;
    desc.height = size.height;
    desc.width = size.width;
    desc.stride = 1;
    desc.pad_before = desc.pad_after = layer->weight.kernel / 2;
    desc.bias = &layer->bias;
    desc.residual = residual;
    desc.out_f32 = out_f32;
    desc.name = name;
    return diti_conv2d(graph, x, &layer->weight, &desc);
}

static diti_tensor diti_kl_upsample(diti_graph *graph, const diti_vae *vae, diti_tensor x, const diti_layer *layer,
                                    diti_kl_size *size) {
    diti_conv_desc desc = DITI_ZERO;
    desc.batch = 1;
    desc.height = size->height;
    desc.width = size->width;
    desc.stride = 1;
    desc.pad_before = desc.pad_after = 1;
    desc.upsample = true;
    desc.bias = &layer->bias;
    desc.out_f32 = vae->wide;
    desc.name = "vae_upsample";
    size->height *= 2;
    size->width *= 2;
    return diti_conv2d(graph, x, &layer->weight, &desc);
}

/* Zeros on the right and below only. */
static diti_tensor diti_kl_downsample(diti_graph *graph, const diti_vae *vae, diti_tensor x, const diti_layer *layer,
                                      diti_kl_size *size) {
    diti_conv_desc desc = DITI_ZERO;
    desc.batch = 1;
    desc.height = size->height;
    desc.width = size->width;
    desc.stride = 2;
    desc.pad_after = 1;
    desc.bias = &layer->bias;
    desc.out_f32 = vae->wide;
    desc.name = "vae_downsample";
    size->height /= 2;
    size->width /= 2;
    return diti_conv2d(graph, x, &layer->weight, &desc);
}

static diti_tensor diti_kl_run_resnet(diti_graph *graph, const diti_vae *vae, diti_tensor x,
                                      const diti_kl_resnet *resnet, diti_kl_size size) {
    diti_tensor shortcut = x, h = diti_kl_norm(graph, vae, x, &resnet->norm1, true, "vae_norm1");
    h = diti_kl_conv(graph, h, &resnet->conv1, size, 0, vae->wide, "vae_conv1");
    h = diti_kl_norm(graph, vae, h, &resnet->norm2, true, "vae_norm2");
    if (resnet->shortcut.weight.part_count) {
        shortcut = diti_kl_conv(graph, x, &resnet->shortcut, size, 0, vae->wide, "vae_shortcut");
    }
    return diti_kl_conv(graph, h, &resnet->conv2, size, shortcut, vae->wide, "vae_conv2");
}

/* One head of all channels. */
static diti_tensor diti_kl_run_attention(diti_graph *graph, const diti_vae *vae, diti_tensor x,
                                         const diti_kl_attention *attention, diti_kl_size size) {
    uint32_t rows = size.height * size.width, channels = attention->out.weight.rows;
    diti_attention_desc desc = DITI_ZERO;
    diti_linear_desc joined = DITI_ZERO;
    diti_tensor h = diti_kl_norm(graph, vae, x, &attention->norm, false, "vae_attention_norm");
    joined.name = "vae_qkv";
    h = diti_linear_joined(graph, h, &attention->qkv, &joined);
    desc.batch = 1;
    desc.heads = 1;
    desc.head_dim = channels;
    desc.scale = 1.0f / sqrtf((float)channels);
    desc.name = "vae_attention";
    h = diti_attention(graph, diti_tensor_view(graph, h, 0, rows, 0, channels),
                       diti_tensor_view(graph, h, 0, rows, channels, channels),
                       diti_tensor_view(graph, h, 0, rows, 2 * channels, channels), &desc);
    return diti_kl_conv(graph, h, &attention->out, size, x, vae->wide, "vae_attention_out");
}

static diti_tensor diti_kl_run_mid(diti_graph *graph, const diti_vae *vae, diti_tensor x, const diti_kl_half *half,
                                   diti_kl_size size) {
    x = diti_kl_run_resnet(graph, vae, x, &half->mid[0], size);
    if (half->attention.present) x = diti_kl_run_attention(graph, vae, x, &half->attention, size);
    return diti_kl_run_resnet(graph, vae, x, &half->mid[1], size);
}

static diti_tensor diti_kl_run_level(diti_graph *graph, const diti_vae *vae, diti_tensor x, const diti_kl_level *level,
                                     bool up, diti_kl_size *size) {
    uint32_t i;
    for (i = 0; i < level->count; i++) x = diti_kl_run_resnet(graph, vae, x, &level->resnets[i], *size);
    if (!level->resample.weight.part_count) return x;
    return up ? diti_kl_upsample(graph, vae, x, &level->resample, size)
              : diti_kl_downsample(graph, vae, x, &level->resample, size);
}

static diti_tensor diti_kl_finish(diti_graph *graph, const diti_vae *vae, diti_tensor x, const diti_kl_half *half,
                                  diti_kl_size size, bool out_f32) {
    x = diti_kl_norm(graph, vae, x, &half->norm_out, true, "vae_norm_out");
    return diti_kl_conv(graph, x, &half->conv_out, size, 0, out_f32, "vae_conv_out");
}

DIT_INTERNAL diti_tensor diti_vae_decode(const diti_vae *vae, diti_graph *graph, diti_tensor latent, uint32_t height,
                                         uint32_t width) {
    const diti_kl_half *half = &vae->decoder;
    diti_kl_size size;
    diti_tensor x;
    uint32_t i;
    if (!half->present) return diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "this autoencoder has no decoder");
    size.height = height;
    size.width = width;
    x = diti_planar_to_rows(graph, latent, 1, vae->traits.latent_channels, 1.0f / vae->traits.scale, vae->traits.shift);
    if (vae->post_quant.weight.part_count) {
        x = diti_kl_conv(graph, x, &vae->post_quant, size, 0, vae->wide, "vae_post_quant");
    }
    x = diti_kl_conv(graph, x, &half->conv_in, size, 0, vae->wide, "vae_conv_in");
    x = diti_kl_run_mid(graph, vae, x, half, size);
    for (i = 0; i < half->level_count; i++) x = diti_kl_run_level(graph, vae, x, &half->levels[i], true, &size);
    return diti_kl_finish(graph, vae, x, half, size, true);
}

DIT_INTERNAL diti_tensor diti_vae_encode(const diti_vae *vae, diti_graph *graph, diti_tensor image, uint32_t height,
                                         uint32_t width) {
    const diti_kl_half *half = &vae->encoder;
    bool quant = vae->quant.weight.part_count != 0;
    diti_kl_size size;
    diti_tensor x;
    uint32_t i;
    if (!half->present) return diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "this autoencoder has no encoder");
    size.height = height;
    size.width = width;
    x = diti_kl_conv(graph, image, &half->conv_in, size, 0, vae->wide, "vae_conv_in");
    for (i = 0; i < half->level_count; i++) x = diti_kl_run_level(graph, vae, x, &half->levels[i], false, &size);
    x = diti_kl_run_mid(graph, vae, x, half, size);
    x = diti_kl_finish(graph, vae, x, half, size, quant ? vae->wide : true);
    return quant ? diti_kl_conv(graph, x, &vae->quant, size, 0, true, "vae_quant") : x;
}

/* ======== src/sample/sample.h (edit it there; dit.h is generated) ======== */
/* sample: noise, schedules, solvers, guidance. Plain arithmetic, no Vulkan. */
#ifndef DITI_SAMPLE_H
#define DITI_SAMPLE_H

/* --- noise (models.md 10) --- */
typedef struct diti_random { /* torch's CPU generator: mt19937 and its normal transform, the cached value survives
                                between calls */
    uint32_t state[624];
    uint32_t index;
    bool has_cached;
    double cached;
} diti_random;
DIT_INTERNAL void diti_random_seed(diti_random *random, uint64_t seed);
DIT_INTERNAL void diti_random_normal(diti_random *random, float *out, size_t count); /* one torch.randn call */
DIT_INTERNAL void diti_philox_normal(uint64_t seed, uint32_t draw, float *out,
                                     size_t count); /* the draw-th torch.randn call on a CUDA device */

/* --- schedules and solvers (models.md 7) ---
   Every solver here is linear in what it remembers, so a whole trajectory is a table of coefficients that the device
   replays: x0  = clamp(x0_x * x + x0_m * m, -clip, clip)         m = guided model output, x = latent x'  = x_x * x +
   x_m * m + d0 * x0 + d1 * x0[-1] + d2 * x0[-2] + noise * n x0[-1], x0[-2] are the x0 of the one and two steps before;
   n = fresh unit normal noise (only drawn when any step's noise is not 0). */
typedef struct diti_step {
    float timestep;         /* what the transformer is told */
    float sigma;            /* for reports: noise / signal, or the flow's time in 0..1 */
    float input;            /* the model sees input * x (1 but for Euler on variance-preserving sigmas) */
    float x0_x, x0_m, clip; /* clip: infinity when the schedule does not clip */
    float x_x, x_m, d0, d1, d2, noise;
} diti_step;
typedef struct diti_schedule {
    diti_step *steps;
    uint32_t count;
    float initial;       /* latents = noise * initial (init_noise_sigma) */
    bool draws;          /* some step's noise is not 0 */
    const char *sampler; /* its name in dit_sampler_name */
} diti_schedule;
typedef struct diti_schedule_request {
    uint32_t steps;
    const char *sampler;  /* "euler", "dpm++2m", "ddim", as diffusers, A1111 and sd.cpp spell them; NULL: what the
                             config's _class_name says */
    const char *schedule; /* NULL: the config's own; else one of dit_schedule_name */
    float shift;          /* 0: the config's own; flow schedules only */
    float eta;            /* DDIM: 0 deterministic .. 1 as much noise as DDPM */
    bool use_clipped_model_output; /* DDIM: noise prediction recomputed from the clipped x0 */
    uint32_t image_tokens;         /* sequence length, for dynamic shifting (flow_flux_dev_*) */
    const float *sigmas;
    uint32_t sigma_count; /* explicit flow sigmas as pipelines pass them (FLUX), before the shift; NULL: none */
} diti_schedule_request;
/* config: the parsed scheduler_config.json (NULL: diffusers' defaults of the sampler). Unknown values are refused by
 * name. */
DIT_INTERNAL dit_result diti_schedule_make(const diti_env *env, const diti_json *config,
                                           const diti_schedule_request *request, diti_schedule *out, dit_error *err);
DIT_INTERNAL void diti_schedule_free(const diti_env *env, diti_schedule *schedule);

/* --- inside the room: config and request, resolved (config.c) -> points in time (schedule.c) -> coefficients
 * (solver.c) --- */
typedef enum diti_solver_kind { DITI_SOLVER_EULER, DITI_SOLVER_DPM, DITI_SOLVER_DDIM } diti_solver_kind;
typedef enum diti_prediction {
    DITI_PREDICT_EPSILON,
    DITI_PREDICT_V,
    DITI_PREDICT_SAMPLE,
    DITI_PREDICT_FLOW
} diti_prediction;
typedef enum diti_beta_kind { DITI_BETA_LINEAR, DITI_BETA_SCALED_LINEAR, DITI_BETA_COSINE } diti_beta_kind;
typedef enum diti_spacing { DITI_SPACING_LINSPACE, DITI_SPACING_LEADING, DITI_SPACING_TRAILING } diti_spacing;
typedef enum diti_sigma_shape {
    DITI_SIGMAS_OWN,
    DITI_SIGMAS_KARRAS,
    DITI_SIGMAS_EXPONENTIAL,
    DITI_SIGMAS_LU
} diti_sigma_shape;
typedef struct diti_sampling {
    const char *sampler; /* for messages */
    diti_solver_kind solver;
    uint32_t steps, train_steps;
    diti_prediction prediction;
    diti_sigma_shape shape;
    /* variance-preserving models */
    diti_beta_kind betas;
    double beta_start, beta_end, lambda_min;
    const diti_json *trained_betas; /* NULL: by formula */
    bool zero_snr, final_sigma_zero;
    diti_spacing spacing;
    uint32_t steps_offset;
    /* flow models */
    bool flow, dynamic_shift;
    double shift, shift_terminal; /* shift_terminal 0: none */
    const float *sigmas;          /* explicit, steps of them; NULL: none */
    /* DPM-Solver++ */
    uint32_t order;
    bool heun, stochastic, lower_order_final, euler_at_final;
    /* DDIM */
    bool final_alpha_one, use_clipped_model_output;
    double eta, clip; /* clip: infinity for none */
} diti_sampling;
typedef struct diti_noise_level { /* x = alpha * x0 + noise * epsilon */
    double sigma, alpha, noise;   /* sigma: noise / alpha with betas, noise with flows */
} diti_noise_level;
typedef struct diti_interval { /* what one step has to cross */
    double timestep;
    diti_noise_level from, to;
} diti_interval;
DIT_INTERNAL dit_result diti_sampling_resolve(const diti_json *config, const diti_schedule_request *request,
                                              diti_sampling *out, dit_error *err);
/* out: as many as there are steps. */
DIT_INTERNAL dit_result diti_sampling_intervals(const diti_env *env, const diti_sampling *sampling, diti_interval *out,
                                                dit_error *err);
DIT_INTERNAL void diti_cumulative_alphas(const diti_sampling *sampling, float *out); /* train_steps of them */
#endif

/* ======== src/sample/rng.c (edit it there; dit.h is generated) ======== */

static const double diti_two_pi = 6.28318530717958647692;

/* --- torch's CPU generator (models.md 10) --- */
DIT_INTERNAL void diti_random_seed(diti_random *random, uint64_t seed) {
    uint32_t *state = random->state, i;
    memset(random, 0, sizeof *random);
    state[0] = (uint32_t)seed; /* torch keeps the low 32 bits */
    for (i = 1; i < 624; i++) state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
    random->index = 624;
}

static void diti_random_refill(diti_random *random) {
    uint32_t *state = random->state, i;
    for (i = 0; i < 624; i++) {
        uint32_t mixed = (state[i] & 0x80000000u) | (state[(i + 1) % 624] & 0x7fffffffu);
        state[i] = state[(i + 397) % 624] ^ (mixed >> 1) ^ ((mixed & 1u) ? 0x9908b0dfu : 0u);
    }
    random->index = 0;
}

static uint32_t diti_random_u32(diti_random *random) {
    uint32_t value;
    if (random->index >= 624) diti_random_refill(random);
    value = random->state[random->index++];
    value ^= value >> 11;
    value ^= (value << 7) & 0x9d2c5680u;
    value ^= (value << 15) & 0xefc60000u;
    return value ^ (value >> 18);
}

static float diti_random_uniform24(diti_random *random) {
    return (float)(diti_random_u32(random) & 0xffffffu) * (1.0f / 16777216.0f);
}

static double diti_random_uniform53(diti_random *random) {
    uint64_t high = diti_random_u32(random), low = diti_random_u32(random);
    return (double)(((high << 32) | low) & ((1ull << 53) - 1)) * (1.0 / 9007199254740992.0);
}

/* Box-Muller over 16 uniforms in place: element j pairs with j + 8. */
static void diti_random_transform16(float *values) {
    int j;
    for (j = 0; j < 8; j++) {
        double radius = sqrt(-2.0 * log(1.0 - (double)values[j])), angle = diti_two_pi * (double)values[j + 8];
        values[j] = (float)(radius * cos(angle));
        values[j + 8] = (float)(radius * sin(angle));
    }
}

static void diti_random_normal_blocks(diti_random *random, float *out, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) out[i] = diti_random_uniform24(random);
    for (i = 0; i + 16 <= count; i += 16) diti_random_transform16(out + i);
    if (count % 16 == 0) return;
    for (i = count - 16; i < count; i++) out[i] = diti_random_uniform24(random); /* the last 16 are drawn anew */
    diti_random_transform16(out + count - 16);
}

static float diti_random_normal_single(diti_random *random) {
    double first, radius, angle;
    if (random->has_cached) {
        random->has_cached = false;
        return (float)random->cached;
    }
    first = diti_random_uniform53(random);
    radius = sqrt(-2.0 * log1p(-diti_random_uniform53(random)));
    angle = diti_two_pi * first;
    random->cached = radius * sin(angle);
    random->has_cached = true;
    return (float)(radius * cos(angle));
}

DIT_INTERNAL void diti_random_normal(diti_random *random, float *out, size_t count) {
    size_t i;
    if (count >= 16) {
        diti_random_normal_blocks(random, out, count);
        return;
    }
    for (i = 0; i < count; i++) out[i] = diti_random_normal_single(random);
}

/* --- Philox4x32-10, as torch draws on one CUDA device (models.md 10) --- */
static void diti_philox_round(uint32_t c[4], const uint32_t key[2]) {
    uint64_t a = (uint64_t)c[0] * 0xd2511f53u, b = (uint64_t)c[2] * 0xcd9e8d57u;
    uint32_t second = c[1], fourth = c[3];
    c[0] = (uint32_t)(b >> 32) ^ second ^ key[0];
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ fourth ^ key[1];
    c[3] = (uint32_t)a;
}

static float diti_philox_value(uint64_t seed, uint32_t draw, uint32_t element) {
    uint32_t c[4] = DITI_ZERO, key[2];
    double u, v;
    int i;
    c[0] = draw;
    c[2] = element;
    key[0] = (uint32_t)seed;
    key[1] = (uint32_t)(seed >> 32);
    for (i = 0; i < 10; i++) {
        diti_philox_round(c, key);
        key[0] += 0x9e3779b9u;
        key[1] += 0xbb67ae85u;
    }
    u = ((double)c[0] + 0.5) * (1.0 / 4294967296.0);
    v = ((double)c[1] + 0.5) * (1.0 / 4294967296.0);
    return (float)(sqrt(-2.0 * log(u)) * sin(diti_two_pi * v));
}

DIT_INTERNAL void diti_philox_normal(uint64_t seed, uint32_t draw, float *out, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) out[i] = diti_philox_value(seed, draw, (uint32_t)i);
}

/* ======== src/sample/config.c (edit it there; dit.h is generated) ======== */

/* --- names --- */
typedef struct diti_sampler_entry {
    const char *name;
    const char *aliases; /* as diffusers, A1111, ComfyUI and sd.cpp spell it, without spaces, '-' and '_' */
    diti_solver_kind solver;
    uint32_t order;
    bool stochastic;
} diti_sampler_entry;

static const diti_sampler_entry diti_samplers[] = {
    {"euler", " euler eulerdiscretescheduler flowmatcheulerdiscretescheduler ", DITI_SOLVER_EULER, 1, false},
    {"dpm++2m", " dpm++2m dpmpp2m dpmsolver++ dpmsolvermultistepscheduler ", DITI_SOLVER_DPM, 2, false},
    {"dpm++2m-sde", " dpm++2msde dpmpp2msde sdedpmsolver++ ", DITI_SOLVER_DPM, 2, true},
    {"dpm++3m", " dpm++3m dpmpp3m ", DITI_SOLVER_DPM, 3, false},
    {"ddim", " ddim ddimscheduler ", DITI_SOLVER_DDIM, 1, false},
};

typedef struct diti_schedule_entry {
    const char *name, *aliases;
    bool spaces; /* chooses a spacing, else a shape of the sigmas */
    diti_spacing spacing;
    diti_sigma_shape shape;
} diti_schedule_entry;

static const diti_schedule_entry diti_schedules[] = {
    {"linspace", " linspace normal discrete uniform ", true, DITI_SPACING_LINSPACE, DITI_SIGMAS_OWN},
    {"leading", " leading ddimuniform ", true, DITI_SPACING_LEADING, DITI_SIGMAS_OWN},
    {"trailing", " trailing sgmuniform ", true, DITI_SPACING_TRAILING, DITI_SIGMAS_OWN},
    {"karras", " karras ", false, DITI_SPACING_LINSPACE, DITI_SIGMAS_KARRAS},
    {"exponential", " exponential ", false, DITI_SPACING_LINSPACE, DITI_SIGMAS_EXPONENTIAL},
    {"lu", " lu lulambdas ", false, DITI_SPACING_LINSPACE, DITI_SIGMAS_LU},
};

DIT_API const char *dit_sampler_name(uint32_t index) {
    return index < DITI_COUNT(diti_samplers) ? diti_samplers[index].name : NULL;
}

DIT_API const char *dit_schedule_name(uint32_t index) {
    return index < DITI_COUNT(diti_schedules) ? diti_schedules[index].name : NULL;
}

/* " dpm++2mkarras " for "DPM++ 2M Karras"; empty when it is too long to be a name. */
static void diti_plain_name(const char *name, char *out, size_t size) {
    size_t length = 0;
    out[length++] = ' ';
    for (; *name && length + 2 < size; name++) {
        char c = *name;
        if (c == ' ' || c == '_' || c == '-') continue;
        out[length++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    out[length++] = ' ';
    out[*name ? 0 : length] = 0;
}

static const diti_sampler_entry *diti_sampler_find(const char *plain) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_samplers) && strlen(plain) > 2; i++) {
        if (strstr(diti_samplers[i].aliases, plain)) return &diti_samplers[i];
    }
    return NULL;
}

static const diti_schedule_entry *diti_schedule_find(const char *plain) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_schedules) && strlen(plain) > 2; i++) {
        if (strstr(diti_schedules[i].aliases, plain)) return &diti_schedules[i];
    }
    return NULL;
}

/* "dpm++2mkarras" and "ddimtrailing" name a sampler and a schedule at once. */
static const diti_sampler_entry *diti_sampler_find_both(const char *plain, const diti_schedule_entry **schedule) {
    size_t length = strlen(plain), i;
    const diti_sampler_entry *found = diti_sampler_find(plain);
    for (i = 2; !found && i + 2 < length; i++) {
        char tail[64], head[64];
        diti_format(tail, sizeof tail, " %s", plain + i);
        diti_format(head, sizeof head, "%.*s ", (int)i, plain);
        *schedule = diti_schedule_find(tail);
        if (*schedule) found = diti_sampler_find(head);
    }
    return found;
}

static void diti_name_list(const char *(*name)(uint32_t), char *out, size_t size) {
    uint32_t i;
    *out = 0;
    for (i = 0; name(i); i++) {
        size_t used = strlen(out);
        diti_format(out + used, size - used, "%s%s", i ? ", " : "", name(i));
    }
}

static dit_result diti_unknown_name(const char *what, const char *name, const char *(*names)(uint32_t),
                                    dit_error *err) {
    char list[200];
    diti_name_list(names, list, sizeof list);
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "unknown %s \"%.60s\"; there are %s", what, name, list);
}

/* --- scheduler_config.json: the first bad value is kept as the error, what follows reads on harmlessly --- */
typedef struct diti_config_reader {
    const diti_json *config;
    dit_error *err;
    dit_result result;
} diti_config_reader;

static void diti_config_refuse(diti_config_reader *reader, dit_result result, const char *key, const char *problem) {
    if (reader->result < 0) return;
    reader->result = diti_fail(reader->err, result, "scheduler_config.json: %s: %s", key, problem);
}

static const diti_json *diti_config_get(const diti_config_reader *reader, const char *key) {
    const diti_json *value = diti_json_get(reader->config, key);
    return value && value->kind != DITI_JSON_NULL ? value : NULL;
}

static bool diti_config_has(const diti_config_reader *reader, const char *key) {
    return diti_config_get(reader, key) != NULL;
}

static double diti_config_number(diti_config_reader *reader, const char *key, double otherwise, double low,
                                 double high) {
    const diti_json *value = diti_config_get(reader, key);
    char problem[160];
    if (!value) return otherwise;
    if (value->kind == DITI_JSON_NUMBER && value->number >= low && value->number <= high) return value->number;
    diti_format(problem, sizeof problem, "%.40s is not a number from %g to %g", value->text ? value->text : "the value",
                low, high);
    diti_config_refuse(reader, DIT_ERROR_BAD_FILE, key, problem);
    return otherwise;
}

static bool diti_config_bool(diti_config_reader *reader, const char *key, bool otherwise) {
    const diti_json *value = diti_config_get(reader, key);
    if (!value) return otherwise;
    if (value->kind != DITI_JSON_BOOL) diti_config_refuse(reader, DIT_ERROR_BAD_FILE, key, "neither true nor false");
    return value->number != 0;
}

static uint32_t diti_config_choice(diti_config_reader *reader, const char *key, const char *const *names,
                                   uint32_t count, uint32_t otherwise) {
    const diti_json *value = diti_config_get(reader, key);
    char problem[300];
    uint32_t i;
    if (!value) return otherwise;
    diti_format(problem, sizeof problem, "\"%.60s\" is not supported; supported are",
                value->kind == DITI_JSON_STRING ? value->text : "(no text)");
    for (i = 0; i < count; i++) {
        size_t used = strlen(problem);
        if (value->kind == DITI_JSON_STRING && diti_equal(value->text, names[i])) return i;
        diti_format(problem + used, sizeof problem - used, "%s %s", i ? "," : "", names[i]);
    }
    diti_config_refuse(reader, DIT_ERROR_UNSUPPORTED_MODEL, key, problem);
    return otherwise;
}

static void diti_config_must_be_off(diti_config_reader *reader, const char *key) {
    if (diti_config_bool(reader, key, false))
        diti_config_refuse(reader, DIT_ERROR_UNSUPPORTED_MODEL, key, "true is not supported");
}

static void diti_config_read_betas(diti_config_reader *reader, diti_sampling *out) {
    static const char *const kinds[] = {"linear", "scaled_linear", "squaredcos_cap_v2"};
    out->betas = (diti_beta_kind)diti_config_choice(reader, "beta_schedule", kinds, 3, DITI_BETA_LINEAR);
    out->beta_start = diti_config_number(reader, "beta_start", 0.0001, 0, 0.999);
    out->beta_end = diti_config_number(reader, "beta_end", 0.02, 0, 0.999);
    out->zero_snr = diti_config_bool(reader, "rescale_betas_zero_snr", false);
    out->trained_betas = diti_config_get(reader, "trained_betas");
    if (out->trained_betas &&
        (out->trained_betas->kind != DITI_JSON_ARRAY || out->trained_betas->count != out->train_steps)) {
        diti_config_refuse(reader, DIT_ERROR_BAD_FILE, "trained_betas", "not an array of num_train_timesteps numbers");
    }
}

static void diti_config_read_spacing(diti_config_reader *reader, diti_sampling *out) {
    static const char *const spacings[] = {"linspace", "leading", "trailing"};
    static const char *const finals[] = {"zero", "sigma_min"};
    diti_spacing otherwise = out->solver == DITI_SOLVER_DDIM ? DITI_SPACING_LEADING : DITI_SPACING_LINSPACE;
    out->spacing = (diti_spacing)diti_config_choice(reader, "timestep_spacing", spacings, 3, otherwise);
    out->steps_offset = (uint32_t)diti_config_number(reader, "steps_offset", 0, 0, 1000);
    out->final_sigma_zero = diti_config_choice(reader, "final_sigmas_type", finals, 2, 0) == 0;
    if (diti_config_bool(reader, "use_karras_sigmas", false)) out->shape = DITI_SIGMAS_KARRAS;
    if (diti_config_bool(reader, "use_exponential_sigmas", false)) out->shape = DITI_SIGMAS_EXPONENTIAL;
    if (diti_config_bool(reader, "use_lu_lambdas", false)) out->shape = DITI_SIGMAS_LU;
    diti_config_must_be_off(reader, "use_beta_sigmas");
}

/* Written as -Infinity, which is no JSON, or as the text "-Infinity". */
static double diti_config_lambda_min(diti_config_reader *reader) {
    const diti_json *value = diti_config_get(reader, "lambda_min_clipped");
    if (value && value->kind == DITI_JSON_STRING && diti_equal(value->text, "-Infinity")) return -(double)INFINITY;
    return diti_config_number(reader, "lambda_min_clipped", -(double)INFINITY, -(double)INFINITY, 1000);
}

/* own_class: the config was written for this sampler, else what it says about orders is meant for another. */
static void diti_config_read_dpm(diti_config_reader *reader, diti_sampling *out, bool own_class) {
    static const char *const algorithms[] = {"dpmsolver++", "sde-dpmsolver++"};
    static const char *const types[] = {"midpoint", "heun", "logrho", "bh1",
                                        "bh2"}; /* diffusers takes the last three for midpoint */
    out->order = 2;
    out->lower_order_final = true;
    out->lambda_min = diti_config_lambda_min(reader);
    if (!own_class) return;
    out->order = (uint32_t)diti_config_number(reader, "solver_order", 2, 1, 3);
    out->stochastic = diti_config_choice(reader, "algorithm_type", algorithms, 2, 0) == 1;
    out->heun = diti_config_choice(reader, "solver_type", types, 5, 0) == 1;
    out->lower_order_final = diti_config_bool(reader, "lower_order_final", true);
    out->euler_at_final = diti_config_bool(reader, "euler_at_final", false);
}

static void diti_config_check_euler(diti_config_reader *reader) {
    static const char *const interpolations[] = {"linear"}, *const types[] = {"discrete"};
    diti_config_choice(reader, "interpolation_type", interpolations, 1, 0);
    diti_config_choice(reader, "timestep_type", types, 1, 0);
}

/* Without clip_sample in it only a DDIM config means diffusers' default, which is to clip. */

static void diti_config_read_ddim(diti_config_reader *reader, diti_sampling *out, bool own_class) {
    out->final_alpha_one = diti_config_bool(reader, "set_alpha_to_one", true);
    if (diti_config_bool(reader, "clip_sample", own_class))
        out->clip = diti_config_number(reader, "clip_sample_range", 1, 1e-6, 1e6);
}

/* mu is linear in the number of image tokens; shifting by e^mu is what diffusers calls exponential (models.md 7.7). */
static double diti_config_dynamic_shift(diti_config_reader *reader, uint32_t image_tokens) {
    static const char *const types[] = {"exponential", "linear"};
    double low = diti_config_number(reader, "base_image_seq_len", 256, 1, 1e9),
           high = diti_config_number(reader, "max_image_seq_len", 4096, 1, 1e9);
    double base = diti_config_number(reader, "base_shift", 0.5, -100, 100),
           most = diti_config_number(reader, "max_shift", 1.15, -100, 100);
    double slope = high > low ? (most - base) / (high - low) : 0, mu = base + slope * ((double)image_tokens - low);
    if (image_tokens == 0)
        diti_config_refuse(reader, DIT_ERROR_INVALID_ARGUMENT, "use_dynamic_shifting",
                           "the number of image tokens is needed");
    return diti_config_choice(reader, "time_shift_type", types, 2, 0) == 1 ? mu : exp(mu);
}

static void diti_config_read_flow(diti_config_reader *reader, const diti_schedule_request *request,
                                  diti_sampling *out) {
    const char *key = diti_config_has(reader, "flow_shift") ? "flow_shift" : "shift";
    out->shift = diti_config_number(reader, key, 1, 1e-3, 1e3);
    out->shift_terminal = diti_config_number(reader, "shift_terminal", 0, 0, 0.999);
    diti_config_must_be_off(reader, "invert_sigmas");
    diti_config_must_be_off(reader, "stochastic_sampling");
    out->dynamic_shift = diti_config_bool(reader, "use_dynamic_shifting", false);
    if (request->shift != 0)
        out->shift = (double)request->shift;
    else if (out->dynamic_shift)
        out->shift = diti_config_dynamic_shift(reader, request->image_tokens);
    out->sigmas = request->sigmas;
}

static void diti_config_read_prediction(diti_config_reader *reader, const char *class_name, diti_sampling *out) {
    static const char *const predictions[] = {"epsilon", "v_prediction", "sample", "flow_prediction"};
    bool matches = class_name && diti_starts_with(class_name, "FlowMatch");
    out->prediction = (diti_prediction)diti_config_choice(reader, "prediction_type", predictions, 4,
                                                          matches ? DITI_PREDICT_FLOW : DITI_PREDICT_EPSILON);
    out->flow = matches || out->prediction == DITI_PREDICT_FLOW || diti_config_bool(reader, "use_flow_sigmas", false);
    if (out->flow && out->prediction != DITI_PREDICT_FLOW)
        diti_config_refuse(reader, DIT_ERROR_UNSUPPORTED_MODEL, "prediction_type", "flow sigmas need flow_prediction");
}

/* --- request and config together --- */
static dit_result diti_sampling_choose(const diti_schedule_request *request, const char *class_name, diti_sampling *out,
                                       const diti_sampler_entry **chosen, const diti_schedule_entry **schedule,
                                       dit_error *err) {
    const char *wanted = request->sampler ? request->sampler : class_name;
    char plain[64];
    if (!wanted)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "neither a sampler nor a scheduler_config.json with a _class_name is given");
    diti_plain_name(wanted, plain, sizeof plain);
    *chosen = diti_sampler_find_both(plain, schedule);
    if (!*chosen && request->sampler) return diti_unknown_name("sampler", wanted, dit_sampler_name, err);
    if (!*chosen) {
        char list[200];
        diti_name_list(dit_sampler_name, list, sizeof list);
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "scheduler_config.json: _class_name: \"%.60s\" is not supported; choose a sampler: %s", wanted,
                         list);
    }
    out->solver = (*chosen)->solver;
    out->sampler = (*chosen)->name;
    return DIT_OK;
}

/* A sampler chosen by name brings its own order; one that the config names keeps the config's. */
static void diti_sampling_apply_name(const diti_sampler_entry *chosen, const diti_schedule_request *request,
                                     diti_sampling *out) {
    size_t i;
    if (request->sampler) {
        out->order = chosen->order;
        out->stochastic = chosen->stochastic;
        return;
    }
    for (i = 0; i < DITI_COUNT(diti_samplers); i++) {
        const diti_sampler_entry *entry = &diti_samplers[i];
        if (entry->solver == out->solver && entry->order == out->order && entry->stochastic == out->stochastic)
            out->sampler = entry->name;
    }
}

static dit_result diti_sampling_apply_schedule(const diti_schedule_request *request,
                                               const diti_schedule_entry *schedule, diti_sampling *out,
                                               dit_error *err) {
    char plain[64];
    if (request->schedule) {
        diti_plain_name(request->schedule, plain, sizeof plain);
        if (diti_equal(plain, " automatic ") || diti_equal(plain, " default ")) return DIT_OK;
        schedule = diti_schedule_find(plain);
        if (!schedule) return diti_unknown_name("schedule", request->schedule, dit_schedule_name, err);
    }
    if (!schedule) return DIT_OK;
    if (schedule->spaces && out->flow)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "schedule %s spaces the timesteps of models with betas, and this is a flow model: leave it out, or use karras or exponential",
            schedule->name);
    out->spacing = schedule->spacing;
    out->shape = schedule->shape;
    return DIT_OK;
}

static dit_result diti_sampling_check_request(const diti_schedule_request *request, const diti_sampling *sampling,
                                              dit_error *err) {
    uint32_t i;
    if (request->steps == 0) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "0 steps: at least 1 is needed");
    if (request->steps > sampling->train_steps)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%u steps are more than the %u that the model was trained with: use at most %u",
                         request->steps, sampling->train_steps, sampling->train_steps);
    if (!(request->eta >= 0 && request->eta <= 1))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "eta %g is outside 0..1: the nearest valid value is %d",
                         (double)request->eta, request->eta > 1 ? 1 : 0);
    if (request->eta > 0 && sampling->solver != DITI_SOLVER_DDIM)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "eta %g: only the sampler ddim adds noise by it; with %s it must be 0", (double)request->eta,
                         sampling->sampler);
    if (request->shift != 0 && !sampling->flow)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "shift %g: only flow models have one; it must be 0 for this model", (double)request->shift);
    if (request->shift != 0 && !(request->shift >= 1e-3f && request->shift <= 1e3f))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "shift %g is outside 0.001..1000: the nearest valid value is %s", (double)request->shift,
                         request->shift > 1e3f ? "1000" : "0.001 (or 0: the model's own)");
    if (!request->sigmas) return DIT_OK;
    if (!sampling->flow || request->sigma_count != request->steps)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "explicit sigmas need a flow model and one per step: %u for %u steps", request->sigma_count,
                         request->steps);
    for (i = 0; i < request->sigma_count; i++) {
        if (!(request->sigmas[i] > 0 && request->sigmas[i] <= (i ? request->sigmas[i - 1] : 1)))
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "sigma %u is %g: sigmas fall from 1 to above 0", i,
                             (double)request->sigmas[i]);
    }
    return DIT_OK;
}

static dit_result diti_sampling_check(const diti_sampling *out, dit_error *err) {
    const char *shape = out->shape == DITI_SIGMAS_KARRAS ? "karras"
                        : out->shape == DITI_SIGMAS_LU   ? "lu"
                                                         : "exponential";
    bool shaped = out->shape != DITI_SIGMAS_OWN;
    if (shaped && out->solver == DITI_SOLVER_DDIM)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "schedule %s does not go with ddim: use linspace, leading or trailing", shape);
    if (out->shape == DITI_SIGMAS_LU && (out->flow || out->solver != DITI_SOLVER_DPM))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "schedule lu goes only with dpm++ on models with betas: use karras or exponential");
    if (out->stochastic && out->order == 3)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "scheduler_config.json: solver_order: sde-dpmsolver++ goes up to 2");
    return DIT_OK;
}

static void diti_sampling_read(diti_config_reader *reader, const diti_schedule_request *request, bool own_class,
                               diti_sampling *out) {
    diti_config_read_spacing(reader, out);
    if (out->solver == DITI_SOLVER_DPM) diti_config_read_dpm(reader, out, own_class);
    if (out->solver == DITI_SOLVER_DDIM) diti_config_read_ddim(reader, out, own_class);
    if (out->solver == DITI_SOLVER_EULER && own_class) diti_config_check_euler(reader);
    if (out->flow)
        diti_config_read_flow(reader, request, out);
    else
        diti_config_read_betas(reader, out);
}

DIT_INTERNAL dit_result diti_sampling_resolve(const diti_json *config, const diti_schedule_request *request,
                                              diti_sampling *out, dit_error *err) {
    diti_config_reader reader = DITI_ZERO;
    const char *class_name = diti_json_string(config, "_class_name", NULL);
    const diti_sampler_entry *chosen = NULL;
    const diti_schedule_entry *schedule = NULL;
    char plain[64];
    memset(out, 0, sizeof *out);
    reader.config = config;
    reader.err = err;
    reader.result = diti_sampling_choose(request, class_name, out, &chosen, &schedule, err);
    if (reader.result < 0) return reader.result;
    if (!config && out->solver == DITI_SOLVER_EULER) class_name = "FlowMatchEulerDiscreteScheduler";
    out->steps = request->steps;
    out->clip = (double)INFINITY;
    out->eta = (double)request->eta;
    out->use_clipped_model_output = request->use_clipped_model_output;
    out->train_steps = (uint32_t)diti_config_number(&reader, "num_train_timesteps", 1000, 1, 100000);
    diti_config_must_be_off(&reader, "thresholding");
    diti_config_read_prediction(&reader, class_name, out);
    if (reader.result == DIT_OK) reader.result = diti_sampling_check_request(request, out, err);
    diti_plain_name(class_name ? class_name : "", plain, sizeof plain);
    diti_sampling_read(&reader, request,
                       config && diti_sampler_find(plain) && diti_sampler_find(plain)->solver == out->solver, out);
    diti_sampling_apply_name(chosen, request, out);
    if (reader.result == DIT_OK) reader.result = diti_sampling_apply_schedule(request, schedule, out, err);
    return reader.result < 0 ? reader.result : diti_sampling_check(out, err);
}

/* ======== src/sample/schedule.c (edit it there; dit.h is generated) ======== */

/* Where a trajectory goes: the points in time of models.md 7.0, 7.3, 7.4 and 7.7. Tables over the training steps are
   kept in float as torch keeps them, because 1 - alpha of the first steps is so small that their rounding shows. */

/* Element i of n numbers from a to b, as numpy.linspace. */
static double diti_linspace(double a, double b, uint32_t i, uint32_t n) {
    if (n < 2) return a;
    return i == n - 1 ? b : a + (double)i * ((b - a) / (double)(n - 1));
}

/* torch.linspace in float: counts from both ends. */
static float diti_linspace_float(float a, float b, uint32_t i, uint32_t n) {
    float step = n > 1 ? (b - a) / (float)(n - 1) : 0;
    return i < n / 2 || n < 2 ? a + step * (float)i : b - step * (float)(n - i - 1);
}

/* --- models with betas: the table of cumulative alphas --- */
static double diti_cosine_alpha(double t) {
    double c = cos((t + 0.008) / 1.008 * 3.14159265358979323846 / 2);
    return c * c;
}

static float diti_beta(const diti_sampling *sampling, uint32_t i) {
    uint32_t n = sampling->train_steps;
    float root;
    switch (sampling->betas) {
    case DITI_BETA_LINEAR: return diti_linspace_float((float)sampling->beta_start, (float)sampling->beta_end, i, n);
    case DITI_BETA_SCALED_LINEAR:
        root = diti_linspace_float((float)sqrt(sampling->beta_start), (float)sqrt(sampling->beta_end), i, n);
        return root * root;
    case DITI_BETA_COSINE:
        return (float)fmin(1 - diti_cosine_alpha((i + 1.0) / n) / diti_cosine_alpha((double)i / n), 0.999);
    }
    return 0;
}

static void diti_fill_alphas(const diti_sampling *sampling, float *alphas) {
    const diti_json *trained = sampling->trained_betas ? sampling->trained_betas->first : NULL;
    uint32_t i;
    for (i = 0; i < sampling->train_steps; i++) {
        alphas[i] = 1.0f - (trained ? (float)trained->number : diti_beta(sampling, i));
        if (trained) trained = trained->next;
    }
}

static void diti_cumulate(float *alphas, uint32_t count) {
    double product = 1;
    uint32_t i;
    for (i = 0; i < count; i++) {
        product *= (double)alphas[i];
        alphas[i] = (float)product;
    }
}

/* rescale_betas_zero_snr: an affine map of the roots, then back to betas, as diffusers does it step by step in float.
 */
static void diti_rescale_zero_snr(float *cumulative, uint32_t count) {
    float first = sqrtf(cumulative[0]), last = sqrtf(cumulative[count - 1]), before = 0;
    uint32_t i;
    for (i = 0; i < count; i++) {
        float root = (sqrtf(cumulative[i]) - last) * (first / (first - last)), square = root * root;
        float alpha = i ? square / before : square, beta = 1.0f - alpha;
        before = square;
        cumulative[i] = 1.0f - beta;
    }
    diti_cumulate(cumulative, count);
}

DIT_INTERNAL void diti_cumulative_alphas(const diti_sampling *sampling, float *out) {
    uint32_t count = sampling->train_steps;
    diti_fill_alphas(sampling, out);
    diti_cumulate(out, count);
    if (!sampling->zero_snr) return;
    diti_rescale_zero_snr(out, count);
    if (sampling->solver != DITI_SOLVER_DDIM) out[count - 1] = 1.0f / 16777216.0f; /* their sigma must stay finite */
}

static double diti_training_sigma(const float *alphas, uint32_t i) {
    return (double)sqrtf((1.0f - alphas[i]) / alphas[i]);
}

static double diti_training_sigma_between(const float *alphas, uint32_t count, double timestep) {
    double below = floor(timestep);
    uint32_t i = (uint32_t)below;
    if (i + 1 >= count) return diti_training_sigma(alphas, count - 1);
    return diti_training_sigma(alphas, i) +
           (timestep - below) * (diti_training_sigma(alphas, i + 1) - diti_training_sigma(alphas, i));
}

/* The timestep at which training has this sigma: linear in its logarithm. */
static double diti_sigma_timestep(const float *alphas, uint32_t count, double sigma) {
    uint32_t i = 0;
    double low, high, part;
    if (count < 2) return 0;
    while (i + 2 < count && log(diti_training_sigma(alphas, i + 1)) <= log(sigma)) i++;
    low = log(diti_training_sigma(alphas, i));
    high = log(diti_training_sigma(alphas, i + 1));
    part = fmin(fmax((low - log(sigma)) / (low - high), 0), 1);
    return (1 - part) * i + part * (i + 1);
}

/* --- timesteps: element i of the descending list --- */
static double diti_timestep_ddim(const diti_sampling *sampling, uint32_t i) {
    uint32_t n = sampling->steps, total = sampling->train_steps;
    switch (sampling->spacing) {
    case DITI_SPACING_LEADING: return (double)(n - 1 - i) * (total / n) + sampling->steps_offset;
    case DITI_SPACING_TRAILING: return rint(total - i * ((double)total / n)) - 1;
    case DITI_SPACING_LINSPACE: break;
    }
    return rint(diti_linspace(0, total - 1.0, n - 1 - i, n));
}

static double diti_timestep_euler(const diti_sampling *sampling, uint32_t i) {
    uint32_t n = sampling->steps;
    if (sampling->spacing != DITI_SPACING_LINSPACE) return diti_timestep_ddim(sampling, i);
    return (double)(float)diti_linspace(0, sampling->train_steps - 1.0, n - 1 - i, n);
}

/* last: the training steps that lambda_min_clipped leaves. */
static double diti_timestep_dpm(const diti_sampling *sampling, uint32_t last, uint32_t i) {
    uint32_t n = sampling->steps;
    switch (sampling->spacing) {
    case DITI_SPACING_LEADING: return (double)(n - i) * (last / (n + 1)) + sampling->steps_offset;
    case DITI_SPACING_TRAILING: return rint(last - i * ((double)sampling->train_steps / n)) - 1;
    case DITI_SPACING_LINSPACE: break;
    }
    return rint(diti_linspace(0, last - 1.0, n - i, n + 1));
}

/* --- shapes: sigma i of n between two extremes --- */
static double diti_shaped_sigma(diti_sigma_shape shape, double highest, double lowest, uint32_t i, uint32_t n) {
    double a = pow(highest, 1 / 7.0), b = pow(lowest, 1 / 7.0);
    if (shape == DITI_SIGMAS_KARRAS) return pow(a + diti_linspace(0, 1, i, n) * (b - a), 7);
    return exp(diti_linspace(log(highest), log(lowest), i, n));
}

/* --- levels and intervals --- */
static diti_noise_level diti_level_from_sigma(double sigma) {
    diti_noise_level level;
    level.sigma = sigma;
    level.alpha = 1 / sqrt(sigma * sigma + 1);
    level.noise = sigma * level.alpha;
    return level;
}

static diti_noise_level diti_level_from_alpha(double cumulative) {
    diti_noise_level level;
    level.alpha = sqrt(cumulative);
    level.noise = sqrt(1 - cumulative);
    level.sigma = level.noise / level.alpha;
    return level;
}

static diti_noise_level diti_level_from_flow(double sigma) {
    diti_noise_level level;
    level.sigma = level.noise = sigma;
    level.alpha = 1 - sigma;
    return level;
}

/* Each step ends where the next begins. */
static void diti_chain_intervals(diti_interval *intervals, uint32_t count, diti_noise_level last) {
    uint32_t i;
    for (i = 0; i + 1 < count; i++) intervals[i].to = intervals[i + 1].from;
    intervals[count - 1].to = last;
}

static dit_result diti_check_timestep(const diti_sampling *sampling, double timestep, dit_error *err) {
    if (timestep >= 0 && timestep < sampling->train_steps) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "%u steps (steps_offset %u) ask for timestep %g of 0..%u: use fewer steps", sampling->steps,
                     sampling->steps_offset, timestep, sampling->train_steps - 1);
}

/* DDIM always steps by T / n, wherever the next timestep of the list lies (models.md 7.1). */
static dit_result diti_intervals_ddim(const diti_sampling *sampling, const float *alphas, diti_interval *out,
                                      dit_error *err) {
    uint32_t i, stride = sampling->train_steps / sampling->steps;
    double last = sampling->final_alpha_one ? 1 : (double)alphas[0];
    for (i = 0; i < sampling->steps; i++) {
        double timestep = diti_timestep_ddim(sampling, i);
        dit_result result = diti_check_timestep(sampling, timestep, err);
        if (result < 0) return result;
        out[i].timestep = timestep;
        out[i].from = diti_level_from_alpha((double)alphas[(uint32_t)timestep]);
        out[i].to = diti_level_from_alpha(timestep >= stride ? (double)alphas[(uint32_t)timestep - stride] : last);
    }
    return DIT_OK;
}

/* The training steps that lambda_min_clipped leaves; lambda = ln(alpha / noise) falls with the timestep. */
static uint32_t diti_clipped_training_steps(const diti_sampling *sampling, const float *alphas) {
    uint32_t count = sampling->train_steps;
    while (count > 1 && -log(diti_training_sigma(alphas, count - 1)) < sampling->lambda_min) count--;
    return count;
}

static dit_result diti_intervals_spaced(const diti_sampling *sampling, const float *alphas, diti_interval *out,
                                        dit_error *err) {
    uint32_t i, last = diti_clipped_training_steps(sampling, alphas);
    for (i = 0; i < sampling->steps; i++) {
        double timestep = sampling->solver == DITI_SOLVER_DPM ? diti_timestep_dpm(sampling, last, i)
                                                              : diti_timestep_euler(sampling, i);
        dit_result result = diti_check_timestep(sampling, timestep, err);
        if (result < 0) return result;
        out[i].timestep = timestep;
        out[i].from = diti_level_from_sigma(diti_training_sigma_between(alphas, sampling->train_steps, timestep));
    }
    return DIT_OK;
}

/* Euler shapes between its own first and last sigma, DPM-Solver between the extremes of training (models.md 7.0). */
static void diti_intervals_reshape(const diti_sampling *sampling, const float *alphas, diti_interval *out) {
    uint32_t i, n = sampling->steps, count = sampling->train_steps;
    bool dpm = sampling->solver == DITI_SOLVER_DPM;
    double highest = dpm ? diti_training_sigma(alphas, count - 1) : out[0].from.sigma;
    double lowest = dpm ? diti_training_sigma(alphas, 0) : out[n - 1].from.sigma;
    for (i = 0; i < n; i++) {
        double sigma = diti_shaped_sigma(sampling->shape, highest, lowest, i, n),
               timestep = diti_sigma_timestep(alphas, count, sigma);
        if (dpm) timestep = sampling->shape == DITI_SIGMAS_EXPONENTIAL ? floor(timestep) : rint(timestep);
        out[i].timestep = timestep;
        out[i].from = diti_level_from_sigma(sigma);
    }
}

static dit_result diti_intervals_betas(const diti_sampling *sampling, const float *alphas, diti_interval *out,
                                       dit_error *err) {
    dit_result result;
    if (sampling->solver == DITI_SOLVER_DDIM) return diti_intervals_ddim(sampling, alphas, out, err);
    result = diti_intervals_spaced(sampling, alphas, out, err);
    if (result < 0) return result;
    if (sampling->shape != DITI_SIGMAS_OWN) diti_intervals_reshape(sampling, alphas, out);
    diti_chain_intervals(out, sampling->steps,
                         diti_level_from_sigma(sampling->final_sigma_zero ? 0 : diti_training_sigma(alphas, 0)));
    return DIT_OK;
}

/* --- flows (models.md 7.4, 7.7) --- */
static double diti_shift(double sigma, double shift) { return shift * sigma / (1 + (shift - 1) * sigma); }

static double diti_flow_sigma(const diti_sampling *sampling, uint32_t i) {
    uint32_t n = sampling->steps;
    double training = 1.0 / sampling->train_steps,
           lowest = sampling->dynamic_shift ? training : diti_shift(training, sampling->shift);
    if (sampling->sigmas) return diti_shift((double)sampling->sigmas[i], sampling->shift);
    if (sampling->solver == DITI_SOLVER_DPM)
        return diti_shift(1 - diti_linspace(1, training, n - i, n + 1), sampling->shift);
    return diti_shift(diti_linspace(1, lowest, i, n),
                      sampling->shift); /* its low end is shifted twice, as in diffusers */
}

static void diti_intervals_flow(const diti_sampling *sampling, diti_interval *out) {
    uint32_t i, n = sampling->steps;
    double first, last, stretch;
    for (i = 0; i < n; i++) out[i].from.sigma = diti_flow_sigma(sampling, i);
    stretch = sampling->shift_terminal > 0 ? (1 - out[n - 1].from.sigma) / (1 - sampling->shift_terminal) : 1;
    for (i = 0; i < n; i++) out[i].from.sigma = 1 - (1 - out[i].from.sigma) / stretch;
    first = out[0].from.sigma;
    last = out[n - 1].from.sigma;
    for (i = 0; i < n; i++) {
        double sigma = sampling->shape == DITI_SIGMAS_OWN ? out[i].from.sigma
                                                          : diti_shaped_sigma(sampling->shape, first, last, i, n);
        out[i].from = diti_level_from_flow(sigma);
        out[i].timestep = sigma * sampling->train_steps;
        if (sampling->solver == DITI_SOLVER_DPM) out[i].timestep = floor(out[i].timestep);
    }
    diti_chain_intervals(out, n, diti_level_from_flow(0));
}

DIT_INTERNAL dit_result diti_sampling_intervals(const diti_env *env, const diti_sampling *sampling, diti_interval *out,
                                                dit_error *err) {
    float *alphas;
    dit_result result;
    if (sampling->flow) {
        diti_intervals_flow(sampling, out);
        return DIT_OK;
    }
    alphas = (float *)diti_alloc_array(env, sampling->train_steps, sizeof(float));
    if (!alphas)
        return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of memory for a schedule of %u training steps",
                         sampling->train_steps);
    diti_cumulative_alphas(sampling, alphas);
    result = diti_intervals_betas(sampling, alphas, out, err);
    diti_free(env, alphas);
    return result;
}

/* ======== src/sample/solver.c (edit it there; dit.h is generated) ======== */

/* --- what the model's output means: x0 and epsilon as mixtures of x and m --- */
typedef struct diti_mixture {
    double x, m;
} diti_mixture;

static diti_mixture diti_mixture_of(double x, double m) {
    diti_mixture mixture;
    mixture.x = x;
    mixture.m = m;
    return mixture;
}

static diti_mixture diti_predicted_x0(diti_prediction prediction, diti_noise_level level) {
    switch (prediction) {
    case DITI_PREDICT_EPSILON: return diti_mixture_of(1 / level.alpha, -level.noise / level.alpha);
    case DITI_PREDICT_V: return diti_mixture_of(level.alpha, -level.noise);
    case DITI_PREDICT_SAMPLE: return diti_mixture_of(0, 1);
    case DITI_PREDICT_FLOW: break;
    }
    return diti_mixture_of(1, -level.noise);
}

static diti_mixture diti_predicted_epsilon(diti_prediction prediction, diti_noise_level level) {
    switch (prediction) {
    case DITI_PREDICT_EPSILON: return diti_mixture_of(0, 1);
    case DITI_PREDICT_V: return diti_mixture_of(level.noise, level.alpha);
    case DITI_PREDICT_SAMPLE: return diti_mixture_of(1 / level.noise, -level.alpha / level.noise);
    case DITI_PREDICT_FLOW: break;
    }
    return diti_mixture_of(1, level.alpha);
}

typedef struct diti_update { /* diti_step in double */
    double x_x, x_m, d[3], noise;
} diti_update;

/* --- Euler (models.md 7.3, 7.7) --- */
static diti_update diti_euler_update(const diti_sampling *sampling, const diti_interval *interval) {
    diti_update update = DITI_ZERO;
    double ratio = interval->to.sigma / interval->from.sigma;
    if (sampling->flow) {
        update.x_x = 1;
        update.x_m = interval->to.sigma - interval->from.sigma;
        return update;
    }
    update.x_x = ratio; /* x' = x + (x - x0) / sigma * (sigma' - sigma) */
    update.d[0] = 1 - ratio;
    return update;
}

/* --- DDIM (models.md 7.1); the variance is written for any alpha and noise --- */
static double diti_ddim_deviation(const diti_sampling *sampling, const diti_interval *interval) {
    double kept = interval->from.alpha / interval->to.alpha * interval->to.noise / interval->from.noise;
    return sampling->eta * interval->to.noise * sqrt(fmax(1 - kept * kept, 0));
}

static diti_update diti_ddim_update(const diti_sampling *sampling, const diti_interval *interval) {
    diti_update update = DITI_ZERO;
    double deviation = diti_ddim_deviation(sampling, interval);
    double direction = sqrt(fmax(interval->to.noise * interval->to.noise - deviation * deviation, 0));
    diti_mixture epsilon = diti_predicted_epsilon(sampling->prediction, interval->from);
    update.d[0] = interval->to.alpha;
    update.noise = deviation;
    if (sampling->use_clipped_model_output) { /* epsilon = (x - alpha * x0) / noise */
        update.x_x = direction / interval->from.noise;
        update.d[0] -= update.x_x * interval->from.alpha;
        return update;
    }
    update.x_x = direction * epsilon.x;
    update.x_m = direction * epsilon.m;
    return update;
}

/* --- DPM-Solver++ multistep (models.md 7.4) --- */
static double diti_lambda(diti_noise_level level) { return log(level.alpha) - log(level.noise); }

static uint32_t diti_dpm_order(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    uint32_t n = sampling->steps, order = sampling->order;
    bool lower = sampling->lower_order_final && n < 15;
    if (i == n - 1 && (lower || sampling->euler_at_final || intervals[i].to.noise == 0)) order = 1;
    if (i + 2 == n && lower && order > 2) order = 2;
    return order < i + 1 ? order : i + 1;
}

/* Adds scale times (weight of D1) to the outputs: D1 = (m0 - m1) / r0. */
static void diti_dpm_add_second(diti_update *update, double scale, double r0) {
    update->d[0] += scale / r0;
    update->d[1] -= scale / r0;
}

/* D1 = D1_0 + r0 / (r0 + r1) * D2', D2 = D2' / (r0 + r1), D2' = D1_0 - D1_1, D1_k = (m_k - m_{k+1}) / r_k */
static void diti_dpm_add_third(diti_update *update, double first, double second, double r0, double r1) {
    double difference = (first * r0 + second) / (r0 + r1);
    update->d[0] += (first + difference) / r0;
    update->d[1] -= (first + difference) / r0 + difference / r1;
    update->d[2] += difference / r1;
}

static diti_update diti_dpm_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    diti_update update = DITI_ZERO;
    const diti_interval *now = &intervals[i];
    uint32_t order = diti_dpm_order(sampling, intervals, i);
    double alpha = now->to.alpha, lambda = diti_lambda(now->from), h = diti_lambda(now->to) - lambda;
    double decay = sampling->stochastic ? 2 * h : h, missing = 1 - exp(-decay); /* of x0 in x' */
    double r0, r1;
    update.x_x = now->to.noise / now->from.noise * (sampling->stochastic ? exp(-h) : 1);
    update.d[0] = alpha * missing;
    if (sampling->stochastic) update.noise = now->to.noise * sqrt(missing);
    if (order == 1) return update;
    r0 = (lambda - diti_lambda(intervals[i - 1].from)) / h;
    if (order == 3) {
        r1 = (diti_lambda(intervals[i - 1].from) - diti_lambda(intervals[i - 2].from)) / h;
        diti_dpm_add_third(&update, alpha * (1 - missing / h), alpha * (missing / (h * h) - 1 / h + 0.5), r0, r1);
    } else if (sampling->heun) {
        diti_dpm_add_second(&update, alpha * (1 - missing / decay), r0);
    } else {
        diti_dpm_add_second(&update, alpha * missing / 2, r0);
    }
    return update;
}

/* --- the table --- */
static bool diti_step_finite(const diti_step *step) {
    return isfinite(step->timestep) && isfinite(step->input) && isfinite(step->x0_x) && isfinite(step->x0_m) &&
           isfinite(step->x_x) && isfinite(step->x_m) && isfinite(step->d0) && isfinite(step->d1) &&
           isfinite(step->d2) && isfinite(step->noise);
}

static diti_update diti_solver_update(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i) {
    switch (sampling->solver) {
    case DITI_SOLVER_EULER: return diti_euler_update(sampling, &intervals[i]);
    case DITI_SOLVER_DDIM: return diti_ddim_update(sampling, &intervals[i]);
    case DITI_SOLVER_DPM: break;
    }
    return diti_dpm_update(sampling, intervals, i);
}

static void diti_fill_step(const diti_sampling *sampling, const diti_interval *intervals, uint32_t i, diti_step *step) {
    diti_noise_level level = intervals[i].from;
    diti_mixture x0 = diti_predicted_x0(sampling->prediction, level);
    diti_update update = diti_solver_update(sampling, intervals, i);
    /* Euler with betas keeps x / alpha, so that the step is straight; the model is shown x. */
    double input = sampling->solver == DITI_SOLVER_EULER && !sampling->flow ? level.alpha : 1;
    step->timestep = (float)intervals[i].timestep;
    step->sigma = (float)level.sigma;
    step->input = (float)input;
    step->x0_x = (float)(x0.x * input);
    step->x0_m = (float)x0.m;
    step->clip = (float)sampling->clip;
    step->x_x = (float)update.x_x;
    step->x_m = (float)update.x_m;
    step->d0 = (float)update.d[0];
    step->d1 = (float)update.d[1];
    step->d2 = (float)update.d[2];
    step->noise = (float)update.noise;
}

static double diti_initial_scale(const diti_sampling *sampling, const diti_interval *intervals) {
    double highest = intervals[0].from.sigma;
    if (sampling->solver != DITI_SOLVER_EULER || sampling->flow) return 1;
    return sampling->spacing == DITI_SPACING_LEADING ? sqrt(highest * highest + 1) : highest;
}

static dit_result diti_schedule_fill(const diti_sampling *sampling, const diti_interval *intervals, diti_schedule *out,
                                     dit_error *err) {
    uint32_t i;
    for (i = 0; i < sampling->steps; i++) {
        diti_fill_step(sampling, intervals, i, &out->steps[i]);
        if (!diti_step_finite(&out->steps[i]))
            return diti_fail(
                err, DIT_ERROR_INVALID_ARGUMENT,
                "sampler %s has no finite step %u of %u on this schedule: use fewer steps or another sampler",
                sampling->sampler, i + 1, sampling->steps);
        if (out->steps[i].noise != 0) out->draws = true;
    }
    out->count = sampling->steps;
    out->initial = (float)diti_initial_scale(sampling, intervals);
    out->sampler = sampling->sampler;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_schedule_make(const diti_env *env, const diti_json *config,
                                           const diti_schedule_request *request, diti_schedule *out, dit_error *err) {
    diti_sampling sampling;
    diti_interval *intervals;
    dit_result result = diti_sampling_resolve(config, request, &sampling, err);
    memset(out, 0, sizeof *out);
    if (result < 0) return result;
    intervals = (diti_interval *)diti_alloc_array(env, sampling.steps, sizeof *intervals);
    out->steps = (diti_step *)diti_alloc_array(env, sampling.steps, sizeof *out->steps);
    if (!intervals || !out->steps)
        result = diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of memory for %u steps", sampling.steps);
    if (result == DIT_OK) result = diti_sampling_intervals(env, &sampling, intervals, err);
    if (result == DIT_OK) result = diti_schedule_fill(&sampling, intervals, out, err);
    diti_free(env, intervals);
    if (result < 0) diti_schedule_free(env, out);
    return result;
}

DIT_INTERNAL void diti_schedule_free(const diti_env *env, diti_schedule *schedule) {
    diti_free(env, schedule->steps);
    memset(schedule, 0, sizeof *schedule);
}

/* ======== src/job/job.h (edit it there; dit.h is generated) ======== */
/* job: prompt -> image. The state machine behind the public calls. */
#ifndef DITI_JOB_H
#define DITI_JOB_H

struct dit_context {
    diti_env env;
    diti_device *device;
    dit_progress progress;
    dit_worker worker;
    char *overrides;
};

struct dit_model {
    diti_env env;
    diti_device *device;       /* NULL after a dry run */
    diti_package *packages[8]; /* [0]: desc.source; then one per component that lives elsewhere */
    uint32_t package_count;
    diti_transformer *transformer;
    diti_t5 *text_encoder;
    diti_tokenizer *tokenizer;
    uint32_t pipeline_tokens;     /* text tokens that the pipeline's class stands for; 0: the transformer's */
    const char *pipeline_variant; /* static; NULL: the transformer's guess */
    uint32_t tokenizer_limit;     /* model_max_length of the tokenizer's config; 0: unknown */
    diti_vae *vae;
    diti_json *scheduler; /* parsed scheduler_config.json or NULL */
    dit_model_info info;
};

/* A prompt's embedding on the host. */
typedef struct diti_conditioning {
    float *rows;                      /* [tokens, columns] */
    uint32_t tokens, columns, length; /* length: valid tokens */
} diti_conditioning;

/* What a request comes down to: everything the shape of a plan depends on. */
typedef struct diti_job_shape {
    uint32_t width, height, image_count, steps;
    bool guided;
    bool encodes[2]; /* prompt of the unconditional / conditional branch is encoded inside the plan */
    bool stochastic; /* fresh noise in every step */
    uint32_t preview_interval;
    bool swap;         /* BGRA target */
    bool scaled_input; /* the model sees input * x */
} diti_job_shape;

typedef struct diti_job_request {
    diti_job_shape shape;
    diti_schedule schedule;
    float guidance;
    uint64_t seed;
    dit_rng rng;
    uint32_t latent_width, latent_height;
    float *noise;      /* [image_count, C, h, w], unit normal */
    float *step_noise; /* [steps, image_count, C, h, w] when stochastic */
    int32_t *ids;      /* [copies, text tokens] of the branches that are encoded in the plan */
    uint32_t lengths[2];
    diti_conditioning conditioning[2]; /* of those that are given */
} diti_job_request;

/* Where a run is: the next slice to submit. repeat counts steps. */
typedef struct diti_job_cursor {
    uint32_t segment, repeat, slice;
} diti_job_cursor;

typedef struct diti_job_flight { /* a slice that was submitted and not yet seen finished */
    uint64_t value;              /* of the plan's timeline */
    float us;                    /* predicted */
    double done_us;              /* predicted work of the run when it is finished */
    uint32_t steps_done;
    dit_stage stage;
    bool preview; /* brings a new preview */
} diti_job_flight;

typedef struct diti_job_image { /* a picture on the device, filled by a copy from the plan's buffers */
    VkImage image;
    VkImageView view;   /* of dit's own images */
    diti_buffer memory; /* of dit's own images */
    VkFormat format;
    VkImageLayout layout; /* that it is left in */
    bool owned;
} diti_job_image;

#define DITI_JOB_MAX_IMAGES 64u
#define DITI_JOB_MAX_FLIGHT 64u

struct dit_job {
    diti_env env;
    dit_context *context;
    const dit_model *model;
    diti_job_request request;
    dit_target target;
    /* the plan and what the host exchanges with it */
    diti_plan *plan;
    diti_t5_use text;
    diti_denoise denoise;
    uint32_t encode_segment, step_segment, preview_segment,
        decode_segment; /* the run: every segment in order, steps repeated */
    diti_tensor lengths, text_given[2], noise, step_noise, coefficients, input_scales, latent, x0, health, step,
        preview;
    diti_tensor rgba[DITI_JOB_MAX_IMAGES], rgb[DITI_JOB_MAX_IMAGES],
        latents[DITI_JOB_MAX_IMAGES]; /* one picture each */
    diti_buffer health_readback;      /* uint32_t[4], copied at the end */
    VkCommandPool command_pool;
    VkCommandBuffer finish, preview_copy;
    diti_job_image images[DITI_JOB_MAX_IMAGES], preview_image;
    /* the run */
    diti_job_cursor cursor;
    bool recording, begun, all_submitted; /* recording: by dit_job_record, not dit_job_step */
    double total_us, submitted_us;
    diti_job_flight flight[DITI_JOB_MAX_FLIGHT];
    uint32_t flight_first, flight_count;
    uint64_t finish_value;
    int cancel;      /* atomic */
    int status_lock; /* guards status and error */
    dit_status status;
    dit_error error;
};

/* model.c */
DIT_INTERNAL uint32_t diti_model_text_tokens(const dit_model *model);
/* conditioning.c: the blob of dit_encode_prompt */
DIT_INTERNAL dit_result diti_conditioning_from_blob(const diti_env *env, const void *blob, size_t size,
                                                    diti_conditioning *out, dit_error *err);
DIT_INTERNAL dit_result diti_conditioning_ids(const dit_model *model, const diti_env *env, const char *prompt,
                                              int32_t *ids, uint32_t tokens, uint32_t *length, dit_error *err);
/* request.c: a desc checked and resolved */
DIT_INTERNAL dit_result diti_job_request_make(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                              diti_job_request *out, dit_error *err);
DIT_INTERNAL void diti_job_request_free(const diti_env *env, diti_job_request *request);
/* pipeline.c: the whole picture as one graph, and its host inputs */
DIT_INTERNAL void diti_job_emit(dit_job *job, diti_graph *graph);
DIT_INTERNAL dit_result diti_job_write_inputs(dit_job *job, dit_error *err);
/* run.c */
DIT_INTERNAL bool diti_job_preview_due(const dit_job *job, uint32_t steps_done);
/* image.c: pictures on the device */
DIT_INTERNAL dit_result diti_job_images_create(dit_job *job, dit_error *err);
DIT_INTERNAL void diti_job_images_destroy(dit_job *job);
DIT_INTERNAL void diti_job_record_finish(const dit_job *job, VkCommandBuffer commands);
DIT_INTERNAL void diti_job_record_preview(const dit_job *job, VkCommandBuffer commands);
#endif

/* ======== src/job/context.c (edit it there; dit.h is generated) ======== */
/* Contexts: the device they work on, the proof that its rung computes right, and how fast it is. */

#define DITI_PROBE_SIZE 192u /* rows, columns and depth of the self-test's matrix product */

static float diti_probe_value(uint32_t i) { return (float)((i * 2654435761u) >> 20) / 4096.0f - 0.5f; }

/* Runs one matrix product through the graph and times it. inputs: [n, n] activations and [n, n] weights, row-major. */
static dit_result diti_probe_run(diti_device *device, const diti_weight *weight, const float *input, float *output,
                                 dit_error *err) {
    const uint32_t n = DITI_PROBE_SIZE;
    const size_t bytes = (size_t)n * n * sizeof(float);
    diti_linear_desc desc;
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor x, y;
    dit_result result;
    memset(&desc, 0, sizeof desc);
    desc.out_f32 = true;
    desc.name = "self-test";
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "self-test", false);
    x = diti_tensor_input(&graph, DITI_F32, n, n, "self-test input");
    desc.out = diti_tensor_state(&graph, DITI_F32, n, n, "self-test output");
    y = diti_linear(&graph, x, weight, &desc);
    result = diti_plan_create(&graph, NULL, &plan, err);
    diti_graph_free(&graph);
    if (result >= 0) result = diti_plan_write(plan, x, input, bytes, err);
    if (result >= 0) result = diti_plan_run(plan, 0, 1, err);
    if (result >= 0) result = diti_plan_run(plan, 0, 1, err); /* the first run may pay for compilation in the driver */
    if (result >= 0) result = diti_plan_read(plan, y, output, bytes, err);
    if (result >= 0) {
        diti_plan_learn(plan);
        if (diti_plan_last_slice_us(plan))
            device->us_per_gflop = (float)diti_plan_last_slice_us(plan) / (2e-9f * (float)n * (float)n * (float)n);
    }
    diti_plan_destroy(plan);
    return result;
}

/* Relative L2 error of what the device computed. The rungs promise 1e-5 (fp32) and 2e-2 (fp16); a broken driver misses
 * by far more. */
static bool diti_probe_agrees(const float *weight, const float *input, const float *output) {
    const uint32_t n = DITI_PROBE_SIZE;
    double error = 0, norm = 0;
    uint32_t r, c, k;
    for (r = 0; r < n; r += 5) {
        for (c = 0; c < n; c += 3) {
            double exact = 0;
            for (k = 0; k < n; k++) exact += (double)input[r * n + k] * weight[c * n + k];
            error += (exact - output[r * n + c]) * (exact - output[r * n + c]);
            norm += exact * exact;
        }
    }
    return error <= norm * 1e-4; /* also false for NaN */
}

static dit_result diti_probe_device(diti_device *device, bool *agrees, dit_error *err) {
    const uint32_t n = DITI_PROBE_SIZE;
    const size_t count = (size_t)n * n;
    float *values = (float *)diti_alloc_array(&device->env, count * 3, sizeof *values);
    diti_buffer buffer;
    diti_weight weight;
    dit_result result;
    uint32_t i;
    if (!values) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the device self-test");
    memset(&buffer, 0, sizeof buffer);
    memset(&weight, 0, sizeof weight);
    for (i = 0; i < 2 * count; i++) values[i] = diti_probe_value(i);
    result = diti_buffer_create(device, count * sizeof *values, DITI_MEMORY_DEVICE, "self-test weights", &buffer, err);
    if (result >= 0) result = diti_buffer_write(device, &buffer, 0, values + count, count * sizeof *values, err);
    weight.name = "self-test weight";
    weight.type = DIT_TYPE_F32;
    weight.rows = weight.columns = n;
    weight.kernel = 1;
    weight.part_count = 1;
    weight.parts[0].buffer = &buffer;
    weight.parts[0].rows = n;
    if (result >= 0) result = diti_probe_run(device, &weight, values, values + 2 * count, err);
    *agrees = result >= 0 && diti_probe_agrees(values + count, values, values + 2 * count);
    diti_buffer_destroy(device, &buffer);
    diti_free(&device->env, values);
    return result;
}

/* Climbs down from the device's rung until one computes right. */
static dit_result diti_context_prove(dit_context *context, dit_error *err) {
    diti_device *device = context->device;
    for (;;) {
        bool agrees = false;
        dit_result result = diti_probe_device(device, &agrees, err);
        if (result == DIT_ERROR_DEVICE_LOST || result == DIT_ERROR_OUT_OF_HOST_MEMORY ||
            result == DIT_ERROR_OUT_OF_DEVICE_MEMORY)
            return result;
        if (diti_override_is(context->overrides, "selftest_fail", diti_rung_name(device->rung))) agrees = false;
        if (agrees) break;
        if (device->rung == DITI_RUNG_BASE) {
            return result < 0
                       ? result
                       : diti_fail(err, DIT_ERROR_UNSUPPORTED_DEVICE,
                                   "device %s computes a matrix product wrong even on the base rung; update its driver",
                                   device->info.name);
        }
        diti_log(&context->env, DITI_LOG_WARNING, "device %s fails the self-test of rung %s; using rung %s",
                 device->info.name, diti_rung_name(device->rung), diti_rung_name((diti_rung)((int)device->rung - 1)));
        device->rung = (diti_rung)((int)device->rung - 1);
    }
    diti_format(device->info.rung, sizeof device->info.rung, "%s", diti_rung_name(device->rung));
    diti_log(&context->env, DITI_LOG_INFO, "device %s, rung %s, %.1f GFLOP/s in the self-test", device->info.name,
             diti_rung_name(device->rung), device->us_per_gflop > 0 ? 1e6 / (double)device->us_per_gflop : 0.0);
    return DIT_OK;
}

static dit_result diti_context_check(const dit_context_desc *desc, dit_error *err) {
    if (!desc) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_context_create: desc is NULL");
    if (desc->_zero_begin || desc->_zero_end)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_context_desc: the guard members are not zero; initialise the struct with {0}");
    if (desc->vulkan_count > 1 || (desc->vulkan_count == 1) != (desc->vulkan != NULL)) {
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "dit_context_desc: this version works with one device; vulkan_count must be 0 or 1 and match vulkan");
    }
    if (desc->transport.rank_count > 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_context_desc: this version works in one process; transport.rank_count must be 0 or 1");
    if (desc->trace)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_context_desc: this version writes no traces; trace must be false");
    return DIT_OK;
}

static dit_result diti_context_open(dit_context *context, const dit_context_desc *desc, dit_error *err) {
    dit_result result;
    context->progress = desc->progress;
    context->worker = desc->worker;
    context->overrides = diti_copy_string(&context->env, desc->overrides);
    if (desc->overrides && !context->overrides)
        return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the context");
    result = diti_device_open(desc, &context->env, &context->device, err);
    return result < 0 ? result : diti_context_prove(context, err);
}

DIT_API dit_result dit_context_create(const dit_context_desc *desc, dit_context **out, dit_error *err) {
    dit_context *context;
    diti_env env;
    dit_result result = diti_context_check(desc, err);
    if (result >= 0 && !out) result = diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_context_create: out is NULL");
    if (result < 0) return result;
    *out = NULL;
    result = diti_env_init(&env, &desc->allocator, &desc->logger, err);
    if (result < 0) return result;
    context = (dit_context *)diti_alloc_zero(&env, sizeof *context);
    if (!context) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the context");
    context->env = env;
    result = diti_context_open(context, desc, err);
    if (result < 0) {
        dit_context_destroy(context);
        return result;
    }
    *out = context;
    return DIT_OK;
}

DIT_API dit_result dit_context_save_cache(dit_context *ctx, void *blob, size_t *size, dit_error *err) {
    if (!ctx || !size)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_context_save_cache: ctx and size must be given");
    return diti_cache_save(ctx->device, blob, size, err);
}

DIT_API void dit_context_destroy(dit_context *ctx) {
    diti_env env;
    if (!ctx) return;
    env = ctx->env;
    diti_device_close(ctx->device);
    diti_free(&env, ctx->overrides);
    diti_free(&env, ctx);
}

/* ======== src/job/model.c (edit it there; dit.h is generated) ======== */
/* Models: finds every part of a pipeline in what the caller names, and loads it. */

static dit_result diti_model_open(dit_model *model, const dit_source *source, diti_package **out, dit_error *err) {
    dit_result result;
    if (model->package_count == DITI_COUNT(model->packages))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_model_desc: more than %u components",
                         (unsigned)DITI_COUNT(model->packages) - 1);
    result = diti_package_open(&model->env, source, out, err);
    if (result >= 0) model->packages[model->package_count++] = *out;
    return result;
}

static bool diti_source_given(const dit_source *source) {
    return source->path || source->data || source->read_at || source->open;
}

/* The package that holds a role: the component named for it, else the whole source. *alone tells that it is a single
 * part. */
static dit_result diti_model_package(dit_model *model, const dit_model_desc *desc, dit_role role, diti_package **out,
                                     bool *alone, dit_error *err) {
    uint32_t i;
    *out = NULL;
    *alone = false;
    for (i = 0; i < desc->component_count; i++) {
        if (desc->components[i].role != role) continue;
        *alone = true;
        return diti_model_open(model, &desc->components[i].source, out, err);
    }
    if (!diti_source_given(&desc->source)) return DIT_OK;
    if (!model->packages[0]) {
        dit_result result = diti_package_open(&model->env, &desc->source, &model->packages[0], err);
        if (result < 0) return result;
    }
    *out = model->packages[0];
    return DIT_OK;
}

/* A component's config.json (or scheduler_config.json), parsed; *out stays NULL where there is none. */
static dit_result diti_model_config(const dit_model *model, const diti_package *package, const char *folder,
                                    const char *file, bool alone, diti_json **out, dit_error *err) {
    char path[128], *text = NULL;
    size_t size = 0;
    dit_result result;
    *out = NULL;
    diti_format(path, sizeof path, "%s%s%s", alone ? "" : folder, alone ? "" : "/", file);
    result = diti_package_read(package, path, &text, &size, err);
    if (result >= 0 && text) result = diti_json_parse(&model->env, text, size, path, out, err);
    diti_free(&model->env, text);
    return result;
}

typedef struct diti_model_part { /* what a loader of one component needs */
    diti_package *package;
    const diti_checkpoint *checkpoint;
    const char *prefix;
    diti_json *config;
} diti_model_part;

static dit_result diti_model_locate(dit_model *model, const dit_model_desc *desc, dit_role role, const char *folder,
                                    diti_model_part *part, dit_error *err) {
    bool alone;
    dit_result result;
    memset(part, 0, sizeof *part);
    result = diti_model_package(model, desc, role, &part->package, &alone, err);
    if (result < 0 || !part->package) return result;
    result = diti_package_component(part->package, alone ? "" : folder, &part->checkpoint, &part->prefix, err);
    if (result < 0 || !part->checkpoint) return result;
    return diti_model_config(model, part->package, folder, "config.json", alone, &part->config, err);
}

/* What dit-convert was told that the model works best with. */
static void diti_model_read_defaults(dit_model *model, const diti_checkpoint *checkpoint) {
    const char *steps = diti_checkpoint_text(checkpoint, "dit.steps");
    const char *guidance = diti_checkpoint_text(checkpoint, "dit.guidance");
    double step_count = steps ? diti_parse_double(steps) : 0, scale = guidance ? diti_parse_double(guidance) : 0;
    if (step_count >= 1 && step_count <= 1000) model->info.default_steps = (uint32_t)step_count;
    if (scale > 0 && scale <= 1000) model->info.default_guidance = (float)scale;
}

static dit_result diti_model_load_transformer(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    diti_model_part part;
    dit_result result = diti_model_locate(model, desc, DIT_ROLE_TRANSFORMER, "transformer", &part, err);
    if (result >= 0 && part.checkpoint) {
        result = diti_transformer_load(model->device, &model->env, part.config, part.checkpoint, part.prefix,
                                       &desc->progress, &model->transformer, err);
        diti_model_read_defaults(model, part.checkpoint);
    }
    diti_json_free(&model->env, part.config);
    return result;
}

static dit_result diti_model_load_text_encoder(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    diti_model_part part;
    dit_result result = diti_model_locate(model, desc, DIT_ROLE_TEXT_1, "text_encoder", &part, err);
    if (result >= 0 && part.checkpoint) {
        result = diti_t5_load(model->device, &model->env, part.config, part.checkpoint, part.prefix, &desc->progress,
                              &model->text_encoder, err);
    }
    diti_json_free(&model->env, part.config);
    /* A llama.cpp T5 brings its vocabulary along. */
    if (result >= 0 && part.checkpoint && diti_checkpoint_text(part.checkpoint, "tokenizer.ggml.model")) {
        result = diti_tokenizer_load_gguf(&model->env, part.checkpoint, &model->tokenizer, err);
    }
    return result;
}

static dit_result diti_model_load_vae(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    diti_model_part part;
    dit_result result = diti_model_locate(model, desc, DIT_ROLE_VAE, "vae", &part, err);
    if (result >= 0 && part.checkpoint) {
        result = diti_vae_load(model->device, &model->env, part.config, part.checkpoint, part.prefix, &desc->progress,
                               &model->vae, err);
    }
    diti_json_free(&model->env, part.config);
    return result;
}

static dit_result diti_model_read_tokenizer(dit_model *model, const diti_package *package, const char *path,
                                            dit_error *err) {
    char *data = NULL;
    size_t size = 0;
    dit_result result;
    if (model->tokenizer) return DIT_OK;
    result = diti_package_read(package, path, &data, &size, err);
    if (result >= 0 && data) result = diti_tokenizer_load(&model->env, data, size, path, &model->tokenizer, err);
    diti_free(&model->env, data);
    return result;
}

static dit_result diti_model_load_tokenizer(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    diti_package *package;
    diti_json *config = NULL;
    double limit;
    bool alone;
    dit_result result = diti_model_package(model, desc, DIT_ROLE_TOKENIZER_1, &package, &alone, err);
    if (result < 0 || !package) return result;
    result = diti_model_read_tokenizer(model, package, alone ? "spiece.model" : "tokenizer/spiece.model", err);
    if (result >= 0)
        result = diti_model_read_tokenizer(model, package, alone ? "tokenizer.json" : "tokenizer/tokenizer.json", err);
    if (result >= 0)
        result = diti_model_config(model, package, "tokenizer", "tokenizer_config.json", alone, &config, err);
    limit = diti_json_number(config, "model_max_length", 0);
    if (limit >= 1 && limit <= 4096) model->tokenizer_limit = (uint32_t)limit;
    diti_json_free(&model->env, config);
    return result;
}

static dit_result diti_model_load_scheduler(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    diti_package *package;
    bool alone;
    dit_result result = diti_model_package(model, desc, DIT_ROLE_SCHEDULER, &package, &alone, err);
    if (result < 0 || !package) return result;
    return diti_model_config(model, package, "scheduler", "scheduler_config.json", alone, &model->scheduler, err);
}

/* What only the pipeline's class tells: PixArt's alpha and Sigma transformers may look alike (models.md 3.2). */
static dit_result diti_model_read_index(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    diti_package *package;
    diti_json *index = NULL;
    const char *name;
    bool alone;
    dit_result result = diti_model_package(model, desc, DIT_ROLE_NONE, &package, &alone, err);
    if (result < 0 || !package || alone) return result;
    result = diti_model_config(model, package, "", "model_index.json", true, &index, err);
    name = diti_json_string(index, "_class_name", "");
    if (diti_equal(name, "PixArtAlphaPipeline")) {
        model->pipeline_tokens = 120;
        model->pipeline_variant = "alpha";
    } else if (diti_equal(name, "PixArtSigmaPipeline")) {
        model->pipeline_tokens = 300;
        model->pipeline_variant = "sigma";
    }
    diti_json_free(&model->env, index);
    return result;
}

static void diti_model_describe_transformer(dit_model *model) {
    const diti_model_traits *traits = &model->transformer->traits;
    uint32_t factor = model->vae ? diti_vae_get_traits(model->vae)->factor : 8;
    diti_format(model->info.family, sizeof model->info.family, "%s", traits->family);
    diti_format(model->info.variant, sizeof model->info.variant, "%s",
                model->pipeline_variant ? model->pipeline_variant : traits->variant);
    model->info.default_width = model->info.default_height = traits->default_size * factor;
    model->info.size_multiple = traits->patch * factor;
    if (model->info.default_steps == 0) model->info.default_steps = traits->default_steps;
    if (model->info.default_guidance <= 0) model->info.default_guidance = traits->default_guidance;
    model->info.latent_channels = traits->latent_channels;
    model->info.parameters[DIT_ROLE_TRANSFORMER] = model->transformer->weights.parameters;
}

/* The sampler that the scheduler's file stands for; empty when that file asks for something unknown, which a job then
   reports. */
static dit_result diti_model_describe_sampler(dit_model *model, dit_error *err) {
    diti_schedule_request request = DITI_ZERO;
    diti_schedule schedule = DITI_ZERO;
    dit_error why = DITI_ZERO;
    request.steps = model->info.default_steps;
    if (diti_schedule_make(&model->env, model->scheduler, &request, &schedule, &why) < 0) {
        if (why.result == DIT_ERROR_OUT_OF_HOST_MEMORY && err) *err = why;
        return why.result == DIT_ERROR_OUT_OF_HOST_MEMORY ? why.result : DIT_OK;
    }
    diti_format(model->info.default_sampler, sizeof model->info.default_sampler, "%s", schedule.sampler);
    diti_schedule_free(&model->env, &schedule);
    return DIT_OK;
}

static dit_result diti_model_describe(dit_model *model, dit_error *err) {
    dit_model_info *info = &model->info;
    if (model->transformer)
        diti_model_describe_transformer(model);
    else
        info->missing |= 1u << DIT_ROLE_TRANSFORMER;
    if (model->text_encoder)
        info->parameters[DIT_ROLE_TEXT_1] = diti_t5_weights(model->text_encoder)->parameters;
    else
        info->missing |= 1u << DIT_ROLE_TEXT_1;
    if (model->vae)
        info->parameters[DIT_ROLE_VAE] = diti_vae_weights(model->vae)->parameters;
    else
        info->missing |= 1u << DIT_ROLE_VAE;
    if (model->vae) info->latent_factor = diti_vae_get_traits(model->vae)->factor;
    if (!model->tokenizer) info->missing |= 1u << DIT_ROLE_TOKENIZER_1;
    if (!model->scheduler) info->missing |= 1u << DIT_ROLE_SCHEDULER;
    return model->transformer ? diti_model_describe_sampler(model, err) : DIT_OK;
}

/* Parts that were trained together agree in their sizes; say which do not. */
static dit_result diti_model_check_parts(const dit_model *model, dit_error *err) {
    const diti_model_traits *traits;
    if (!model->transformer) return DIT_OK;
    traits = &model->transformer->traits;
    if (model->text_encoder && diti_t5_get_traits(model->text_encoder)->columns != traits->text_columns) {
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "the text encoder gives %u channels, the transformer wants %u; they belong to different models",
            diti_t5_get_traits(model->text_encoder)->columns, traits->text_columns);
    }
    if (model->vae && diti_vae_get_traits(model->vae)->latent_channels != traits->latent_channels) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "the VAE has %u latent channels, the transformer %u; they belong to different models",
                         diti_vae_get_traits(model->vae)->latent_channels, traits->latent_channels);
    }
    return DIT_OK;
}

static dit_result diti_model_load_parts(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    dit_result result;
    model->package_count = 1; /* [0] belongs to desc->source */
    result = diti_model_read_index(model, desc, err);
    if (result == DIT_OK) result = diti_model_load_scheduler(model, desc, err);
    if (result == DIT_OK) result = diti_model_load_tokenizer(model, desc, err);
    if (result == DIT_OK) result = diti_model_load_text_encoder(model, desc, err);
    if (result == DIT_OK) result = diti_model_load_transformer(model, desc, err);
    if (result == DIT_OK) result = diti_model_load_vae(model, desc, err);
    if (result == DIT_OK) result = diti_model_check_parts(model, err);
    if (result != DIT_OK) return result;
    if (!model->transformer && !model->text_encoder && !model->vae) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s holds no transformer, text encoder or VAE that dit knows",
                         desc->source.path ? desc->source.path : "the source");
    }
    return diti_model_describe(model, err);
}

static void diti_model_close_packages(dit_model *model) {
    uint32_t i;
    for (i = 0; i < DITI_COUNT(model->packages); i++) {
        diti_package_close(model->packages[i]);
        model->packages[i] = NULL;
    }
}

static dit_result diti_model_check_desc(dit_context *ctx, const dit_model_desc *desc, dit_error *err) {
    if (!desc) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_model_load: desc is NULL");
    if (desc->_zero_begin || desc->_zero_end)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_model_desc: the guard members are not zero; initialise the struct with {0}");
    if (!ctx && !desc->dry_run)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_model_load: ctx is NULL; only a dry run works without a context");
    if (!diti_source_given(&desc->source) && desc->component_count == 0)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_model_desc: neither source nor components name anything to load");
    if (desc->component_count && !desc->components)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_model_desc: components is NULL, component_count is %u",
                         desc->component_count);
    if (desc->type_count)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "dit_model_desc: this version keeps the stored types; convert with dit-convert and leave types empty");
    if (desc->weight_budget)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_model_desc: this version keeps all weights resident; weight_budget must be 0");
    if (desc->release_text_encoders)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "dit_model_desc: this version keeps text encoders resident; release_text_encoders must be false");
    return DIT_OK;
}

static dit_result diti_model_env(dit_context *ctx, diti_env *env, dit_error *err) {
    if (!ctx) return diti_env_init(env, NULL, NULL, err);
    *env = ctx->env;
    return DIT_OK;
}

DIT_API dit_result dit_model_load(dit_context *ctx, const dit_model_desc *desc, dit_model **out, dit_error *err) {
    dit_model *model;
    diti_env env;
    dit_result result = diti_model_check_desc(ctx, desc, err);
    if (result >= 0 && !out) result = diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_model_load: out is NULL");
    if (result < 0) return result;
    *out = NULL;
    result = diti_model_env(ctx, &env, err);
    if (result < 0) return result;
    model = (dit_model *)diti_alloc_zero(&env, sizeof *model);
    if (!model) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the model");
    model->env = env;
    model->device = ctx && !desc->dry_run ? ctx->device : NULL;
    result = diti_model_load_parts(model, desc, err);
    diti_model_close_packages(model); /* everything is on the device or copied */
    if (result != DIT_OK) {
        dit_model_destroy(model);
        return result;
    }
    *out = model;
    return DIT_OK;
}

DIT_API void dit_model_get_info(const dit_model *model, dit_model_info *out) {
    if (!out) return;
    if (model)
        *out = model->info;
    else
        memset(out, 0, sizeof *out);
}

DIT_API void dit_model_destroy(dit_model *model) {
    diti_env env;
    if (!model) return;
    env = model->env;
    diti_transformer_destroy(model->transformer);
    diti_t5_destroy(model->text_encoder);
    diti_vae_destroy(model->vae);
    diti_tokenizer_free(model->tokenizer);
    diti_json_free(&env, model->scheduler);
    diti_model_close_packages(model);
    diti_free(&env, model);
}

/* How many tokens of text the transformer is given: what its pipeline was made for, or what the tokenizer's config
   allows if that is less. */
DIT_INTERNAL uint32_t diti_model_text_tokens(const dit_model *model) {
    uint32_t tokens = model->pipeline_tokens;
    if (tokens == 0 && model->transformer) tokens = model->transformer->traits.text_tokens;
    return model->tokenizer_limit && (tokens == 0 || model->tokenizer_limit < tokens) ? model->tokenizer_limit : tokens;
}

/* ======== src/job/conditioning.c (edit it there; dit.h is generated) ======== */
/* Prompts: from text to token ids, and to embeddings that can be kept as data. */

/* --- text cleaning: the pipelines lower-case and strip the prompt (models.md 3.2) --- */

/* One UTF-8 character at text; its length, or 1 with *code = the byte itself where the encoding is broken. */
static uint32_t diti_utf8_next(const char *text, uint32_t *code) {
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t length = bytes[0] < 0x80   ? 1
                      : bytes[0] < 0xc2 ? 0
                      : bytes[0] < 0xe0 ? 2
                      : bytes[0] < 0xf0 ? 3
                      : bytes[0] < 0xf5 ? 4
                                        : 0,
             i;
    *code = bytes[0];
    if (length <= 1) return 1;
    *code = bytes[0] & (0xffu >> (length + 1));
    for (i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            *code = bytes[0];
            return 1;
        }
        *code = (*code << 6) | (bytes[i] & 0x3fu);
    }
    return length;
}

/* Lower case of the bicameral scripts whose cases lie at regular distances: Latin, Greek, Cyrillic, Armenian. Every
   pair that is mapped has the same UTF-8 length. */
static uint32_t diti_lower_case(uint32_t c) {
    if ((c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7)) return c + 32;
    if (c >= 0x391 && c <= 0x3ab && c != 0x3a2) return c + 32;
    if (c >= 0x410 && c <= 0x42f) return c + 32;
    if (c >= 0x400 && c <= 0x40f) return c + 80;
    if (c >= 0x531 && c <= 0x556) return c + 48;
    if (c == 0x178) return 0xff;
    if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e)) return c & 1 ? c + 1 : c;
    if ((c >= 0x100 && c <= 0x177 && c != 0x130 && c != 0x131 && c != 0x138) || (c >= 0x460 && c <= 0x481) ||
        (c >= 0x48a && c <= 0x4bf) || (c >= 0x4d0 && c <= 0x52f) || (c >= 0x1e00 && c <= 0x1e95) ||
        (c >= 0x1ea0 && c <= 0x1eff)) {
        return c & 1 ? c : c + 1;
    }
    return c;
}

static void diti_utf8_put(char *out, uint32_t code, uint32_t length) {
    uint32_t i;
    if (length == 1) {
        out[0] = (char)code;
        return;
    }
    for (i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80u | (code & 0x3fu));
    out[0] = (char)(((0xf00u >> length) & 0xffu) | code);
}

static bool diti_is_space(uint32_t c) {
    return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* A copy of prompt, lower-cased and without white space at its ends; freed with diti_free. */
static char *diti_prompt_clean(const diti_env *env, const char *prompt) {
    char *clean = diti_copy_string(env, prompt);
    size_t read = 0, start = 0, end = 0;
    bool any = false;
    if (!clean) return NULL;
    while (clean[read]) {
        uint32_t code, length = diti_utf8_next(clean + read, &code);
        if (!diti_is_space(code)) {
            if (!any) start = read;
            any = true;
            end = read + length;
        }
        if (length > 1 || code < 0x80) diti_utf8_put(clean + read, diti_lower_case(code), length);
        read += length;
    }
    memmove(clean, clean + start, end - start);
    clean[any ? end - start : 0] = 0;
    return clean;
}

DIT_INTERNAL dit_result diti_conditioning_ids(const dit_model *model, const diti_env *env, const char *prompt,
                                              int32_t *ids, uint32_t tokens, uint32_t *length, dit_error *err) {
    uint32_t lost = 0;
    dit_result result;
    char *clean;
    if (!model->tokenizer) {
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "the model has no tokenizer; add its spiece.model or tokenizer.json, or give prompt_embeds instead of a prompt");
    }
    clean = diti_prompt_clean(env, prompt ? prompt : "");
    if (!clean) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the prompt");
    result = diti_tokenizer_encode(model->tokenizer, clean, ids, tokens, length, &lost, err);
    if (result >= 0 && lost)
        diti_log(env, DITI_LOG_WARNING, "the prompt is %u tokens too long for the model's %u; its end is ignored", lost,
                 tokens);
    diti_free(env, clean);
    return result;
}

/* --- blobs: what dit_encode_prompt returns. Little-endian words, then float rows --- */

#define DITI_BLOB_MAGIC 0x43544944u /* "DITC" */
#define DITI_BLOB_VERSION 1u
#define DITI_BLOB_WORDS 8u /* magic, version, tokens, columns, length, hash low, hash high, 0 */

static dit_result diti_blob_size(uint32_t tokens, uint32_t columns, size_t *rows_size, dit_error *err) {
    size_t count;
    if (!diti_mul_size(tokens, columns, &count) || !diti_mul_size(count, sizeof(float), rows_size) ||
        *rows_size > SIZE_MAX - DITI_BLOB_WORDS * 4) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "conditioning of %u tokens with %u channels is too large",
                         tokens, columns);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_conditioning_from_blob(const diti_env *env, const void *blob, size_t size,
                                                    diti_conditioning *out, dit_error *err) {
    uint32_t words[DITI_BLOB_WORDS];
    const unsigned char *bytes = (const unsigned char *)blob;
    size_t rows_size = 0;
    uint64_t hash;
    memset(out, 0, sizeof *out);
    if (!blob || size < sizeof words)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "conditioning: %llu bytes are no prompt blob",
                         (unsigned long long)size);
    memcpy(words, blob, sizeof words);
    if (words[0] != DITI_BLOB_MAGIC || words[1] != DITI_BLOB_VERSION)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "conditioning: no prompt blob of this version; make it again with dit_encode_prompt");
    if (diti_blob_size(words[2], words[3], &rows_size, err) < 0) return DIT_ERROR_INVALID_ARGUMENT;
    hash = size > sizeof words ? diti_hash(bytes + sizeof words, size - sizeof words) : 0;
    if (size != sizeof words + rows_size || words[4] > words[2] || words[2] == 0 || words[3] == 0 ||
        words[5] != (uint32_t)hash || words[6] != (uint32_t)(hash >> 32)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "conditioning: the prompt blob is damaged; make it again with dit_encode_prompt");
    }
    out->rows = (float *)diti_alloc(env, rows_size);
    if (!out->rows) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for a prompt blob");
    memcpy(out->rows, bytes + sizeof words, rows_size);
    out->tokens = words[2];
    out->columns = words[3];
    out->length = words[4];
    return DIT_OK;
}

static void diti_blob_write(unsigned char *blob, size_t rows_size, uint32_t tokens, uint32_t columns, uint32_t length) {
    uint32_t words[DITI_BLOB_WORDS];
    uint64_t hash = diti_hash(blob + sizeof words, rows_size);
    words[0] = DITI_BLOB_MAGIC;
    words[1] = DITI_BLOB_VERSION;
    words[2] = tokens;
    words[3] = columns;
    words[4] = length;
    words[5] = (uint32_t)hash;
    words[6] = (uint32_t)(hash >> 32);
    words[7] = 0;
    memcpy(blob, words, sizeof words);
}

/* Runs the text encoder alone: ids -> rows [tokens, columns]. */
static dit_result diti_encode_run(dit_context *ctx, const dit_model *model, const int32_t *ids, uint32_t tokens,
                                  uint32_t length, float *rows, size_t rows_size, dit_error *err) {
    diti_graph graph;
    diti_t5_use use;
    diti_plan *plan = NULL;
    diti_tensor encoded, kept;
    diti_elementwise_desc keep;
    dit_result result;
    memset(&use, 0, sizeof use);
    memset(&keep, 0, sizeof keep);
    diti_graph_init(&graph, ctx->device);
    diti_graph_segment(&graph, "encode", false);
    use.batch = 1;
    use.tokens = tokens;
    use.ids = diti_tensor_input(&graph, DITI_U32, 1, tokens, "token ids");
    use.lengths = diti_tensor_input(&graph, DITI_U32, 1, 1, "token counts");
    encoded = diti_t5_encode(model->text_encoder, &graph, &use);
    keep.out = kept = diti_tensor_state(&graph, DITI_F32, tokens, diti_t5_get_traits(model->text_encoder)->columns,
                                        "prompt embedding");
    keep.name = "keep embedding";
    diti_elementwise(&graph, encoded, &keep);
    result = diti_plan_create(&graph, NULL, &plan, err);
    diti_graph_free(&graph);
    if (result >= 0) result = diti_plan_write(plan, use.ids, ids, tokens * sizeof *ids, err);
    if (result >= 0) result = diti_plan_write(plan, use.lengths, &length, sizeof length, err);
    if (result >= 0) result = diti_t5_write_inputs(model->text_encoder, plan, &use, err);
    if (result >= 0) result = diti_plan_run(plan, 0, 1, err);
    if (result >= 0) result = diti_plan_read(plan, kept, rows, rows_size, err);
    diti_plan_destroy(plan);
    return result;
}

static dit_result diti_encode_check(const dit_context *ctx, const dit_model *model, const size_t *size,
                                    dit_error *err) {
    if (!ctx || !model || !size)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_encode_prompt: ctx, model and size must be given");
    if (!model->text_encoder)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "dit_encode_prompt: the model has no text encoder");
    if (model->device != ctx->device)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_encode_prompt: the model was loaded %s",
                         model->device ? "with another context" : "as a dry run");
    return DIT_OK;
}

DIT_API dit_result dit_encode_prompt(dit_context *ctx, const dit_model *model, const char *prompt, void *blob,
                                     size_t *size, dit_error *err) {
    uint32_t tokens, columns, length = 0;
    size_t rows_size = 0, capacity;
    int32_t *ids;
    dit_result result = diti_encode_check(ctx, model, size, err);
    if (result < 0) return result;
    tokens = diti_model_text_tokens(model);
    if (tokens == 0) tokens = 256;
    columns = diti_t5_get_traits(model->text_encoder)->columns;
    result = diti_blob_size(tokens, columns, &rows_size, err);
    if (result < 0) return result;
    capacity = *size;
    *size = DITI_BLOB_WORDS * 4 + rows_size;
    if (!blob) return DIT_OK;
    if (capacity < *size)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_encode_prompt: the blob needs %llu bytes, %llu were given", (unsigned long long)*size,
                         (unsigned long long)capacity);
    ids = (int32_t *)diti_alloc_array(&ctx->env, tokens, sizeof *ids);
    if (!ids) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for %u token ids", tokens);
    result = diti_conditioning_ids(model, &ctx->env, prompt, ids, tokens, &length, err);
    if (result >= 0)
        result = diti_encode_run(ctx, model, ids, tokens, length,
                                 (float *)(void *)((unsigned char *)blob + DITI_BLOB_WORDS * 4), rows_size, err);
    if (result >= 0) diti_blob_write((unsigned char *)blob, rows_size, tokens, columns, length);
    diti_free(&ctx->env, ids);
    return result;
}

/* ======== src/job/request.c (edit it there; dit.h is generated) ======== */
/* Requests: a job's desc, checked against the model and resolved to numbers, before any work. */

#define DITI_MAX_SIDE 16384u
#define DITI_MAX_STEPS 1000u

static dit_result diti_request_check_desc(const dit_job_desc *desc, dit_error *err) {
    if (!desc->model) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc: model is NULL");
    if (desc->class_labels)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this model is prompted by text; class_labels must be NULL");
    if (desc->frame_count > 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this model makes still images; frame_count must be 0 or 1");
    if (desc->init_image || desc->mask || desc->reference_count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this version starts from noise; init_image, mask and references must be empty");
    if (desc->adapter_count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this version has no run-time adapters; adapter_count must be 0");
    if (desc->split || desc->cache)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "dit_job_desc: this version works on one device without caching; split and cache must be NULL");
    if (desc->clip_skip)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this model has no CLIP encoder; clip_skip must be 0");
    if (desc->input_count && !desc->inputs)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc: inputs is NULL, input_count is %u",
                         desc->input_count);
    return DIT_OK;
}

static dit_result diti_request_check_guidance(const dit_guidance *guidance, dit_error *err) {
    if (!(guidance->scale >= 0 && guidance->scale <= 1000))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "guidance.scale is %g; it must be 0 (model default) to 1000",
                         (double)guidance->scale);
    if (guidance->distilled != 0 || guidance->rescale != 0 || guidance->skip_layer != 0 || guidance->first != 0 ||
        (guidance->last != 0 && guidance->last != 1)) {
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "dit_guidance: this model is guided by scale alone; distilled, rescale, skip_layer, first and last must be 0");
    }
    return DIT_OK;
}

static dit_result diti_request_parts(const dit_model *model, dit_error *err) {
    if (!model->transformer)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "the model has no transformer; load a whole pipeline or add the component");
    if (!model->vae || !diti_vae_get_traits(model->vae)->has_decoder)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "the model has no VAE decoder; add the component");
    return DIT_OK;
}

/* The nearest multiple of unit to side, at least unit and at most the limit. */
static uint32_t diti_nearest_multiple(uint32_t side, uint32_t unit) {
    uint32_t most = DITI_MAX_SIDE / unit * unit, below = side / unit * unit, nearest;
    if (side >= most) return most;
    nearest = side - below < unit - (side - below) ? below : below + unit;
    return nearest ? nearest : unit;
}

static dit_result diti_request_side(const char *name, uint32_t given, uint32_t standard, uint32_t unit, uint32_t *out,
                                    dit_error *err) {
    *out = given ? given : standard;
    if (*out % unit == 0 && *out <= DITI_MAX_SIDE) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "%s %u is not possible with this model: it must be a multiple of %u up to %u; the nearest is %u",
                     name, given, unit, DITI_MAX_SIDE / unit * unit, diti_nearest_multiple(given, unit));
}

static dit_result diti_request_size(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                    dit_error *err) {
    const dit_model_info *info = &model->info;
    uint32_t factor = diti_vae_get_traits(model->vae)->factor;
    dit_result result =
        diti_request_side("width", desc->width, info->default_width, info->size_multiple, &out->shape.width, err);
    if (result >= 0)
        result = diti_request_side("height", desc->height, info->default_height, info->size_multiple,
                                   &out->shape.height, err);
    if (result < 0) return result;
    out->latent_width = out->shape.width / factor;
    out->latent_height = out->shape.height / factor;
    out->shape.steps = desc->steps ? desc->steps : info->default_steps;
    out->shape.image_count = desc->image_count ? desc->image_count : 1;
    if (out->shape.steps > DITI_MAX_STEPS)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "steps is %u; at most %u are possible", out->shape.steps,
                         DITI_MAX_STEPS);
    if (out->shape.image_count > DITI_JOB_MAX_IMAGES) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "image_count is %u; one job makes at most %u, run more jobs for more", out->shape.image_count,
                         DITI_JOB_MAX_IMAGES);
    }
    return DIT_OK;
}

static dit_result diti_request_target(const dit_target *target, diti_job_request *out, dit_error *err) {
    switch (target->format) {
    case VK_FORMAT_UNDEFINED:
    case VK_FORMAT_R8G8B8A8_UNORM:
    case VK_FORMAT_R8G8B8A8_SRGB: break;
    case VK_FORMAT_B8G8R8A8_UNORM:
    case VK_FORMAT_B8G8R8A8_SRGB: out->shape.swap = true; break;
    default:
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "target.format %d is not possible; use an 8-bit RGBA or BGRA format", (int)target->format);
    }
    if (target->image && target->format == VK_FORMAT_UNDEFINED)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "target.image is given without its format");
    if (target->image && out->shape.image_count > 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "target.image takes one picture; image_count must be 1");
    return DIT_OK;
}

/* --- inputs by name --- */

static const dit_tensor *diti_request_input(const dit_job_desc *desc, const char *name) {
    uint32_t i;
    for (i = 0; i < desc->input_count; i++) {
        if (diti_equal(desc->inputs[i].name, name)) return &desc->inputs[i];
    }
    return NULL;
}

static dit_result diti_request_check_inputs(const dit_job_desc *desc, dit_error *err) {
    static const char *const known[] = {"noise", "prompt_embeds", "prompt_attention_mask", "negative_prompt_embeds",
                                        "negative_prompt_attention_mask"};
    uint32_t i, k;
    for (i = 0; i < desc->input_count; i++) {
        const dit_tensor *input = &desc->inputs[i];
        for (k = 0; k < DITI_COUNT(known) && !diti_equal(input->name, known[k]); k++) {
        }
        if (k == DITI_COUNT(known)) {
            return diti_fail(
                err, DIT_ERROR_INVALID_ARGUMENT,
                "input \"%s\" is unknown; there are noise, prompt_embeds, prompt_attention_mask, negative_prompt_embeds, negative_prompt_attention_mask",
                input->name ? input->name : "(NULL)");
        }
        if (!input->data || input->rank > 5)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s has no data or more than 5 dimensions",
                             input->name);
    }
    return DIT_OK;
}

/* The input's values as float, count of them expected; *out freed with diti_free. */
static dit_result diti_request_floats(const diti_env *env, const dit_tensor *input, size_t count, float **out,
                                      dit_error *err) {
    dit_type type = input->type == DIT_TYPE_STORED ? DIT_TYPE_F32 : input->type;
    uint64_t have = 1, bytes;
    uint32_t d;
    for (d = 0; d < input->rank; d++) {
        if (!diti_mul_u64(have, input->shape[d], &have))
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s has an impossible shape", input->name);
    }
    if (have != count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s has %llu values, %llu are needed", input->name,
                         (unsigned long long)have, (unsigned long long)count);
    if ((type != DIT_TYPE_F32 && type != DIT_TYPE_F16 && type != DIT_TYPE_BF16) ||
        !diti_type_bytes(type, 1, have, &bytes)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s must be F32, F16 or BF16", input->name);
    }
    *out = (float *)diti_alloc_array(env, count, sizeof(float));
    if (!*out) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for input %s", input->name);
    diti_type_to_float(type, input->data, have, *out);
    return DIT_OK;
}

static dit_result diti_request_check_finite(const char *name, const float *values, size_t count, dit_error *err) {
    size_t i;
    for (i = 0; i < count; i++) {
        if (!(values[i] - values[i] == 0))
            return diti_fail(err, DIT_ERROR_NOT_FINITE, "input %s holds a value that is not finite, at position %llu",
                             name, (unsigned long long)i);
    }
    return DIT_OK;
}

static double diti_mask_value(const dit_tensor *mask, uint64_t i) {
    switch (mask->type) {
    case DIT_TYPE_I32: return ((const int32_t *)mask->data)[i];
    case DIT_TYPE_I64: return (double)((const int64_t *)mask->data)[i];
    case DIT_TYPE_F32: return (double)((const float *)mask->data)[i];
    default: return -1;
    }
}

/* A mask of ones, then zeros: its number of ones. */
static dit_result diti_request_mask_length(const dit_tensor *mask, uint32_t tokens, uint32_t *length, dit_error *err) {
    uint64_t count = 1, i;
    uint32_t d;
    for (d = 0; d < mask->rank; d++) count *= mask->shape[d] <= tokens ? mask->shape[d] : (uint64_t)tokens + 1;
    if (count != tokens)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "input %s must have %u values, one per token of the embedding", mask->name, tokens);
    *length = 0;
    for (i = 0; i < tokens; i++) {
        double value = diti_mask_value(mask, i);
        if (value != 0 && value != 1)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s must hold ones and zeros as I32, I64 or F32",
                             mask->name);
        if (value == 1 && *length != i)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s must be ones followed by zeros", mask->name);
        *length += value == 1;
    }
    return DIT_OK;
}

/* prompt_embeds [1, tokens, columns] with its mask. */
static dit_result diti_request_embeds(const diti_env *env, const dit_tensor *embeds, const dit_tensor *mask,
                                      diti_conditioning *out, dit_error *err) {
    uint64_t tokens = embeds->rank >= 2 ? embeds->shape[embeds->rank - 2] : 0,
             columns = embeds->rank >= 2 ? embeds->shape[embeds->rank - 1] : 0;
    dit_result result;
    if (tokens == 0 || tokens > 65536 || columns == 0 || columns > 65536)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s must have the shape [1, tokens, channels]",
                         embeds->name);
    out->tokens = out->length = (uint32_t)tokens;
    out->columns = (uint32_t)columns;
    result = diti_request_floats(env, embeds, (size_t)(tokens * columns), &out->rows, err);
    if (result >= 0) result = diti_request_check_finite(embeds->name, out->rows, (size_t)(tokens * columns), err);
    if (result >= 0 && mask) result = diti_request_mask_length(mask, out->tokens, &out->length, err);
    return result;
}

/* The model works on a fixed number of token rows: shorter embeddings are padded with masked rows, longer ones must be
 * masked there. */
static dit_result diti_request_fit_tokens(const diti_env *env, const dit_model *model, diti_conditioning *text,
                                          dit_error *err) {
    uint32_t tokens = diti_model_text_tokens(model), columns = model->transformer->traits.text_columns;
    float *rows;
    if (text->columns != columns)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "the prompt embedding has %u channels, the model wants %u",
                         text->columns, columns);
    if (text->length > tokens)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "the prompt embedding has %u tokens, the model takes at most %u", text->length, tokens);
    if (text->tokens == tokens) return DIT_OK;
    rows = (float *)diti_alloc_array(env, (size_t)tokens * columns, sizeof *rows);
    if (!rows) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the prompt embedding");
    memcpy(rows, text->rows, (size_t)(text->tokens < tokens ? text->tokens : tokens) * columns * sizeof *rows);
    diti_free(env, text->rows);
    text->rows = rows;
    text->tokens = tokens;
    return DIT_OK;
}

static dit_result diti_request_branch(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                      uint32_t branch, bool conditional, diti_job_request *out, dit_error *err) {
    const dit_tensor *embeds = diti_request_input(desc, conditional ? "prompt_embeds" : "negative_prompt_embeds");
    const dit_tensor *mask =
        diti_request_input(desc, conditional ? "prompt_attention_mask" : "negative_prompt_attention_mask");
    const void *blob = conditional ? desc->conditioning : desc->negative_conditioning;
    diti_conditioning *text = &out->conditioning[branch];
    uint32_t tokens = diti_model_text_tokens(model);
    dit_result result;
    if (embeds || blob) {
        result = embeds ? diti_request_embeds(env, embeds, mask, text, err)
                        : diti_conditioning_from_blob(
                              env, blob, conditional ? desc->conditioning_size : desc->negative_conditioning_size, text,
                              err);
        if (result >= 0) result = diti_request_fit_tokens(env, model, text, err);
        out->lengths[branch] = text->length;
        return result;
    }
    if (!model->text_encoder)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "the model has no text encoder; add the component or give %sprompt_embeds",
                         conditional ? "" : "negative_");
    out->shape.encodes[branch] = true;
    return diti_conditioning_ids(model, env, conditional ? desc->prompt : desc->negative_prompt,
                                 out->ids + (size_t)branch * tokens, tokens, &out->lengths[branch], err);
}

static dit_result diti_request_text(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                    diti_job_request *out, dit_error *err) {
    uint32_t copies = out->shape.guided ? 2u : 1u, branch;
    dit_result result = DIT_OK;
    out->ids = (int32_t *)diti_alloc_array(env, (size_t)diti_model_text_tokens(model) * 2, sizeof *out->ids);
    if (!out->ids) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for token ids");
    for (branch = 0; branch < copies && result >= 0; branch++)
        result = diti_request_branch(model, env, desc, branch, branch + 1 == copies, out, err);
    return result;
}

/* --- noise --- */

static void diti_request_draw(const diti_job_request *request, uint64_t seed, uint32_t draws, float *out,
                              size_t count) {
    diti_random random;
    uint32_t d;
    /* out: [draws][count], the draws of one generator in order */
    if (request->rng == DIT_RNG_PHILOX) {
        for (d = 0; d < draws; d++) diti_philox_normal(seed, d, out + d * count, count);
        return;
    }
    diti_random_seed(&random, seed);
    for (d = 0; d < draws; d++) diti_random_normal(&random, out + d * count, count);
}

static dit_result diti_request_noise(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                     diti_job_request *out, dit_error *err) {
    size_t per_image = (size_t)model->transformer->traits.latent_channels * out->latent_width * out->latent_height,
           all = per_image * out->shape.image_count;
    uint32_t draws = out->shape.stochastic ? out->shape.steps + 1 : 1, image, d;
    const dit_tensor *given = diti_request_input(desc, "noise");
    float *drawn = (float *)diti_alloc_array(env, per_image * draws, sizeof *drawn);
    dit_result result = DIT_OK;
    out->noise = (float *)diti_alloc_array(env, all, sizeof *out->noise);
    if (out->shape.stochastic)
        out->step_noise = (float *)diti_alloc_array(env, all * out->shape.steps, sizeof *out->step_noise);
    if (!drawn || !out->noise || (out->shape.stochastic && !out->step_noise))
        result = diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the noise");
    for (image = 0; image < out->shape.image_count && result >= 0; image++) {
        diti_request_draw(out, out->seed + image, draws, drawn, per_image);
        memcpy(out->noise + image * per_image, drawn, per_image * sizeof *drawn);
        for (d = 1; d < draws; d++)
            memcpy(out->step_noise + (size_t)(d - 1) * all + image * per_image, drawn + d * per_image,
                   per_image * sizeof *drawn);
    }
    diti_free(env, drawn);
    if (result >= 0 && given) {
        diti_free(env, out->noise);
        out->noise = NULL;
        result = diti_request_floats(env, given, all, &out->noise, err);
        if (result >= 0) result = diti_request_check_finite("noise", out->noise, all, err);
    }
    return result;
}

/* --- schedule --- */

static dit_result diti_request_schedule(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                        diti_job_request *out, dit_error *err) {
    diti_schedule_request wanted;
    uint32_t patch = model->transformer->traits.patch, i;
    dit_result result;
    memset(&wanted, 0, sizeof wanted);
    wanted.steps = out->shape.steps;
    wanted.sampler = desc->sampler;
    wanted.schedule = desc->schedule;
    wanted.shift = desc->shift;
    wanted.eta = desc->eta;
    wanted.image_tokens = (out->latent_width / patch) * (out->latent_height / patch);
    result = diti_schedule_make(env, model->scheduler, &wanted, &out->schedule, err);
    if (result < 0) return result;
    out->shape.steps = out->schedule.count;
    out->shape.stochastic = out->schedule.draws;
    for (i = 0; i < out->schedule.count; i++) {
        if (out->schedule.steps[i].input != 1) out->shape.scaled_input = true;
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_job_request_make(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                              diti_job_request *out, dit_error *err) {
    dit_result result;
    memset(out, 0, sizeof *out);
    result = diti_request_check_desc(desc, err);
    if (result >= 0) result = diti_request_check_guidance(&desc->guidance, err);
    if (result >= 0) result = diti_request_check_inputs(desc, err);
    if (result >= 0) result = diti_request_parts(model, err);
    if (result >= 0) result = diti_request_size(model, desc, out, err);
    if (result >= 0) result = diti_request_target(&desc->target, out, err);
    if (result < 0) return result;
    out->guidance = desc->guidance.scale != 0 ? desc->guidance.scale : model->info.default_guidance;
    out->shape.guided = out->guidance != 1.0f;
    out->shape.preview_interval = desc->preview_interval;
    out->seed = desc->seed;
    out->rng = desc->rng;
    if ((int)desc->rng < DIT_RNG_DEFAULT || (int)desc->rng > DIT_RNG_PHILOX)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "rng %d is unknown", (int)desc->rng);
    result = diti_request_schedule(model, env, desc, out, err);
    if (result >= 0) result = diti_request_text(model, env, desc, out, err);
    if (result >= 0) result = diti_request_noise(model, env, desc, out, err);
    if (result < 0) diti_job_request_free(env, out);
    return result;
}

DIT_INTERNAL void diti_job_request_free(const diti_env *env, diti_job_request *request) {
    diti_schedule_free(env, &request->schedule);
    diti_free(env, request->noise);
    diti_free(env, request->step_noise);
    diti_free(env, request->ids);
    diti_free(env, request->conditioning[0].rows);
    diti_free(env, request->conditioning[1].rows);
    memset(request, 0, sizeof *request);
}

/* ======== src/job/pipeline.c (edit it there; dit.h is generated) ======== */
/* The whole picture as one graph: encode, prepare, step (replayed), preview (between steps), decode. */

#define DITI_COEFFICIENTS 12u /* columns of the solver's table; see diti_solver_step */

static diti_tensor diti_emit_copy(diti_graph *graph, diti_tensor from, diti_tensor to, const char *name) {
    diti_elementwise_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.out = to;
    desc.name = name;
    return diti_elementwise(graph, from, &desc);
}

static uint32_t diti_emit_copies(const dit_job *job) { return job->request.shape.guided ? 2u : 1u; }

static uint32_t diti_emit_encoded(const dit_job *job) {
    return (job->request.shape.encodes[0] ? 1u : 0u) + (job->request.shape.encodes[1] ? 1u : 0u);
}

/* Text rows of both branches, [copies * tokens, columns]: from the encoder, from the caller, or one each. */
static diti_tensor diti_emit_text(dit_job *job, diti_graph *graph) {
    const diti_job_shape *shape = &job->request.shape;
    uint32_t copies = diti_emit_copies(job), tokens = diti_model_text_tokens(job->model),
             columns = job->model->transformer->traits.text_columns;
    uint32_t encoded_count = diti_emit_encoded(job), branch, next = 0;
    diti_tensor encoded = 0, text;
    if (encoded_count) {
        job->text.batch = encoded_count;
        job->text.tokens = tokens;
        job->text.ids = diti_tensor_input(graph, DITI_U32, 1, encoded_count * tokens, "token ids");
        job->text.lengths = diti_tensor_input(graph, DITI_U32, 1, encoded_count, "encoded token counts");
        encoded = diti_t5_encode(job->model->text_encoder, graph, &job->text);
    }
    if (encoded_count == copies) return encoded;
    text = diti_tensor_new(graph, DITI_F32, copies * tokens, columns, "text");
    for (branch = 0; branch < copies; branch++) {
        diti_tensor from, to = diti_tensor_view(graph, text, branch * tokens, tokens, 0, columns);
        if (shape->encodes[branch]) {
            from = diti_tensor_view(graph, encoded, next++ * tokens, tokens, 0, columns);
        } else {
            from = job->text_given[branch] =
                diti_tensor_input(graph, DITI_F32, tokens, columns, "given prompt embedding");
        }
        diti_emit_copy(graph, from, to, "gather text");
    }
    return text;
}

static void diti_emit_prepare(dit_job *job, diti_graph *graph, diti_tensor text) {
    const diti_family *family = job->model->transformer->family;
    const diti_job_request *request = &job->request;
    uint32_t planes = request->shape.image_count * job->model->transformer->traits.latent_channels,
             pixels = request->latent_width * request->latent_height;
    diti_denoise *denoise = &job->denoise;
    job->latent = diti_tensor_state(graph, DITI_F32, planes, pixels, "latent");
    job->noise = diti_tensor_input(graph, DITI_F32, planes, pixels, "noise");
    job->health = diti_tensor_state(graph, DITI_U32, 1, 4, "health");
    job->step = diti_tensor_state(graph, DITI_U32, 1, 1, "step");
    job->lengths = diti_tensor_input(graph, DITI_U32, 1, diti_emit_copies(job), "token counts");
    diti_emit_copy(graph, job->noise, job->latent, "start from noise");
    denoise->batch = request->shape.image_count;
    denoise->copies = diti_emit_copies(job);
    denoise->width = request->latent_width;
    denoise->height = request->latent_height;
    denoise->steps = request->shape.steps;
    denoise->text_batch = denoise->copies;
    denoise->text_tokens = diti_model_text_tokens(job->model);
    denoise->resolution[0] = (float)request->shape.height;
    denoise->resolution[1] = (float)request->shape.width;
    denoise->aspect = (float)request->shape.height / (float)request->shape.width;
    denoise->latent = job->latent;
    denoise->text = text;
    denoise->text_lengths = job->lengths;
    denoise->step = job->step;
    family->prepare(job->model->transformer, graph, denoise);
}

static void diti_emit_step(dit_job *job, diti_graph *graph) {
    const diti_job_shape *shape = &job->request.shape;
    uint32_t planes = diti_tensor_get(graph, job->latent)->rows, pixels = diti_tensor_get(graph, job->latent)->columns;
    diti_solver_desc solver;
    diti_tensor prediction;
    memset(&solver, 0, sizeof solver);
    if (shape->scaled_input) {
        job->input_scales = diti_tensor_input(graph, DITI_F32, shape->steps, 1, "input scales");
        job->denoise.input_scale = diti_select_row(graph, job->input_scales, job->step, "select input scale");
    }
    prediction = job->model->transformer->family->step(job->model->transformer, graph, &job->denoise);
    if (shape->stochastic) {
        job->step_noise = diti_tensor_input(graph, DITI_F32, shape->steps, planes * pixels, "step noise");
        solver.noise = diti_tensor_reshape(graph, diti_select_row(graph, job->step_noise, job->step, "select noise"),
                                           planes, pixels);
    }
    job->coefficients = diti_tensor_input(graph, DITI_F32, shape->steps, DITI_COEFFICIENTS, "solver coefficients");
    solver.coefficients = diti_select_row(graph, job->coefficients, job->step, "select coefficients");
    solver.x = job->latent;
    solver.h1 = diti_tensor_state(graph, DITI_F32, planes, pixels, "x0 one step before");
    solver.h2 = diti_tensor_state(graph, DITI_F32, planes, pixels, "x0 two steps before");
    if (shape->preview_interval) solver.x0 = job->x0 = diti_tensor_state(graph, DITI_F32, planes, pixels, "x0");
    solver.health = job->health;
    solver.guided = shape->guided;
    diti_solver_step(graph, prediction, &solver);
    diti_advance_step(graph, job->step);
}

static diti_tensor diti_emit_planes(const dit_job *job, diti_graph *graph, diti_tensor latents, uint32_t image) {
    uint32_t channels = job->model->transformer->traits.latent_channels;
    return diti_tensor_view(graph, latents, image * channels, channels, 0,
                            job->request.latent_width * job->request.latent_height);
}

/* Decodes one latent into RGBA words and, when rgb is not 0, planes of floats. */
static void diti_emit_decode(const dit_job *job, diti_graph *graph, diti_tensor latent, diti_tensor rgba,
                             diti_tensor rgb, diti_tensor health) {
    diti_tensor rows =
        diti_vae_decode(job->model->vae, graph, latent, job->request.latent_height, job->request.latent_width);
    diti_image_out(graph, rows, rgba, rgb, job->request.shape.swap, health);
}

DIT_INTERNAL void diti_job_emit(dit_job *job, diti_graph *graph) {
    const diti_job_shape *shape = &job->request.shape;
    uint32_t pixels = shape->width * shape->height, image;
    diti_tensor text, rgba, rgb;
    job->encode_segment = diti_graph_segment(graph, "encode", false);
    text = diti_emit_text(job, graph);
    diti_graph_segment(graph, "prepare", false);
    diti_emit_prepare(job, graph, text);
    job->step_segment = diti_graph_segment(graph, "step", true);
    diti_emit_step(job, graph);
    job->preview_segment = UINT32_MAX;
    if (shape->preview_interval) {
        job->preview_segment = diti_graph_segment(graph, "preview", true);
        job->preview = diti_tensor_state(graph, DITI_U32, 1, pixels, "preview");
        diti_emit_decode(job, graph, diti_emit_planes(job, graph, job->x0, 0), job->preview, 0, 0);
    }
    job->decode_segment = diti_graph_segment(graph, "decode", false);
    rgba = diti_tensor_state(graph, DITI_U32, shape->image_count, pixels, "pictures");
    rgb = diti_tensor_state(graph, DITI_F32, 3 * shape->image_count, pixels, "float pictures");
    for (image = 0; image < shape->image_count; image++) {
        job->rgba[image] = diti_tensor_view(graph, rgba, image, 1, 0, pixels);
        job->rgb[image] = diti_tensor_view(graph, rgb, 3 * image, 3, 0, pixels);
        job->latents[image] = diti_emit_planes(job, graph, job->latent, image);
        diti_emit_decode(job, graph, job->latents[image], job->rgba[image], job->rgb[image], job->health);
    }
}

/* --- host inputs --- */

static dit_result diti_inputs_text(dit_job *job, dit_error *err) {
    const diti_job_request *request = &job->request;
    uint32_t tokens = diti_model_text_tokens(job->model), copies = diti_emit_copies(job),
             encoded = diti_emit_encoded(job), branch;
    const uint32_t first = request->shape.encodes[0] ? 0u : 1u; /* encoded branches are neighbours in ids and lengths */
    dit_result result = diti_plan_write(job->plan, job->lengths, request->lengths, copies * sizeof(uint32_t), err);
    for (branch = 0; branch < copies && result >= 0; branch++) {
        const diti_conditioning *text = &request->conditioning[branch];
        if (!request->shape.encodes[branch])
            result = diti_plan_write(job->plan, job->text_given[branch], text->rows,
                                     (size_t)text->tokens * text->columns * sizeof(float), err);
    }
    if (result < 0 || !encoded) return result;
    result = diti_plan_write(job->plan, job->text.ids, request->ids + (size_t)first * tokens,
                             (size_t)encoded * tokens * sizeof(int32_t), err);
    if (result >= 0)
        result =
            diti_plan_write(job->plan, job->text.lengths, request->lengths + first, encoded * sizeof(uint32_t), err);
    if (result >= 0) result = diti_t5_write_inputs(job->model->text_encoder, job->plan, &job->text, err);
    return result;
}

static void diti_inputs_coefficients(const diti_job_request *request, float *table) {
    uint32_t i;
    for (i = 0; i < request->schedule.count; i++, table += DITI_COEFFICIENTS) {
        const diti_step *step = &request->schedule.steps[i];
        table[0] = step->x0_x;
        table[1] = step->x0_m;
        table[2] = step->clip;
        table[3] = step->x_x;
        table[4] = step->x_m;
        table[5] = step->d0;
        table[6] = step->d1;
        table[7] = step->d2;
        table[8] = step->noise;
        table[9] = request->guidance;
        table[10] = (float)(i + 1); /* what health says when this step goes wrong */
        table[11] = 0;
    }
}

/* Timesteps, solver coefficients and input scales of all steps. */
static dit_result diti_inputs_schedule(dit_job *job, dit_error *err) {
    const diti_job_request *request = &job->request;
    uint32_t count = request->schedule.count, i;
    float *values = (float *)diti_alloc_array(&job->env, (size_t)count * (DITI_COEFFICIENTS + 2), sizeof *values);
    float *timesteps = values, *scales = values + count, *table = values + 2 * (size_t)count;
    dit_result result;
    if (!values) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the schedule");
    for (i = 0; i < count; i++) {
        timesteps[i] = request->schedule.steps[i].timestep;
        scales[i] = request->schedule.steps[i].input;
    }
    diti_inputs_coefficients(request, table);
    result = job->model->transformer->family->write_inputs(job->model->transformer, job->plan, &job->denoise, timesteps,
                                                           err);
    if (result >= 0)
        result = diti_plan_write(job->plan, job->coefficients, table, (size_t)count * DITI_COEFFICIENTS * sizeof *table,
                                 err);
    if (result >= 0 && job->input_scales)
        result = diti_plan_write(job->plan, job->input_scales, scales, count * sizeof *scales, err);
    diti_free(&job->env, values);
    return result;
}

static dit_result diti_inputs_noise(dit_job *job, dit_error *err) {
    diti_job_request *request = &job->request;
    size_t count = (size_t)request->shape.image_count * job->model->transformer->traits.latent_channels *
                   request->latent_width * request->latent_height,
           i;
    dit_result result;
    for (i = 0; i < count; i++)
        request->noise[i] *= request->schedule.initial; /* consumed here: the request's noise is not used again */
    result = diti_plan_write(job->plan, job->noise, request->noise, count * sizeof(float), err);
    if (result >= 0 && job->step_noise)
        result = diti_plan_write(job->plan, job->step_noise, request->step_noise,
                                 count * request->shape.steps * sizeof(float), err);
    return result;
}

DIT_INTERNAL dit_result diti_job_write_inputs(dit_job *job, dit_error *err) {
    dit_result result = diti_inputs_text(job, err);
    if (result >= 0) result = diti_inputs_schedule(job, err);
    if (result >= 0) result = diti_inputs_noise(job, err);
    return result;
}

/* ======== src/job/image.c (edit it there; dit.h is generated) ======== */
/* Pictures on the device: made by a copy from the plan's buffers, left in the layout that the caller wants. */

static dit_result diti_image_bind(dit_job *job, diti_job_image *image, dit_error *err) {
    diti_device *device = job->context->device;
    VkMemoryRequirements need;
    dit_result result;
    VkResult vk;
    device->vk.GetImageMemoryRequirements(device->device, image->image, &need);
    result = diti_block_create(device, &need, DITI_MEMORY_DEVICE, "output image", &image->memory, err);
    if (result < 0) return result;
    vk = device->vk.BindImageMemory(device->device, image->image, image->memory.block.memory,
                                    image->memory.block.offset);
    return vk == VK_SUCCESS
               ? DIT_OK
               : diti_fail_vk(err, vk, "vkBindImageMemory failed for an output image (%s)", diti_vk_name(vk));
}

static dit_result diti_image_view(const dit_job *job, diti_job_image *image, dit_error *err) {
    const diti_device *device = job->context->device;
    VkImageViewCreateInfo info;
    VkResult vk;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO;
    info.image = image->image;
    info.viewType = VK_IMAGE_VIEW_TYPE_2D;
    info.format = image->format;
    info.subresourceRange.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    info.subresourceRange.levelCount = 1;
    info.subresourceRange.layerCount = 1;
    vk = device->vk.CreateImageView(device->device, &info, device->callbacks, &image->view);
    return vk == VK_SUCCESS
               ? DIT_OK
               : diti_fail_vk(err, vk, "vkCreateImageView failed for an output image (%s)", diti_vk_name(vk));
}

static dit_result diti_image_create(dit_job *job, diti_job_image *image, dit_error *err) {
    const diti_device *device = job->context->device;
    VkImageCreateInfo info;
    dit_result result;
    VkResult vk;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = image->format;
    info.extent.width = job->request.shape.width;
    info.extent.height = job->request.shape.height;
    info.extent.depth = info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.tiling = VK_IMAGE_TILING_OPTIMAL;
    info.usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_SAMPLED_BIT;
    vk = device->vk.CreateImage(device->device, &info, device->callbacks, &image->image);
    if (vk != VK_SUCCESS)
        return diti_fail_vk(err, vk, "vkCreateImage failed for %u x %u pixels (%s)", info.extent.width,
                            info.extent.height, diti_vk_name(vk));
    image->owned = true;
    result = diti_image_bind(job, image, err);
    return result < 0 ? result : diti_image_view(job, image, err);
}

static dit_result diti_image_prepare(dit_job *job, diti_job_image *image, VkImage given, dit_error *err) {
    image->format = job->target.format ? job->target.format : VK_FORMAT_R8G8B8A8_UNORM;
    image->layout = job->target.final_layout ? job->target.final_layout : VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL;
    image->image = given;
    return given ? DIT_OK : diti_image_create(job, image, err);
}

DIT_INTERNAL dit_result diti_job_images_create(dit_job *job, dit_error *err) {
    dit_result result = diti_buffer_create(job->context->device, 4 * sizeof(uint32_t), DITI_MEMORY_READBACK, "health",
                                           &job->health_readback, err);
    uint32_t i;
    for (i = 0; i < job->request.shape.image_count && result >= 0; i++)
        result = diti_image_prepare(job, &job->images[i], i == 0 ? job->target.image : VK_NULL_HANDLE, err);
    if (result >= 0 && job->request.shape.preview_interval)
        result = diti_image_prepare(job, &job->preview_image, VK_NULL_HANDLE, err);
    return result;
}

static void diti_image_destroy(dit_job *job, diti_job_image *image) {
    diti_device *device = job->context->device;
    if (!image->owned) return;
    if (image->view) device->vk.DestroyImageView(device->device, image->view, device->callbacks);
    device->vk.DestroyImage(device->device, image->image, device->callbacks);
    diti_block_destroy(device, &image->memory);
    memset(image, 0, sizeof *image);
}

DIT_INTERNAL void diti_job_images_destroy(dit_job *job) {
    uint32_t i;
    for (i = 0; i < DITI_JOB_MAX_IMAGES; i++) diti_image_destroy(job, &job->images[i]);
    diti_image_destroy(job, &job->preview_image);
    diti_buffer_destroy(job->context->device, &job->health_readback);
}

/* --- commands --- */

static VkImageMemoryBarrier diti_image_barrier(const diti_job_image *image) {
    VkImageMemoryBarrier barrier;
    memset(&barrier, 0, sizeof barrier);
    barrier.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = image->image;
    barrier.subresourceRange.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    barrier.subresourceRange.levelCount = 1;
    barrier.subresourceRange.layerCount = 1;
    return barrier;
}

/* Also waits for the dispatches that wrote the buffer, and for whoever read the image's old content. */
static void diti_image_begin_copy(const dit_job *job, VkCommandBuffer commands, const diti_job_image *image) {
    VkImageMemoryBarrier to_copy = diti_image_barrier(image);
    VkMemoryBarrier written;
    memset(&written, 0, sizeof written);
    written.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    written.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    written.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT;
    to_copy.dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    to_copy.oldLayout = VK_IMAGE_LAYOUT_UNDEFINED;
    to_copy.newLayout = VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL;
    job->context->device->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                                                VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &written, 0, NULL, 1, &to_copy);
}

/* Hands the image over: layout, visibility and, for an image of the application's, the queue family. */
static void diti_image_end_copy(const dit_job *job, VkCommandBuffer commands, const diti_job_image *image) {
    VkImageMemoryBarrier to_user = diti_image_barrier(image);
    const dit_target *target = &job->target;
    uint32_t own = job->context->device->queue_family;
    VkPipelineStageFlags stage =
        target->dst_stage ? target->dst_stage : (VkPipelineStageFlags)VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    to_user.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    to_user.dstAccessMask = target->dst_access ? target->dst_access : (VkAccessFlags)VK_ACCESS_MEMORY_READ_BIT;
    to_user.oldLayout = VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL;
    to_user.newLayout = image->layout;
    if (!image->owned && target->dst_queue_family != own && target->dst_queue_family != VK_QUEUE_FAMILY_IGNORED) {
        to_user.srcQueueFamilyIndex = own;
        to_user.dstQueueFamilyIndex = target->dst_queue_family;
        to_user.dstAccessMask = 0; /* a release: the other queue acquires */
        stage = VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT;
    }
    job->context->device->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, stage, 0, 0, NULL, 0, NULL, 1,
                                                &to_user);
}

static void diti_image_record_copy(const dit_job *job, VkCommandBuffer commands, diti_tensor rgba,
                                   const diti_job_image *image) {
    VkBufferImageCopy copy;
    VkDeviceSize size;
    VkBuffer buffer;
    memset(&copy, 0, sizeof copy);
    buffer = diti_plan_buffer(job->plan, rgba, &copy.bufferOffset, &size);
    copy.imageSubresource.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT;
    copy.imageSubresource.layerCount = 1;
    copy.imageExtent.width = job->request.shape.width;
    copy.imageExtent.height = job->request.shape.height;
    copy.imageExtent.depth = 1;
    diti_image_begin_copy(job, commands, image);
    job->context->device->vk.CmdCopyBufferToImage(commands, buffer, image->image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
                                                  1, &copy);
    diti_image_end_copy(job, commands, image);
}

static void diti_image_record_health(const dit_job *job, VkCommandBuffer commands) {
    const diti_vk_api *vk = &job->context->device->vk;
    VkMemoryBarrier barrier;
    VkBufferCopy copy;
    VkBuffer buffer;
    memset(&copy, 0, sizeof copy);
    memset(&barrier, 0, sizeof barrier);
    buffer = diti_plan_buffer(job->plan, job->health, &copy.srcOffset, &copy.size);
    vk->CmdCopyBuffer(commands, buffer, job->health_readback.buffer, 1, &copy);
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    vk->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0,
                           NULL, 0, NULL);
}

DIT_INTERNAL void diti_job_record_finish(const dit_job *job, VkCommandBuffer commands) {
    uint32_t i;
    for (i = 0; i < job->request.shape.image_count; i++)
        diti_image_record_copy(job, commands, job->rgba[i], &job->images[i]);
    diti_image_record_health(job, commands);
}

DIT_INTERNAL void diti_job_record_preview(const dit_job *job, VkCommandBuffer commands) {
    diti_image_record_copy(job, commands, job->preview, &job->preview_image);
}

/* ======== src/job/job.c (edit it there; dit.h is generated) ======== */
/* Jobs: created once with everything they need, then run slice by slice. */

/* --- creation --- */

static double diti_segment_us(const dit_job *job, uint32_t segment) {
    double us = 0;
    uint32_t i;
    for (i = 0; i < diti_plan_slice_count(job->plan, segment); i++)
        us += (double)diti_plan_slice_planned_us(job->plan, segment, i);
    return us;
}

static double diti_job_predict_us(const dit_job *job) {
    double us = 0;
    uint32_t segment, step;
    for (segment = 0; segment < job->plan->segment_count; segment++) {
        uint32_t times = segment == job->step_segment ? job->request.shape.steps : 1u;
        if (segment == job->preview_segment) {
            for (times = 0, step = 1; step <= job->request.shape.steps; step++)
                times += diti_job_preview_due(job, step) ? 1u : 0u;
        }
        us += diti_segment_us(job, segment) * times;
    }
    return us;
}

/* Back to the start of a run. */
static void diti_job_rewind(dit_job *job) {
    memset(&job->cursor, 0, sizeof job->cursor);
    job->recording = job->begun = job->all_submitted = false;
    job->submitted_us = 0;
    job->flight_first = job->flight_count = 0;
    job->finish_value = 0;
    job->total_us = diti_job_predict_us(job);
    diti_atomic_store(&job->cancel, 0);
    diti_lock(&job->status_lock);
    memset(&job->status, 0, sizeof job->status);
    memset(&job->error, 0, sizeof job->error);
    job->status.step_count = job->request.shape.steps;
    job->status.result = DIT_WORKING;
    diti_unlock(&job->status_lock);
}

static dit_result diti_job_allocate_commands(dit_job *job, VkCommandBuffer *out, dit_error *err) {
    const diti_device *device = job->context->device;
    VkCommandBufferAllocateInfo allocate;
    VkCommandBufferBeginInfo begin;
    VkResult vk;
    memset(&allocate, 0, sizeof allocate);
    memset(&begin, 0, sizeof begin);
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = job->command_pool;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    vk = device->vk.AllocateCommandBuffers(device->device, &allocate, out);
    if (vk == VK_SUCCESS) vk = device->vk.BeginCommandBuffer(*out, &begin);
    return vk == VK_SUCCESS ? DIT_OK
                            : diti_fail_vk(err, vk, "no command buffer for the output image (%s)", diti_vk_name(vk));
}

static dit_result diti_job_end_commands(dit_job *job, VkCommandBuffer commands, dit_error *err) {
    VkResult vk = job->context->device->vk.EndCommandBuffer(commands);
    job->plan->counters.recordings++;
    return vk == VK_SUCCESS ? DIT_OK : diti_fail_vk(err, vk, "vkEndCommandBuffer failed (%s)", diti_vk_name(vk));
}

/* Copies into images are commands of the job, beside those of the plan. */
static dit_result diti_job_record_copies(dit_job *job, dit_error *err) {
    const diti_device *device = job->context->device;
    VkCommandPoolCreateInfo info;
    dit_result result;
    VkResult vk;
    memset(&info, 0, sizeof info);
    info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    info.queueFamilyIndex = device->queue_family;
    vk = device->vk.CreateCommandPool(device->device, &info, device->callbacks, &job->command_pool);
    if (vk != VK_SUCCESS) return diti_fail_vk(err, vk, "vkCreateCommandPool failed (%s)", diti_vk_name(vk));
    result = diti_job_allocate_commands(job, &job->finish, err);
    if (result < 0) return result;
    diti_job_record_finish(job, job->finish);
    result = diti_job_end_commands(job, job->finish, err);
    if (result < 0 || !job->request.shape.preview_interval) return result;
    result = diti_job_allocate_commands(job, &job->preview_copy, err);
    if (result < 0) return result;
    diti_job_record_preview(job, job->preview_copy);
    return diti_job_end_commands(job, job->preview_copy, err);
}

static dit_result diti_job_plan(dit_job *job, const dit_progress *progress, dit_error *err) {
    diti_graph graph;
    dit_result result;
    diti_graph_init(&graph, job->context->device);
    graph.worker = &job->context->worker;
    diti_job_emit(job, &graph);
    result = diti_plan_create(&graph, progress, &job->plan, err);
    diti_graph_free(&graph);
    if (result == DIT_OK && !job->context->device->owns_device) result = diti_plan_prepare_secondaries(job->plan, err);
    return result;
}

static dit_result diti_job_build(dit_job *job, const dit_job_desc *desc, dit_error *err) {
    dit_result result = diti_job_plan(job, desc->progress.func ? &desc->progress : &job->context->progress, err);
    if (result == DIT_OK) result = diti_job_images_create(job, err);
    if (result == DIT_OK) result = diti_job_record_copies(job, err);
    if (result == DIT_OK) result = diti_job_write_inputs(job, err);
    if (result == DIT_OK) diti_job_rewind(job);
    return result;
}

/* Before anything that a desc points to is touched: it may never have been initialised. */
static dit_result diti_job_check_guards(const dit_job_desc *desc, dit_error *err) {
    if (!desc->_zero_begin && !desc->_zero_end) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "dit_job_desc: the guard members are not zero; initialise the struct with {0}");
}

static dit_result diti_job_check(const dit_context *ctx, const dit_job_desc *desc, dit_error *err) {
    if (!ctx || !desc) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_create: ctx and desc must be given");
    if (diti_job_check_guards(desc, err) < 0) return DIT_ERROR_INVALID_ARGUMENT;
    if (desc->model && !desc->model->device)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: the model was loaded as a dry run and makes no jobs");
    if (desc->model && desc->model->device != ctx->device)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc: the model was loaded with another context");
    return DIT_OK;
}

DIT_API dit_result dit_job_create(dit_context *ctx, const dit_job_desc *desc, dit_job **out, dit_error *err) {
    dit_job *job;
    dit_result result = diti_job_check(ctx, desc, err);
    if (result >= 0 && !out) result = diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_create: out is NULL");
    if (result < 0) return result;
    *out = NULL;
    job = (dit_job *)diti_alloc_zero(&ctx->env, sizeof *job);
    if (!job) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the job");
    job->env = ctx->env;
    job->context = ctx;
    job->model = desc->model;
    job->target = desc->target;
    result = diti_job_request_make(desc->model, &job->env, desc, &job->request, err);
    if (result == DIT_OK) result = diti_job_build(job, desc, err);
    if (result != DIT_OK) {
        dit_job_destroy(job);
        return result;
    }
    *out = job;
    return DIT_OK;
}

DIT_API void dit_job_destroy(dit_job *job) {
    diti_device *device;
    diti_env env;
    if (!job) return;
    env = job->env;
    device = job->context->device;
    diti_plan_wait(job->plan);
    diti_free(&env, job->denoise.family);
    if (job->command_pool) device->vk.DestroyCommandPool(device->device, job->command_pool, device->callbacks);
    diti_job_images_destroy(job);
    diti_plan_destroy(job->plan);
    diti_job_request_free(&env, &job->request);
    diti_free(&env, job);
}

/* --- memory questions --- */

/* Without a context the answer is for a device of ordinary limits on the fp16 rung. */
static void diti_job_imaginary_device(const dit_model *model, diti_device *device) {
    memset(device, 0, sizeof *device);
    device->env = model->env;
    device->rung = DITI_RUNG_FP16;
    device->has_fp16 = true;
    device->limits.storage_range = 0xffffffffu;
    device->limits.allocation = (VkDeviceSize)1 << 30;
    device->limits.storage_alignment = 256;
    device->limits.group_count = 65535;
    device->limits.group_invocations = 1024;
    device->limits.shared_bytes = 32768;
    device->limits.subgroup_size = 32;
    device->max_dispatch_us = 50000;
}

static uint64_t diti_model_weight_bytes(const dit_model *model) {
    uint64_t bytes = 0;
    if (model->transformer) bytes += model->transformer->weights.bytes;
    if (model->text_encoder) bytes += diti_t5_weights(model->text_encoder)->bytes;
    if (model->vae) bytes += diti_vae_weights(model->vae)->bytes;
    return bytes;
}

static dit_result diti_job_measure(dit_job *job, diti_device *device, dit_memory *out, dit_error *err) {
    diti_plan_memory memory;
    diti_graph graph;
    dit_result result;
    size_t count = (size_t)job->request.shape.image_count * job->model->transformer->traits.latent_channels *
                   job->request.latent_width * job->request.latent_height;
    VkDeviceSize pictures =
        (VkDeviceSize)job->request.shape.image_count * job->request.shape.width * job->request.shape.height * 4;
    diti_graph_init(&graph, device);
    diti_job_emit(job, &graph);
    result = diti_plan_measure(&graph, &memory, err);
    diti_graph_free(&graph);
    out->weights = diti_model_weight_bytes(job->model);
    out->activations = memory.activations + memory.inputs + pictures;
    out->peak = out->weights + out->activations;
    out->host = (size_t)memory.inputs + sizeof *job +
                count * sizeof(float) * (job->request.shape.stochastic ? job->request.shape.steps + 1u : 1u);
    return result;
}

DIT_API dit_result dit_job_memory(const dit_context *ctx, const dit_job_desc *desc, dit_memory *out, dit_error *err) {
    diti_device imaginary;
    dit_job *job;
    dit_result result;
    if (desc && diti_job_check_guards(desc, err) < 0) return DIT_ERROR_INVALID_ARGUMENT;
    if (!desc || !out || !desc->model)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_memory: desc with a model, and out, must be given");
    if (!ctx && desc->model->device)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_memory: ctx is NULL; only a dry run's model works without a context");
    memset(out, 0, sizeof *out);
    job = (dit_job *)diti_alloc_zero(&desc->model->env, sizeof *job);
    if (!job) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the question");
    job->env = desc->model->env;
    job->model = desc->model;
    result = diti_job_request_make(desc->model, &job->env, desc, &job->request, err);
    if (!ctx) diti_job_imaginary_device(desc->model, &imaginary);
    if (result >= 0) result = diti_job_measure(job, ctx ? ctx->device : &imaginary, out, err);
    diti_free(&job->env, job->denoise.family);
    diti_job_request_free(&job->env, &job->request);
    diti_free(&desc->model->env, job);
    return result;
}

/* --- restart --- */

static dit_result diti_job_same_shape(const dit_job *job, const dit_job_desc *desc, const diti_job_request *request,
                                      dit_error *err) {
    const diti_job_shape *now = &request->shape, *then = &job->request.shape;
    const char *what = NULL;
    if (desc->model != job->model)
        what = "model";
    else if (memcmp(&desc->target, &job->target, sizeof job->target) != 0)
        what = "target";
    else if (now->width != then->width || now->height != then->height)
        what = "width or height";
    else if (now->image_count != then->image_count)
        what = "image_count";
    else if (now->steps != then->steps)
        what = "steps";
    else if (now->guided != then->guided)
        what = "guidance (on or off)";
    else if (now->stochastic != then->stochastic || now->scaled_input != then->scaled_input)
        what = "sampler";
    else if (now->preview_interval != then->preview_interval)
        what = "preview_interval";
    else if (now->encodes[0] != then->encodes[0] || now->encodes[1] != then->encodes[1])
        what = "which prompts are given as embeddings";
    return what ? diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                            "dit_job_restart: %s differs from the job's; create a new job", what)
                : DIT_OK;
}

DIT_API dit_result dit_job_restart(dit_job *job, const dit_job_desc *desc, dit_error *err) {
    diti_job_request request;
    dit_result result;
    if (!job) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_restart: job is NULL");
    result = diti_job_check(job->context, desc, err);
    if (result >= 0) result = diti_device_check(job->context->device, err);
    if (result < 0) return result;
    result = diti_job_request_make(desc->model, &job->env, desc, &request, err);
    if (result < 0) return result;
    result = diti_job_same_shape(job, desc, &request, err);
    if (result < 0) {
        diti_job_request_free(&job->env, &request);
        return result;
    }
    diti_plan_wait(job->plan);
    diti_job_request_free(&job->env, &job->request);
    job->request = request;
    result = diti_job_write_inputs(job, err);
    diti_job_rewind(job);
    return result;
}

/* --- questions --- */

DIT_API void dit_job_cancel(dit_job *job) {
    if (job) diti_atomic_store(&job->cancel, 1);
}

DIT_API void dit_job_status(const dit_job *job, dit_status *out, dit_error *err) {
    dit_job *shared = (dit_job *)(uintptr_t)job; /* the lock is the one thing that asking changes */
    if (out) memset(out, 0, sizeof *out);
    if (err) memset(err, 0, sizeof *err);
    if (!job) return;
    diti_lock(&shared->status_lock);
    if (out) *out = job->status;
    if (err) *err = job->error;
    diti_unlock(&shared->status_lock);
}

DIT_API void dit_job_get_counters(const dit_job *job, dit_counters *out) {
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (job) diti_plan_counters(job->plan, out);
}

static dit_result diti_job_give(const dit_job *job, const diti_job_image *image, uint64_t value, dit_output *out) {
    out->image = image->image;
    out->view = image->view;
    out->format = image->format;
    out->layout = image->layout;
    out->width = job->request.shape.width;
    out->height = job->request.shape.height;
    out->timeline = job->recording ? VK_NULL_HANDLE : diti_plan_timeline(job->plan);
    out->value = value;
    return DIT_OK;
}

DIT_API dit_result dit_job_output(dit_job *job, uint32_t image, uint32_t frame, dit_output *out) {
    dit_status status;
    if (!job || !out || frame != 0 || image >= job->request.shape.image_count) return DIT_ERROR_INVALID_ARGUMENT;
    memset(out, 0, sizeof *out);
    dit_job_status(job, &status, NULL);
    if (status.result < 0 || status.result == DIT_CANCELLED) return status.result;
    if (!job->all_submitted) return DIT_WORKING;
    return diti_job_give(job, &job->images[image], job->finish_value, out);
}

DIT_API dit_result dit_job_preview(dit_job *job, dit_output *out) {
    dit_status status;
    if (!job || !out || !job->request.shape.preview_interval) return DIT_ERROR_INVALID_ARGUMENT;
    memset(out, 0, sizeof *out);
    dit_job_status(job, &status, NULL);
    if (status.preview_id == 0) return DIT_WORKING;
    return diti_job_give(job, &job->preview_image, 0, out);
}

/* ======== src/job/run.c (edit it there; dit.h is generated) ======== */
/* Running: which slice comes next, how much may be in flight, when it is over. */

/* --- the order of slices --- */

DIT_INTERNAL bool diti_job_preview_due(const dit_job *job, uint32_t steps_done) {
    uint32_t interval = job->request.shape.preview_interval;
    return interval && steps_done % interval == 0 && steps_done < job->request.shape.steps;
}

/* After the last slice of a segment: the next segment, or its next repetition. */
static void diti_run_next_segment(const dit_job *job, diti_job_cursor *cursor) {
    bool loop = cursor->segment == job->step_segment || cursor->segment == job->preview_segment;
    if (cursor->segment == job->step_segment) {
        cursor->repeat++;
        if (diti_job_preview_due(job, cursor->repeat)) {
            cursor->segment = job->preview_segment;
            return;
        }
    }
    if (!loop)
        cursor->segment++;
    else
        cursor->segment = cursor->repeat < job->request.shape.steps ? job->step_segment : job->decode_segment;
}

static void diti_run_advance(const dit_job *job, diti_job_cursor *cursor) {
    if (++cursor->slice < diti_plan_slice_count(job->plan, cursor->segment)) return;
    cursor->slice = 0;
    diti_run_next_segment(job, cursor);
}

static bool diti_run_at_end(const dit_job *job) { return job->cursor.segment > job->decode_segment; }

static dit_stage diti_run_stage(const dit_job *job, uint32_t segment) {
    if (segment < job->step_segment) return DIT_STAGE_ENCODE;
    return segment < job->decode_segment ? DIT_STAGE_DENOISE : DIT_STAGE_DECODE;
}

/* --- bookkeeping --- */

static void diti_run_end(dit_job *job, dit_result result, const dit_error *why) {
    diti_lock(&job->status_lock);
    job->status.result = result;
    if (why) job->error = *why;
    if (result == DIT_OK) {
        job->status.stage = DIT_STAGE_DONE;
        job->status.fraction = 1;
        job->status.step = job->request.shape.steps;
    }
    diti_unlock(&job->status_lock);
}

static dit_result diti_run_fail(dit_job *job, const dit_error *why) {
    diti_run_end(job, why->result, why);
    return why->result;
}

static void diti_run_report(dit_job *job, const diti_job_flight *flight) {
    diti_lock(&job->status_lock);
    job->status.stage = flight->stage;
    job->status.step = flight->steps_done;
    job->status.last_slice_us = diti_plan_last_slice_us(job->plan);
    if (flight->preview) job->status.preview_id++;
    if (job->total_us > 0) job->status.fraction = (float)(flight->done_us / job->total_us);
    diti_unlock(&job->status_lock);
}

/* What the slice at the cursor will have done when it is finished. Moves the cursor. */
static diti_job_flight diti_run_take(dit_job *job) {
    diti_job_flight flight;
    uint32_t segment = job->cursor.segment;
    memset(&flight, 0, sizeof flight);
    flight.us = diti_plan_slice_us(job->plan, segment, job->cursor.slice);
    flight.stage = diti_run_stage(job, segment);
    job->submitted_us += (double)diti_plan_slice_planned_us(job->plan, segment, job->cursor.slice);
    flight.done_us = job->submitted_us;
    diti_run_advance(job, &job->cursor);
    flight.steps_done = job->cursor.repeat;
    flight.preview = segment == job->preview_segment && job->cursor.segment != segment;
    return flight;
}

/* A last look at the latent and the picture: word 0 is the first bad step + 1, word 2 tells about the picture. */
static dit_result diti_run_check_health(dit_job *job) {
    uint32_t words[4];
    dit_error error;
    memset(&error, 0, sizeof error);
    diti_buffer_invalidate(job->context->device, &job->health_readback);
    memcpy(words, job->health_readback.block.mapped, sizeof words);
    if (words[0])
        diti_fail(&error, DIT_ERROR_NOT_FINITE,
                  "the latent is not finite after step %u of %u (solver step); try the fp32 rung or another sampler",
                  words[0], job->request.shape.steps);
    else if (words[2])
        diti_fail(&error, DIT_ERROR_NOT_FINITE, "the picture is not finite (VAE decoder); try the fp32 rung");
    else
        return DIT_OK;
    return diti_run_fail(job, &error);
}

/* --- step mode --- */

static uint32_t diti_run_flight_index(const dit_job *job, uint32_t i) {
    return (job->flight_first + i) % DITI_JOB_MAX_FLIGHT;
}

/* Drops what the GPU has finished from the ring. */
static dit_result diti_run_poll(dit_job *job, dit_error *err) {
    uint64_t done = 0;
    dit_result result = diti_timeline_value(job->context->device, diti_plan_timeline(job->plan), &done, err);
    if (result < 0) return result;
    diti_plan_learn(job->plan);
    while (job->flight_count && job->flight[job->flight_first].value <= done) {
        diti_run_report(job, &job->flight[job->flight_first]);
        job->flight_first = diti_run_flight_index(job, 1);
        job->flight_count--;
    }
    return DIT_OK;
}

static float diti_run_flight_us(const dit_job *job) {
    float us = 0;
    uint32_t i;
    for (i = 0; i < job->flight_count; i++) us += job->flight[diti_run_flight_index(job, i)].us;
    return us;
}

static bool diti_run_may_submit(const dit_job *job, uint32_t budget_us) {
    if (job->all_submitted || job->flight_count == DITI_JOB_MAX_FLIGHT) return false;
    if (job->flight_count == 0) return true;
    if (diti_run_at_end(job)) return true; /* the copy into the image is cheap */
    return diti_run_flight_us(job) + diti_plan_slice_us(job->plan, job->cursor.segment, job->cursor.slice) <=
           (float)budget_us;
}

static dit_result diti_run_submit_finish(dit_job *job, diti_job_flight *flight, dit_error *err) {
    dit_result result;
    memset(flight, 0, sizeof *flight);
    result = diti_plan_submit_commands(job->plan, job->finish, &flight->value, err);
    flight->done_us = job->total_us;
    flight->steps_done = job->request.shape.steps;
    flight->stage = DIT_STAGE_DECODE;
    job->finish_value = flight->value;
    job->all_submitted = result >= 0;
    return result;
}

static dit_result diti_run_submit_slice(dit_job *job, diti_job_flight *flight, dit_error *err) {
    diti_job_cursor at = job->cursor;
    dit_result result;
    uint64_t value = 0;
    *flight = diti_run_take(job);
    result = diti_plan_submit(job->plan, at.segment, at.slice, &value, err);
    if (result >= 0 && flight->preview) result = diti_plan_submit_commands(job->plan, job->preview_copy, &value, err);
    flight->value = value;
    return result;
}

static dit_result diti_run_submit_next(dit_job *job, dit_error *err) {
    diti_job_flight *flight = &job->flight[diti_run_flight_index(job, job->flight_count)];
    dit_result result =
        diti_run_at_end(job) ? diti_run_submit_finish(job, flight, err) : diti_run_submit_slice(job, flight, err);
    if (result >= 0) job->flight_count++;
    return result;
}

/* Common to both modes: DIT_WORKING when the run may go on. */
static dit_result diti_run_begin(dit_job *job, bool recording) {
    dit_status status;
    dit_error error;
    memset(&error, 0, sizeof error);
    dit_job_status(job, &status, NULL);
    if (status.result != DIT_WORKING) return status.result;
    if (diti_atomic_load(&job->cancel)) {
        diti_run_end(job, DIT_CANCELLED, NULL);
        return DIT_CANCELLED;
    }
    if (job->begun && job->recording != recording) {
        diti_fail(&error, DIT_ERROR_INVALID_ARGUMENT, "a run is either stepped or recorded; restart the job to change");
        return diti_run_fail(job, &error);
    }
    job->begun = true;
    job->recording = recording;
    return DIT_WORKING;
}

DIT_API dit_result dit_job_step(dit_job *job, uint32_t budget_us) {
    dit_error error;
    dit_result result;
    memset(&error, 0, sizeof error);
    if (!job) return DIT_ERROR_INVALID_ARGUMENT;
    result = diti_run_begin(job, false);
    if (result != DIT_WORKING) return result;
    result = diti_run_poll(job, &error);
    while (result >= 0 && diti_run_may_submit(job, budget_us)) result = diti_run_submit_next(job, &error);
    if (result < 0) return diti_run_fail(job, &error);
    if (!job->all_submitted || job->flight_count) return DIT_WORKING;
    result = diti_run_check_health(job);
    if (result >= 0) diti_run_end(job, DIT_OK, NULL);
    return result;
}

/* What is left of a time-out that began at *begin; a clock that was set back begins anew. */
static uint64_t diti_run_time_left(uint64_t timeout_ns, uint64_t *begin) {
    uint64_t now = diti_clock_us(), passed_ns;
    if (timeout_ns == UINT64_MAX) return timeout_ns;
    if (now < *begin) *begin = now;
    passed_ns = (now - *begin) * 1000u;
    return passed_ns < timeout_ns ? timeout_ns - passed_ns : 0;
}

DIT_API dit_result dit_job_wait(dit_job *job, uint64_t timeout_ns) {
    const uint64_t glance_ns = 10000000u; /* short waits, so that a cancel from another thread is seen */
    uint64_t begin = diti_clock_us(), left;
    dit_result result;
    dit_error error;
    if (!job) return DIT_ERROR_INVALID_ARGUMENT;
    for (;;) {
        result = dit_job_step(job, job->context->device->max_dispatch_us);
        left = diti_run_time_left(timeout_ns, &begin);
        if (result != DIT_WORKING || left == 0) return result;
        memset(&error, 0, sizeof error);
        result = diti_timeline_wait(job->context->device, diti_plan_timeline(job->plan),
                                    job->flight[job->flight_first].value, left < glance_ns ? left : glance_ns, &error);
        if (result < 0) return diti_run_fail(job, &error);
    }
}

/* --- record mode --- */

static void diti_run_record_slice(dit_job *job, VkCommandBuffer commands) {
    diti_job_cursor at = job->cursor;
    diti_job_flight flight = diti_run_take(job);
    diti_plan_execute(job->plan, at.segment, at.slice, commands);
    if (flight.preview) diti_job_record_preview(job, commands);
    diti_run_report(job, &flight);
}

DIT_API dit_result dit_job_record(dit_job *job, VkCommandBuffer cmd, uint32_t budget_us) {
    dit_error error;
    dit_result result;
    float us = 0;
    memset(&error, 0, sizeof error);
    if (!job || !cmd) return DIT_ERROR_INVALID_ARGUMENT;
    result = diti_run_begin(job, true);
    if (result != DIT_WORKING) return result;
    result = diti_plan_prepare_secondaries(job->plan, &error);
    if (result < 0) return diti_run_fail(job, &error);
    while (!diti_run_at_end(job)) {
        float next = diti_plan_slice_us(job->plan, job->cursor.segment, job->cursor.slice);
        if (us > 0 && us + next > (float)budget_us) return DIT_WORKING;
        us += next > 0 ? next : 1;
        diti_run_record_slice(job, cmd);
    }
    diti_job_record_finish(job, cmd);
    job->all_submitted = true;
    diti_run_end(job, DIT_OK, NULL);
    return DIT_OK;
}

/* --- reading back --- */

static dit_result diti_read_check(dit_job *job, dit_read what, uint32_t image, uint32_t frame, const void *dst,
                                  dit_error *err) {
    dit_status status;
    dit_error why;
    if (!job || !dst || frame != 0 || image >= job->request.shape.image_count || (int)what < DIT_READ_RGBA8 ||
        (int)what > DIT_READ_PREVIEW) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_read: there is no such picture (image %u, frame %u, what %d)", image, frame,
                         (int)what);
    }
    dit_job_status(job, &status, &why);
    if (what == DIT_READ_PREVIEW) {
        if (!job->request.shape.preview_interval)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_read: the job was created without previews");
        return status.preview_id ? DIT_OK : DIT_WORKING;
    }
    if (status.result < 0 && err) *err = why;
    if (status.result != DIT_OK) return status.result;
    return job->recording ? diti_run_check_health(job) : DIT_OK;
}

static dit_result diti_read_need(size_t rows, size_t row_bytes, size_t *row_pitch, size_t size, dit_error *err) {
    size_t need;
    if (*row_pitch == 0) *row_pitch = row_bytes;
    if (*row_pitch < row_bytes || !diti_mul_size(rows - 1, *row_pitch, &need) || need > SIZE_MAX - row_bytes ||
        size < need + row_bytes) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_read: %llu rows of %llu bytes do not fit into %llu bytes with a pitch of %llu",
                         (unsigned long long)rows, (unsigned long long)row_bytes, (unsigned long long)size,
                         (unsigned long long)*row_pitch);
    }
    return DIT_OK;
}

static void diti_read_unswap(uint8_t *pixels, size_t count) {
    size_t i;
    for (i = 0; i < count; i++, pixels += 4) {
        uint8_t blue = pixels[0];
        pixels[0] = pixels[2];
        pixels[2] = blue;
    }
}

static dit_result diti_read_rgba(dit_job *job, diti_tensor rgba, uint8_t *dst, size_t size, size_t row_pitch,
                                 dit_error *err) {
    size_t width = job->request.shape.width, height = job->request.shape.height, y;
    uint8_t *pixels;
    dit_result result = diti_read_need(height, width * 4, &row_pitch, size, err);
    if (result < 0) return result;
    pixels = (uint8_t *)diti_alloc(&job->env, width * height * 4);
    if (!pixels) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory to read the picture");
    result = diti_plan_read(job->plan, rgba, pixels, width * height * 4, err);
    if (result >= 0 && job->request.shape.swap) diti_read_unswap(pixels, width * height);
    for (y = 0; y < height && result >= 0; y++) memcpy(dst + y * row_pitch, pixels + y * width * 4, width * 4);
    diti_free(&job->env, pixels);
    return result;
}

static dit_result diti_read_rgb(dit_job *job, uint32_t image, uint8_t *dst, size_t size, size_t row_pitch,
                                dit_error *err) {
    size_t width = job->request.shape.width, height = job->request.shape.height, pixels = width * height, x, y, c;
    dit_result result = diti_read_need(height, width * 3 * sizeof(float), &row_pitch, size, err);
    float *planes;
    if (result < 0) return result;
    planes = (float *)diti_alloc(&job->env, pixels * 3 * sizeof *planes);
    if (!planes) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory to read the picture");
    result = diti_plan_read(job->plan, job->rgb[image], planes, pixels * 3 * sizeof *planes, err);
    for (y = 0; y < height && result >= 0; y++) {
        for (x = 0; x < width; x++) {
            for (c = 0; c < 3; c++)
                memcpy(dst + y * row_pitch + (x * 3 + c) * sizeof(float), &planes[c * pixels + y * width + x],
                       sizeof(float));
        }
    }
    diti_free(&job->env, planes);
    return result;
}

static dit_result diti_read_latent(dit_job *job, uint32_t image, void *dst, size_t size, dit_error *err) {
    size_t need = (size_t)job->model->transformer->traits.latent_channels * job->request.latent_width *
                  job->request.latent_height * sizeof(float);
    if (size < need)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_read: the latent needs %llu bytes, %llu were given",
                         (unsigned long long)need, (unsigned long long)size);
    return diti_plan_read(job->plan, job->latents[image], dst, need, err);
}

DIT_API dit_result dit_job_read(dit_job *job, dit_read what, uint32_t image, uint32_t frame, void *dst, size_t size,
                                size_t row_pitch, dit_error *err) {
    dit_result result = diti_read_check(job, what, image, frame, dst, err);
    if (result != DIT_OK) return result;
    switch (what) {
    case DIT_READ_RGBA8: return diti_read_rgba(job, job->rgba[image], (uint8_t *)dst, size, row_pitch, err);
    case DIT_READ_RGB_F32: return diti_read_rgb(job, image, (uint8_t *)dst, size, row_pitch, err);
    case DIT_READ_LATENT_F32: return diti_read_latent(job, image, dst, size, err);
    case DIT_READ_PREVIEW: return diti_read_rgba(job, job->preview, (uint8_t *)dst, size, row_pitch, err);
    }
    return DIT_ERROR_INVALID_ARGUMENT;
}

/* ======== src/job/trace.c (edit it there; dit.h is generated) ======== */
/* Traces are asked for when a context is created; this version refuses that, so there is nothing to record. */

DIT_API void dit_trace_mark(dit_context *ctx, const char *name) {
    (void)ctx;
    (void)name;
}

DIT_API uint64_t dit_trace_begin(dit_context *ctx, const char *name) {
    (void)ctx;
    (void)name;
    return 0;
}

DIT_API void dit_trace_end(dit_context *ctx, uint64_t range) {
    (void)ctx;
    (void)range;
}

DIT_API dit_result dit_trace_write(dit_context *ctx, bool (*write)(const void *data, size_t size, void *user),
                                   void *user, dit_error *err) {
    (void)ctx;
    (void)write;
    (void)user;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_trace_write: the context was created without trace");
}

/* ======== src/vk/spirv.inc (edit it there; dit.h is generated) ======== */
/* Generated by make shaders from shaders/: one block per module, then the table. */
static const char *const diti_spirv_text_gemm_cpu[] = {
    "GZ1N5jsi^PoyG>+=&:c%>&:c%%':c%3QCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>M9W#2q0`r6%ql5KiXr0Kr6S`^P,gw(bHGUgr](7/VA.NK`bO*tRHP7"
    ",a+VNHjAh%nga,'[vY`Co*:gH>#'il<(X5d/(Eh5xd]q@=e,$pp#e@Lvd$cop#(il<(hNY&#F#nXee9Lvd3['r#%#1EM`X<##D9-V)si08.yCT$'o@^vd6"
    "nCr#8['EM,3kW-&il<(x5d/(e),un]q@=eL43t#e@LvdDs2t#(il<(0OY&#f;dUof@UvdPY&u#%#1EM%X=##D9-V)8j08.yCT$'4A^vdSlBu#8['EMI2lW"
    "-'il<(;6d/(WR#1MJLc&#Nx/0Mra'EM0H5t-&il<(x]0_#Z,.cOSxY;eEcU.$e@Lvd<JU.$(il<()QY&#^H*`PhF_vdNOw/$xm0EM'TD##9['EMxf$[#lr"
    "R3Ug<LvdQb;0$9b'EMNL=t$/9-V)]l08.yCT$'XC^vdw@74$8['EMmIsW-(il<(f8d/(Q('lh^q@=e9wL6$e@Lvd1_L6$(il<(uQY&#R:_LiiLhvdRiK9$"
    "xm0EM'bG##D9-V):m08.yCT$'6D^vdU$h9$8['EMK;uW-)il<(o#s;$f1>uR_q@=eOLnK$e@LvdG3nK$(il<(3TY&#gDvUSkRqvdRkWL$xm0EM'dM##D9-"
    "V):o08.yCT$'6F^vdU&tL$8['EMK=$X-*il<(A;d/(+/8u[_q@=elJmN$e@Lvdd1mN$(il<(PTY&#,BpU]kRqvdpo`O$%#1EMEfN##D9-V)Xo08.yCT$'T"
    "F^vds*%P$8['EMi@%X-*il<(2<d/(t]pes_q@=e^LHV$e@LvdU3HV$(il<(BUY&#uoPFtlX#wdI6ng$xm0EMuJV##D9-V)1r08.yCT$'-I^vdLI2h$8['E"
    "MB%-X-+il<(8's;$.K4r]`q@=epfMk$e@LvdhMMk$(il<(TWY&#/^lR^n_,wds-7l$xm0EMHrW##D9-V)[r08.yCT$'WI^vdv@Sl$8['EMlL.X-,il<(b>"
    "d/(KH.rf`q@=e5eLn$e@Lvd-LLn$(il<(qWY&#LZfRgn_,wd92@o$%#1EMftX##D9-V)yr08.yCT$'uI^vd<E[o$8['EM2O/X-19-V)6u08.+9-V)7$:8."
    "/9-V)8*D8.39-V)90M8.79-V):6V8.;9-V);<`8.@9-V)<Ci8.D9-V)=Ir8.H9-V)>O$9.L9-V)@U-9.P9-V)A[69.T9-V)Bb@9.X9-V)ChI9.]9-V)DnR"
    "9.a9-V)Et[9.e9-V)F#f9.i9-V)G)o9.m9-V)H/x9.q9-V)I5*:.u9-V)J;3:.y9-V)KB<:.&:-V)LHF:.*:-V)MNO:..:-V)NTX:.2:-V)OZb:.6:-V)P"
    "ak:.::-V)Qgt:.>:-V)Rm&;.C:-V)Ss/;.=ET$'2L^vd,@CN%wv'EMf)0@#'il<(_SdZ#_RO@mQ`=wd>YHc%sj'EMpJ6@#-il<()$%t$)&tX[NGpvdy_b-"
    "&qd'EMo1SR&Bil<('pKC+[6SClWxcwdfBf4&nZ'EMFfTR&@il<(eN<5&bmBxQyE'9SPOSdWanvZ#P>^u$]8t>MCp:[#PB4r%m+k<(0TJHWvDl9%`Gk<(Bm"
    "xHW1]e;%P%k<(PwNgV+)S(%tbt@Mq*S&G`=UwHuxd<Ivc,BM#b#O#L+k<(rqV[#g>^u$k8ZvZlS.X[;utnb<,)BMBcpQ#rnnrPeik<(f*#/M$`q:$jZYr%"
    "5_L<M1;owZ#'W,a;utnb>k(BM^ZfT#oRruOeik<(+IWdN[:1:$jZYr%v3LurQ#vvZA-mHjNuaqdP*)BMolUV#k%bUvdik<(DtUvmB<Wm&jZYr%`%w@`p;v"
    "vZdb_BuRc1BMG5,Z#rmyY#rmyY#IF-$vHM#wZC>DeNR0Q<MLi(BMs/0j#Ub]Tudik<(MX/8ShXr8$g>^u$oBdvZ`;=eWyf>=iMi(BM;Jgm#dik<(9uS;$j"
    "ZYr%8sH`_VpMKV#]fp#YsR$'b=fp#tpQ<eQaop#8qQ<eSQ-n&x.4cFG6QvZCmU`fIvp@Mga-n&XpR$'IA.hV0U0r#pxp@Mms-n&5qfCM576KiS=q@Mr+.n"
    "&UpR$'`SJhVDs2t#,yp@M)W.n&IqfCM]s;ToP+U@M'>R8%>dRkqcQ@HWRf8u#2Iu+aRf8u#mVALV^_mv#YsR$'TCmv#+CqLMbhX-$GCqLMd*4n&+k`bOMy"
    "^@MEMdaOXGk<(GNw&PtCl<(@:h.$ZpR$'fOAhVKI)0$3$q@M0o4n&PsfCMjj12UT=q@M5'5n&WpR$'1=%hVq'%4$Y$q@MV26n&vsfCM_'y(b`*)BMebM4$"
    "VGk<(TX3u$w]<OhP+_@M.vCNhXGk<(0BTkhtCl<()P_6$X+k<(dxr;$=dRkqO(_@Mj'ZjqXGk<(lHj/rtCl<(eTg9$#-]0,7wKJ$RrQO#n>gm#4gTXRP(_"
    "@MXkbWRYGk<(ZMltRuCl<(T')L$ZpR$'g@%hVOeaL$7'q@M4'>n&TvfCMq=7/VR+U@MAL_5&Smjt[$DPHWiDvN$I:.,aiDvN$,]ALVlc`O$VsR$'EK`O$d"
    "3I0`EhiO$(4I0`G,@n&C:/IsQ+_@Muk@HsYGk<(wyFesuCl<(q(ZV$ZpR$'aUAhVF0wg$.*q@M+fGn&KyfCM^w/tRS+U@MDRLq%V1gq])SYHWm`Vk$MJ7,"
    "am`Vk$0`ALVox6l$UsR$'Kd6l$fF)i`I&Al$*G)i`K8In&q%EUfR+_@M$8^TfZGk<(&h[qfvCl<(xC_n$ZpR$'OJ.hV6,Io$v*q@Ms7Jn&;#gCM>oNHjT1"
    "_@MA>Xt$;:St$;:St$;:St$;:St$;:St$;:St$;:St$@M:rSyGa,%[M:rS$`Tq%x.4cFwW0JWSw.-%`o(BMBHN-%tik<(R@Jh(x.4cFWyxxZ8hEMcoO)BM"
    "w+'3%vik<(/m[#,x.4cFosoxZY2WfmqU)BM8iW5%%jk<(0`f&+*W#xH$IjBMkodO%h'l<(b5l##*W#xHBU%CM@iEQ%ba7Q%x.4cFqXmvZkx$7sn_jBMp8H"
    "c%rwDo*'=CwdH;DnTswDo*$EIwZDhg8ScSS$''NIwZWvmiPjOjBM8Jcf%rwDo*KRDwdJN$OUtwDo*HYJwZh%i8Si'l<(4`s##xpPv$I.%T#H4J4$x.4cF<"
    "5awZ)4X]^nb%CM_Nki%H/$h%sH%CMtx(l%x+Hc%fE%CM6s5l%Wk(l%9b(BM-+nl%nik<(1#GO'g>^u$=w8n^CnK/MyqZgM=_Bn^]^GWMZ`y.MwBTm^JW`E"
    "ONKBW[rU`vZTZqlOj6)BM5_m(&,xDo*<*MwdtiEnTbik<(OYUU%x.4cFEmb5^vbvg`E8t>MhTvt$XGk<(x8i4g#Dl<(+$)0&VGk<(['%t$@ZfRgc;C@#*W"
    "#xH>OjBM@ye4&rtDo*X3o4&o4RO#HB%CMJ.x4&&X($#n>^u$fP35^J18wQlcL@M=C#r%/xK@M,PLeWY4/IWc1VG&uxo/V$o/J&U4/IW%u8J&GK^wZ8hEMc"
    "ao(BMrpBK&hik<(lCH<$x.4cFK:;/VCyAM&h5/IWD(KM&oLSn^X+:5p0bq4&rwDo*Q7q)OTUd5p[:k<(gw7wQ`Gk<(%)PEt[:k<(%-+;M`Gk<(<8sW[]:k"
    "<(6`p/M`Gk<(12bNh&xDo**65'=4IFm^h_'&uY&8atp>Pn^ihCBuZ/T%u(nPn^jq_^u^>pAu-(&/Vi^b1'+aFIWjdk1'BW$-ajdk1'(aJHW]mUC'h[%CML"
    "FwD'31mC&H^%CMML)E'a7wD'fE%CMY>BF'E6JE&fE%CMf1ZG'E6JE&Qxp@M3ge<$w,]0,@gqY[+RAW[*I%;[mgGeWF_]s[-_]s[o,]0,KifP_=j5N_3e%;"
    "[oy'FX&O;WeeN;Weo,]0,tqpck43BakZ+';[q4`&YIra(k0ra(ko,]0,rRXJj,Y)HjVv&;[sG@_YAAIgi(AIgio,]0,UI'j`FDNg`7q%;[",
    "uYw>ZaPj+aHPj+aqX,V),Kvv#V`NX$jwcFX89C9%,YaIaR/D9%Ki:*kq4E9%jxlbt8:F9%u.8u[FbL9%D('lhl%N9%L.l3h..Dng)>Ida8DtjhvQV&c=K2"
    "0&7CW0&LyxCMqCj0&FTGDMZaUHj>0-teuIl<(:6tHjCg3V):0X,j&hV&cW,/-%oes,%U1yCM=$R`'jcGDMyo&eWk1.kUyIl<(&iqeWLs3V)&cUIWjt;*Og"
    "dUBYeZ%FXLs3V)2UNCYM-,'cW,/-%%fs,%h1yCMKtsa'7E$YMQ)/b'BvNa'S1vv$`X65/:D/b'IZ+v$up.1&5peYMYZyb'OJ8b'@Z+v$MvNa'G^IYM^sGc"
    "'OJ8b'5=*@mTBjfMR8M#mj#/btB+g1&i*]oTWRp5TbFTdaI)&wmi&K&uC1p1&5AX;n-$-V)]D=2&..J4$y>^u$XN=2&3%]>mZeGc%0B;fMW9r`*P/g1&WH"
    "42&@C:RpTBjfM]=^5ptB/btLil2&i*]oTbqp5TV'^daS.62qsEK&uMou2&@FiNq-$-V)g*D3&9oFq#y>^u$m4D3&=*mQpZeGc%:B;fMX@$a*eml2&l.:3&"
    "nsPv$_TT1&`$,c'DZ+v$)(4>+1C6YMuEvC&cKmC&DZ+v$88E0&[+iXMxW:D&<`1D&nsPv$`TT1&`6Hc'DZ+v$h/=>+8]afMm15btJ_fE&i5vv$yA$O##OI"
    "H&KNs^MNpJF&ovmC&AHvUS#+J@#Im6oTaW>US[eGc%<]afMuJ5btR8YF&i5vv$TF$O#vD6H&QNs^MVJ=G&Y)KE&I:O0V)=J@#Q`gIWqco/V[eGc%bVGDM["
    "b$H&<a@a*Tr+DM1.nBu:g3V)aLVhMPGi%uR8YF&Ca[/V]hGc%=VWfMLSu/Ml:2wZYugcbUhGc%:VWfMpAQ&ufV[H&TO)X[mfh0,(5I:SQr3[mDW9U]5lB^"
    "^p3D1MbQw<(CpwH&]^w<(EdeH&XVWfMfIv/MxR#k_g=-[vSm3V)<]R&ub<jyP+0wg`c-Gn_>JrEt'0hJ&[^w<(+y^J&uVWfMdw_&cW,/-%8Ys,%.>yCM_."
    ",K&3WGDMIr0wd;clZd&Jl<(ppWwdHs3V)dRKh`+Cw/M4T(terv7Xe]hGc%kVWfMoB`&cW,/-%CYs,%8>yCMil1L&=WGDMSwA2hFh%ng&Jl<(-=i2hHs3V)"
    "nqKh`5bw/M>Y8/i/DIkh]hGc%kVWfMCP:essKwvv&6Dbb-dp8f.$-V)8@HeaXf/+b;Z%M&a%OfMiB0$#xbq[d:6&Ij[eGc%HWGDMDDTBc8yWEbyIl<(jKI"
    "Cc2$-V)@UDd'3VX1%y>^u$vnDd'DZ+v$vh:d'U^IYMlrrd'inVd'IZ+v$oc&J&:dGDMP[E5gI_aQgyIl<(+1:6g2$-V)LH]e'Db>3%y>^u$7b]e',[+v$7"
    "[Se'`Q6YMvXxe'1noe'i*]oTNFG6Tq)#ea:VTKi,)JCcC'QHj<`63hLs3V):'okhJm=*OHU-&l',F@d2$-V)ZG0g'Tm%5%y>^u$Ta0g'DZ+v$TZ'g'9saJ"
    "M:6Pg'UdGDMeffZmb6C8oyIl<(Ty[[mk^n<(h/xwmJm3V)gw@@mYV:'PTmupo',F@dLs3V)e'qqosWu#veA,=qZ.'iMnrDVriS<<nFwEo*mUhejn[ILr2$"
    "-V)^oyEkXf/+bFA+N&KjafM^[7bt:Z7M&Xk%U][eGc%5,iXM*9=N&SdJ4$UO)X[[eGc%Y]afMj)8btGMPN&i5vv$$B$O##coa&HOs^MMkGO&0Q:O&=-,un"
    "wyL@#He$opZ4Otn[eGc%pE6YM88iO&Cfx4&@Z+v$fYSE&w,iXM;K-P&R9E0&BZ+v$5O$a*vPe=MG^IP&IV.P&HQNfM7^1$#9:SClecUeN]eGc%nWGDM*d`"
    "ZvBCeTf&Jl<(2^1[v.$-V)OP:`&F#EL&y>^u$=`:`&DZ+v$_nIP&_.iXMyaV`&hjM`&PyU>v[eGc%LYGDM^$I)O8=TBc&Jl<(Cfv)O/$-V)W*.a&;<>K&y"
    ">^u$N9.a&DZ+v$gnIP&g.iXM*;Ja&MFAa&PyU>v[eGc%NE;fM][[%+f;*Q&Lx``&FLaY-m)fP&$n+DMsYr>vkhGc%:WWfMIKx/MPGT;R]$hcbUhGc%7WWf"
    "M3>a&cW,/-%_[s,%U5yCM-g3b&o.iXM2m<b&pZgm#FZ+v$e&=b&VDafMsG>btP/Yb&i5vv$QC$O#YZu.'BMEfMtPAOUU;afMwS>btTH'c&R:$@vYBjfMNV"
    ":)t55_bt^2bi'i*]oTrZH6Tp()ea_<cathc_INge_^u1)_btahGc%UdWfM0>#'ue^Kj'OyU>vqfh0,ko[`u$k(oT5UbU]wW]sVIrdMMt^w<(r>cb&CYWfM"
    "sA#Ft^sUc&[^w<(G_Lc&JYWfM%jZ&u[shc&IAT)Xnfh0,Q[P:S:fKbb:;CU]*^m.ZCZK1MbQw<(.8-d&]^w<(0,rc&NYWfMG$h&cW,/-%w[s,%8>yCMFLe"
    "d&rYGDMihRe&HZmw*48P'GK1Oe&:X+v$x]Xe&4U-V).+YS^,E-FM:9#]*Q$f%cW,/-%Vhs,%>4yCM%B3y'm`IYM*H<y'S#4y't/4cFTe<y'QJYcFSrm[*s"
    "reYM2y/#(S#4y't/4cFe>0#(QJYcF]xv[*KWj^MO.Y#(4'4q#14nxHlKC#(pUv]MRAu#(ndh#(H4bhVZBjfMtP.oT.vdbtUZ#$(i*]oTkGN6TihydaVI)k"
    "U.7%$vie::V9>,r]vNAWVjMF0VbhGc%LfWfM$Zhes)#y7W'`ZFXuc.oTd/`$')(cAueGe$(3pN%(G.tHW3$-V)u:)%(I)n3%y>^u$2W)%(t/4cF4^2%(34"
    "nxH$LC#(SlafM/7ebtdYN%(*gayH3Ee$(0jE%(lfGDM*cV>ZJ_aQgyIl<(7#T@Zl^n<(K0p[ZKm3V)M<4xZ-n&#Q3.ac[AmiFPWQ/;[3$-V)*.B&(Db>3%"
    "y>^u$KJB&(>KYcFKD8&($gGDM3_K5^RQ9,jyIl<(J:I6^l^n<(^HeR^Km3V)`T)o^-n&#Q<*UY_I`BxRaM$2_606V)fsaO_Dx%$vy&sdaanQCc,bOBcPvL"
    "9]Ms3V)f#vea/ON0M.t/#d5db`cl^n<(e_^L`Ig3V)qp2$dvQ6'c;RDW`f%Ung1(T$'JjW%(i*]oT0:*6Tn,Heawk:,a#CAIN&*WHamt=-aEg3V)IWgwZd"
    "qh&cC4-,bsJLng1(T$'bu^f&M]P&Y]eGc%+/iXM`vyf&%gJ4$JAT)X]eGc%O`afM%d>btYgUc&kcfBc]eGc%jG;fM/Rvw*eQUc&#SQg&24nxH7dvw*<MEf"
    "MuW)@dVBjfMxTI_cM$Abt&9>g&t_Z8f]eGc%sG;fM7,jx*1$>g&52Nh&24nxHH=jx*&JEfM0pu5gWEjfM2j=UfV@Abt/q:h&,B5IjVBjfMI<X,jk&Bbt:^"
    "Ji&FLaY-&mBJ&TjyCMwnoi&fH6YM&$+j&pGvw*@Z+v$J)pi&8-;^M8VA*(Eg#O#3+J_lZBjfMA$<0ik&gbt;pF*(,[+v$IH4j&4>GDM97n+j=gbseu^vea"
    "B3vHjj)+'uG]U+(*2,ej5-6V)IBMClkkl%cCHir#YjBu#020+(#Iy9%Ra9+(:X+v$ZgC+(ISCo*[l5,(Wr.,(:X+v$^gC+(JSCo*_'R,(Z-K,(=t's%hA6"
    ",(4U-V)cYbXn0E-FM;Qn,(Cb[1hYD6np+E$A#FW68&pY[,(ofn,(FmafMj8gbtG]U+(mZ68&idl*(Zr)-(2mafM_bAbtEDPj&FLaY-/mBJ&TjyCM)Olj&o"
    "H6YM/['k&pGvw*@Z+v$]alj&B-;^M`:F.(=g#O#.SdeN[BjfM7EHCu:EhbtcTK.(,[+v$y(1k&4>GDMa9x=vu^aseE%xeai5)[v9H,'uCF<=(Q46wv5-6V"
    ")N3H9okkl%cCHir#8nCr#,sn<(#Iy9%JLx<(:X+v$RR*=(ISCo*WUt=(S[m=(:X+v$UR*=(JSCo*Zh8>(Vn1>(=t's%`,u=(4U-V)Yw*`P",
    "1E-FM7:U>(>d[1hTlPtR(:*A#FW68&hEC>(gQU>(BoafMf.mbtCF<=(mZ68&5Iq.(&]h>(WaNfM:xf$#A&59SrimbtVd>@(EpekU[BjfMcbY2U-smbtWjH"
    "@(M]P&YbeGc%wn$FMjehgVc=Xtn^=XtnEg3V)_))A(]GLJ$on3dknJ[9SbT,9S([BU]c[5Z#1Q)A(W52^MP[WA(0ec#+GBafM/:nbtd]aA(mZ68&-'d#+,"
    "pWA(KoafM_bAbt;dSi&mZ68&29($+onu#+riGDMC^-l&K=jx*amn/r.BHGtZb@l&[^w<(DM6l&GZWfM@gj&cyqOpsoxIej4Jl<(9MFes`/`$'#tbAuc/fl"
    "&0MOm&JKyat'Jl<(&0j/r^hGc%NZWfM./_&u^)*m&KT=&unfh0,7(%%v.2>_uBpn)bWU-l&W1bfMyZBbtVU@l&w#W5g]eGc%U/iXMwWV$'.gJ4$t_Z8f]e"
    "Gc%y`afM`gGbt<li$'i5vv$VD$O#)'N,'=Ts^MA&N%'cS:O&1l1fNo`[@#99J'PFYdeN^eGc%L]GDMGAg%'qAsx*y>^u$VXf%'DZ+v$wDmn#fWiXM/^3&'"
    "Yk*&'=/QUSWBjfMZ*t8S'aHbtMwO&',4nxHm8eO%14NfMTng$#dWP6^[xJ0`beGc%+yl`MYaGC(9*Gq#M+=7gbpoXeSM$2_,Jl<(WrjO_chGc%niWfMc5["
    "Cc$ovg`HUEUf*IEo*w$(D(tV3q#,QyCM^71D(Bu-FMh`rD('I[yPTU@O#77ps6Ju-FMkr6E((OeyPTU@O#:7ps6Mu-FMp0JE(vd[1h5^(Xe`2,A#=t's%+"
    "CAE(4U-V)%H8xd0>$FM&MoE(+OSE(/[fE(g=N)bbeGc%kV;fMAWAy*Zu4C(u<dC(2y-Cl]HsfMAIj1hbeGc%)dNfMkZh$#=`k[m7'F0ibeGc%,pafMj;pb"
    "t<ybF(on3dkIrExQ[)uwQLM00MDWI7$JN'G(TI$FMQ68EkgT,9SbT,9SvL5V)e>UG(NgLG(rAi7&TmUG(nc,Z#0a`BlbeGc%4W;fMCdSy*SHPF(L;cF(;n"
    "+US^eGc%O/;^MRE6I(Eg#O#LZ+Ft[BjfMsL(op.wpbtU_;I(,[+v$k'4&'4>GDMRgOjq>gbse7W)faZcW/r-#5'uaKKJ(CbeKr6-6V)j#c<Rlkl%cCHir#"
    "smBu#Jx%J(#Iy9%.S/J(:X+v$6Y8J(ISCo*uZ+K(qa$K(:X+v$9Y8J(JSCo*Mr)Y(ts@K(=t's%p4,K(4U-V)jYR@v1E-FM*EFY(1g[1hFB(INsl2A#FW6"
    "8&MR3Y(L_FY(4rafM,2qbtaKKJ(mZ68&qRbI(ciXY(LpafMqDHbtN&Y&'mZ68&m9Ty*_f7y*RpafM)sHbt^+6('i5vv$_D$O#Et:,'(i-FMIIn('0$.T],"
    "pMgZ)YRAZdQw<(2KR(']^w<(5>@('P]WfMb]Rejx$Tt[j$&>m0,((uk$X)'Wk%U]ofh0,jNQ:SHeiwdIgLU]80>Z_]ML1MbQw<(K7b)']^w<(O7b)'^]Wf"
    "Mo,JIN$ovg`x@RAZFg3V)X6^h`B14(c0t3*bNp7Uo4Jl<(deu)bZM4V)ft9FbWLq&cB.IDcs,-UonRYea+q/_c*FNLM1/L#dm5r&c%(T$'oUd+'@Z+v$NF"
    "G#+dGafM6DIbtm0k)'NflBY^eGc%-2iXMj`:,'7gJ4$KJpEX^eGc%QcafMcpGbt@'.%'@Z+v$DGsx*dGafM`gGbt>x$%'n'c>d]eGc%L/iXMnx`,'&gJ4$"
    "kcfBc]eGc%nSNfMb2C$#xbq[d*+DRg^eGc%$dafMXRJbt5B.-'i5vv$ND$O#ATc.'4Us^M9Sj-'ZS:O&*,'lhfE_@#2Q>-j7][kh^eGc%_K6YM$r*.'%Bm"
    "n#FLaY-f-fP&MjyCMy&=.'d2iXM'-G.'I/+.'KY1FkE830MKq)#m0NocbUhGc%&^WfM[bf&u35s,'w,sQg_hGc%DYWfMRi'0MM,bZm3VlcbUhGc%AYWfMU"
    "3@INQQysnMObwQJy3V)ZGbtn5s_%uN'`/':o4qoofh0,XpM:Sj'u,W/oNU]s3NvqKoH1MbQw<(kG$0']^w<(m:i/'A^WfMsQg&uVXR0'CbeKrofh0,OUP:"
    "SegILV5*OU]$''QtQ08yQbQw<(yl[0']^w<(&m[0'I^WfMZGLINAkgKM[K5yQDg3V);7ULMI4D+OD/dHNwZln^;g3V)O-,9o-(y&c^xtcOc<VhM5&sfaGd"
    "[&PG=90MLy;#Q[,-pT)IEo*%=dbXU/9%Q)Jl<(VqF@QGg3V)Bq.6gE(k%ch&.vRc<VhMC+beaQil8SQ]90MV'M5Tn$n]Z*IEo*/]dbX`4J7T)Jl<(k=WRT"
    "IE^0,_n.'PaQ>9SCfy&cayUC',bt1'KM+DMsY73UGg3V)N>/6gBs_%uVXR0'EtE,s_hGc%B^WfMPg30M`#B,W6]lcbUhGc%>^WfMtTg&u](@D'H78eWpfh"
    "0,YsM:Sppc#v=EUU]+g1KZv/3%ZeQw<(0K[D'[^w<(4>ID'O`WfM(m5Ftm'XE'[^w<(qpNE'^`WfMgU:0MqifT]O`q,NkhGc%Y`WfMrE3*Ov@C2_+H$p^G"
    "g3V)sBSIN@cn&uirWE'TO)X[pfh0,x%dV]L=NO_<D6Ft$',G'[^w<((pyF'j`WfMCrn&uwq+G'e42eaP+4V)&[7-N8bSIN,bOBc`lnn^;g3V)5+E<RM3o&"
    "uwq+G'cyQ,apfh0,MIaJNe2[_ci)$'cW,/-%>cs,%%)yCMe]DH''La^M+WQH'@>EH'&sHxH%$NH'vw(9fXBjfM*KpteXFSbt/w`H'i*]oTF*=6TbFTda3m"
    "@5gfYvt[Ri;^gI;=7g`hGc%x`WfMP*Wes[3Xygnk+-a-^pteb/`$'TybAu=^AI'7bSI'y>S2h`hGc%P`WfM6t;0MBu4,jSs/-N<$-V)].4J'j&+J'&eu6&"
    "F/4J'/^1FkXBjfMLXT)kiwSbt@+GJ'FZ+v$c<Zo*1khXM656L'fD-L'IZ+v$f<Zo*s=GDM'``kq'f>Rp>BeeaY]N/rYv<0MqifT]Z]q,NXy3V)P`nV]u*,"
    "/Ms$G5^7ijq]BIEo*Co29+P`w8+^HyCMbf;9+Ms6YMl<8:+Z9JE&@Z+v$)#9:+s$JYMnIK:+_mmn#@Z+v$HPM/'@.HDMQ%^_c`=t&cKBeea,#L#dI^lJN7"
    "p$qf#@pvQDg3V)4i-sf`RA+O9+]Qg.00p^;g3V)QYG:o/T<(cd)SL'q/u1'_'JL'%[Yr%RGE<+FW68&t9fL'%Hq:+64bfMdwSbtA1PJ'mZ68&[Z=J'U-+>"
    "+/ZNfMSnp$#4cmINL'lIaceGc%VfNfMObp$#7'jFO>WCu[ceGc%vlGDM*cV>Z^L%_P$Jl<(9/g@ZKg3V)<>+]ZA$MDc$ovg`lstUf*IEo*n6`$)uY3q#.W"
    "yCMcSi$)nuafMD$xbtnFy^(i*]oT+=b6T%Q2eal]fT]ww`0Ms$G5^'[X*O<$-V)1`P_(9oFq#y>^u$Y*Q_(BZ+v$]0Z_(pViXMjrR%)+MRO#@Z+v$k'H_("
    "njhXMn3x%)>ngm#on3dk`6f6^%)k@dG1[$Q<vD8fj$+R_m*,/M6g`Tfq%Y9fNm3V)+1(VfKONmgKpI7$9)Y&)8)Y&)g.f=MEvGQg%tk>e=c[3h:=<2hnW#"
    "%#rq^MVTC2irqJu1h.Jl<(:$xOhGU-V)6f$Sg#9GDM_KYgiL4lsewm:fa@$Q,jF$]3hC0mdjpjZ]#rq^MV][2iry<Ndj.Jl<(K/Q*kGU-V)>'%Sg%@GDMg"
    "=2BlL4lse(/;faHn)_lM3AogVKO#mIRT-jY^-`lNE^0,O+w()_<m_(_<m_(hbR$vLJHfNs6r@ZXm+Xnd+J$m,CX%ux,(`(`^U/`tfh0,7PTJa*IrXnx&%M"
    "M)9a,afCfDPkhGc%mlWfMEl$fsXSb#QivVGkb@T0`f/`$'%='^uFu#O#LpWfM.i6]ZvOJsryDEnTU/`$'a3cAufWT*)lu&:)EtE,sZ:4V)",
    "nh]$QRrRZQhb0btf;YDPAv3V)3H,cthN9%Qx^e>ve)(GuhN9%Qa:4V)<+a@vMiryPt7DbXc#V_v;O)gWcSCo*<<GA#sk6MME,5LMC#B(YRv3V)es4fsp=M"
    "'u_Gj<))(_,Nx95V)&/HfWlg&EtTT>;)[^w<(V2C:)ArWfMT/C]QLmIbObe%gNJ:4V)X)c$Qm_syPur7X[ruHBPaxZ0,G[GA#Xe)GXb:4V)M1r9]1$@KMx"
    "F0R^O:2s]U(4V)Dte*X<dD]Q)9a,a3<qCl;j3V)NHFcXCjd$Q95=bbve'7_XQb'YkFsI-[BHA#4-@cb-ND%Q@m5[dve'7_avB`YXv3V)jUk3_gEHxv3aMt"
    "e)[OfN:(.Ufp's9]]SCo*faHA#uWHxvB3vHjO7e$QJrFngCL5Mjlgf*Xygn<(:oIog/f5V)a/hC)jR,Z#rAi7&LghC)DH9C)E(D7&*i97+kg@YM8G5;)a^"
    ",;)EjwKVeeGc%HE;^MPAU;)$Rgm#>8mqS_BjfMlvZuR-s1ctSZZ;)R(D7&d/Wp*=Qe=MA/nD)@+SD)SO$8+jeu6&aMnD)S=i7&4Zb^+qNrXM8H;E))l)E)"
    "L(D7&l/Wp*AyafM*42ctVmv;),4nxHyscf%T7NfM3l*%#HdrRT(1PlUeeGc%4G<ZM@s%F)-+;o#[o[8&Q@kj087r7+hO&KM@4KF)12f=MI:TF)BiKF)E(D"
    "7&9j97+0#]YMHMpF)ysgF)EjwKVeeGc%NxafM*42ct_Gj<).Ah:&`)u9)wb5;)akEE)$kpF)u.Wp*LlNfMv(r$#XI$`Y0O_ClceGc%ofNfMrsq$#7'jFOu"
    "PY9fceGc%7mGDMC:8&c+<O8]$Jl<(kQI'c5$-V)Cq@a(&d[h%y>^u$%<Aa(DZ+v$COdo*RBiXMm*]a($ISa(@Z+v$,O]a(DT;^McYTG)pi#O#-JHIN`Bjf"
    "M9QQ'uBZ5ctfsYG),[+v$dboa(4>GDM`0]yubtrseH:Ffah,e>vA^Q'uFeKV)P+rZv9-6V)29;Yeqkl%cCHir#x6%P$/:&V)#Iy9%Pw/V):X+v$X&9V)IS"
    "Co*Zt+W)V#%W):X+v$[&9V)JSCo*^/HW)Y5AW)=t's%fW,W)4U-V)[,4DP5E-FM:YdW)Bp[1hSc4XR/POA#FW68&npQW)m%eW)E$bfMiD:ctFeKV)mZ68&"
    "4g(H),0wW)]yafMg5ybt4K*b(i*]oTI@c6TJi3ea2d$qf)qI'cW,/-%Los,%t7yCMrbXb(aZ6YMwhbb(MDYb(@Z+v$;t<b(_BiXM#$'c(Q[vo*i*]oTR[c"
    "6TbFTda;`pgiIQBiMC'QHjNyY*ORg3V)`Vi0iO%y.MdHYEXd&$PU;g3V)dci0i^5XmgKpI7$pP'c(;DgY)@4f=MY;GZ)4HMc(1khXMRBPZ)s`GZ)BZ+v$M"
    "oPZ)e@$FMx79;[NWcxZNWcxZbxZ0,qMlZ)[4,Z)6*.FMXg0[):e5ZZK((He<pi8SU/`$'`7cAu<mb^)8B9_)qL#Xe<IEo*OW&_)3]3q#&^yCMtn/_))%bf"
    "Mf;=ct9s8_),[+v$x<1[))BGDM*8cmgN6rsesgMfa61<2hTYn$QTU@O#JDps6SMDaM&@#`),VRO#9t's%Jah_)2%bfMf;=ctCS5`)lQrs%VG0_)As,`)X*"
    ".FM](V[)3yoDt[,Bb)[^w<(HMw`)>vWfM4af'c^;b0$[Y)L$euU[)%[Yr%cY2a)<xP5pfeGc%_.m`M5EWa)[YJ4$D/IAdh%x0V-C_vm0Jl<(_`t<n^SCo*"
    "bIsa)^Ola)1[+v$>VV[)b-`EM>s7b)r9/b)<xP5pfeGc%Ed;fMFxrp*aMw`)nfEa):X+v$^*mZ)V/`$'18cAu<mb^)33Qc)CbeKr<IEo*xH=c)3]3q#.^y"
    "CMF`Gc)R%bfM7a>ctcdPc),[+v$Ro$]))BGDMSMMatN6rseE4Ofa`F'&u&'p$QTU@O#sDps6%NDaMO0:d)4VRO#9t's%ER(d)[%bfM7a>ctlDMd)lQrs%*"
    "8Hc);eDd)*+.FMeYI])5.+EtYy:t)[^w<(FCqr)<xWfM2]l'c^;b0$Y[)L$mOI])%[Yr%_Q,s)9[KtRgeGc%]0m`M3:Qs)dYJ4$D/IAdfx&1V*&Y^P1Jl<"
    "(Y>u$Q_SCo*`>ms)[Efs)1[+v$E2J])b-`EM<i1t)n1)t)9[KtRgeGc%Cf;fMH-.q*]Eqr)j^>s)FW68&H>jp*uV%q*u/%FM6Lv%cPegIjMegIj%M5V)Nr"
    ")^)-tw])rAi7&'U*^)IV,Z#,;H)kceGc%1Z;fMK<Aq*h>LV)N;;t)I(D7&d/ap*K0bfMkBybtHi,d(mZ68&+Eap*o-$d(3gNfMniw$#/5C0iH^b0MdeGc%"
    "8gNfM=.s$#7'jFOa01opceGc%XmGDMd]J>mWm5)k$Jl<(U(]@m5$-V)p.jt)g01S%y>^u$(^jt),4nxH*dst)14NfM:0=%#JvR3U.DclUgeGc%O'bfM/JE"
    "ct_M7u)FZ+v$vZdo*M'bfM/JEctdlfu)i5vv$mC$O#27^u)mxGDMh*cWn^M.#m$Jl<(^YtXnOs3V)jj@lU`sb0MSdYTog`T9oKg3V)e*qUoA$MDcfZ9&YW"
    "-wUf*IEo*[(Gv)B^3q#s`yCMPEPv)['bfM2H#ctVhWe(i*]oTkNd6Tv>5eaT7RNqK(K'cW,/-%+$t,%^5yCMQW'w)gK;^MoQ4w)$:$O#_Qcn^aBjfMP(iu"
    "[LxEctrk9w)]8=n^geGc%FsIYM]+iw),9(w)]8=n^geGc%ff;fMN[*r*&V9w)]CDw)i*]oToZd6T%R5eaX]jgrhc#JN_r.,s/jhirKg3V)u)jOqfDc0Mb6"
    "+)tm'[*O<$-V)wNgf(9oFq#y>^u$6rgf(BZ+v$9xpf(pViXMfcex)qMRO#@Z+v$Uw^f(njhXMj$3y)-ogm#on3dkJFf*tq;r*bF.w$Q550#d[6gEum*,/M"
    "/&L>d[`G$dQm3V)wD/AdNONmgKpI7$1#ly)0#ly)c7f=M=53;ex2W)c<`w3h3T(temT>%#rq^MVE0puRlaase1Jl<(/7(:fJU-V)+y+=e&9GDMWbEQgFu#"
    "tesjVfa8:<ngExw3h;GXNhogv]#rq^MVMIpuRtS9Nh1Jl<(@CXlhJU-V)3:,=e(@GDM`Tu+jFu#te$,WfaA-mHjL0]ogOb:ejAf[ogQq4JjQE^0,Ks1%*;"
    "-,g(;-,g(hbR$vHGdfNo36AZQ,oBl[>Qfj/CX%ugs=g(Np9#vtfh0,4to`Yy_+Dl2wbfNoKEwv3oC1VkhGc%0oWfM`g+fsvYw>Z'oGDlCv:$vf/`$'&1cA"
    "u@]Z'&kojx('m&LMg/`$'y0cAuExvc%XQhv((vBhM6$-V)XFbu(RiD(&y>^u$Pkbu(i*]oTYsi6T'Z;eaB>`EOS$)JNHT$bOZ_]GOLg3V)J-)JNQ]h0MKp"
    "w^PX@a*O&:5V)opDGOeKtDtcZ='*[^w<(o3/&*IyWfM>14DcRZ=8oNk%Vf*IEo*HcJ&*q`3q#`ayCM<(T&*H(bfM*;HctX)^&*,[+v$oOUv(4>GDM[vo1q"
    "6H&te:pWfaU=[Nqd&y3h`-gds<s@%#40J7T1=]A#>@y3hcIcat=%]A#40J7T4G]A#BIy3hhn_BuE4A%#=t's%AFv'*5U-V)8jd'u5B-FMTI`(*ZqImguZ)"
    "[vEvD`uI7%AvhhGc%OyWfM'wKfsr4`&Yw$CYn7<w6phhGc%MoWfM7cP'cW,/-%bqs,%I:yCM07#w(]oGDMi2uWR`UA#Q%Jl<(aj5YRPs3V)TL)JNb$i0MT"
    "llTSlsm9SLg3V)h:2VSAr0(cW,/-%kqs,%0&yCM9ovw(&Q$YM@$2x(n^vo*@Z+v$q=ew(kghXM8]:8*je)l#@Z+v$u=ew(xC$FM^MwsRqQu@QryZYRdxZ0"
    ",+ubA#VjDo^;g3V)nf77TeXniMW0iQT)yooT<E^0,^579*)j.9*)j.9*)n3dk,*cA#5mooTKU-V)w<44Ug`:^Mw.:<*Yl#O#m$4CcbBjfM",
    "`-/4_XFOct#I@<*rq^MVS$OS^<l&/V2Jl<(_Lgl_ihGc%x$XfMj^;Dc%x:,aXIZcb+IEo*ke)=*]`3q#3dyCMdr2=*Y:f=M<Qe(b6KpjaB<6V)Hq11VL3R"
    "pf-kO&c$[[cbihGc%x$XfMPFSfsma=eWl9/4_w#HM`KU-V)$J44U`2NfMs.I%#fj0o^<GirfheGc%F%HDMS<-8fi,%teE9_fa4m$Ufl/l'uEfm@*uq:qf<"
    "-6V)[mJJWkLu%c/-y4$wSSl$+),@*y>^u$Hm5@*40J7Te+eA#h(qxd>Y8/i3ApoT1I-V)ACFPhuKl'uEfm@*'n/hiyfh0,`(_VfE9BMiEx)4hdQuaXA3'^"
    "#>9v5pbBjfM1Cq'l*kPctL9WA*rq^MV%IPS^E_VaX2Jl<(Y.S`lihGc%J%XfM;+=DcN5&wmabZcb+IEo*<VAB*]`3q#]dyCM5dJB*+;f=MffOsn``Z^nB<"
    "6V)y0dcXL3RpfV(:qov<HVoihGc%J%XfMyjTfsosuEXgsr'lr]3AmKU-V),c44Ub8NfMESJ%#fj0o^7)UfsheGc%o%HDM%Ro+si,%teMR_fa^*gHs=Tm'u"
    "nV-E*G/&es<-6V)5-%%ZkLu%c/-y4$ITSl$TqCD*y>^u$C_MD*40J7T6PfA#9Mrxdhn##v;YpoT1I-V);%2DuGpm'unV-E*P+rZvyfh0,3DIJs@s-Avm;g"
    "ogvc;[ZAU;+XGnscXTE^0,s`L;*'K2x('K2x(hbR$vpjkfN@W=AZx-p8]TdY]Z0CX%u]7Ex(Ca[/Vufh0,<)8(YGR/:]%7VMMd;g,WI;TDYkhGc%QoWfM)"
    "s,fs$1Tt[(9J1M.Jc0V6$-V)wPsx(xG@,&y>^u$6vsx(i*]oTxxj6TMu<eaaN9&Yr)*JNgdUBYyn6(YLg3V)0C[*Xpbi0Mj(R>ZwEb*Om/`$'<1cAuExvc"
    "%Lo=#)Q3-[Zw95V)B#ki`eKtDtXyVT*[^w<(ZWHS*>'XfM4oCDcFBD)Oop&Vf*IEo*>0mS*wX3q#Vl+DM(qyu[khGc%E'XfM9'DDcKpw^Pop&Vf<B^0,gp"
    "$U*]b6t*1Oe=MC-.U*`p&U*&Jo7T+E#v[Z):^#LSCo*.*lA#1#mogX@6nT(p]ST@IEo*PUMT*)Y3q#[l+DMofxoTjhGc%E'XfMx*s'uw)1$)UXEt[6$-V)"
    ".PG#)9oFq#y>^u$SuG#)BZ+v$V$Q#)DT;^M_LsU*&m#O#y;%6gcBjfM-]91V^UXctbfxU*=t's%L_6t*(IEo*&pFV*7Y3q#u]+DM106.W'A5V)Y8;7^sZt"
    "DtskCW*[^w<(CicV*`'XfMhw@1MfZ9&Y9DKoT5U-V)Ey#v[)9GDM/VvyYM'iseLX,+bqe9W*_-bfM:rWcto_CW*.4nxHV@d#)97NfMOtP%#]n;xZ]V;7^i"
    "eGc%>TiXMYvqW*&f)l#=t's%^_6t**IEo*7*6X*7Y3q#(m+DMTS[V]jhGc%i'XfMM1D=[6u^y^UW4]ZV/`$'GAcAu+eRX*oN<Y*]BY2_Qg3V)M%HAZ`>t1"
    "h%xvK`Z2Vy#rq^MV<I>4UV`[j_0(T$'rB*Y*dyQ,aieGc%s-bfMa5Yct+&FY*,[+v$a`gy(7ArEMCdEab[=-v[urdyP.e3&c6NGgb@IEo*r;&Z*^Y3q#8m"
    "+DMwv)(c'A5V)%K<7^vg&EtAD5[*[^w<(15CZ*-(XfM32B1M2BH;eTL#pT;B^0,HgpZ*]b6t*5Ue=M$$#[*AgrZ*D/IAduy-+bhN);e0(T$'@Z#[*vq:qf"
    "ieGc%..bfMa5Yct==>[*_KuN_deGc%iuafM+%Rbt`:[D'@Z+v$u<Zo*dGafM(sQbt_4RD'aE0/`S0###",
    0};
static const char *const diti_spirv_text_gemm_gpu[] = {
    "GZ1N5jsi^P4t-t*=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>M=W#2q0`r6%ql5KiXr0Kr6S`^P,gw(bHGUgr](7/VA.NK`bO*tRHP7,a+VNHjAh%"
    "ngH)1_lQk/<R&vmK(D4Tvd'ifp#-;1EMS3<##D9-V)gi08.yCT$'c@^vd*$+q#8['EMwejW-&il<(]C3U%Q('lh]q@=e8n0r#e@Lvd0U0r#(il<(tNY&#R"
    ":_Lie9LvdGy)t#-;1EMs;=##D9-V)/j08.yCT$'+A^vdJ4Ft#8['EM@nkW-'il<(yC3U%n%xkq]q@=eUl/u#e@LvdMS/u#(il<(9OY&#o7XLrf@Uvdbkmv"
    "#-;1EMgdC##9['EMav#[#TL5iMg<Lvd9+l-$9b'EMq];t$39-V)(l08.yCT$'$C^vdCch.$8['EM8ZqW-(il<(swr;$ox@STJLc&#fGMRTra'EMH76t-&i"
    "l<(8^0_#7PE-aO`4;ey@%4$e@Lvdq'%4$(il<(^QY&#:lA*bhF_vd4eC6$-;1EMa_F##D9-V)tl08.yCT$'pC^vd7w_6$8['EM-9tW-)il<(wxr;$o.<0r"
    "^q@=eW$U9$e@LvdOcT9$(il<(;RY&#pAthriLhvdJ9eK$xm0EMvJM##D9-V)2o08.yCT$'.F^vdML)L$8['EMC%$X-*il<(w#s;$n$oOU_q@=eW&bL$e@L"
    "vdOeaL$(il<(;TY&#o6O0VkRqvdg7dN$-;1EM;JN##D9-V)Oo08.yCT$'KF^vdjJ(O$8['EM`$%X-*il<(BI3U%4+-l__q@=eu*jO$e@LvdmiiO$(il<(Y"
    "TY&#5=eL`kRqvdX9>V$-;1EM-wP##D9-V)Ap08.yCT$'<G^vd[LZV$8['EMQQ'X-+il<(n&s;$dv^<R`q@=eNIwg$e@LvdF0wg$(il<(2WY&#e1>uRmX#w"
    "dkSDk$xm0EM@YW##D9-V)Sr08.yCT$'OI^vdnf`k$8['EMd3.X-,il<(A's;$6=eL``q@=ex@Al$e@Lvdp'Al$(il<(]WY&#7PE-an_,wd0RCn$-;1EM]X"
    "X##D9-V)pr08.yCT$'lI^vd3e_n$8['EM)3/X-,il<(cL3U%TD#ii`q@=e>EIo$e@Lvd6,Io$(il<(#XY&#UVZIjohH;eSka,%fIh:eSka,%kb5;eSka,%"
    "p#[;eSka,%u;)<eSka,%#UN<eSka,%(ns<eSka,%-/B=eSka,%2Hg=eSka,%7a4>eSka,%<yY>eSka,%B:(@eSka,%GSM@eSka,%Llr@eSka,%Q-AAeSka"
    ",%VFfAeSka,%[_3BeSka,%awXBeSka,%f8'CeSka,%kQLCeSka,%pjqCeSka,%u+@DeSka,%#EeDeSka,%(^2EeSka,%-vWEeSka,%27&FeSka,%7PKFeS"
    "ka,%<ipFeSka,%B*>GeSka,%F9H+eKRa,%(il<(Q<xp%P('lhJ4TvdAdNP%pa'EMtT0@#.il<(`q`W$Y#jFOQY4wd_jcf%tm'EM@i7@#*il<(Ac(w#Md*o"
    "gqEAydE+B1&;T(EM%tC@#&il<(9g/'+iW`RpUlPwdZUV3&DBO>MP%#AMv&cpS/Fm;-L+k<(u8'5T.L1<-Vdu6&R%q@MT*u5&n6Gc*JHb>Mm3gB#pPu'GNH"
    "VSW-EFE%Y0:c%(kk<(j:1##7VV6T0VdvZS--nTR`(BMA]gQ#rnnrPmik<(^iy.MJ)3K$jZYr%1_L<MP;vvZyt:h`;utnbG,)BMO[:S#%t'.Teik<(ye#/M"
    "GnnJ$jZYr%n@#Vsh&vvZ>r4hi'ET@PHi(BMm`CV#BC%^slik<(BnUvm3n&;$jZYr%hhBdMmqiwZGeeBlvWF@WPi(BM8,#Z#n,]0,%LtAurHtAudtBQT^O5"
    "Z#sj(BMptki#Iqhntdik<(cxLZZX;a:$jZYr%i>DEgDYuvZU@eNUTc(BM5sjl#q:*<udik<(.M7w#g>^u$4OvvZwbZ/`i.0LoDjT@MX5M5&mNhwd9->HW)"
    "uxp#a$t+a)uxp#R)jwZAZu'fR](BMpKJq#WGk<(a#L6&w]<OhLy^@M-p9NhWGk<(/>TkhsCl<('DCr#bGk<(i_O9%3_BXnO+_@MTT@WnWGk<(V@YtnsCl<"
    "(NbEt#ZpR$'fA.hVMS/u#5yp@M2s.n&RqfCMo31KrP+U@M;7O5&$x/0Mu.AHW8%c-$pT#,a8%c-$SXALV;DL.$VsR$';(L.$4>fCPkHU.$P>fCPmF4n&9="
    "16TO(_@MbK55TXGk<(dxHRTtCl<(]9;0$bGk<(.t/r%`6w,aLv^@MV`%,aXGk<(Xr6IatCl<(Qp64$mik<(U.b>#qTU@d+NaKV0XC6$YsR$'%=C6$)1C0i"
    "`]L6$E1C0ib%7n&($sbk#/NKVN]K9$XsR$'aBK9$G7XLr&bT9$c7XLr((8n&Jn3dkDUB8SYg:NUqiAKVF-eK$XsR$'PldK$=:Z9Sv1nK$Y:Z9Sxh=n&<Y-"
    "3UMv^@Miv:2UYGk<(k@EOUuCl<(eXsL$ZpR$'(YJhVd1mN$L'q@MIe>n&ivfCMC/YT]R+U@MGLc8%]i_k_-`PHWr$sO$RV.,ar$sO$5]ALVT->V$YsR$'m"
    "m=V$Lf4*t-2HV$hf4*t/=Bn&2TtwQQ(_@MUX3wQZGk<(W=4<RvCl<(R'2h$ZpR$'+VAhVhMMk$P*q@MMtHn&myfCMJZ_Q^S+U@MIOPt$_$@L`1lYHWu9Jl"
    "$Uc7,au9Jl$8`ALV,FCn$YsR$'t0Cn$#QJ6g^JLn$>QJ6g`vIn&#y8LiOy^@M6PRKiZGk<(8dPhivCl<(3$[o$wh9$Lv;St$;:St$;:St$;:St$;:St$;:"
    "St$;:St$+W]HWPej,%-N@,aPej,%vyMwZd6_]T`Vq@M0fTq%gik<(Eue,)x.4cF;ZJxZ5LIPbnL)BMj2]1%yik<(%#He)x.4cFpAPyZN$+7jmI)BM3J)5%"
    "$jk<(DMA_+x.4cFwh,s]@TGgdo'l<(Zwk##n>^u$c&Jp][H%KmuR,V))@G#ZeVCwZc.L]pZf(BMFe4S%w'l<(`1r##xpPv$yLST#H0RO#9J;yH^NTQ#Di#"
    "O#)W#xH4w(BM3OHd%r'l<((:s##xpPv$FMST#KF)l#9J;yH*OTQ#hi#O#n>^u$8EFm^rc.t[H;BW[F/tvZ%g@D]d')BM]@`h%'xDo*_nhBcF'0bbuwDo*y"
    ".Fwde8=n^twDo*v5LwZ>Yj8Sbik<(*_*3'x.4cFrH%xZf&wvvjU%CMw5Q'&x+Hc%bX%CM90_'&Z(Q'&CB%CM'b:(&M/$h%>b(BM1FH(&qik<(6GIL(xpPv"
    "$7PST#t0RO#x.4cF8&EwZ'yw$^jLjBMS>b-&L+k<(Z*Ww#$ZfRg[Sm/&@ZfRg^,C@#&mF3h4V1wZ;`pgi#CgCM><4bkb3jBM*OP2&rtDo*CaY2&Y4RO#HB"
    "%CM4[c2&hn'$#xpPv$JtXM#LIa0&n>^u$*#9n^Z=rmpHSg4p)lj5^WSNKrgI%CM=;`3&3/a0&T[%CM,,%E&J`'3&fE%CM-2.E&hn'$#xpPv$CvXM#P@.E&"
    "5mBxQ2q:E&:v^<R#HJE&[f0o^1>V3&]oL3_-#*Rp_Gk<(L(L2_kik<(3BPbOcik<(kydX$xpPv$:kFM#UqSM&.-7'luw]M&36SClpkfM&O6SClr%I<$7),"
    "un$E7E&<2H9o%UcN&Ba$opFtKn^fLGEtQF@grCW_m^gUcatr6]2&rwDo*`cq)Ovd8bt%xDo*=J>INRHqEk[:k<(C,1INaGk<(>hldN%Dl<(H-s`&U:k<(q"
    "OL&u`Gk<(]D=tRf=S$'v>hwZ^Wo'o`i(BMARPk&fik<(D49u$x.4cF#MN/V8Ba,'u.*IW9Hj,']A5<[npc)XCRAW[+RAW[o,]0,Cs,v[-_]s[+L%;[p+Db"
    "XUj5N_=j5N_o,]0,ambYeeN;WeGH&;[r=$CYL3Bak43Bako,]0,tb/+k0ra(kX%';[tP[#ZDY)Hj,Y)Hjo,]0,rCoii(AIgiTp&;[vc;[Z",
    "^DNg`FDNg`o,]0,XU9.aHPj+aCy5N_j;N;$L>WfMnwfCMa2CXRr&gCMWSNk_r&gCMeM/Uor&gCMh^HUSs&gCM3+DRg#LGDM:=$OhEVs8StIl<(.D$OhL+4"
    "V)3Y@kh=Hg)OE91)k5i;hi-$-V):tJ1&Im#O#y>^u$HtJ1&i*]oTTIp5T`@TdaFe)#mA,o/ML#F>mK8M#m-$-V)Y@x]'_R%-%y>^u$RXx]'i*]oTYgD6T3"
    "vwdaFdw^POoZINLy;#QUUo_PNy3V)Tr<@mLuZINRY4tRYU7'P2$-V)g8C_'qju.%y>^u$mQC_'BZ+v$pWL_'&ye=MCPh_'7P+^'*peYM=c,`'TcF^'IZ+v"
    "$'&-`'y7iXMC*[`'t=R`'FZ+v$+&-`'&Q6YM4t03&u0(3&DZ+v$(Iw`'cTGDMxgkdsa[ZQp#Jl<(v>3esCg3V)xKO)taC$)OdIcat7LKn^;g3V)(n/btaC"
    "$)Oiw>>v<[Kn^V/`$'2%cAu-@CN%DD/b'P*i>Z2$-V)%dWa'H%qF%y>^u$A%Xa'DZ+v$E+ba'YiafM8P[btl0/b'Xk%U]`eGc%ZP;fM3g+S*CvNa'%s.b'"
    "DZ+v$b5o4&5xNfMiA-$#xbq[d:4q,N[eGc%+]afM`a4bt<fDD&i5vv$R@$O#_vUG&;Ns^MD2EE&Un7E&3'jFOkSI@#>h&]QFf1FO[eGc%]b-FM3p3F&EA+"
    "HNW0iQT_.A7TDg3V)KKGkhU9n)OYCI2U/2Qn^;g3V)h;a2q<V^&cW,/-%gXs,%%)yCM5=lF&y7$YM:DuF&e6RO#S1vv$IL65/qQuF&i*]oT0DF6TX6ydat"
    "O>/`et,'cW,/-%2fs,%*2yCMXm=c'GQ6YM^sGc'_0>c'FZ+v$De'G&NpeYMdA(d'A*Hc'i*]oT<iF6Tihyda)h/#dqB-'cW,/-%>fs,%:2yCMe`Vd';sl`"
    "Mjf`d'w#Wd'DZ+v$sIdc';dGDMK-iWeQQ9,jyIl<(xJ^Xe4-6V)%^yte5#^IN8y@5g+juqfNy3V)xp-'ch&-'cW,/-%Mfs,%K2yCMs_*f'bQ6YMxe3f'<#"
    "+f't/4cFB)4f'i*]oTQOG6T*[#ea=rPHjk>u#vP6cojFH&iMVL'4kFUgejQ+4V)->.'c)U]INL#F>mI@30ik^n<(dn@@mJm3V)i,][m@crngh(=Do>F+*k"
    "=W.'cxmOpWLYUhM0(T$'q3-h'@Z+v$l#5S*dGafM`a4bt>rVD&*(_,N[eGc%,]afM)m5bt^%iG&i5vv$S@$O#$oKJ&_Ns^Mb6MH&_Fv2&TI$`Y6fJ@#]n;"
    "xZ0<E_Y[eGc%P]afM1.6btfV[H&i5vv$uA$O#Fc8J&eNs^Mjh@I&/mV3&];T9]<xJ@#ealR^AHu8][eGc%uVGDMo('J&**>S*um+DMEinBu:g3V)@fR&uN"
    "Gi%ufV[H&Vba8]]hGc%QVWfM`6v/M(<7)b3YccbUhGc%NVWfM,%R&uyt^J&hP.bbmfh0,YpD:Su94LV]Mr5^Jvc+eKxZMMbQw<(j6#K&[^w<(m*hJ&lVWf"
    "MOgy;[L1Dde^pD:SU/`$'JpbAu3nZK&#imK&rU>teKev<(^3)l#w]afMS<7bt0t1L&i5vv$GA$O#HA`O&/Os^M4.nL&Jo7E&'h*og_/L@#/5C0i-+Mng[e"
    "Gc%Pc-FMwR7M&EA+HND0mdj@eGJjDg3V)7iIkhBWp)OL#F>msOSn^@s3V)NTr>mHyl&PO>B;nsOSn^;g3V)Rg6[m38a&c^V66pCS5Uf3Jl<(elg5p.$-V)"
    "i4MO&SZYN&^Qr2qOWx/MZMnjq'5fcbUhGc%xVWfMVLS&uTFrO&CbeKrmfh0,MLG:SEF9OU1u;U]'C#Nuc;u'ubQw<(uS$P&]^w<(%T$P&GWWfMPIj2hi)["
    "Zvvm'$#DZ+v$i>5[*.-iXMuH1`&aIFQ&FZ+v$=Y1`&:KeYM').a&XFV3&DZ+v$N9.a&bNIYM*;Ja&XFV3&@Z+v$R@7a&mG6YM,H]a&MvSM&IZ+v$KY1`&1"
    "khXM/Zxa&Yeoa&3Twl'f&=b&GgyCM54Yb&^YGDMs2ZnTStKXR$(T$'k8Yb&@Z+v$YA5[*dGafMwQ8btVR-P&0(oOU96@Tf]hGc%uVWfM^S:U]vNAWVLxZM"
    "M_/`$'urbAu_m9c&yjLc&Es;hV`/`$'yrbAu-@CN%.E@d&IAT)XKy3V)a[@IN;#L&u]yqc&No0_Y^hGc%MYWfM%QCesDV<2h9lq)XlxG^Y`/`$'+sbAu-@"
    "CN%A%<e&R<IwZN+4V)jw@IN;#L&ufYnd&Wk%U]^hGc%VYWfM.mCesFitjhL,gwZ%wYV]Is3V)hMQkhAs_%uo9ke&]BY2_nfh0,TbG:S/`s>vNvCU]=_r7a"
    "S*OAQbQw<(UV/f&]^w<(WJte&bYWfMkDq2h(FSEbwm'$#DZ+v$0mv[*F/iXMa%,g&x*#g&FZ+v$m6,g&1khXMfDZg&AJQg&i*]oT=c*6TV'^da-5H;e.Xa"
    "hM3KdWeFxbnTNxZ0,V&U@#:,BXeN+4V)qQi&cg*,/M9+]Qghvt5g`/`$'SsbAu-@CN%5O%i&#IoNh/$-V)`dNXR,2jfaO*47j7Pr2hFLiaksE9$#LHYcFP"
    "2Ki&5U-V)^6#.jt;GDMr/sjqO=P/M#Jl<(okikqNy3V)Q_73h65v#vjo`rr^+G0Mp-%7so&XirQ+4V)Yw73h65v#vrb8MufDG0MxwTiuxs0DuxI5V)Bc*-"
    "sYm+8],qV+w]<$ued05V)$I@@v75CFtHU3y'[^w<(D9Sx'4fWfM(+4'cW,/-%Shs,%72yCMy.ox'3uaJM4k$y'@d%_MA/.y'fPxx'.MvEOaeGc%1S;fMK;"
    "Ay';Tsh&J9Sx'8XtwQZBjfMUFA'PvGdbtFUFy'i*]oT[pM6Tq)#eaGm;#Qv`$$vY1NJQ*h+r]grSgQvkS@QbhGc%<fWfMl+hesqF4HRR3aFOZXA'P3$-V)"
    "e/C#(AO#3%y>^u$iKC#(t/4cFkQL#(SJYcFmWU#(JWe=MV%l#(T9Gi'@6_#(i*]oTh=N6TlqydaS--nTH*m_ckU>=UrM.oT3$-V)ng>$(I)n3%y>^u$$,@"
    "$(t/4cF&2I$(SJYcF(8R$(JWe=M`]h$(]k9j'InZ$(>KYcF.Ee$(IuaJMERN%(gul`MNq%&(xp#$(DZ+v$@pN%(5;iXMP&8&('T/&(c@^u$>W)%(@Z+v$K"
    "D8&(_lafMYRAbt6E%i&i5vv$Y<)h&PJT&(9S;fMhS+`*nJte&c8'#(24nxHA6Wh&Olv]MD6^j&psPj&9cBXnVBjfM]vw;n,qBbtHVlj&i*]oT_n+6T.wQe"
    "aNWYTo8Hj&cW,/-%c]s,%XByCM1)`k&wH6YM6/ik&%a`k&@Z+v$hy9k&yH6YM9B-l&aqVh&@Z+v$qGrk&L-;^Mxvp'(=g#O#s[,<eZBjfMieueaS6fbt$9"
    "v'(,[+v$Ef6l&4>GDMyhPabu^ase^nuea*eX&cR9*'u/&.)(jcfBc5-6V)ESQLrkkl%cCHir#%lCr#pR`((#Iy9%#*j((:X+v$+0s((ISCo*D5f)(@;_)("
    ":X+v$.0s((JSCo*GH**(CN#*(=t's%8bf)(4U-V)3DD6g0E-FM$rF*(+b[1hBupKikT#A#FW68&A#4*(@/G*(.mafMRIfbt/&.)(mZ68&U*E((+;Y*(p`N"
    "fM';`$#A&59S_,gbtCD0+(2y-ClZBjfMPkyakp5gbtDJ9+(:fpToaeGc%dl$FMWn0>mvbi/rrbi/rEg3V)Kaq+(IELJ$on3dki8/*t#IO)t2$3U]c[5Z#b"
    ".r+(D32^M<;I,($3:`*GBafMsTgbtP<R,(mZ68&:L:`*]MI,(7mafMl2Bbt^)*m&7JtWn]eGc%6H;fMW-M`*'mR,(%m)m&3Twl'tpuN&Om+DM,[FesjhGc"
    "%cYWfMqn(0Miw>>v0NfcbUhGc%`YWfM=][&udNbm&Q46wvnfh0,UeG:SJ]Wk_p,KU]^v_pNmTu'ubQw<(@r`$']^w<(BfM$'+]WfM4Rx2h",
    "H^@&Pxm'$#DZ+v$Ru(]*g1iXM*>]%'BDS%'FZ+v$WR]%'1khXM/^3&'hc*&'i*]oT_p16TbFTdaMM4tRPfhhMScP8Sh.jnTNxZ0,w3]@#$R59SO+4V)Zw]"
    "_Ph*,/MYCI2U17bnTwL5V)/[.3U)XkEt_%r''[^w<(#wh''_]WfMDup&cW,/-%p_s,%fDyCM>$6('k]GDM'GZBYs6>&Y(Jl<(.C;CYJs3V)tMRUSe@10Mj"
    "(R>Z2Is#ZJs3V)`+#3hiyo/MoV.t[,1/3UJs3V)E.en^bU10MqifT]@E09]q95V)xn5*kcKtDtC9o<([^w<(.S&.(TgWfMJATCcdIcathaFUf*IEo*S<B."
    "(0W3q#kNyCMHYK.(SmafMbylbtdZT.(,[+v$C;X)'4>GDMme<ZvG+cseF(xeag,)wvi5B3hEBD)OC+a$#40J7Ti$*A#v&G3hH^@&PD4%A#40J7Tl-*A#y/"
    "G3hM+<_Pwre$#=t's%XkO=(5U-V)UefCP0B-FM4(9>(:aImgZo^wQ]qF$Qa2']QchGc%/iWfM_^pes^+Htn;#0*t#ji_ubhGc%K]WfM:Ve&uZpq''G.tHW"
    "ofh0,j3qunt=i_uQ[q&c'x>3_PW0Li0(T$'96y^*)vBhM^eGc%`1iXMWHB*')dJ4$R46wv]eGc%,cafM$a>btXaLc&,4nxH/6HS*14NfMMLB$#kAeL`^9y"
    ",a^eGc%gcafMHr6btvhg*'g=N)b^eGc%gJ;fM7)W]**Sg*'EFH+'24nxH;=W]*S1EfMn,r&cXEjfMp&:FbKuIbt#*5+'o0'[d^eGc%oJ;fM8/a]*.l4+'5"
    "i(,'24nxHEDa]*BHEfM%&kwdXEjfM)2kwdS6Jbt+[(,'DZ+v$KDa]*[)iXMuLJ-'8Xj0&DZ+v$;bJ-'b,iXMx_f-'M=W]*hyIopEjGFO%OZeaC<:ej+wr&"
    "cMq-*k<F4Fk0(T$'F)y-'@Z+v$UDa]*dGafMM0Jbt,b1,'0a`Bl^eGc%0K;fM95j]*7L1,'d]l.'24nxH_Jj]*;HEfMXZ-@mXEjfMZTM_ll)KbtDAY.'DZ"
    "+v$Qk.1&q)iXM3w_/'bJj]*DZ+v$g4`/'b,iXM62$0'c=W]*hyIop^pM_l98[eaXPwNq#[g&uURI0'BXI/rofh0,`,H:SSePRT4'OU]#ub4to)FMraQw<("
    "wfR0']^w<($gR0'H^WfMQR%3hhn_Bu-W@x#Ai9d*_Cs,'s)hm#%[Yr%6Sb1'=t's%*T60'*IEo*EIJRgmm[PUuIl<(=4ULMBU-V)Xk@Oqt8GDM<aJA'L]."
    "^*QyxCM&8SA'`k-FM,EfA'5sR%ca<q`PBkL_l7>IdaJ(X#Q5=y&ceb1yQ$P<bkETjfaNMp;RZk*$Q`05XRC+%+P[/C<R_FsI-y3f@#prMFO]q*$QbCm8Se"
    "W[$wR##uR_FsI-$:f@#[Q(@v9:&*bMtFB's4iXM7:9C'3dJ4$CXI/r^eGc%IdafMi,KbtFMl.'@Z+v$jLj]*dGafMf#KbtEGc.'jYJ&c^eGc%I2iXM;S_C"
    "'.dJ4$g=N)b^eGc%mcafMHr6bt%0#K&@Z+v$k8HS*dGafMEi6bt$*qJ&G%X,W_eGc%HM;fM7(QS*/lpJ&s>ID'24nxHt>QS*;HEfM/i,*XYEjfM1cLIW-s"
    "Qbt[y5D'Oo0_Y_eGc%PM;fM8.ZS*gd5D'yp;E'24nxH&FZS*BHEfM@t][ZYEjfMBn%$Z54RbtdS)E'DZ+v$rm.1&q)iXMS2/F'.8&F'@Z+v$PJ/F'rl6YM"
    "YWgF'UAV3&@Z+v$<Yi3&A5iXM]j+G'2FZS*i*]oT5P<6TV'^da#07)bW:VU]B,3Qb]I'*bb/`$'CybAu,LQG'lOdG'hP.bb1$-V)=FvG'9oFq#y>^u$r[v"
    "G'24nxHk*,G'rfafMI'Sbt&@dG'*gayHpCQG'Wh1H'lYNfM[#L$#xbq[d#28<e_eGc%:aGDM,VjH',6QS*UfyCMm-sH'T5iXMq67I'[_RO#Ai9d*oMbI&H"
    "m7I'%[Yr%5UAI'@Z+v$NFZS*X=GDM6<pI',6QS*DHyCMwkxI'_5iXM$u<J'o(hm#Ai9d*yMbI&RS=J'%[Yr%J;GJ'FW68&<<sH';#yI'0ZNfM]/h$#4cmI"
    "N`Es[dbeGc%`cNfMX#h$#7'jFORuJ0`beGc%(jGDM4hgQ^]L%_P$Jl<(MMnR^Jg3V)P]2o^k,@Cc.t/#dt4lUf*IEo*wkIa(uY3q#7TyCMl0Sa(wrafMM<"
    "obtw#dC(i*]oT4VX6T%Q2eavbvg`(9W0M&*WHafRG-a1$-V):<:D(9oFq#y>^u$l[:D(BZ+v$obDD(D5iXMsO<b(4JRO#@Z+v$&Y1D(njhXMwhbb(Hkgm#"
    "on3dksTmIa7GrRgOJR$QG$UKis);ebl*,/MAlpgi,DaLiMm3V)>O/iiJONmgKpI7$LZCc(KZCc(p+f=MO$Xdj.y$RhF$S3hECMEkvpq$#rq^MV^[)ir$P."
    "Ek-Jl<(NB(ckFU-V)J,,fjy8GDMiPjylK4lse)/2faJ)b>mN<S3hM5&wmx+R]#rq^MVft)ir,C_vm-Jl<(_MX<nFU-V)RE,fj$@GDMqCCToK4lse1H2faR"
    "s9qoUL7ogaP`5p[p[@ml$5roME^0,X`ae(qnVD(qnVD(hbR$vUc>fN%Pi@Zcr;kqvIQ6p+CX%u*biD(jcfBcsfh0,AO[]d<gykq)@sLM3>q>dSAMCPjhGc"
    "%viWfMN-sesXSb#QBjtwdu^[Cce/`$'.:'^uFu#O#UmWfM7*.]Z)UZ.vxDEnTU/`$'j0cAuo4>g('Phv(OyU>vY:4V)w)T$QQrRZQF5QhMe5PDPAv3V)Gc"
    "HiMgH0%QV1.FOCTHMNgH0%Q`:4V)PF%GOMiryP'=Tt[@NveO>bWGXbSCo*FU=A#%-.MMO1F_PM(I:]Qv3V)x9<xvxVD'uh$Ty(3-o>Qw95V)/H>fWlg&Et"
    "^1)x([^w<(id,w(JoWfM^H9]QVrYtR`_sfNJ:4V)bBY$Ql_syP(xHk_$$YTS`xZ0,Pt=A#d8X'Ya:4V)aOyL`0$@KM+LAeaY@9.aT(4V)OH<cXE%;]Q3>q"
    ">d;UhCl;j3V)YstCYK+[$QD:Nte(k7Jbc%9`YjFsI-eZ>A#HKGue-N:%QJrFng(k7JbkJq@ZWv3V)&trFbo^>xv=f^/i1tFfNE->hi+F#M`[SCo*oy>A#'"
    "q>xvlPs;[WP[$QTwV)kli2A[v:=cXxgn<(N5Q*k.f5V)jdQ()sO,Z#rAi7&_AR()Vy#()E(D7&4i0s*td@YMB$ww(s7nw(Oo0_YdeGc%QB;^MYu>x($Rgm"
    "#I=&-W^BjfM(=c0V54)ct]7Ex(R(D7&l#;T*=Qe=MJdW))I`<))UOrs*jeu6&s'X))S=i7&=Wb^+#LrXMB%&*)3Fk))L(D7&t#;T*JvafM3M)ct`Jax(,4"
    "nxH+qcf%T7NfM<-y$#Ri+fW:OW'YdeGc%=D<ZMIPg*),(;o#[o[8&Z<kj0C7is*iL&KMIi4+):/f=MRo=+)KF5+)E(D7&Dj0s*9w[YMQ*Z+)*NQ+)Oo0_Y"
    "deGc%WuafM3M)cth$Ty(.Ah:&hZ_v(2<ww(sE/*)6EZ+)&#;T*UiNfM(Bi$#XI$`YDmfUobeGc%xcNfM$5i$#7'jFO1oaLibeGc%AjGDMM@I8f*<O8]$Jl"
    "<('pP9f4$-V)LN*F(&d[h%y>^u$7n*F(DZ+v$r`BF'[>iXMv_FF(6#=F(@Z+v$>)GF(o2;^MA;x9)pi#O#7OX[Q_BjfMMlm-NwJ1ctDU&:),[+v$K=YF(4"
    ">GDM=[%)Obtrse&+BfaFW-FOvMM'uOB5;).V:bO9-6V)FWClhpkl%cCHir#*4%P$8og:)#Iy9%cQq:):X+v$kW#;)ISCo*dQm;)`Wf;):X+v$nW#;)JSCo"
    "*gd1<)cj*<)=t's%x1n;)4U-V)oJ;VS4E-FMD6N<)Km[1h^hEkU7iFA#FW68&)K;<)(WN<)NxafMr]1ctOB5;)mZ68&iEL:)kca<):xafM",
    "pNpbt=(lF(i*]oTRXY6TJi3ea<i4,j12A'cW,/-%Uls,%t7yCM$@CG(jW6YM)FLG(%WCG(@Z+v$NN'G(h>iXM,XhG(.4,G'i*]oT[tY6TbFTdaFe)#mQj8"
    "iMM,bZm5qH-aGg3V)stpClN%y.MnMjW[l>rOU;g3V)w)qCl]5XmgKpI7$++iG(NuP>)I1f=Mcp0@)=%7H(1khXM[v9@).:1@)BZ+v$`I:@)e@$FM+=JN_a"
    "uj3_auj3_axZ0,#+V@)eim>)@'.FMbDr@)Db5ZZU-8Zh;pi8SU/`$'i4cAuFJLC)Ks#D)$R3kh;IEo*X4hC)3]3q#/ZyCM&LqC)2yafMoT4ctCP#D),[+v"
    "$3or@))BGDM4=s(kM6rse%)EfaA6MEk]re$QTU@O#SAps6]JDaM/tdD)5SRO#9t's%]:RD);yafMoT4ctL0wD)lQrs%_xqC)SMnD)b'.FMf]@A)<voDtea"
    "+G)[^w<(Z'bE)HsWfM=y]'c^;b0$eV)L$nR@A)%[Yr%u3tE)G&bHseeGc%h+m`M>yAF)eVJ4$D/IAdq=o0V7Ho1q/Jl<(r&%Pq]SCo*k&^F)g,VF)1[+v$"
    "Q0AA)b-`EMHPyF)-lpF)G&bHseeGc%Na;fMEoVT*s'bE))A/F):X+v$p[V@)V/`$'g6cAuFJLC)Fe:H)Mgu^u;IEo**&(H)3]3q#7ZyCMO<1H)[yafMmP:"
    "ctlA:H),[+v$9KfA))BGDM1xmgMN6rse#%Kfa=qG,N[nk$QTU@O#QCps6ZLDaM-j^V)=SRO#9t's%X2LV)9$bfMmP:ctJ&qV)lQrs%2j1H)#DhV)3(.FMn"
    "63B)>++EtcV%Y)[^w<(XtZW)FuWfM;uc'c^;b0$cX)L$v,3B)%[Yr%q+nW)Da[/VfeGc%f-m`M<o:X)mVJ4$D/IAdo9u0V4+jpS0Jl<(m]%7T^SCo*isVX"
    ")eyOX)1[+v$Wd3B)b-`EMFFsX))djX)Da[/VfeGc%Lc;fMG$jT*ovZW)%8)X)FW68&P2NT*sJaT*t,%FMAQ/8fc+o[m`+o[m$M5V)WOkB)6QbB)rAi7&9/"
    "lB)RS,Z#6AX;nbeGc%:W;fMJ3%U*pp5;)am%Y)I(D7&l#ET*J-bfMtZpbtQFnH(mZ68&)8ET**`eH(<dNfMw*o$#/5C0i[$jCPceGc%BdNfMsun$#7'jFO"
    "tN8*tbeGc%bjGDMnbZQpVm5)k$Jl<(iFdRp4$-V)ycSY)g01S%y>^u$:7TY),4nxH<=^Y)14NfMDI4%#T$dFXAbj'YfeGc%X$bfM8c;cth*yY)FZ+v$NlB"
    "F'V$bfM8c;ctmIPZ)i5vv$l@$O#EiGZ)vuGDMr/sjq]M.#m$Jl<(qw$lqNs3V)s+7lUh4Y0M^ijgry&]LrJg3V)xHxhrk,@Ccp`J8]`FnUf*IEo*e]0[)B"
    "^3q#%^yCMYy9[)e$bfMh7vbt`EBJ(i*]oTtgZ6Tv>5ea_<catSAB'cW,/-%4xs,%^5yCMZ4i[)pH;^Mx.v[)-7$O#iVs)b`BjfMdFp0`T9<ct$I$])g=N)"
    "bfeGc%OpIYMf`R])[Li[)g=N)bfeGc%oc;fMMRfU*/3$])ot-])i*]oTxsZ6T%R5eacb##vp$rINiw>>v7io$vJg3V)1Hqbtn]Y0M@bK/MUvI-a1$-V)U0"
    "3Y(9oFq#y>^u$JR3Y(BZ+v$MX<Y(D5iXMo@O^)OLRO#@Z+v$<V*Y(njhXMsXt^)cmgm#on3dk12&1M-Zy<eNGn$Q@:A5g8b/LNm*,/M9+]QgCUS6gPm3V)"
    "3c6SgMONmgKpI7$DTU_)CTU_)l4f=MH:DNh*8h;fExn3h=Y8/ium5%#rq^MVNIguRvfq.i0Jl<(CU/MiIU-V)>@3Ph%9GDMbgUdjEu#te%,NfaC@M)kM9o"
    "3hFLiakw(n]#rq^MVVbguR'YJak0Jl<(Sa`'lIU-V)GX3Ph'@GDMjY.>mEu#te-ENfaK2&[mTISogYgKwmS,d*kd7<]mPE^0,TPsa)OeOY(OeOY(hbR$vQ"
    "`ZfNxL-AZ[1(Uon]Xxm.CX%uEUbY(,DZ)Otfh0,=svr]4&3Vo:8YfNMve&P2i91VjhGc%9lWfMi(#fsvYw>Z/nNVoU9W*Of/`$'/.cAu@]Z'&&JT^(1r6_"
    "Pf/`$'+.cAuExvc%k+R[(2$S#Q5$-V)b#LZ(RiD(&y>^u$cELZ(i*]oTc4a6T'Z;eaLDpWR[<wINRY4tR2^`XRKg3V)^K0]QYu_0MUu0qS@7O-ar95V)x1"
    ";GOeKtDtl7(d)[^w<(*fpb)RvWfMHJ+Dc]`NKrV,tUf*IEo*Q@4c)q`3q#i^yCMF]=c)Q%bfM3T>ctb^Gc),[+v$**@[(4>GDMf$)Et5H&teD1Ofa`Clat"
    "l>p3hj2wvvE47%#40J7Tg-XA#HXp3hAt+hMG=SA#40J7Tj6XA#w8u3hFB(IN#%<%#=t's%T&Cr)5U-V)L-).N5B-FM2+,s)8pImgS.JbOX9afN]RAGOhhG"
    "c%XvWfM08Cfsr4`&Y2CJlqv1,JsghGc%VlWfMA$H'cW,/-%kns,%I:yCM9ld[(flGDMs7.kU_UA#Q%Jl<(t0=lUOs3V)7m:o^`<`0M_q%hV':uLVKg3V)$"
    "Y9iVk#$'cW,/-%tns,%0&yCMCLa](/N$YMIXs](K6,G'@Z+v$,pN](kghXMB9%u)sb)l#@Z+v$0pN](xC$FMhR0/V,p%ST-AclUcxZ0,46YA#`+;o^;g3V"
    ")*-@JWmqeiMb5ydW1:goT<E^0,gjxu);Dpu);Dpu))n3dk5CYA#I3w*XJU-V)3[;GXf`:^M)d$y)Yl#O#w)EUfaBjfMsK6Gba_Fct,&*y)rq^MV]<FS^Gq"
    "6BY1Jl<(rjn'chhGc%*yWfMsv2Dc/&L>dabQcb+IEo*tBky)]`3q#<ayCMmOty)c7f=MGVu:e@P)&eA<6V)[79DYK3Rpf7p`8f6ycuehhGc%*yWfMY_Jfs"
    "ma=eW'X6Gb2BO`cJU-V)7h;GX_2NfM%H@%#poA*bOep-jgeGc%OyGDM^B=Kih,%teNRUfa>r4hitHc'uNCW%*(wK,j;-6V)o3R]ZjLu%c/-y4$)QSl$4^m"
    "$*y>^u$ZGw$*40J7TnD[A#qAhxdI_IBl;YgoT1I-V)TaMck&ec'uNCW%*1s@#mxfh0,i'fiiWWI`lM9x3hnV.t[ILu]#I>/IsaBjfMEax9o2,HctUnA&*r"
    "q^MV.bGS^Odgs[1Jl<(mLZrohhGc%SyWfMED4DcX:62qi#Rcb+IEo*F3+'*]`3q#fayCM>A4'*48f=Mpk`.riekpqA<6V)5Oku[K3Rpfa-K,s1[OirhhGc"
    "%SyWfM+,LfsosuEXy9#:o-$;SpJU-V)@)<GXa8NfM#DF%#poA*bJG]xvgeGc%xyGDM/W(>vh,%teVkUfah/wZvFmd'uL8Q7*Q46wv;-6V)uy07^jLu%c/-"
    "y4$'SSl$2Sg6*y>^u$V>q6*40J7Tl@bA#o<nxdFBD)OErgoT1I-V)O@NJN%ai'uL8Q7*.V:bOyfh0,<CP]v&`EGOvT^og)iLn^>O2+XEhjcXSE^0,%=6x)"
    "9%t](9%t](hbR$vy+cfNIp4AZ+3)L`g*bo^/CX%ufl.^(MflBYtfh0,;#/(YYp6M`Y'RMMnAw>ZG5KDYjhGc%ZlWfM24$fs$1Tt[08QDPAhjCY5$-V)).^"
    "^(xG@,&y>^u$IP^^(i*]oT*:b6TMu<eakSJ8]#CxINqifT]Qm99]Kg3V)Dac<[x#a0Mt-cQ^_<P-ab/`$'F.cAuExvc%_I(`([8=n^v95V)K;bi`eKtDtb"
    "VA9*[^w<(m128*H$XfM=0:DcPGT;Rw1uUf*IEo*HeV8*wX3q#`i+DM12qu[jhGc%N$XfMC@:DcUu0qSw1uUf<B^0,pMf9*ZUrW*1Oe=MLbo9*iMh9*&Jo7"
    "T4^qu[X#1^#LSCo*7CcA#:;dogcEG)X:6efW>IEo*Y279*)Y3q#ei+DM+-)+XihGc%N$XfM*Dj'u)_r`(`^U/`5$-V)7-1`(9oFq#y>^u$",
    "fO1`(BZ+v$iU:`(o2;^Mh)^:*&m#O#,B5IjbBjfMA#BDYfnOctkCc:*=t's%TRrW*(IEo*/M0;*7Y3q#'Z+DMEN=AZ&A5V)mVCJarZtDt%I-<*[^w<(UCM"
    ";*i$XfMq871Mp`J8]B]BoT5U-V)N:ru[(9GDM9[/5^L'iseUq#+b#C$<*h*bfMD3Octx;-<*.4nxHiqM`(97NfMX5H%#gsL3_otCJaheGc%HQiXMcS[<*/"
    "c)l#=t's%fRrW**IEo*A_w<*7Y3q#1j+DMhqci`ihGc%r$XfMVJ:=[A#o4b^p+]ZV/`$'P=cAu4B<=**)'>*gGjEbPg3V)aCOS^_>t1h/&0_cX,My#rq^M"
    "VFb54Uael%c/(T$'-tk=*n'c>dheGc%%+bfMjNPct4Z/>*,[+v$s9Q_(7ArEMMiUseY7$v[trdyP8jD8f@SWye>IEo*$qg>*^Y3q#Bj+DM3=1:f&A5V)8i"
    "DJaug&EtJxv@*[^w<(Dg,@*6%XfM<K81M<GXNh]eqoT;B^0,QDZ@*ZUrW*5Ue=M-Xd@*JD]@*D/IAd';%+brS9Nh/(T$'R4e@*)wK,jheGc%7+bfMjNPct"
    "Gr(A*iP.bbceGc%rrafMP<Sbt-kMH'R3-[Z_eGc%25iXM/bLK'yfmn#Oo0_Y_eGc%VfafM)vQbt^.ID'@Z+v$`@QS*dGafM&mQbt](@D'aE0/`S0###",
    0};
static const char *const diti_spirv_text_gemv_gpu[] = {
    "GZ1N5jsi^P^T9:)=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>M9W#2q0`r6%Gxk%c/*g%lee)EtYuUZZvU3Bl37maOo<,&Ye8PZvu_m^YYe,#dIGP"
    "/MQ;(RTV`Co*:gH>#'il<(C5d/(/TP6^]q@=enPZn#e@Lvdf7Zn#(il<(RNY&#0g0o^e9Lvdv6so#%#1EMKr;##D9-V)_i08.yCT$'Z@^vdyI7p#8['EMo"
    "LjW-&il<(d5d/(PvbOh]q@=e7h'r#e@Lvd/O'r#(il<(sNY&#Q1C0if@Uvd;5rr#%#1EMhq<##D9-V)$j08.yCT$'w@^vd>H6s#8['EM4LkW-'il<('6d/"
    "(oyIopILc&#fHVnpqa'EMG20t-&il<(7[0_#rSTIsRxY;e[9hu#e@LvdSxgu#(il<(@OY&#uoPFtgF_vd9+l-$xm0EMjmC##9['EMd($[#Wh1fNg<Lvd<="
    "0.$9b'EM9f<t$/9-V)Hl08.yCT$'DC^vdcs+2$8['EMXcrW-(il<(Q8d/(<u]Fb^q@=e%SA4$e@Lvdt9A4$(il<(aQY&#=0='ciLhvd=E@7$xm0EMj#G##"
    "D9-V)&m08.yCT$'yC^vdAW[7$8['EM6UtW-)il<(.yr;$&Ye[v^q@=ef#);$e@Lvd^b(;$(il<(vSY&#R9U0MkRqvd=GLJ$xm0EMj%M##D9-V)&o08.yCT"
    "$'yE^vdAYhJ$8['EM6W#X-*il<(,;d/(n$oOU_q@=eW&bL$e@LvdOeaL$(il<(;TY&#o6O0VkRqvd[KTM$%#1EM0(N##D9-V)Do08.yCT$'@F^vd_^pM$8"
    "['EMTY$X-*il<(u;d/(`RO@m_q@=eI(<T$e@LvdAg;T$(il<(-UY&#ae/xmlX#wd`e(W$xm0EM45Q##D9-V)Hp08.yCT$'DG^vdcwDW$8['EMXg'X-+il<"
    "($'s;$q@kLV`q@=e[BBi$e@LvdS)Bi$(il<(@WY&#rRK-Wn_,wd_a+j$xm0EM34W##D9-V)Gr08.yCT$'CI^vdbsGj$8['EMWf-X-,il<(M>d/(6=eL``q"
    "@=ex@Al$e@Lvdp'Al$(il<(]WY&#7PE-an_,wd%f3m$%#1EMQ6X##D9-V)er08.yCT$'aI^vd(xOm$8['EMuh.X-,il<(*EH>#XqM*OJ:^vdH3w+%wy0EM"
    "*g`##:b0EM+p$@#>n0EM,y@[#C#1EM-+]w#G/1EM.4x;$K;1EM/=<X$OH1EM0GXt$ST1EM1Pt8%Wa1EM2Y8U%[m1EM3cTq%`y1EM4lp5&d.2EM5u4R&h:2"
    "EM6'Qn&lG2EM70m2'pS2EM891O't`2EM9CMk'xl2EM:Li/(%y2EM;U-L().3EM<_Ih(-:3EM=he,)1G3EM>q)I)5S3EM@#Fe)9`3EMA,b)*=l3EMB5&F*B"
    "x3EMC>Bb*F-4EMDH^&+J94EMEQyB+NF4EMFZ=_+RR4EMGdY#,UX+EM$y@[#.TP6^MMyvds0J0%up'EMct&@#,il<(ccD;$hND6pLAgvd<M5c%<W(EMxIGR"
    "&Ail<($I<5&XqM*OK.KvdE*;(&]mO>MP%#AMv&cpS/Fm;-L+k<(u8'5T.L1<-Vdu6&R%q@MT*u5&g>^u$e9t>MjS%q%cik<(YgL>#jZYr%i^L<M'tnwZV@"
    "InT;utnb4k(BM3dEP#M>)0vdik<(SJy.M]Yi&'jZYr%w^L<M)b$wZr3'R^;utnb1k(BMKCmR#2j*usdik<(v)s(OCK':$jZYr%JLIyhAUiwZ,#L#dnd]Dj"
    "Qi(BMZHJT#qkMWvlik<(D@m(X&ir:$jZYr%b<m:[[y+XnE>r:nE>r:nB/:c%#>t>MYZRsnUi(BM.FtX#Iqhntdik<(x`GZZX;a:$jZYr%'=DEgDYuvZ@,("
    "eNTc(BMwHUj#q:*<udik<(pc6w#g>^u$vNvvZbNuEXi.0LoDjT@MCLL5&W:+6^$D=HWkJdn#K:s+akJdn#&dhqSmVvn#r`(BMMm>N_R](BMO(w.`Ivp@MR"
    "#-n&XpR$'4A.hVs0%p#[xp@MX5-n&xpfCMdFl%cS=q@M^E-n&UpR$'KSJhV/O'r#oxp@Mlp-n&4qfCM3+r.iP+U@MjWQ8%*Y1FkNk>HW=B-s#ubt+a=B-s"
    "#XVALVI:bt#YsR$'Vtat#Cj@3qw>kt#_j@3qyl.n&C:/IsLy^@Ms_-HsWGk<(usFessCl<(mgyu#ZpR$'QOAhV6%u-$v#q@Ms04n&;sfCMAygdNT=q@Mx@"
    "4n&WpR$'t<%hV]Zp1$E$q@MBL5n&bsfCM56WZZ`*)BMCh.;[Isp@MJe5n&TpR$'8VJhVt9A4$]$q@MY;6n&ysfCMeLu%cK^t>M[t=t$RpR$'UPAhV:>I7$"
    "#%q@Mw=7n&@tfCMIU4Bla02BMSm8Kr'c7M#ClQk#L6$@vO(_@M/&,>vXGk<(1s:[vtCl<(VXtI$ZpR$'R@%hV:AUJ$#'q@Mw@=n&@vfCMHMmaOR+U@M,f^"
    "5&>cIOUg]OHWTwjL$4T-,aTwjL$o[ALVW>TM$VsR$'s&TM$O)(cX0D^M$k)(cX2F>n&.0f#mQ+_@ML#vylYGk<(No%@muCl<(H[NT$ZpR$'wSAhV]_1W$E"
    "(q@MBPBn&bwfCM42QZvR+U@M/lKq%B'FLVllXHWX;Ki$8d6,aX;Ki$s_ALVZT+j$UsR$'y>+j$Q;`CY4Y4j$m;`CY6RHn&]r#0`R+_@MRG;/`ZGk<(T]:L"
    "`vCl<(OvRl$ZpR$':J.hVy_<m$b*q@M_QIn&'#gCMm&-#diUjBM>gis$h'l<(b1`##Ih^tnnN+n^K+oW#c58Q#+x^@MDHXt$;:St$;:St$;:St$;:St$;:"
    "St$;:St$;:St$Ci6oT%Z%-%_i6oT'iTq%loL3_u3]w#F-3lU9o1wZmVvn#91C6^noF5^`<%CMQO$0%P;r/%1B%CM-=Wm^4,9Q^-J[BM$YSj_gik<(Hvn0%"
    "r'l<(Wkb##xpPv$uGST#emki#XZvunY19wZ)9V2Ln>^u$h>Fm^LkIBlwC]%l/IsvZmVvn#l/awZmVvn##2_n^]PRNqwC]%l8Ehm^F2H,NQyu4^*n^m^O7o"
    "W#]KTQ#,7o,[mVvn#o=swZmVvn#vD%xZkSJ8]iU%CMOF$L%P;r/%fT%CM*yZp]2h<T]2c)CMVqeL%%@N4%(b(BMO(w.`h6)BMSM7Harq%CMg%LN%%@N4%("
    "b(BMuxe%l`u(BMyF&>mhLjBM+O4R%L+k<(2%Ww#Ub)xv1d@T%qb)xv`46@#+CqLMD;:,agBJT%f7o4^S--nTJZK@M5*,6&:3q@M3i/9%Hw(BMNvZj__o(B"
    "MX$l%c`r(BMoAm+j]i(BMw3F^le@jBMuZ1(&rtDo*fg:(&6Z3M#1B%CM3TS)&[H$$#xpPv$GgFM#btfe%;M:rS)g])&AVV6T$Zf)&]VV6T&G<<$K[gIW;x"
    "VwZ`EuaXm&^m^jpUBYeC=(&rwDo*bee)OZXIeNp,]0,+8)STUH>QTk[$;[K;q/MiTZmTWTZmTo,]0,ciyIWh`3HWtw$;[MNQhMIE9Q^7E9Q^o,]0,4r,]d"
    "_)@ZdD>&;[Oa1INlh_ycZh_yco,]0,2SlCcVO'Bc@2&;[Qsi)Od6GabR6Gabo,]0,mI:cXp9LaXx,%;[S.JbO,Gh%YrFh%YqX,V),Kvv#V`NX$b-3lU,l/"
    "9%Q[>MM6db/M<C&DMq>Qc%FPGDMHAZ)O6Qf2Ly>^u$BYmc%lFXlUTW`2UKYSdaDQ@&P<vb/MJg[BPEoV&PFs3V)H-sBP97k%cZ>K-%Ye7-%X1yCM%,ad%g"
    "%iXM*2jd%R'Rk#FZ+v$T9jd%ADafMk%#btHL.e%i5vv$'#ue$iR7e%QEQun6oc>dx%C)tRqAe%gokAuW8pe%]XAe%9eg8S,$-V)w`]/Vm>M*bWKGf%chhX"
    "M;DYf%U,>2$9[KtRYeGc%;VafM%Z#btY^uf%i5vv$1dQc%T$W(&ZHs^Mv7GZZ>Mj<R`Qw<(*q9g%[^w<(-e'g%LPWfMElK&cZ>K-%.f7-%",
    "x7yCMQ/<i%&QGDMBvwda.BD/`uIl<(Y@4eaDm3V)[LP)b;PiyP1hoab3KDbPahL&cZ>K-%8f7-%+8yCM[mBj%J>6YMasKj%duBj%@Z+v$_7<i%L>6YMd.h"
    "j%HqRa(@Z+v$n*Uj%v#;^MW(myP7HS2LBTinTUBjfMXX*@Qo15btE@7E&,[+v$8Cqj%w=GDM3#5;Rgu@N_'jEeaP]=XRn4Q&uP,GF&8[KtR0-6V);0r;eS"
    "-l%c.$^p#N56s#%YxE&#Iy9%ew*F&:X+v$m&4F&ISCo*N;'G&aBwF&:X+v$p&4F&JSCo*QNCG&dT;G&=t's%#X'G&4U-V)#7PhV+E-FMEx_G&LQ[1hhmU&"
    "Y/PJ@#FW68&+qLG&*&`G&O]afMsD5btP,GF&mZ68&wu]E&m1rG&n+iXM5=,w(:W3M#S1vv$Ge65/8$ui%DZ+v$u%Rw(G&iXM=ovw(9qmw(@Z+v$%>ww(nJ"
    "NfMEFy$#<UF$Q0ic0VdeGc%m'm`MC6Nx(5p:o#D/IAd`<K'l&7BKV.Jl<(%]CiVGU-V)&i_-WCLe=M`^NdWlDZNWGU-V)(o_-WDOe=Mbp.EXnV:/XGU-V)"
    "/0@fW2B-FMNqAy(Upe1hivqBYA'y$#=t's%=+/y(<E^0,7X;cX>bsCY>VE'unI4#)P*i>Z8-6V)+Y+PU^-l%c#7No#dn9r#D%py(&eu6&K]yy(UO)X[deG"
    "c%[];fMaT=#)IPgy(7WEx(@Z+v$-AEd%dSe=MlMr$)m@N$)G>6YMg`6%)k<Cj%@Z+v$eV<i%NEiXMjrR%)sUhj%*/Uhi^BjfMHt*Oh]R*ct//f%),[+v$'"
    "CS%)w=GDMw5evdx9AN_h>:fa.;Q;e6M[3h2KdWegB#%#ujH1MXQ>A#fS[3h4^D8fhK>A#ujH1MZW>A#hY[3h9+AqfiH#%#=t's%6n<&)5U-V)07(Vf2B-F"
    "M#ut&))hImgGob2h9D`6g=]@ogehGc%1pWfM(;oCc=Ptjhp_^0`*IEo*syB')_2(o#HWyCM%@L')0vafMd/+ctAAU')mZ68&KZL')BB'')SEiXM2,n()O'"
    "Rk#S1vv$Df65/5%ui%DZ+v$ol;))G&iXM:^a))6`W))@Z+v$v-b))nJNfMB=%%#<UF$Q*FsOqdeGc%j(m`M@%8*)2q:o#D/IAd]4N'l#tNjq.Jl<(v8S0r"
    "GU-V)wEoLrCLe=M]C[+si)hmrGU-V)yKoLrDOe=M_U;dsk;HNsGU-V))eO-s2B-FMK`++)Rqe1hf['bt=v$%#=t's%7rp*)<E^0,15L*t8>,ct;NH'uk7v"
    "+)Mgu^u8-6V)%6;op^-l%c#7No#ao9r#AkY+)&eu6&ELd+)R46wvdeGc%X^;fM2Hb9)C@Q+)1G/*)x,sQgYeGc%t=;fMJ.8f(8HIfNd](U]L+oW#[68f(<"
    "DEfM57rNhTEjfM71:ngT9%bt0ndk%lFXlUOIc2Us55ea>$mdj#_M&cZ>K-%Rf7-%h(yCMuX%m%b2$YM#`.m%6X3M#S1vv$1G65/d,/m%lFXlUWbc2U$O5e"
    "aGnE>mDN&INM,bZmJ;`>mBg3V)EX/ejB/f/MQQysn4aFwdm95V)ta2I&I7,Rt$uKJ&[^w<(I+<I&bVWfMWX#Ccv@C2_*6Y/`*IEo*L%XI&=2(o#x=yCMUB"
    "bI&a]afMCc6btqCkI&,[+v$,N+n%w=GDMkus+aS:@N_S@Geay#aHaqMh2h,kk^cJC/$#ujH1MJeK@#Wgh2h//hZdKLK@#ujH1MMnK@#Zph2h4Td;eR[/$#"
    "=t's%r<,K&5U-V)uvWwd*B-FMmcmK&sNImgBA.Ufv+8Xe#Ep8f]hGc%hVWfM@G:esm_4esU16R^iIk/`_/`$'_y&^uVIy>h[eGc%#QNfMe50$#>h&]Q0Ye"
    "/i[eGc%&^afMdn7bt6BjL&Zdj=e%HXwdoaEwd&3e/M/3=5$=[.M&kG$FM<P7EkS[3[QQ[3[QsL5V)I_]M&BtSM&rAi7&H#^M&hteW#0a`Bl[eGc%.E;fMS"
    "Ygf(^RWL&@IjL&Wv's%'Vgf(FgtZM@Tio%Cm=#)Wv's%/Vgf(#jtZMH.]p%l`b9)FW68&&;Do%%m6p%nQGDM%RQ'&x58f(&eu6&7AQ'&E(D7&9GZ'&l>+D"
    "M;vKhM[hGc%#QWfM1Ue/ME8(eN2$f<[UhGc%wPWfMUCA&u]p9g%MflBY<U-V)Cf(FO.chXM&tV(&74E(&KJpEXYeGc%MVafMfp+btC0j(&i5vv$vvv2YgB"
    "y>QtL5V)RAJ)&H6ge%:h&]Qpc@@#C5>uRR_<[QZeGc%c_-FM5y3*&8@+HNZLeNUJL_3UCg3V)kM.OU$^J&cgQyhVD3Dwd-Jl<(v$GhV-$-V)y^'+&k>P*&"
    "gL^eWVll/MdHYEX^Md<[UhGc%3SWfMOGJ#m<4li#YZC+&PxL#ZZeGc%MA;fMv0fa(m@%)&_E-,&MEQunP#j;e*OIfM=hSwZTBjfM@bs>Z.v,bta4r+&QEQ"
    "undhi,NSL]Fto'x,&[^w<(Epn,&[SWfM6AI&um'3-&]BY2_lfh0,Rpf3Ldtv/&lKs^M0'l+aqdDoT`Qw<(O1<-&]^w<(S1<-&`SWfMi7_2h&3sdaiG$$#D"
    "Z+v$Axje(B)iXM^dB.&xJQc%@Z+v$joB.&@mGDMUOi;e@*Mwd%Jl<(uvj;e-$-V)LUH/&8oB.&&eu6&xUH/&E(D7&#]Q/&5B+DM%H+UfCg3V)G4uNq3ah%"
    "um'3-&_T9k_[hGc%[SWfMubK#m<4li#YZC+&S<IwZZeGc%5NIYMou10&/8li#PxL#ZZeGc%pSGDMX;yjh#*S;[vIl<(0P@khtL5V)@*W0&78N0&+8q,jTB"
    "jfM>o;hi]R.bt7Ea0&:X+v$Bm:(&=s3V);8k,N%hV&ccyu*&Uxx)&F;yCM$uJ1&-NNfM&+7$#fj0o^M8(6T]eGc%)SNfMyu6$#i.-l_@iVbO]eGc%IYGDM"
    "^iL,N4^@,ayIl<(<A#-NEg3V)@P>IN/(gBcTllTS$&r/`*IEo*,rb&'L5(o#XDyCM57l&'AcafMn7>btA*%a&lFXlUXm$3UT*ydaEZ[BPD4'0MLy;#QPFS"
    "_P,$-V)_CSa&(K:o#y>^u$VRSa&BZ+v$YX]a&e%iXM<VU''>a3M#@Z+v$hOJa&XjhXMAo#('S0Rk#Zdj=ecHy#Qy9'-WkEy#Qms9&Y<yw>RQA+/MgdUBYn"
    "6m&YHm3V).C;CY.cMmg6L=5$6Q[('5Q[('9se=Ma5<>ZOqa,Xbvy2hk:2wZ:lA$#^g<(PjL/Cl5bjvZ(Jl<(=54<[AU-V)9w7@Zt8GDM#cNT]tCJN_J*Ye"
    "apxFq]j7#3hs-cQ^<'y[#^g<(Pre/Cl=TCQ^(Jl<(NAen^AU-V)B88@Zv>GDM+U'/`tCJN_RCYeaxkvK`qG_ng/IEh`Fdhq]VoAL`HE^0,efy*'[eoa&[e"
    "oa&RNm9o6.5LrEK8@Z1kxEba<^h`gUW%uKh*b&8[KtRnfh0,J6c6T'Z.FbE:CLMY6VqS4g/XedhGc%@YWfMo(CesB7j8fH0<hiaQhtR`/`$'#)'^uO`e)f"
    "^eGc%&0;^MBm8Tf4X2hMU/`$'_vbAu8;W,'<BG.'uq:qfT:4V)*a+9faYMZQA`&OhXC%fs@v3V)6Y@OhD7R$QQ[Z,j7'u3i-sY9fY:4V)@<t,j]PmyPyg)"
    "[v4xKLjmic0M[SCo*:y`@#qPPLMJ[rEkoo;xvKv3V);VDRgh#g&u]&31'.WD&lq95V)M,Y.'-nki#=0ZqoWBjfMVNi#muEKbtEGc.'R(D7&EX*b(%h;ZM2"
    "e0/'9dUj#S=i7&iwD;$xse=M5HfA'37TA'tC<ZM/TxA'tPmR#E(D7&ROOu(rf[YM3mFB'R#4B'R(D7&dwFB'FnqXM;G9C']T'C'[o[8&Tm')3fQ9C's-f="
    "MNlqC'I9HB'dhtu([o[8&Zm')3lvqC'oc@YMF-@D'o16D'jeu6&mRfA'I(D7&3K[D'sue=MPRwD'I)oD'jeu6&kJ@D'[o[8&em')3qowD'",
    "79&KMNwWE'l1g_M%j#8]^4FXni[Mo*Fa99]A)^[ZHj3V)NaOLM#9oeNW%(Uo]A&9o_hGc%M^WfMx-V[ZL+oW#Io53%47NfM+>D$#G[`RpoRVkq^eGc%,2<"
    "ZM[WTF'M'FP#[o[8&m,kj0+u/v(>9&KM[pyF'Mve=Mev+G'^M#G'E(D7&,POu(Lg[YMd1HG'wC>G'JB^Et^eGc%L0;^Mhf'KrR_H,WV/`$'wvbAu_qR0'$"
    "(x0'Dk)hrT:4V)wD49fhesyPAvQwdxm*'dSLAcOrgn<(w+twdVSCo*[/h@#A_WLM9vi8f80)YeO(4V)(^49f^Oo&u]&31'G/&es_hGc%M^WfM%UOes[3/U"
    "fADdqf[ji#m=^bnpRiZhrXC%fsa/`$'7sbAu=Hn3%6V/f&@E`2U`/`$'3sbAut0J0%$8-d&AN$OU/$-V)mB'c&TZa4%y>^u$sQ'c&lFXlUnV%3U&O#eaZn"
    "A,W^C@INa,^HWZ(X,WEg3V)t$y/V[$(0MdHYEXh5T_Pm95V)A<SI'(:,RtHPlJ'[^w<(9h]I'.aWfM$w@Cc@cTKiC(s/`*IEo*pWxI''8(o#EHyCMyt*J'"
    "-gafMg)Tbt=v3J',[+v$f2rc&w=GDM4A.Ek;HQN_w^deaCFrakAl-3hM5&wmqaL$#ujH1Mn+i@#$..3hPQysnrjh@#ujH1Mq4i@#'7.3hUvuToyyL$#=t'"
    "s%cyLK'5U-V)c`/9o-B-FM9>6L'@XImgcc@npglgqok-HRp`hGc%4aWfMdeWesHob2hCrekhY2CIj`hGc%_YWfMI*h&cZ>K-%vn7-%H2yCMB3@d&nYGDM-"
    "lV>Z^r*wmyIl<(3b.@ZIs3V)eb$-NcC(0MmDN;[7kfwZEg3V):2+<[.vJ&cZ>K-%(o7-%s%yCMKk;e&7;$YMQwNe&t*Ed%@Z+v$;w)e&TghXMIM/N'f%li"
    "#@Z+v$@w)e&cC$FM6o5/M<S;_u;siwvZxZ0,hcn@#Ruu,W;g3V)l,&u[CG#iME8(eNGJ#iM<E^0,.+f]'KF]]'KF]]'lcj=eion@#`c:*OCU-V)J3WFO_`"
    ":^MnEn(XO,W2LZ,KU]YBjfM2$RFX54[bt`=n`'^g<(P[FD0Ml5<BP*Jl<(1C2'YahGc%^cWfMOLHCcj(R>Zx,F<[+IEo*;ZWa'j7(o#pJyCMIhaa'>ye=M"
    "kl#;[sR/&[9<6V)rgTCP-GQpfrrf8]FQ'u[ahGc%^cWfM54`esCDAqf70RFXBqj_YCU-V)N@WFOW2NfMXtT$#SrG*X_<4-a`eGc%+dGDM,_CK`n,PN_*(k"
    "eayt:h`Iuw&u*[Dd'cyQ,a4-6V).dm[QNft%cr`m2$'ThJ$SuYc'y>^u$jIdc'ujH1MJqp@#Mn%xd,bOBcQi#iM1I-V)k8ibbR9x&u*[Dd'luF#dqfh0,s"
    "55i`g/e_cyf53hQY4tRux2]#,B5IjYBjfM[8<9f_X]bt1/.e'^g<(P-kE0Mt(msR*Jl<(,%vqfahGc%/dWfMxpICc;=<2h)FF<[+IEo*eKoe'j7(o#BKyC"
    "MrXxe'hye=M<*f.iEhqph9<6V)L'/uR-GQpfD0Q,jA3khiahGc%/dWfM_XaesEVxQg2j=9f<SVRgCU-V)VXWFOY8NfM*BV$#SrG*XYvwwm`eGc%TdGDMUs"
    "->mn,PN_2AkeaK2&[mrBy&uSL[h'47<wm4-6V)`#H6TNft%cr`m2$PThJ$%gqg'y>^u$e:$h'ujH1Ms=r@#v:'xdUv95pY*$iM1I-V)frTUo$_y&uSL[h'"
    "=31npqfh0,GQw[mbiPRpJ*sngdkRnT4=V6g;V6ogME^0,DU#`'J1Oe&J1Oe&RNm9om(GLr$FJ@Zf5/LVvY%oTiUW%un3be&[8=n^nfh0,8iR3hjHRLV^J#"
    "fN%lHk_4`nOhdhGc%cYWfM::DesU8oBlaX]FtRA[n^`/`$'ZsbAuA]>G%##gi&agqK``/`$'VsbAut0J0%gUZg&bp5h`/$-V)6YKf&UcvG%y>^u$^iKf&l"
    "FXlUodD3U;7xdaX]jgr1Si[ZL+oW#&.<i'&1`$''&cAuc8Fi'*AXi'F&bHsahGc%RdWfMbo>*OeR'&u[n)hrahGc%RdWfM*kbesMR1)ka1Si'/AXi'lFXl"
    "U8f&3U)Z)ea%Coab(RAIN+X3&c0;.cbEg3V)`U4Ia&3)0M.t/#d2EU_P.-6V)Ri+$dV-l%c#7No#F%OT$@X^j'&eu6&D3Jx'(n/hi]eGc%7ZGDML$1wdYL"
    "aBP#Jl<(qvawd/$-V)Z6xx'nE=.%y>^u$NRxx'KEQunB'E*O)URfMy*]$#7'jFOTFA'PaeGc%6lafMnDdbtFUFy'FZ+v$L]Qc%4lafMnDdbtKtty'i5vv$"
    "kpanOYUA'P3$-V)Ge1h&[0WH%y>^u$'u1h&DZ+v$<TUc(S/iXMnuMh&%*Eh&@Z+v$.0Nh&OPGDMV)B2h1BD/`uIl<(.Dr2hGm3V)1S6OhC(c/MV'M5T;ta"
    "hM:g3V)MNyng6H*/MZLeNUOufqS=E^0,E_>$(PXh#(v%6$(S1vv$N[65/PoWl#@Z+v$YHah&*H$YMC-n$(Vm3M#Zdj=eyb_IW-`_IWpT=$Q6L=5$R[65/)"
    "Qw$(:X+v$3W)%((IEo*fDE%(49(o#lMyCMH[N%(*r-FMK_a%(C*]%cIoU.$4uDW$>Ta%(%[Yr%A+k%(:X+v$;W)%(*IEo*nu7&(49(o#tMyCMP5B&(2r-F"
    "MS8T&(E6o%cIoU.$<uDW$G.T&(%[Yr%Q]^&(FW68&GpN%(FJB&(6l$FMnVIN_<fn/i8fn/ivL5V)(W='(3W4'(rAi7&^*>'(ymeW#(n/hi]eGc%'H;fM6["
    "hc(ia/j'33uy'I(D7&Ns,d(6safMahAbt=pfi&mZ68&d.-d(xs]i&)TNfM5Z:$#cN4r]c&yBu]eGc%.TNfM1N:$#i.-l_O(t8o]eGc%NZGDMcA2&l1BD/`"
    "#Jl<(G)d&l/$-V)]7Gj&1:<M%y>^u$RHGj&DZ+v$HQQc%i/iXM,Icj&QTYj&@Z+v$YZcj&8#;^M3Ch(bp6_2LundteZBjfMm&VFbU<fbt&F1((,[+v$:su"
    "j&w=GDMg<0BcU:[N_`tuea,w8_cT@*'u12A)(luF#d5-6V):BaXnV-l%c.$^p#puOm$^_r((#Iy9%'6%)(:X+v$/<.)(ISCo*/Bx)(BHq)(:X+v$2<.)(J"
    "SCo*2T<*(EZ5*(=t's%<nx)(4U-V)7]$og0E-FM&'Y*(-b[1hD0Q,jmZ#A#FW68&E/G*(D;Y*(0mafMTOfbt12A)(mZ68&B$W((/Hl*(tlafM&hBbtKi0k"
    "&lFXlUc5(3UR'+eaOaupo9Kj&cZ>K-%fo7-%%5yCM1)`k&wH6YM6/ik&R0`k&@Z+v$i(Dk&u/iXM9B-l&]+Ed%lFXlUlQ(3UM`SdaX]jgrY+chM`$KHsd*"
    "W_PBg3V)h_60r28x.MTmupo`D_eN;g3V)lk60rBLWmg6L=5$r`-l&jY[,(+&f=MEa;-(KfSl&sjhXM=gE-(ur;-(BZ+v$$.F-(N@$FMTvTgr%0SLr%0SLr"
    "]xZ0,Hra-(GYx,(yr-FMD4&.(&V5ZZL+oW#;FLN%&1`$'w*cAuT>9>(h^h>(5@OwQ8IEo*R)U>(+;(o#iNyCM4A_>(AoafM&vmbtQEh>(,[+v$$U&.(lAG"
    "DM1E65TBTZN_3J&faR$iQTh;G$Q=%yL#b6ps6k@DaM=iQ@(Xn3M#9t's%y%@@(JoafM&vmbtZ%e@(lQrs%d[_>(p7[@(pt-FMHMK.(vjoDtsUpB([^w<(w"
    "iNA(ViWfMLC>'cIoU.$(CTi$;CK.(%[Yr%:vaA(Xk%U]beGc%vxl`MMn.B(2'>2$/%(s]3n%`Y5O2>Z,Jl<(:5y[ZYSCo*crJB(uxCB(1[+v$BnK.(K-`E"
    "MVEgB(JV^B(Xk%U]beGc%]V;fM;&Id(8jNA(F+tA(:X+v$4Ab-(V/`$'I+cAuT>9>(cO(D(_T9k_8IEo*$rlC(+;(o#qNyCM^1vC(joafM",
    "OCobt#6(D(,[+v$U/q.(lAGDMZYx(bBTZN_]n'fa$9SEb9aH$Q=%yL#37ps6<ADaMgYiD(an3M#9t's%tnVD(soafMOCobt,n$E(lQrs%7MvC(k)sD(Bu-"
    "FM%,x<(xv*EtEG0G([^w<(IZfE((jWfMug@'cIoU.$QCTi$pxw<(%[Yr%5hxE(*)hHjbeGc%Hyl`Mv_FF(g(>2$/%(s]]:'`Y_dt1h,Jl<(5oeOhYSCo*4"
    "dbF(GjZF(1[+v$HMx<(K-`EM(6'G(EHuF(*)hHjbeGc%.W;fM=2[d(3[fE(At3F(FW68&U6@d(aGRd(kr$FM=XJEO(<*Is#<*IsvL5V)PDX=([DO=(rAi7"
    "&VqX=(JpeW#I8B)t]eGc%HH;fMABnd(IOA)(QS0G(E(D7&yY2e(AsafM*tBbt_/3m&mZ68&sl2e(e3*m&iZGDM*Qd^uW:2&l#Jl<(->>_u/$-V)$CXm&Wp"
    "7Q%y>^u$8SXm&DZ+v$;SQc%00iXMwWV$'ddM$'@Z+v$AlV$'0JNfMxu@$#i.-l_Cu`bO^eGc%5/;^MS[^%lN&a2L=0Zqo[BjfMVNVClwKpbtG`hG(,[+v$"
    "O.j$'w=GDM0`BZm0oAN_*5E*bN-6H(IsafMu^pbtL'@H(,[+v$T.j$'.=rEMZcc1qwbM3qnrdyP]PRNq^9f7qKB^0,QbaI(x3be(5Ue=MDvjI(abcI(:bG"
    ":%%.OI(ijGDMBb:To93BN_/EE*bTRnH(MpafMu^pbtRLwH(7Ik;R^eGc%P]GDMdIE&P2BD/`uIl<(J9%'PHm3V)MIACPoO-[ZL+oW#rp4R%&1`$'-.cAug"
    "W8J('$I[(H8B)tEU-V)$*E3qx5GDMoT+But5GN_uYs)bgjgJ(]IN^MstSyuOVhhMU/`$'_-cAun+#K(r]FY(OyU>vJg3V)i'V-N/li1hC&,LM4a6A#^g<("
    "P@r:fN4YWvv)(T$'JR3Y(*(_,NceGc%;KN^MP>XdNSrdeNV/`$'h-cAuLhXY(Y>CZ(,DZ)OKg3V)GrZ-N3$s1hLywBP5jR]#^g<(PI6;fNi#]aO*(T$']2"
    "0Z(3$S#QceGc%EKN^MY:MZQdWmqSV/`$'q-cAuUHUZ(lv>[(5@OwQKg3V)P6[-NDUs1hUul8S6snx#^g<(PRR;fNrvPWR*(T$'oj,[(<wGqSceGc%FrafM"
    "3JwbtUaH[(,[+v$^0j$'#ArEM]t9NUxbM3qnrdyP_b)kUaK<TU9IEo*0w(](45(o#cY+DM#1=lUx@5V)g&;](D(li#Q0V_Y]BjfM-]U-W;Gwbt_AE](@Z+"
    "v$+2[[(M9rEMgyJaXxbM3qr-wyPig9&YkPMgX9IEo*:^.^(45(o#mY+DM7UN'YdhGc%WlWfM3P;'uhxA^(OxL#ZdhGc%:]WfMnAd&u8Kj0&(wK,j[O/J$b"
    "lL##",
    0};
static const char *const diti_spirv_text_attention_cpu[] = {
    "GZ1N5jsi^Psy/f(=&:c%>&:c%%':c%3QCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>M5W#2q0`r6%I&>QT6am.`9i6>QunMZZbOIdsERtsR10p%lP`$wQAx="
    ">dUDpaXkmA8fldY;R&vmK(D4Tvd>DuM#xm0EMkv0##D9-V)'f08.yCT$'#<^vdBV9N#8['EM7Q_W-&il<(oqr;$iM:rS[q@=eOC6O#e@LvdG*6O#(il<(3"
    "KY&#j`rRTd9LvdaaKQ#-;1EM5.2##D9-V)If08.yCT$'E<^vddsgQ#8['EMY``W-&il<(=@3U%3yhO_[q@=eq`dR#e@LvdiGdR#(il<(UKY&#44I0`d9Lv"
    "d8yOi#xm0EMeg9##D9-V)xh08.yCT$'t>^vd;4li#8['EM1BhW-'il<(ftr;$_H*`P]q@=eFfLj#e@Lvd=MLj#(il<(*NY&#`Zb@Qf@UvdUwNl#-;1EM*g"
    ":##D9-V)=i08.yCT$'9@^vdX2kl#8['EMNAiW-'il<(0C3U%%O@$Z]q@=edjTm#e@Lvd[QTm#(il<(HNY&#&bw[Zf@UvdLAXt#xm0EMxK=##D9-V)4j08."
    "yCT$'0A^vdOStt#8['EME&lW-(il<(yur;$rJ8-s]q@=eY-Uu#e@LvdQlTu#(il<(=OY&#s]pesgF_vd=D9.$-;1EMjyC##D9-V)&l08.yCT$'yB^vdAVU"
    ".$8['EM6TqW-(il<(pE3U%dv^<R^q@=eL6@/$e@LvdDu>/$(il<(0QY&#e1>uRhF_vd3_96$-;1EMd[F##9['EM^n&[#Q1C0ig<Lvd6qU6$:e'EMnT>t$3"
    "9-V)%m08.yCT$'xC^vd@QR7$8['EM5RtW-)il<(pxr;$l^MroJLc&#c,Zqora'EME/9t-&il<(6hL#$_QF$QP`4;eJ-@K$e@LvdBl>K$(il<(.TY&#bmBx"
    "QkU,;e`WTM$fIh:e`WTM$kb5;e`WTM$p#[;e`WTM$u;)<e`WTM$#UN<e`WTM$(ns<e`WTM$-/B=e`WTM$2Hg=e`WTM$7a4>e`WTM$<yY>e`WTM$B:(@e`W"
    "TM$GSM@e`WTM$Llr@e`WTM$Q-AAe`WTM$VFfAe`WTM$[_3Be`WTM$awXBe`WTM$f8'Ce`WTM$kQLCe`WTM$oaU'eW>TM$(il<(=S(w#>9YCcP`4;e&i*Q$"
    "/T1EMU3O##9['EMOF/[#BUU@dh<Lvd(u<Q$;h'EMfwk>#*il<(ZJdZ#R9U0MQ`4;e:7Cf$/T1EMjsU##9['EMd.6[#UUQ-Ni<Lvd<DUf$<k'EM5`Ot$+ll"
    "<(9mw%+#0m*XLLc&#qUy)Xta'EMUfIt-&il<(J1Iw$BUU@dmEAyd/L9n$;T(EMqEu>#&il<(.Z/'+d),unMS+wdPc^q$sj'EMYX&@#-il<(nIH>#B@R[#U"
    "b;x#L%k<(6/1QTma]t$IZR$'fDu>MKG7<$e:Rl'V7q@MUl]t$Z6Ku@ax(BMOa=.#e7P'G[c(BMU11K#q,#INOpR$'VIAhV;='N#$up@Mx9ym&AmfCMMliy"
    "PGQb>M7KC;-bik<(B4LN#UGk<(vm/r%7+QUSJv^@M[&CTSVGk<(^`hqSrCl<(TlHO#mik<(MxZO#VGk<('R3u$NHR[ZN+_@M10EZZVGk<(3&jwZrCl<(*F"
    "gQ#mik<(dQyQ#WGk<(BwK6&YV'3_Ky^@MHaq1_VGk<(J4>O_rCl<(A2vR#bGk<(J[O9%fBu_c/YvvZ/H(teSc(BM_j3U#dik<(WtK;$jZYr%p<m:[jLT,s"
    "b<Dgrb<Dgro,]0,4NKY#u@sT#a=t>M^m<HNGjT@Mi`.q%'<,-NKa;HW:.ci#rWq+a:.ci#UUALV<GCj#UsR$'=(Cj#6QF$QkKLj#RQF$QmF+n&B0bhVO+_"
    "@MqP]gVWGk<(shx,WsCl<(k_jl#ZpR$'t@.hV[QTm#Dxp@MAF,n&apfCM40NZZP+U@M%E2q%:>:Rp_E@HWNMkt#.<u+aNMkt#iVALVPfKu#UsR$'eHKu#J"
    "STIs'kTu#fSTIs)+/n&)X(*OP+_@MA4,)OXGk<(C;@FOtCl<(;.U.$ZpR$']C.hVDu>/$,$q@M)Y4n&IsfCM[ktsRQ+U@Me^V5&x]<OhGUHHW5kL6$mL&,"
    "a5kL6$PYALV8267$VsR$'5o57$1$sbkh6@7$M$sbkj=7n&6#>UoO(_@M[(FToXGk<(^_UqotCl<(V)&9$ZpR$'Y@%hVBl>K$*'q@M'V=n&GvfCMVL*wQS1"
    "_@M(^Ft$;:St$>DSt$;:St$;:St$+W]HW]Q^M$9m-,a]Q^M$+tMwZC]CN#tLSHW`dyM$`o(BMn*DZZ_9jBMPt@P$rwDo*_)wvdUaq^GK8aJN=/&wZQ5=)F"
    "gw3CcMv^@MfeCBcYGk<(h_K_cuCl<(bP<Q$mik<('MFQ$qSS$'.X,S$n>^u$X<QvZC]CN#lUvvZC]CN#oS]HWY@HV$lX%CMA>vV$Xg@P$$C%CMiB4^u$Zq"
    "Au[HX@MjlJq%%*LLMOmWHW;=Lf$sd5,a;=Lf$e1jwZC]CN#jJ7xZC]CN#xL5o^ataKVY'/Ha[VVm^B=GM#uETQ##ADVVWBgi$XsR$'s,gi$NwcFX1Gpi$j"
    "wcFX3IHn&CZb@Q6,Ah(CZb@QAQ],)jZYr%_Qt7nMxmRT'rFm$Nyp@MTFt>#(#gCMo2I>dKsp@MVLt>#wCl<(j*9n$i'l<(gEu>#3th`cF)(#mhn;y^P8bZ"
    "mb=Zp$h'l<(psq;$n>^u$moJ0VZIdr$bK[HW[Omr$&11wZC]CN#*l:wZC]CN#X@W/VPej,%eK[HWQks,%%h+n^jpUBYc=Zp$rwDo*]@iHNd_'tnwwDo*^C"
    "iHNj8[QpV:k<(0eZ#Z[Gk<(,I>>ZwCl<(0w0/%YGk<(@UX5&n>^u$cJ,o^6WdWec=Zp$rwDo*+hJ)OijjWeW:k<(qnG;e[Gk<(wBiTfW:k<(D*d;eW:k<("
    "myc6%0+q@M5jw8%:mK@M(Vy5&0+q@M&=&9%BHjBM+N.I%aik<(#=XM%jik<()c8N%kik<(&VB.&lik<(,$#/&mik<(B2x/M$`q:$CZb@Q6u=3'CZb@Qnt_"
    "O'r2k]##OFatoL1,a[Omr$8QD,aQks,%.SD,aQks,%1SD,a2bh2%gSD,aZLv6%7TD,aKINH%(VD,aQks,%yYD,aKINH%D<<&c.9cm$g]Xm$1Kl<(kQ)wd)"
    "$-V)m0Cn$scUoa2d$qfh&1&cdpyM$K6gM$GyxCMeD_n$OthXMjJhn$wC_n$wT-DY1CRbX91fdal]fT]q2x)Orr*q]aDdT]/$-V)6sNe&%XGN$y>^u$K1Oe"
    "&FZ+v$K+Fe&CgeYMZWKf&J7Xe&IZ+v$p[hn$xYGDMcZ+/if_LTowIl<(.D6/i>g3V)0PRKi(Rs(OBu4,j,4VNhU/`$'QsbAuyISP$y/Nh&luF#d/$-V)J9"
    "Qg&BVFQ$y>^u$rOQg&@Z+v$uUZg&%ZGDMMo9We1>hZQbqPea/H(teqBi&cdpyM$NIgM$iyxCMhi:h&^pe=MuoDh&wh)h&x`afMWLAbt1&Nh&wT-DYRNSbX"
    "A=Jda5(xmgYO]&u48jh&y>S2hnfh0,W_2rf$gUng7)BINN5&wm+O>[m>g3V)NQ$wm%IaHNRZ=8oPmwsnCs3V)7mF;eDNbHNW1rmpZSTQpWhGc%<HWfMlee"
    "dsntCBu%amh&-j=r$D#;JNpNBBumU))tV*5r$mgkAuZCZr$ea4r$AO-kq)$-V)#D:s$w<1s$y>^u$$H:s$wT-DY%dtaX*QIdaf&wvv]AcHN@bK/M>3Twv>"
    "g3V)FSB8obf9iMFBD)OI0&_GS1vv$-@65/9A5+%@Z+v$8sT*%IJGDMnhNBP]X2&PyIl<(Fx`BPDs3V)Ei(bO;sO/MM+X>Qc*;#QDs3V)(H@,a4LI/MScP8"
    "SPq8tR*$-V)vmKEtH.F*bKRa,%UJGDM1[:-%xWgJ(_Y-3U[U0&cZYB8VqDHBu)(T$'fJ/Y#Fs;hVWeGc%@7;fM:)[d(8%B2_*bkT]>1GM#",
    "p*[d(#;EfM$vF,WQBjfM).G,WuDhatS2p-%DZ+v$8XgJ(mthXMI6V/%v/M/%@Z+v$;8V/%[mGDMOahQ^780q]v'T$''Q8Y#@Z+v$)+[d(9AafMu=hatT8y"
    "-%DbeKrVeGc%sthXMQhI0%uP[O#AFiNqVeGc%@NafM9:iatn$]0%i5vv$5Rm9rP'+IaqL5V)q9F1%9r^J(iSE-aB*b##r*ybbQlA,aWeGc%aPafMCViatw"
    "[X1%i5vv$@lYr`*)s^cqL5V)%'U2%ARL2%rO9$dJI&@#&9N9fd,6#dWeGc%/KGDMaHKNh,[<8]tIl<(+1`NhDs3V)e$.n^7qjHNBu4,jY9u[m>g3V)Z_f^"
    "u<XR/ME91)k&;O;eAm3V)]X.&u[Fi=M)MN4%+F34%_whXMyRW4%7ON4%8+TJ)3Jq2%ZY+DMJnPBl@g3V)M][;RupT%uw[X1%luF#dXhGc%2KWfMbIndsYi"
    "pWRk8o1%j/K5%D#;JNQ'xWRnU))tLGB5%cjkAuP`g5%P)B5%5AX;nXhGc%:KWfMjbndsT;F>m4P;5%nT+6%D#;JNTjM>mPV1)tTx46%ijkAuX9Z6%aZ46%"
    "=31np.IEo*t3odsY3Y@m*(T$'mK/Y#@Z+v$nvHd(9AafMm&katL`46%8S8tnWeGc%iwhXMA^i7%bR[O#57<wmWeGc%5QafM)bkat^q$8%i5vv$nEAcnRl'"
    "LMrL5V)54HG%OBRo$,=U0M_(i##5l1fN]%T/MXeGc%PQafM_Tpat;VZG%i5vv$a0Z*woHkBPrL5V)=f:H%6H/q$59J'PiM-@#=_b@QDlM&PXeGc%,GNfMw"
    "ci##1H#iicSO,WXeGc%VMGDM@.BI%HVr`(y>^u$c_AI%DZ+v$D6cU#uAiXM5sfI%fq]I%=#;JNI6gqSeqQfMvm9$#3ZZIjH#(Cl]eGc%Mjl`M$ooi&xdyQ"
    "#/%(s]frHX[:>#Ek'Jl<(ItGbk^hGc%8ZWfM-5.CcKq)#m+RX8])IEo*#/Pj&n4LN#NByCM(FYj&df-FM2nCk&I9[yPkD9ApX-svo@U-V)Z+A[m<Oe=MMh"
    "lk&['bk&=t's%j.Mk&4U-V)i'q5p,E-FM<K-l&DU[1h_rjKr(;V@#FW68&rGrk&qS-l&GaafMk/BbtHVlj&mZ68&MH+j&]`@l&3aafMl%qatT;4J%8+TJ)"
    "u9vr$3TyCM8GPJ%';6YM>ScJ%F3#[(@Z+v$$LPJ%(/$YMExCK%URcJ%@Z+v$_mlJ%Th3V)`xu&Yxh#/ME8(eNU)3qf<E^0,%j-%'_]V$'E-%%'S1vv$5R6"
    "5/T6cU#@Z+v$hmlJ%i=$YM*>]%'PA2yg/r.T#TR]%'SR]%'tre=M<t/>Q2tg,OEwx2hOGT;Rul@$#=#;JNpVnqSeqQfMH<B$#YR@$Z=2PX[^eGc%r]GDM#"
    "=`vZL*JZQ)yWeakJj;[6=e&uqI8*'TO)X[2-6V)w=:<R6va%cYtnO##7IO#p`N)'y>^u$I1X)'biC(Gx*ps6*4DaMT5&*'S%6%gxR_2_N7en^_hGc%b]Wf"
    "M9:MesK6qKiBn7@ZJWPX[AU-V)X&=@QU2NfM]#C$#YR@$Zg#r&c^eGc%/^GDM7H)EbL*JZQ-.Xea(U3bbK$f&u.nD,'iYJ&c2-6V)8JSUS6va%cYtnO#77"
    "IO#--Z+'y>^u$rUd+'biC(G5+ps6>4DaMiY1,'W%6%g5^(Xew(/<e_hGc%v]WfMNxMesL@5hik_YeasHr&cAU-V)]2=@QV5NfMqaC$#YR@$Z8l;Li^eGc%"
    "D^GDMLRJjhL*JZQ1:Xea<`T/i`bf&uC:P.'&ekKi2-6V)QUlnT6va%cYtnO#L7IO#BQf-'y>^u$D#p-'biC(GJ+ps6S4DaM&'=.'[%6%gJhI&lIqPbk_hG"
    "c%3^WfMc_NesMIQ,j<P$3hE9<LiAU-V)a>=@QW8NfM.HD$#YR@$Zb]^qo^eGc%X^GDMa]k7oL*JZQ5GXeaQjuTotHg&uW_[0':o4qo2-6V)ja-0V6va%cY"
    "tnO#a7IO#Vuq/'y>^u$mG$0'biC(G_+ps6h4DaM:KI0'`%6%g_rjKrrbr/r_hGc%H^WfMwEOesNRmHjfAFXnn*_qoHE^0,Y%:LiJUK-jEr6og/r.T#-5DK"
    "%1&DK%^Es^M)&o(XtjRdWt[Mo**i#*X#5l,sShGc%9MWfMiatdsQkV)kZ(X<n&;Phr0$-V)%#d;Rg/M*biY$L%5safMb^pat>ivG%@Z+v$Z[r`(9AafM_T"
    "pat=cmG%]8=n^XeGc%W:;fMo]$a(gqR/VFZuT]>1GM#db$a(n=EfMTA2k_SEjfMV:R2_67ratklRL%iVs)bRBjfMxqgdaWCsatsFFM%wT-DY>_-bXW<+ea"
    "&L3&c`eC&c:j>`cm2:&c-Jl<(e,$_c+$-V)GrBN%Dl8N%y>^u$l$CN%DZ+v$ko/N%J#iXMe1_N%h0UN%DZ+v$l]Kf&VthXMkV>O%vU5O%DZ+v$%7cU#uAi"
    "XMniZO%(iQO%=#;JNlKqqSeqQfMnYI$#U.1'u6d`wv^eGc%pml`MG=b1'YeyQ#/%(s]%pbeW^jPyu(Jl<(6^(@v_hGc%0`WfMPJ8CcAkgKMfMZ8])IEo*r"
    "Y$A'a7LN#FGyCMwp-A'[k-FM*BoA'A>[yPa=wiPP'YHPBU-V)Hi5-N>Oe=ME;AB'SR5B'=t's%Y_xA'4U-V)Vef_P.E-FM4vXB';Z[1hTlPtRy'f@#FW68"
    "&bwFB'a,YB'>fafMcsPbt@*AA'mZ68&_nt1'w6lB'VdafM@Prat52)P%wT-DYVN.bXW<+ea=rPHjwTD&cR8]*km2:&c-Jl<(<CB)k+$-V)^KaP%Dl8N%y>"
    "^u$BUaP%DZ+v$BOWP%a#iXM$c%Q%>bsP%DZ+v$+^Kf&VthXM*0^Q%L/TQ%DZ+v$;7cU#uAiXM-CyQ%UBpQ%BZ+v$Io>o$k#iXMC'ID'Y`]:MeQuaXA.9te"
    ":g3V)rEIUovDPmg/r.T#tYyQ%/K[D'9ve=MSX;E'@mQR%OhhXML_EE'w^;E'BZ+v$AvEE'VF^0,N^WE'B%OE'B%OE'g46ac63g@#W2YX[BU-V)BZut[^`:"
    "^M1(9We7$X)F+8q,jXBjfM*Kpte[OSbt/w`H'ePQ=R.8peNhnWp])Jl<()jPUf`hGc%-aWfMvg@Cc:4xmg3G83U)IEo*J5JI'C7LN#@HyCMpISI'fve=M4"
    "1aI'CHUI'1[+v$qD&F'KJ-V)9oekhdno&u<p*J'(wK,jpfh0,%p9rf4fahi3D-3hu@C2_C3g@#@C:RpXBjfM>U9Clp5TbtDDlJ'ePQ=RCvpeNl;p1_)Jl<"
    "(RZr#m`hGc%BaWfM3NACcO>B;n7S83U)IEo*_YUK'C7LN#THyCM-n_K'#we=MIUlK'WlaK'1[+v$2^KF'KJ-V)c`/9oxTp&uQ<6L'<*mQppfh0,:&[@m^V"
    "+6pH*.3hyeZK`D<+]#TM[wvXBjfMS`Zhr-tTbtXhwL'ePQ=RW]qeNpa0K`)Jl<($L<Is`hGc%VaWfMH4BCcdIcat;`83U)IEo*s&bM'C7LN#iHyCMB:kM'"
    "7we=M^ywM'l8mM'1[+v$KvpF'KJ-V)4QQ_u5;q&ufaBN'Q46wvpfh0,P3%fs/HM[v]h.3h&3sdaEFGx#<&59SYBjfM;84*Oo1ZbtB9f]'ePQ=RArveNt.I"
    "da)Jl<(M9sbOahGc%@cWfM1JGCcLy;#QAl83U)IEo*]OO^'C7LN#RJyCM+dX^'xxe=MGKf^'UbZ^'1[+v$89>G'KJ-V)^>0xQwPv&uO20_'9eg8Sqfh0,9"
    "gU'PY5,uRFtong4wxEbx%b@d)>BxdME^0,d0mG'dgPR%dgPR%d<:ctAiVesIaB@Z6BU#dm)DFbv)X%utLOM%f=N)bjfh0,&Q^<e6Gu#dxVv&uT<:S%F&bH"
    "sjfh0,qV`*F6$ye%vY-FM@ZrS%gn-T]>1GM#XCxa(IBEfM)FXEtSEjfM,CxdsxNtatUCDS%MEi7&Op3U#/bxa((m&LMYeGc%$=;fM)okb(",
    "#=>nThk%U]>1GM#Bvkb(2;EfMByBhMTEjfMF.ChM[Nyat7AHc%DZ+v$4e$a('$iXM(&Wd%=Exa(3Twl'S6WH%FTyCM+Esd%&JtZM0N.e%o)JT%-i=v@g9("
    "7%HJWd%%[Yr%]R7e%Dv's%_XAe%S=+DMbTHqSBg3V)H5pNhupT%u6:>c%)(_,NZhGc%HNWfMVj]/MZLeNULU_3UShGc%ENWfM#X8&umxeL%_T9k_Ag3V):"
    "SK&cupT%ujfIL%^KuN_YhGc%&MWfM4ZX/M_q%hVjV]3UShGc%NKWfMXH4&uVKYf%G.tHWkfh0,8[^*FFLA)&WHs^MeA+BYch5un]Qw<($_uf%]^w<(&Rcf"
    "%IPWfMBcK&ch#OHZ^BU8S-Jl<(3Oj>ZZhGc%SPWfM+Z'es(Y'R^3]9eWkod8]kfh0,Wa_*F_g.m%dHs^MqXs4^c^]<e^Qw<(<Q6h%]^w<(>E$h%UPWfMc9"
    "d/Mv@C2_>h8r]%M5V)jl)i%AX^J(d(@L`SBjfMWSW/`U<%bto03i%@Z+v$.28q$alGDMOY&&co=;2UtIl<(bqL&cDm3V)d&iBcSFi=MisKj%jf'j%1QGDM"
    "i8&k%pI,[($TyCMfJ,k%7QGDMv)#nT$w<HswIl<(nP%oTMv3V)LqwtewV>FtsOKb'[^w<(#`,`'^cWfMCx+'cdpyM$#RgM$A.yCM<uH`'icGDM.7ldWdOn"
    "aOxIl<(&iqeWLs3V)BV3-aa<D0MeQuaX-rQFXHg3V)-9nbXqRd/Mj(R>ZTIHCcDm3V)6tJ@ZPi'YMNnja'T6Lj%ePQ=Re#A-Nf@$;[*Jl<(BNcX[`FsI-A"
    "<p@#nub2U=Sw&uoCKb'Wk%U]ahGc%`cWfM7:`es.9wK`9c=0V6/_U]'(T$'l31`(bgqK`YeGc%AQGDMu+>l%pI,[(%Z+DMyBmEbWhGc%aPWfMZUL&cF7jm"
    "jg_X8SaO0faC@M)kE+V#QPniEk_lAU^h_A&ufP6h%Vba8]Bg3V)m0Eq]upT%uc=rg%UXEt[$Jl<(mMl>ZEp3V)RW$[m'EQ$QVgyWn,-V=n,$-V)L9dBl9S"
    "K*bJS+n%7WafMm,&btJYGn%lQrs%5m/Y#73fp%8>;fMbdY_(rG(LM%P)U]>1GM#6mY_(l=EfMi`T5pTEjfMmlT5po2&btK`Pn%-i=v@s:(7%80Z_(%[Yr%"
    "uGVo%Fv's%xM`o%K+f=MFa$p%@:so%e:/Is@E6eag&[>vUp*LMnE;wvHOT@vBg3V)j;Gn^upT%uJYGn%<*mQpx'T$'EfP_()Ppu@UnA-%]SyCM#qD(&H:y"
    "CM&,a(&vge=M9>%)&=AF(&+*v_(LbDFOj(H&uY^uf%JJpEXBg3V)XBq8SupT%uVKYf%IAT)XZhGc%:SWfMjj/es]-mTSJ(pf%+uo)&D#;JN^g5US_'))tT"
    ")g)&jlbAuYH=*&akf)&:n+US[hGc%DSWfMs.0esceeNU<2a)&1FY*&D#;JNl`.OUnU))t^ac*&rrkAuby0+&sKc*&DjwKVGs3V)vo.OUQ8J/Miv5#ZrGp^"
    "YCg3V)0LW#Z>rG'crur/%4)1/%l:yCMIL6,&qSGDMJJL,&b#n[(%[Yr%>WI,&R(D7&=K6,&uSGDMW#f,&&&n[(w1gq]hIm/Mt-cQ^so]3UShGc%DSWfMyY"
    "H&um'3-&]BY2_lfh0,At^*FtNuF&nKs^M#Uh+aO,<ue^Qw<(Q=O-&]^w<(S1<-&`SWfM8:iEt$r8.&[^w<(rS/.&)TWfMakU&cdpyM$BCgM$+;yCM[pT.&"
    "0TGDMpPh.&P#w[(y>^u$l0h.&wT-DYH)AbXa_=ea-5H;e,_.IN3KdWepjj;eCg3V)lBrBc.e.IN9+]Qgux1Li>g3V)#HKte4w.IN<GXNh@4ETSKg3V),1D"
    "ng_+9[Z>1GM#2i.I%j0`$'H%cAu'05c'fOmc'bp5h`4-6V)t$nkhJcb%cpM5R#&QU.$(lPc'&eu6&hCZc'n'c>d`eGc%5sl`MdA(d']kyQ#:3TJa2A.uRy"
    "Sa%c*Jl<(kKICcCU-V)rje_c>Le=M-a1e';w&e':X+v$&i:d'JSCo*pFq@#fG63h;=xQgb2U$#=t's%1C.e'5U-V)07:6g.B-FMx[oe''[ImgI*Ckh5Drn"
    "g9]ROhahGc%scWfMKu`esq+DbXhIph`(bMFbahGc%hSWfM#bV&cdpyM$YCgM$+;yCMsO%1&HTGDM0081&P#w[(y>^u$Dh71&wT-DY_mAbXa_=eaDRIBlCK"
    "/INJhe^lGwlBlCg3V)CU8ejEQ/INPH^Wnux1Li>g3V)PQM#mKd/INSdYTo@4ETSKg3V)Y:FtnLZOhMYDRNqFNWToCg3V)Z`pqoI]lXM0khg'7doT#@Z+v$"
    "bvc2&DA$FMBLm7o^m-[mbJttn[xZ0,#Er@#k@%Oh:g3V)d$qqoS('iMW1rmpF*y_GU56acdFmnppCmnpe37$Q/r.T#HY65/lfeh':X+v$wlnh'e95V)B@F"
    "y'yu)PtXaq#([^w<(VqOy';fWfM1G4'cN0`N#ZPtt#_U2i'%[Yr%]&cy'>2(RTaeGc%[ul`M2y/#(jJ[O#p_&mUg1hesFC*;R+Jl<(^WqXRXSCo*4Ex@#w"
    "@-xdUu0qSM<y_G9t's%mQL#(DlafMw`dbtTTq#(lQrs%s2ly'ddh#(jq-FMB%Xi'pgoDtm-&&([^w<(k=[$(PfWfMF-5'cN0`N#oPtt#cnWi'%[Yr%.Kn$"
    "(S<IwZaeGc%pul`MGF;%(nJ[O#p_&mU$phesZMKaX+Jl<(/I;'YXSCo*I+y@#4'.xdj(R>ZQIy_G9t's%>vW%(XlafM4Gebtix%&(lQrs%1Ww$(51t%('r"
    "-FMF=&j'qmxDt*R1(([^w<((cg&(efWfMZk5'cN0`N#,Qtt#g/&j'%[Yr%Woy&(hGjEbaeGc%-vl`M[jG'(rJ[O#p_&mU8ViesoWl.`+Jl<(X9^L`XSCo*"
    "^iy@#Ie.xd'3sdaUUy_G9t's%hCd'(mlafMI-fbt&F1((lQrs%G$,'(_U(((;r-FMJVKj'rs*Et>v<*([^w<(</s((yfWfMoQ6'cN0`N#AQtt#kHKj'%[Y"
    "r%)<.)(%R3khaeGc%Bvl`Mp6S)(vJ[O#p_&mUM<jes,c5Tf+Jl<(*+(rfXSCo*rO#A#^K/xd;=<2hYby_G9t's%9ho)(*mafM^kfbt:j<*(lQrs%]H7)(0"
    "#4*(Ol$FMXo^j'2jW](6vj](U56acPqROqj<vNq*c2U]_ChY#XxKY#522^M.;ox'p(_j'>BafMC`-btwe8.&mZ68&:%t](5Jox',mafM#X/btWU$4&i5vv"
    "$[C6PbwM5bt=U-V)gDj>m[-s^MfKPyu5`s_uaQw<(&m@4&]^w<()a-4&JTWfM[B9ejI/q/MMki%Y;M;'u9S(D&(vBhMmfh0,TW_*Fs6PF&8Ns^MF1QaO)e"
    "6un]Qw<(@`1D&]^w<(D`1D&,VWfM=A5INM+X>Q+=s_uCg3V)Qb*@QRRH'cRNQER-S6t[6jEeaOV4XRWnF[QW$v8SJXBXR.$-V)v6,FXUF0faT*VqSNY9LM"
    "Z@r5TbT#9S#(T$'d&4F&@Z+v$1My^(9AafM]W4bt;`:D&KKyatZeGc%'*iXM87cF&wR[O#H/&esZeGc%KZafM;J-btp9O-&@Z+v$y.w[(9AafM8A-bto3F"
    "-&G%X,W[eGc%ED;fMI')](VqLq]3&9U]>1GM#+5)](2;EfM*D0IWVEjfM.P0IW'a5btX^9G&DZ+v$.5)](mthXMG66H&t/-H&@Z+v$7E6H&blGDMTk[H&("
    "2)](&eu6&>^[H&,mu6^9&^wZIrb)bkonH&3,iXMOh)I&mR[O#G%X,W[eGc%K]afMp7,btMno)&@Z+v$1[5[(9AafMm.,btLhf)&e+nHaWeGc%=whXMS)OI"
    "&TD92%bgqK`WeGc%bPafM;M6btp<bI&i5vv$Wsu6aFSSh`uL5V)rLBJ&sE/q$gAeL`H</$#of%faUl.L`[eGc%=,iXM`sgJ&tbyJ(wT-DY",
    "E#JbX*QIda)h/#dU(Zt[>1GM#k*hJ&mPNfMWe/$#wXU@drjWwd[eGc%q]afM=S6bt)IHK&t_Z8f[eGc%rD;fM1><Y(>4HK&T92L&i5vv$e3g*eU@n5guL5"
    "V)/qML&tE/q$$L.rf^,L@#,qF3h'^Pqf[eGc%'0E^M<6f.i8j1$ve/`$'UpbAu>ZjL&9U%M&&ekKi]hGc%xVWfM#e`&cB+jmjx`D>v,Jl<(AIBej(l5V)9"
    "WSM&RW/Y#2y-ClUBjfMMqY&ll)8bt@yfM&%[Yr%JhAM&Kv's%Q5yM&6^afMdn7btGMPN&0a`Bl[eGc%.E;fM9p/Z(O)gM&]8PN&)Ppu@i`%-%qQyCM9N$P"
    "&_>yCM<a@P&+QNfM0W`$#OM/iVW6RLraeGc%MgGDMg(DHj+V,&YxIl<(A[TIjMs3V)ww*o^(6w/MJhe^l6B7'c.$-V)jV_+(*#1k$y>^u$Zy_+(DZ+v$Zs"
    "U+(m;iXM0n#,(T.r+(@Z+v$b4$,(&8y_MP7k7o%'AhrU/`$'s(cAuWOI,(or)-(9fpToXSCo*(N$A#m(=LMZD6npr3,RpbhGc%GgWfMym+'uVb2-(@FiNq"
    "rfh0,c2.op@QWFb<s7'cN0`N#y_+j$Sl5,(amn/rvS:'uYtN-(CbeKrbhGc%xVWfMPx:esg*O/rIEhLigZbLrIg3V)*>m>vtpT%u-bmK&uq:qf.$-V))xw"
    "P&&rnP&y>^u$04xP&DZ+v$q<be&J,iXMxZM`&&-hJ&wT-DY^oPbXvMNeaA5D)ODM>INGK`EODYv)OEg3V)f=V#vES>INM+X>Qwx1Li>g3V)L6WbOm1Z&uI"
    "[oa&6Ik;Rnfh0,NCX*F[NRd&JQs^MUe=QTlsC-j]Qw<(aw3b&[^w<(dkxa&;YWfMMr>INZLeNU'xdRp>g3V)i;NnpOi'0M^haKV)47[v4$-V)0UCc&(O9c"
    "&&eu6&ydCc&R(D7&%kLc&0fNfMy-f$#1H#ii_VlLMbeGc%3U6YMK`g.(]b4K(@Z+v$wf]a&^9;^MO-FWR&5>)FG+FLV[BjfMid>uR)gmbtP>_>(,[+v$+/"
    "q.(m:GDM/8$5TEg_ZQ2PB*bWd,@(L`afM'ymbtU^5@(,[+v$0/q.($:rEM`u>A('w_c&1Oe=MJCEA(g.=A(S+i(G//`c&*o1w#OpPv$kiWZ5)o$FMK_jA("
    "6vaA(:3TJaZ*8'lP>v1U)(T$'1%kA(EjwKVbeGc%MoafMnGmbt>-o<(DZ+v$6RcU#4@iXM(><=(RI3=(BZ+v$D2@o$9;;^Mh]'>Z&5>)F0gMbk[BjfMC/y"
    "[Z^Uobti$8B(=t's%8/`c&(IEo*u'^B(M;LN#NV+DMGZuX[w@5V)k3pB(%YXPt#*ZC([^w<(QiyB(giWfMowV0Mt-cQ^8X0`G=t's%A/`c&)IEo*&YPC(M"
    ";LN#&W+DMWfN3_chGc%giWfMKmY<[>1GM#2'l=(j4NfMVtg$#kAeL`k)$cbbeGc%F>iXMa41D(/xoT#=t's%J/`c&*IEo*/9MD(M;LN#/W+DMj&D*bchGc"
    "%piWfMT1Z<[>1GM#;'l=(m4NfM`8h$#t<YCc&BpXebeGc%O>iXMjl-E(234U#=t's%S/`c&+IEo*8qIE(M;LN#8W+DM%>8xdchGc%yiWfMU[3'uESUG(rU"
    ">te6-6V)6K4fNII2QgRS@Ag,SUeWhrdyP<7]Qg=xo:g8IEo*LK<F(G=LN#@W+DM5JiRgw@5V)6WOF(4xoT#/^1Fk[BjfM@u)lho2pbt;sXF(@Z+v$<boE("
    "UC^0,rn.fW2`o[#LSCo*ks,A#_8A'cYtnO#M.RK$EptF(JPm)kn54'uDMLG(,EdEkchGc%5jWfMi>4'uKw/>(3-o>QchGc%<YWfMKS'0Mj(R>Z,BW3UShG"
    "c%9YWfMoAZ&usO&J&bp5h`Dg3V)2SW#vtpT%up<bI&agqK`]O/J$blL##",
    0};
static const char *const diti_spirv_text_attention_gpu[] = {
    "GZ1N5jsi^Pgn13&=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>MWX1[#o@2=s0ZV;$=S<U%NF#o&_8a0(o+GJ)(v,d*8ij%,k`Co*8gH>#'il<(k`4"
    ";e(g=&#D9-V)gLc&#B`5x,(il<(g<Lvd-<mW-&il<(m`4;e*sP&#D9-V)iLc&#DrmX-(il<(h<Lvd.CvW-&il<($SM<e,(d&#D9-V)kLc&#F-N9.(il<(i"
    "<Lvd/I(X-&il<(uxY;e.4v&#D9-V)mLc&#H@.r.(il<(j<Lvd0O1X-&il<(s`4;e0A1'#D9-V)oLc&#JRfR/(il<(k<Lvd1U:X-'il<(u`4;e2MD'#D9-V"
    ")qLc&#LeF30(il<(l<Lvd2[DX-'il<(,SM<e4YV'#D9-V)sLc&#Nw&l0(il<(m<Lvd3bMX-'il<(&yY;e6fi'#D9-V)uLc&#P2_L1(il<(n<Lvd4hVX-'i"
    "l<($a4;e8r$(#D9-V)wLc&#RE>-2(il<(o<Lvd5n`X-(il<(&a4;e:'7(#D9-V)yLc&#TWve2(il<(p<Lvd6tiX-(il<(4SM<e<3J(#D9-V)$Mc&#VjVF3"
    "(il<(q<Lvd7#sX-(il<(.yY;e>@](#D9-V)&Mc&#X%7'4(il<(r<Lvd8)%Y-(il<(8SM<eEXo(#9['EM03`vd:8Ju-&il<(uLhvdH2qy$39-V)*Mc&#]JO"
    "@5(il<(t<Lvd:57Y-)il<(0a4;eIq<)#9['EM4@`vd<E]u-&il<(wLhvdLK>#%/9-V).Mc&#aogX6(il<(v<Lvd<BJY-.9-V)/Mc&#kRvu6kb5;eN>9b#C"
    "#1EMG-O8.79-V)D>l2(kRvu6(ns<eRdQ#%ST1EMKFt8.H9-V)X0u>-kRvu6<yY>eV1j;&d.2EMO_B9.X9-V)my&L2kRvu6Q-AAeZV*U't`2EMSwg9.i9-V"
    ")*l/X7kRvu6f8'Ce_$Cn(-:3EMW85:.pDT$'Wb'EMxX*w#hL1V7xm0EM7m^a*nnrr7e@LvdI8Ub#:j.J)8['EMnKi>$j_i68rg'EM$]fZ#lqIo8xm0EM;y"
    "^a*r;349e@LvdMQ#c#;sJf)8['EMpW-[$n,*P9xm0EM>1#&+tNkl9e@LvdO^5c#<%g**8['EMrdIw$=.+G*<W(EMrDLC+p>b0:tm'EM-3cW$rQBi:up'EM"
    "+lJ>#tdyI;nZ'EMP02'+8Eg)<LgPF<C&k<(+01QTVh0j<WGk<(fpL=T#a(E-KVR$>H,#AM/[/K=Vi2]>Lt%AM2t+d>X$k<@Hh%AM<BvD@^p+V)-RME@eqY"
    ":A+_ME@f#vVA#Lmd>kE`sA%_ME@Xg+V)tx)j<ae'SBR*&AM<EZD@bw_3CKq%AMWYk:C#HfmWwGJ3<8ZB;Cmjk<(qS3QTnP8i=cik<(qDATS]6(VVxB^a=o"
    "_5x,tGk<(tJu.av8(+$V%k<(ZA[vZ28$4FUGk<(6vsSVw2td<qqmX-vGk<(#W0/a$[iG$mik<(Gr1HW.ZTy&IqR$'eba@MlW]KW/a^y&=Dl<(P1jwZ8ps-"
    "HWGk<(=%&TV%U^)=u>.r.#Hk<(-pU/a,;*)%bGk<(62iYT#:qm<eik<(BHhvZ%e1%Jdik<(FZ#wZ*2.^Jn,]0,7O-bJB#6BM=Av;DdOh^TB4x8ERpR$'h_"
    "a@Mt%+LW<Y($'BDl<(QeALV(ege<ydF30'Hk<(<1$0a9:qb%ZpR$'mba@M%KPLW>f:$'FDl<(UkALV-/Q*=&2_L1+Hk<(CJI0a=YdC&ZpR$'p_a@M-puLW"
    "5dxL#FKhCMlf]Q&ZpR$'oUa@M1+1MW6j*M#HQhCMnrxm&ZpR$'uba@M5=DMW7p3M#JWhCMp'=2'ZpR$'tXa@M9PVMW8v<M#L^hCMr3YN'ZpR$'yba@M=ci"
    "MW9%GM#NdhCMt@uj'ZpR$'xXa@MBu$NW:+PM#PjhCMvL9/(ZpR$'%`a@MF07NW;1YM#RphCMxXUK(ZpR$'$Va@MJCJNW<7cM#TvhCM#fqg(RxgI@Sx)j<i"
    "<&g=fx)j<fx)j<fx)j<PHk<(J9ct6N,.cOBINwZRQq0PK(q@Mtr%q%[jk<(s>-w#c1:c<C=%CMpl;N#<@8nD-2K.E`8TQ#_fcUVAJAh<:<(r7@Hk<(Vh#r"
    "7Td&]QF_jwZX1j*RfRWBM63m;^HArY8aik<(yWI;$uj7fE^I]HWH$rN#a7(CMw@&O#Ls%_I-2K.Eg8TQ#ffcUVH'ce=>b@39DHk<(b5;39[M:rSGbjwZ`r"
    "&ATb6)BM5OLO#,xDo**TYvd:c-#_iCh<Uk7[mTR5X@Mi+:pV=pqU9E$oOU3:53aPUeO#s*)BM9hqO#sik<(=Y6,)_M6`=7Et7nMxmRTTn2P#C#q@M*jM>#"
    "UmfCMA/OE*VGk<(mWXa<[1:c<<$A-aUt;P#j`(BM'FZP#1(l<(+g.o^[iPMXJJ-/:t;k<(>RiAJP2D'Y&vjP#c1:c<T7)BM+_(Q#*xDo*HTy.MlH(Q#mc-"
    "d<UZXM#pRNP#PW[@Zyv:Q#Qaw[ZG^-8JVj;xZ,DKQ#u>2-EgxDo*Mdy.M3p=x^fna`[Msj(X18Um^k,&%]pqfg:*jY9Vf(#R#t44HWg.,R#>+j+ag.,R#u"
    "<jBM$/&+#uj7fE3_:wZ%pw@^N1q@MBlJ;$`jk<(U%#/Mbik<(_rRaOtwDo*[P:HNqj`Q#_*-l_0vfR#d3I0`63mR#(4I0`D@wvZ,Y4V`Zx(BMYx4S#%xDo"
    "*]:#/MkE(Q#mc-d<jZXM#-SNP#eb%fa5AGS#fkA*b[D.8Jkt]FbAhVS#h&ybb6DGS#m/='cCtiS#mc-d<j5xL#^s(CMQc0T#MXWP#Z]K@MMj[^=`up@MTL"
    "K;$%nfCMlrh^+vwDo*h]#/MubtRW'fST#RW+BMhw`T#lik<(eL$n&mc-d<r5xL#E6O@MT(]^=Pup@M[bK;$,nfCMt9-#,vwDo*or#/M2m=x^0C7=gD7-/:"
    "c;k<(@,P1XVGk<(u;IQgrCl<(mQC>$&mF3h+=BQ#mc-d<#6xL#T;,BM]wnU#M>)0vdik<(qw@2'uj7fEgs86^Q<gP;rtDo*^SJP;');CM2r7##KfGc%7nf"
    "CMfH<V#xCl<(^LH8%l2D'Y]NH8%rj;xZ^QH8%t$k<@oDD,a>.Sjki&gCMlmtV#xCl<(d_H8%t$k<@sDD,aCSk+mi&gCMp.CW#xCl<(hkH8%t$k<@wDD,aG"
    "x+Eni&gCM/-5Wni&gCM2<Qsni&gCMvS#X#xCl<(n&I8%t$k<@&ED,aMX$>pi&gCM#mHX#xCl<($3I8%t$k<@*ED,aQ&<Wqi&gCM'.nX#xCl<(v>I8%t$k<"
    "@.ED,aUKTpri&gCM+G;Y#xCl<(#LI8%BmF3hyMI8%t$k<@3ED,aZy0Nti&gCM.`jY#xCl<(([I8%t$k<@7ED,a_GIgui&gCM=C8Z#xCl<(5hI8%qt4JW;O"
    "RE*+Kl<(u&5ZvD+4V)LbUvvNxq(O5(_SMt1SdW%$-V)JKOi#3M%DM`=[i#@=GDMHv8HNb4Voa4AvlN,E*/M:V:1O0p^dNr'T$'/eti#%u07B7s/j#>;GDM"
    "MMm%Pvv_N#n1:c<;y8j#4M`c<=(Cj#b#4V)8mV^PET1FMn$bj#m6V(b4kCV#CdSCMo*kj#9LCV#/K`c<@m&j#@s3V)CS3;RFwj1hFn+%S[%V>#8M`c<NY5"
    "k#H=GDMX[BTSeGroaE&(ySADCHNK;D=TKtgpS&$-V)Iudk#:r%DMuhpk#o+6YM#oyk#N'nk#:M`c<m6QZ#f,4V)h^VvvM6:YM&*>l#gbaP#EjwKVSeGc%:"
    "+;fM06Ql#UPq+W#LFT]n)AoW=B68JOrG*XurV>#Ri+fWo*u(XSeGc%b=GDM@82m#JJNl#jhYbXpQefMx:CatU28m#^(Sd<)J[OXynmyYmL5V)2d5BYr+Y("
    "tcjgm#v]kAubd^m#%@gm#OxL#Z*IEo*X>i(km@5BYr'T$'w5c;M]*ifY;U&&GM]P&YSeGc%LDafMs+CatPkal#4M`c<gLNl#kiGc%==WfM",
    "t('Etajym#[^w<(vO.;[SeGc%ODafM*WCat_j4n#^(Sd<+7QZ#0eGn#2,6YM<Z]n#V1Uj#&t%.E5_=n#Q1EfMG;cp]MBjfMJ^#2_*jCatf=vn#:M`c<8_="
    "n#d+6YMBy3o#4C^Q#=M`c<:_=n#`jhXMD.Go#C>:o#e1[h`MBjfM3gXo#^=WfMV6l%cDV'N#S4Lr]tIl<(HsSda;g3V)s;QWRbCdgMvcfib#7igDH$Sd<e"
    "365/Sp-p#4M`c<+sZk#)>GDM1ZA^cBC>R#n1:c<[+Jp#8M`c<[%Ap#BkhXMQ'ip#W7]p#4M`c<b=fp#k+6YMS3$q#+8,/M(`Z`edE);er'T$'aOV0b8,iV"
    "#)eSCM^L6q##`_V#'BafM6%Datmi`o#ZW3DP]DB,)kyxCMTRRq#JkhXMYX[q#q1(o#6M`c<7mQk#_yZ0,HYX>#@E=Qg;g3V)3K.5Tfwl%cDV'N#j=h6^tI"
    "l<(sp9Nh@s3V)sju1h&3-/M4wKSivoq.i;g3V)y=6Ki@ACHN62,4jXI>o#4M`c<,JLr#Ww#YMeEkr#4OUr#Mli&lZ]-DM=l)Hjr'T$'5Yhr##Jk%>3i#s#"
    "7o#W#*BafM6%Datk]Mo#bMk%>$W3q#jbqr#$>GDMvl[%lP2Eo#Mli&lT@a%ub%Qn#XtAq];g3V)+u*8]*mU%u_j4n#[8=n^ThGc%M=WfM)Z_%u85@s#/a`"
    "Blefh0,L`CKV`xaylU*IdsJYXcm8s%n#C6[s#&t%.EE<es#,1EfMS,(>mMBjfMWW[sn]REatAg2t#6M`c<IBhj#lTe=M%KHt#%tB@oCev<(q(_R#;o4qoS"
    "eGc%1,;fM'WZt#dR2t#V#kt#8M`c<TbEt#95s^M:`)u#V)tt#G)xkqkN=##Jw[Oq_xPjqSeGc%u8IYM&+Eu#J5Uj#8M`c<cBBu#1HeYM(7Wu#J5Uj#4M`c"
    "<fHKu#=8NfM'k=##Hci68mgyu#H8B)t&$-V)Ui+v#Z]JdaTZu-uLN./MZp9JuOPAZm;g3V)nR&Bu0/n%cDV'N#F1Ai`tIl<(rk^yu@s3V)reB^uQ^./M`G"
    "n'wwp=Zv;g3V)Mh_vv@ACHN5(_SM>XXu#4M`c<,NX-$<.+DM^v,,;Q9*@meHCK`>`d4N9ZiylWIW%uPlgu#IB^Et&$-V)7g/.$Z]Jda5J:1O/N3/M;`VMO"
    "PPAZm;g3V)1BHEO1/n%cDV'N#(3Ai`tIl<(5Z(&PAs3V)5TdaO4^3/MA63+Q;``^P<g3V);(%#QAACHNCIkcQ>XXu#4M`c<GG#/$ey#YMr@B/$BJ,/$RCF"
    "[mZ]-DMO:ivQs'T$'HT>/$#Jk%>NfQ/$B6RW#/BafMs,FatPlgu#bMk%>Aat-$]^H/$a>GDM+,DTS7E_u#Y+QUScjg%uG4kt#=31np;g3V)M;t4p*mU%uD"
    "yNt#AO-kqCev<(q(_R#<wGqSTeGc%3.;fM)fy/$hYKQTt8OT]f6h<U7/@8JG(oOUo``>#JvR3Ua%NNUTeGc%=GafMp%LatM[W0$^(Sd<pY+uUi]*,WnL5V"
    ")xQJKV0jY(tZ;/1$n`kAuY5&1$lk.1$F%X,W+IEo*g7GWn]1JKVs'T$'n2Y;MS.toV4@/&GDa[/VTeGc%DGafMlpKatIC20$4M`c<X'w/$kiGc%6AWfMo("
    "h%uT/B1$JJpEXffh0,*Z:/Dk,T1$U8s^MJgj1$Z7Uj#UR@$Z%+E##XI$`Y&$wyYTeGc%LGafM'QLat[Z+2$^(Sd<5-TIZ.[SW[nL5V)=PsvZ0jY(ti:Z2$"
    "%akAuh4Q2$1kY2$TO)X[As3V)uPcdWTl4/Mg/yx]Z@ET]>m3V)i-DToD*i=MGj*3$U2n2$4/6YM@p33$2F^Q#4M`c<>213$dAGDMNa5N_O&;3$rVR$>C>D"
    "3$%+X]>sNnW#h.+DMN.ej_<g3V)$JsvZf/efM'QLatayY2$bgqK`TeGc%X.;fMN=l3$L8%,aBQPT]3':oa]GA8JloA*b<xa>#of%faS-y(bTeGc%B/6YML"
    "cL4$J)P;Mwl*.cPcag`W/`$'9ZbAuoM*fc<JMatuFf4$8M`c<]+S4$(hhXMR0-5$>'K1$-v9S^_rC&++)yCMTI@5$kGafM@DMatvLo4$teHXeNBjfMDuQ5"
    "$nAWfMgku%cDV'N#d7Lr]tIl<(h,KTf<g3V),qZWRnkmgM.@SYg$7igDH$Sd<u665/t*'6$4M`c<;vZk#9BGDMA6.NhCC>R#n1:c<%=C6$8M`c<%796$Rn"
    "hXMb5b6$xIU6$4M`c<+P_6$k+6YMdBt6$oW4/M7;HPj-Vw+js'T$'mOV0bEv)X#9hSCMnZ/7$/RwW#3BafMGYMat&xX5$ZW3DPluK,)kyxCMdZB7$YnhXM"
    "iaK7$&(S4$6M`c<GpQk#_yZ0,W3c>#^Ip%l<g3V)C%85TuQv%cDV'N#yAh6^tIl<(9ulylAs3V)9oP^l6e6/MCJt'n=tLZm<g3V)@CivmAACHNE]T`nF.O"
    "1$4M`c<KU;8$g#$YMtMZ8$DWE8$Y,ZqoZ]-DMXdRsns'T$'QbW8$#Jk%>Cl#s#Pb;X#6BafMGYMat$lF5$bMk%>Ci,7$2na8$oGafM@DMatt@]4$bMk%>2"
    "W<5$,tj8$mGafMjkNatG7&9$^(Sd<:gQLc]l=NqnL5V)la^mp0jY(tToT9$hakAuSiK9$`HT9$@FiNq7U-V)WT&5pm>GDM=oj9$Q)/9$=Kl<(bMVgr7U-V"
    ")Z^&5pl;GDMA*/:$Q)/9$<Kl<(hrRds7U-V)^g&5pk8GDMD<K:$Q)/9$-Kl<(n@Oat7U-V)ap&5pj5GDMGOg:$Q)/9$+Kl<(teK^u+IEo*mKJWn$k[mpvI"
    "l<(x&,>vTFsI-%Cd>#Qhgyua')#QCV_7MSe+Jt#)dvvTFsI-Swh>#Eun(t7]-#QEi>pMM-3PrJNSKMt'T$'Ve/J$4M`c<Z//9$kiGc%7BWfMp,k%unr$4$"
    "d+nHa<g3V)CTag`f/efM6(Matp'74$NflBYTeGc%$nhXM0kV1$27&1uT/B1$OxL#ZUhGc%%DWfMTqWdsA]ZPNavoyY4(qdNgfh0,dZC/D[+_J$4;s^M+`k"
    "J$mSDS#59J'P^+i>#80.cO@`1&PUeGc%d16YMn*/K$QvTJ$4M`c<6H<i#8/a^M0'CK$JIJLtDrHK$[^w<(I`QK$0DWfMedp%u6.LJ$463[QVhGc%2DWfMb"
    "BXdsN&h`Ru#LK$RxvK$&t%.ERldK$#Sw<(UxvK$]^w<(W3;L$7DWfMKVUHNLE`YTy>58J4M`c<]9EL$k16YM%*ZL$2:JT#4M`c<aFWL$;;s^M>&nL$JgEt"
    "#Fy)0VOBjfMrGSKVo1UatOk%M$4M`c<[Y,k#p%$YM,UDM$Y/Q-Q^cplWDUe/WMP=/MWS41X<i-#Q,IEo*iAPWnAY5)OwIl<(oDLEXt'T$'f*gM$^Qr2qyJ"
    "n(bKDbX#_1+DMoan(X,#uI-scHBYYSg1qZlGjqShGc%>DWfMt:q%uNesL$Ca[/Vgfh0,t`,&YhMSKV3A&&c+rST#0FyPUt'T$'&F+N$:eg8SUeGc%iphXM"
    "uUpK$w9&1uBrZK$;wGqSVhGc%'DWfM5T</M;`VMOvU7&G*(_,NUeGc%j^&dM)X8>_ShGc%LDWfM$8Ydsh_ecZ^Yq%P.UA;[oL5V)<JaZZeXe(ti=mN$$^b"
    "Auh7dN$4qlN$Vba8]Dy3V)(SaZZ:+CHNg/yx]3eA;[D+4V)*YaZZ6^*/MiBYY^:H95^X/`$',^bAuXIf8_0%VathPVO$ZW3DPIgS,)+#yCMA:uO$6qhXMF"
    "A'P$HmBJ$4M`c<K^$P$qDGDM)hh+a[yfT#n1:c<Oj6P$8M`c<Od-P$;qhXMK`UP$MvIP$4M`c<U%SP$k+6YMMlhP$'2>/Mwl*.cWFcabt'T$'vOV0bNV&Y"
    "##kSCMW-$Q$28tX#<BafM2vUatiV`O$ZW3DPV7T,)+#yCMN3@Q$DqhXMS9IQ$HmBJ$4M`c<fVFQ$qDGDM61u:e[yfT#n1:c<jcXQ$8M`c<",
    "j]OQ$IqhXMXXwQ$hokQ$4M`c<putQ$k+6YMZe2R$'2>/M-67=gr7ppf@m3V)'9PBPb_+)bO]/Y#f(T$'A(9R$e:/Is^6OK`:#=vgFA_greR$HsShGc%WDW"
    "fM/ZYds=5uVhOA62__uRN_($-V)[FhR$`f*)b2hhR$wJafM*^Uat_pYN$4M`c<,XGN$UAafM'TUata%mN$&[O/iUeGc%u1;fMnH&S$vglN$/i5S$^(Sd<J"
    "G;l#`tHS$WqhXMh^TS$hbaP#&t%.E5o>S$%8EfMBo),jOBjfMAl),jWCWat3t5S$8M`c<M:)l#GhhXMlvyS$7o>S$B)[xd#'._+E,yCMm45T$kZe=MoN/S"
    "$&r$S$aqhXMgWKS$i:&1u0bqR$-N(bk($-V)'F;T$U8i(bAg;T$a_&dM)X8>_>s3V)KYYNU4IKDM93Uvm*FFT$qM6`=J[NT$4M`c<JUET$5%-V),ejT$<I"
    "hdaEuPAoJ:1#QRLm]o5&x>nK=1#QSU1yo0ODbl=)A/MJ31=p.`kWIB)[xd0UJ#,Q,yCMy'NU$lqhXM$%WU$Cx.2c+rST#w:T4qwIl<(ZyGNqQxZ0,nql>#"
    ",ycjqQxZ0,[3Y>#*y'/rVhGc%>EWfMnh[dsZ>borNyHakke@HsoL5V)yY`grS*w(t[FQV$n^bAuZ@HV$nyPV$F&bHsBs3V)aCZNUvq#/MX^Yitm_`grBs3"
    "V)cIZNUwt#/MZp9Juoe`gr($-V)B7(W$Q2idaZ16+vV(=,NaGRGv`vvylKSCo*%Fm>#Xa)&c+rST#;Dwctt'T$'*TDW$4M`c<ia+V$kiGc%>EWfM&%dZZL"
    "Uj9M+:1/D*.LLMPBjfM;^&hMS5^at4%Lf$:i[`=82Is#jTe=Moiaf$tdUf$B)[xdx.l>,U++DM>(_HNWhGc%$GWfM=^$#mK9idIVAafM[E^at8=qf$^(Sd"
    "<AuiUM@`:&PpL5V)MTZEOo;IfMNi:&PQEjfMP*7#Q^T^at>cQg$8M`c<9QFi#]h3V)@AS>QxV.&c+rST#e<D^QxIl<(GY3wQ)$-V)KOhdjp1ndaEtG%SEV"
    "#eNK2dASQhO;Ru'T$'S-;h$;n+USVeGc%44;fM*rPh$[6H5TwBbT]e-LxTmI1#ZXQw<(`Fah$]^w<(_Fah$<GWfM41/&cX:<WU6,8EO+^ndaOvEsUWnoZQ"
    "U4b7VZ,P;Ru'T$'fe7i$4M`c<Z9Nh$kiGc%7GWfMp1#&u;P5g$/`V&P>g3V)3NZEOh/efM[E^at=]Hg$EjwKVVeGc%=4;fM3RMi$d/<,W)_bT]n)AoWaRU"
    "ToYQw<(r&^i$[^w<(t8yi$FGWfM#Q#&uWH+j$KS4bXhfh0,-jM/DyK=j$X>s^MM(Tj$y28Q#V[[@Z+Ds>#YR@$Z)3N>ZVeGc%+56YM7Efj$vK^Q#8M`c<x"
    "_NP#%thXM9Qxj$Walj$6M`c<f=Uj#_yZ0,(Zs>#ThfW[>g3V)(VjZZIx/&cnMHR#NVU:]xIl<(4<cT])$-V)'[cds8A3)biSVk$1thXM3,Aj$5=&1uWH+j"
    "$P*i>ZWhGc%WGWfM/^cdsrduu^;%^j$EW$l$&t%.EEKik$#Sw<(HW$l$]^w<(Jj@l$]GWfMpq`HNp+no`#@58J4M`c<OpIl$856YMJ]_l$d0cU#4M`c<S%"
    "]l$`GGDMk9g(b]mfl$qM6`=W1ol$09-4Cp[LV#r.yCMN-6m$B#rXMS3@m$Z7xl$/fSbb@Y$&uwXFm$kl*_chfh0,MrN/DX]Xm$x>s^Mm8om$B38Q#vtQ<e"
    "KLt>#yk5xdiTE;eVeGc%1HGDM^h)n$9KOm$rVR$>nu&n$Grw$>p$0n$*HGDMe#Fn$e>ik$+/yCM[#On$N#rXMa)Xn$s*9n$;&EUf'6I/M$:CGdamC&Gll*"
    "_cVeGc%nMafM5+`atj`$l$4M`c<CKik$kiGc%WGWfM8:$&uS/^i$G.tHW>g3V)cdxgVh/efMs4_atU;pi$3%]>mSeGc%`khXMo+qs#D[*-u85@s#6JtWn&"
    "$-V)m6_n$U8i(b/X_n$iX&dM)X8>_ShGc%uGWfMM`dds8k3:hvu,t#)],o$&t%.E)Pqn$#Sw<(,],o$]^w<(.oHo$#HWfM6taHN62,4j#@58J4M`c<@^,k"
    "#XthXMhago$-Pqn$$t%.E7*eo$47NfMg,Y##5m:*k;CKEkVeGc%+NafMS-aat8>wo$09-4C6]LV#8/yCMl1>p$C&y_M.vHp$yoTQtBjNp$[^w<(E[Wp$0H"
    "WfM%CqdaAP8(n>WyaOGfTDn6XUvmWhGc%.HWfMde%&u=^Np$1s@#mhfh0,G[@;n2'qTJNHGDMUAOsnhfuU#n1:c<R#/q$4M`c<U%[k#EHGDMX]Kpoil'V#"
    "n1:c<X5Kq$8M`c<X/Bq$lthXM$(jq$WB^q$4M`c<_Hgq$4DafMo)batL]yq$^(Sd<_%,-mgFMKrpL5V)t:mjqu+Y(tY<Qr$mgkAuX6Hr$msPr$F&bHsCs3"
    "V)g,xdWEEJ/MVKy0tL[EdspL5V))4*)tZ;&EtZO(s$[^w<(vA1s$GHWfMBZ2&cdJrJu+vl1h0nqdaZ.$guc9sZQaD@+vfP]Wnu'T$'eBpq$hV+Ft456)bU"
    "*hY#anSCM;3Ys$vaTY#magY#KKyatVeGc%HNafMr2batOo=r$4M`c<eZ+r$kiGc%<HWfM$ylZZw&>*wf:0/D)%00MQBjfMf(gKMT8gat4(_*%4M`c<3wQo"
    "$V56YMhcs*%7h;5bV0qY#H++DMjFfsRr'T$'Uudo$B)[xdw(Y#,A1yCMix.+%C7+DM_+YdNyIl<(6X1&lu'T$'Z25+%%Df,<@MH+%qmyY#uy4Z#IBafMV8"
    "gat3yT*%%R3khVeGc%TthXMa5&o$c=&1u-Rhn$&ekKiWO/J$n.PN_A3].P6GHs_7oeJPWeGc%MJGDMy[p+%+Auna<3OGQI6A#Q[()fQLCUEQ*$-V)G.aBP"
    "#S%DMq[=,%r`e=M8LH,%O$=,%2g[`=Qr(,%4U-V)J`xZQ'E-FM%'d,%7E[1hLEDySn]$@#:Jk%>Y3N,%X@a,%@o7gM+8D/`4W7CM&3(-%_VDCM$I1-%@E`"
    "2UyIl<(]#2nTAB^0,q8jNUvo`##JSCo*n(%@#ivwdaQ1&TVCeaQgpq1rVlYfKVg-wyPWD84WYpTmV9R-V)dZJ/V#y`ZvT8y-%n.PN_X]4mW:`ms_Vl'2Xo"
    "iS$'uNhatXQG.%n1:c<y>4.%ws%.E&RP.%d0`$'xcbAucvY.%,ku.%OxL#ZyIl<(tc_EX.IEo*Dj]w#RNxda`_aD[*p,&u[dc.%P*i>ZyIl<(wl_EX,-6V"
    ")+uoW[.*KDMarY/%G`P/%n1:c<:8V/%YvjMDqoos6o1yCM<(u/%mxCaMB.'0%g29$gl^9v^@^hQ^XhGc%LJWfM$>ldsv(V:_/@;#Z8bW>Z^wGc%ojJCMtX"
    ",V)FA<##njS$'F;)k_l(es_WeGc%u%gCMFY_0%#Jl<(A>eN_k95V)^g%h`^_QfMH*b##mSE-aW9=)bWeGc%%2yCMJx>1%%Zl`MO'I1%rXN1cE>X1cZ%Rlb"
    "yIl<(Xf9&cXhGc%bJWfMY3ydatrbfcULUBc#1'+de4I#HGJ;yHaqI)F,2yCMRO)2%.8+DMbwmZdyb,V)$$G&P8D-&uq6x0%d+nHaifh0,`*VBca52wdC*b"
    "Zv&*92%n.PN_=piMk8l(t_'xMaeoiS$'Zy)k_)3.BfWeGc%2&gCMa8k2%xCl<(XLv8%t$k<@hSD,a2nbvgn&gCMeQ83%xCl<(]Xv8%t$k<@lSD,a6;#8ip"
    "2yCMaQ^3%22yCMbWg3%LwhXMg^p3%$N0oa2/HPj%0R/M8Edlj(M&XIn1:c<*1L2%4M`c<;<24%^F^0,Qj[Ki6'tdju5#ea7^$.ldXyda8g@Jl2KC#QF=]f"
    "l/9mElNulXMp=m4%C[a4%6M`c<Hbj4%MF^0,d<M>mI8M>mI7D#Qo:g+n-'5ek%L#ea>G8Dnd_=)b.Uh2%bV-FMu]D5%xDV(b/[q2%JqSCM",
    "&mM5%JCh2%62yCMsiV5%28+DMC8E8o:U-V)Gb-wmk&+DMEEaTo&0Eo*_e)eW%j'ngyIl<(.&lWev'T$'BHp5%/K`c<Ut.5%r'T$'DNy5%u'*a=j9+.%)c>"
    "3%n1:c<<+C2%CgXkhExD2hMXIVqmg_w#Dpt/i-LcK`U)*sqPNyjh*y'ng[EO7rV:&qoc-vjqyIl<(7NL8fBE^0,-TVKrjOVKr'YnT](3Y8sH)h6%g3F%>o"
    "(m6%=crgvS3v6%n.PN_WTyls:`ms_Udl1toiS$'tLkatWLD7%n1:c<w:17%ws%.E$NM7%d0`$'wdbAubqV7%*gr7%Np9#vyIl<(rXOEt.IEo*G5x8%QL$e"
    "a2%_7M*n/&uZ_`7%OyU>vyIl<(J9TEt,-6V))htKM/*KDM4r8G%v_/G%n1:c<9:5G%YvjMDEros6C4yCMh'TG%lyCaMm-^G%:59$g>$7jO>PmEOYhGc%KK"
    "WfM#<odsIFS.PZd0#vc.M>v^wGc%CmJCMtX,V)UqC##njS$'qh0k_>FbgPXeGc%I(gCMqX=H%#Jl<(>1jBPl95V)[Y*[Q__QfMsVi##@qBxQV,CtRXeGc%"
    "P4yCMuwuH%P]l`M#'(I%F[N1co[U%T2OO`S#Jl<(VX>qSYhGc%5MWfM-a)eaG8`YT*y]BcMN$vT9bP#HGJ;yH85o)FW4yCM&O`I%Y:+DM`jrNU#c,V)OPN"
    "&Pdp4&uE6WH%6Ik;Rjfh0,^tZ5T`(7kUoViZvQ)pI%n.PN_J/Q%S9l(t_Q=KTVpiS$'.O1k_SP+5WXeGc%^(gCM48JJ%xCl<(,y&9%t$k<@;VD,a]3`jXo"
    "&gCM8QoJ%xCl<(0.'9%t$k<@@VD,aaXw+Zq2yCM4Q<K%^4yCM5WFK%wyhXM:^OK%OP0oa]LED[Q]Y/Mcba`[Ty-XIn1:c<)3+J%4M`c<:>iK%^F^0,O]a>"
    "Z5qxW[Jc*eab#yx]8.*eac,==^_wJ#QpZYY^ZVj8^OulXMD=LL%B^@L%6M`c<GdIL%MF^0,b/R2_H+R2_udK#QBXdv_XD2X]Qx*eaid57`84F)bYTGJ%5Y"
    "-FMI]#M%LGV(bZZPJ%usSCMQl,M%tCGJ%b4yCMGi5M%^:+DMA+J,a;U-V)ET2k_l&+DMC7fHa'0Eo*12vds#],bX#Jl<(,ppKVw'T$'AJOM%/K`c<TveL%"
    "r'T$'CPXM%u'*a=<7(7%(euJ%n1:c<;-yI%m,V_YqML2hwuFJcB<gw#n5r#ZYxjK`(G'gc#jy^YVN/ng.cL+dU-+eabw#_c#Jl<(5AQ,WCE^0,+G[>diB["
    ">dS.vT]RPV,et(GN%g3F%>n*LN%iergv'3UN%n.PN_*rv`e;`ms_(*j%fpiS$'Hyrat+L#O%n1:c<v<hN%ws%.E#P,O%d0`$'KgbAu5q5O%)iQO%x57ng#"
    "Jl<(pKT8f/IEo*v/AR&%y+ea1tK7iUC7&u._>O%y>S2h#Jl<(sTT8f--6V)'^eKi/*KDM3m5P%yY,P%n1:c<762P%YvjMDDsos6B5yCMgyPP%@%DaMl(ZP"
    "%969$g=s$jk<F^EkYhGc%vMWfMNivdsH=A.l,(1ng5JM2h_wGc%BnJCMtX,V)@4O##njS$'pf3k_==OglXeGc%H)gCMpS:Q%#Jl<(<'ZBll95V)YOrZm__"
    "QfMrTl##>i/xmTy2tnXeGc%O5yCMtrrQ%O^l`Myx$R%E]N1cnSC%p5S<`o#Jl<(TN/qoYhGc%4NWfM,_,eaF0MYp)w`BcLFiup8`S#HGJ;yH;O<*FV5yCM"
    "%J]R%X;+DM^`cNq#c,V)NNQ&Pcn7&uD1TQ%5AX;njfh0,[jK5p^u'kqnTlZvP$mR%n.PN_3kX:h:l(t_P58TrpiS$'-M4k_RHp4sXeGc%])gCM33GS%xCl"
    "<(+w)9%t$k<@:WD,a[+Mjto&gCM7LlS%xCl<(/,*9%t$k<@>WD,a`Pe+vq2yCM3L9T%]5yCM4RCT%v#iXM9XLT%NQ0oa/jB7MQZ]/M5(_SM)O5XIn1:c<S"
    "0(S%4M`c<9AHc%^F^0,y)V>v_4yKMv72ea4AvlN8,-ea5J:1O_uM#QCxVMO.tg,OPulXMo<+d%A`vc%6M`c<Ff(d%MF^0,`yV&PGuV&PJ9S#QluajP,b/L"
    "N&N2ea;*3+Q82I)bXODS%a[-FMt[Yd%wIV(bYUMS%IvSCM%lcd%GADS%a5yCMrhld%];+DMjFJwQ<U-V)CG7_Pm&+DMlRf;R(0Eo*/%$XeyQtat#Jl<(V<"
    "fKrw'T$'kJ.e%/K`c<SxDd%r'T$'mP7e%u'*a=;9_N%&arS%n1:c<f*vR%l$D_uE#T2hJ;D=Tninw#m-`#v-NrK`Rd$ZTN6o^uUL2ngX(JvTTw/XRaj(RT"
    "$Jl<(`eF,sCE^0,)9a2Uh4a2U([&U]%nSwUI(&f%g3F%>m,+f%<hrgvR24f%n.PN_OpESV@r1t_RGgpVqiS$'0X:k_RM4QWYeGc%`+gCM4Bof%#Jl<(j+="
    "hVm95V)0^qEX`_QfM2Gs##U-(cX,02_YYeGc%g7yCM4TOg%f`l`M9ZXg%X96pa_R2dZA`K&c.yV+[Ou4JZx'T$'42`g%M]P&YYeGc%h7yCM8mtg%f`l`M="
    "s&h%]96pacwJ%]=DO)b[dlf%kvSCMA+9h%mQlf%GJ;yHW^O*Fo=+DMCBc8]ZhGc%LPWfM,7W>v7dJCMtX,V)+ms##qjS$'D;;k_hZLZ^qiS$'FB;k_haq:"
    "_YeGc%w7yCMDY,i%a#;^MaO6i%@TIOttC<i%[^w<(R=Fi%cPWfMW34eam1NPaTCL&c,YYnaNUj/DqM6`=[Pbi%>WcGFhdX*F'>+DMbLP)b$Jl<(GK@n^o@"
    "5V)lf0bbbeQfMPIt##s3='cf&iBcYeGc%-8yCMQRNj%6&iXMVXWj%oxH0c5UNedPhJhDqM6`=n0_j%>WcGFqdX*F0>+DMtdEwdZhGc%jPWfM`L4ea#SZ`e"
    "@2g;[AHG'ft*8XIvw(9fSBjfM(ByTfN'%bt,U>k%n1:c<aj[h%4M`c<%]Hk%E%-V)i+]2_4*&DMaNgk%=QGDM+Hqk%w1Uk%ATx2hT@A&u+O5k%s_Z8f$Jl"
    "<(Y+An^o@5V)9>rNhr>RfMc)u##.,'lh3VR/iYeGc%@8yCMdjGl%6&iXMipPl%:-/2cHM7RjaMStIqM6`=;IWl%>WcGF,eX*FC>+DMB</ejZhGc%%QWfMX"
    "LA&up6<i%cyQ,a$Jl<(b=%R^.-6V)4VgEk,i%DMoJ1m%1PrEM6.;m%Eh.m%1Oe=MuJDm%FW9m%Bs_DG3kb*FH>+DMN/(_l$Jl<(iYAn^o@5V)XI`>mq;Rf"
    "MrWu##=`k[mRa@wmYeGc%O8yCMso$n%#al`Mxu-n%UVJ:MGo4Ao+QLhDrVR$>'wnh%K88ND]T=n%pf1w#Dc-d<RQWZ5XQGDMIC^n%:u7n%[>:Rpo8B&uD4"
    "gm%47<wmZhGc%aPWfMAuW>v7dJCMtX,V)cw9##sjS$'k6&btNrln%n1:c<fmcn%ZW3DP/'$-)ByxCM']3o%#LIYM,c<o%j.1o%ZW3DP20$-)DyxCM*oOo%"
    "&LIYM/uXo%pAMo%n1:c<mmcn%:M`c<wM`o%'_eYM20uo%uAMo%n1:c<pmcn%=M`c<&a$p%oV$FMHn9p%wYro%Qv7gM<tY/`4W7CMp0tj#hrDCM6bCp%Np9"
    "#v]/`$'$kbAuD]CN#24fp%P+rZv,$-V)8(Q'&/2Ida0s^SMu4;ea1%#pM]%g/M7:>4N9yKhM1IEo*3JEI)-@;ea4AvlN&gS&cDV'N#6Sd$Hn1:c<Df1(&H"
    "$Sd<1I65/Cl:(&PyU>vYeGc%oQGDMMMm%PoY6pa9oRJPepG&u_&Sp%OyU>vkfh0,;yDbOj3wBP3QvZvB*a(&n.PN_[1@cv<r1t_@O&,QriS$'v&Dk_@UKd"
    "QZeGc%N.gCM%9:)&xCl<(tP89%ri2]>,]D,aKE:BSq&gCM)R`)&xCl<(x]89%ri2]>n$PEtR)y)&[^w<(L8j2UZeGc%Y:yCM'_@*&M:yCM",
    "(eI*&lA6YM-kR*&lal/MR%XSVnYf/Vy'T$'k5d/bK[A)&_:yCM/,f*&PA+DMkSFhV-U]0,ds*LVW,9XRn4H&uNtx)&@E`2U%Jl<(U0^#Q%Jl<(W<y>QGs3"
    "V)B#x8J%)iXM4><+&#e0+&ZW3DP:K*-)IyxCM2KO+&f:yCM3QX+&lA6YM8Wb+&y=MhM^3-+Z-3;_Yy'T$'n5d/bNn])&fA+DMxbV#Z%Jl<(e_=[Qy'T$'w"
    "7r+&x*A,<;aIh%_e])&cqo)&>2(RTZeGc%Dr.gMfy#J$nf[`=0S8NCu_93CgmACM=79,&lcE<@imACM@DL,&Vba8]-$-V)rJ[,&18Idae5=y]Or<eaf>Y="
    "^hhIeNlTuY^EaLq]y'T$'@vw,&_Qcn^TBjfM)Op1_:D-btm'3-&qM6`=DE-,&ZW3DPO1+-)OyxCMGoZ-&#;yCMHud-&rSGDM)hh+a-KIO#n1:c<YPk-&8M"
    "`c<YJb-&A)iXMP62.&X]&.&n1:c<OWI,&4M`c<ac/.&.TGDM/Ha%clGroasiFJcy&n/My'cfce#rBcEm3V)[96_c&S%DMSbs.&35$YMXh%/&l6q.&>WcGF"
    "u('+F1;yCMY&8/&M/rXM_,B/&bI5/&]8=n^ZeGc%x:yCM[2K/&TYafM7=-btlx)-&aDOa=wO>/&bUH/&ex7gMe@b/`4W7CMk$K+%k$ECM_N^/&lcE<@2nA"
    "CMaZp/&u_93C4nACMl+,0&y>S2h^/`$'PmbAuPO[O#10;0&$R3kh-$-V)7#N0&;WIda/kKSit2>ea0tgoip>V&cDV'N#/8h'Gn1:c<;Oj0&8M`c<;Ia0&D"
    ";yCMi411&S)iXMn::1&@b.1&ZW3DPtI,-)UyxCMlGM1&fB6YMqMV1&EtJ1&4M`c<ACW0&J;yCMoYi1&R)iXMt`r1&L/g1&qM6`=>$)0&0t%.ER;y1&x0`$"
    "'cmbAuMV+2&XTG2&6JtWn%Jl<(7g(Rg%Jl<(9sDngRSCo*l#D@#_Q3LMMFM=p^PBqo[hGc%6TWfMl2K&uFD42&5AX;nlfh0,Wg^5peE-LV+8W&ckJ_xp9."
    ")Jmy'T$'esu2&$IoNhZeGc%)s.gMfy#J$",
    0};
static const char *const diti_spirv_text_norm[] = {
    "GZ1N5jsi^P7OY1%=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>M'Kh1q0`r6%/s$X$Bfbq%RXH3'cK.M(s=lf)d`Co*8gH>#'il<(d`4;ex:T%#D9-"
    "V)`Lc&#:vxb*(il<(g<Lvd-<mW-&il<(f`4;e#Hg%#D9-V)bLc&#<1YC+(il<(h<Lvd.CvW-&il<(tRM<e%Ty%#D9-V)dLc&#>D9$,(il<(i<Lvd/I(X-&"
    "il<(nxY;e'a4&#D9-V)fLc&#AVq[,(il<(j<Lvd0O1X-&il<(xRM<e-yG&#9['EMpC_vd2_Vt-&il<(k@Uvd0SIw$39-V)jLc&#E$2u-(il<(l<Lvd2[DX"
    "-'il<(p`4;e1:m&#9['EMtO_vd4kit-&il<(m@Uvd4lnw$/9-V)nLc&#IIJ6/(il<(n<Lvd4hVX-'il<()SM<e1G:'#D9-V)pLc&#K[*o/(il<(o<Lvd5n"
    "`X-(il<(v`4;e3SM'#D9-V)rLc&#MnbO0(il<(p<Lvd6tiX-(il<(-SM<e5``'#D9-V)tLc&#O)C01(il<(q<Lvd7#sX-)il<(#a4;e7lr'#D9-V)vLc&#"
    "Q;#i1(il<(r<Lvd8)%Y-)il<(1SM<e9x-(#D9-V)xLc&#SNZI2(il<(s<Lvd9/.Y-*il<('a4;e;-A(#D9-V)#Mc&#Ua:*3(il<(t<Lvd:57Y-*il<(5SM"
    "<e=9S(#D9-V)%Mc&#Wsrb3(il<(u<Lvd;;AY-+il<(+a4;e@Ff(#D9-V)'Mc&#Y.SC4(il<(v<Lvd<BJY-+il<((NyvdC[<E#-9-V)*Mc&#f$CA5kb5;eI"
    "wba#C#1EMBuN8.79-V)>>l2(f$CA5(ns<eME##%ST1EMF6t8.H9-V)S0u>-f$CA5<yY>eQj:;&d.2EMJOB9.X9-V)hy&L2f$CA5Q-AAeU7ST'sY)EM29`v"
    "dEhOE#'il<(%FAydFnXE#&il<(L9.yd*=nS&Ail<(-HpvdI)uE#C,:c%;&S$'eAd>M@TI&#8_i682wp@Mlnj585X$o8m+k<(SfhdW@mL99CHk<(Y4akW>^"
    "c<8GHk<(Ws:kWG1Vu8-S%AMh:^R:R=Do*HB+S:R=Do*C/+S:Tc[0,D/+S:+M%AMhG^R:G1:c<5wp@M1m;b<SDrC=GR+BMt1p+#LUMr78*X>MMqs@M*eKn8"
    "fl]F*=tR$'u`q@MZLwb*srNx>IQb>MXMfB#d$k<@Iqp@M38#o8h'='+:tR$'yfq@MakWC+w@g9Aa*)BM>c1I#^RGrA9xV@M.VenV<;Wa+_[c6B2hgCMNvE"
    "n&d$k<@Qwp@M:T>39lLU@,;tR$'*sq@MkKp[,&x_3CW=q@M9>C68Z2@lC@j(BM0V@f#LUMr7dg(BM4u2G$OqIo8dd1BMUbw6E]2pF[7/(oE@frUDbsS*FF"
    "kT@M2cenVEy<#-l%pFF6tgCM^SXn&pqmX-;tR$'2(r@M#;1u-1/4cFV+U@M5i[nVM`#<.n7P'G:)hCMbfkn&t>.r.:tR$':4r@M)gI6/3BlCGX+U@M:$fn"
    "VUFaU/pJ0`G>5hCMfx&o&xdF30=tR$'CAr@M/:bO05TL$HZ+U@M>0fnV^,Go0r]h@HCBhCMj39o&%2_L1=tR$'KMr@M5fyh17g,]H]+U@MC<fnVfj,12to"
    "HxHGNhCMnFLo&)Wve2=tR$'SYr@M;9:*39yd<I_+U@MGIfnVnPjJ3v*)YIKZhCMrX_o&-%7'4=tR$'[fr@MBeRC4;4EuItIWBMpf]:^--i)51nF$9wh_w7"
    "+i_w7(i_w7(i_w7x<a9JMjhCMsOur%yF%VJEw*BMsQe;M$`q:$^m&59a_R&K5)l<(U5Qm^7s<ZK_(x(>tk<oK3#q@M.[`mKCuX3LZsp@MJHpp7LUMr75m%"
    "5^0Ie&6rtDo*m5,)>qxDo*74y%='XK@M]-^a<rtp@Mg+I;$7mfCMxqmd)YGk<(Rjta<^/As70ZXM#TAjCMt*bA#^/As77/gD6rwDo*t%q(O:t[Z5d$k<@]"
    "KvvZ@6fjOWr1BMiYwM#%kmBM^XQ)#^/As7y6ST#@;(CMtu2N#]s&N#lS,V)ZmcyYg)Tm^5GrEQgS_gDVxDo*#,9HN$iYs^7YR&R*VZW6qxDo*b=`vZ_tY^"
    "=d$k<@Z6AHWH$rN#H)+BMwX&O#oik<(nv)t$d$k<@wY/n^>Cg;T*VZW6*yDo*iS`vZf2Z^=d$k<@$a8n^B_c8U*VZW6,yDo*l]`vZi;Z^=d$k<@vjMwZ<b"
    "_5VcU%CMrO+P#rr85VswDo*pi`vZmHZ^=d$k<@$qVwZXfGQW]')BMnhPP#+xDo*%sYvdZ[PP#r9bA>v8TQ#r'E([]3`jX^*)BM2qvP#u'l<(X;Hm^O(pHY"
    "gS_gDTY,V)PnFT7No0_YrCl<(%gF8%eH&M:;DD,aSf#cZi&gCM1)WQ#xCl<(xrF8%eH&M:@DD,aW3;$]i&gCM5B%R#xCl<(%(G8%eH&M:DDD,a[XS<^i&g"
    "CM1BJR#xCl<()4G8%eH&M:HDD,a`&lU_i&gCM5ZoR#xCl<(-AG8%eH&M:LDD,adK,o`i&gCM9s<S#xCl<(1MG8%eH&M:PDD,ahpD0bi&gCM=4cS#xCl<(3"
    "YG8%eH&M:TDD,al=]Ici&gCMBM0T#xCl<(7fG8%N@CPLR:W`=_UMr7^+AT#.qrr7`1JT#`$-V),O4)*qJl<(NFw:e%$-V)%98,)wJl<(R_Wse:g3V)RX;W"
    "ew8;HNt'>wf#Os(OAy3V)QC@ZdbgjXMJ'IU#nc<U#H`JVJf0CVA_UMr7toOU#'qrr7vuXU#LyZ0,:]O>#C^0Nh%$-V)/X8,)@yxCMLL)V#;;GDM2N4V#(t"
    "HdaywN2j+[;HN(6kNj&Ae+j:g3V)lA-Kiing(bZH8Q#'4NfMbh3##<UF$Q1ua(kReGc%])6YMWwjV#MQV%u6&rV#.WD&ldfh0,]wBHE6u,W#');fMe>BW#"
    "3]_V#>$6W#H`JVJ%M>SB_UMr7D6RW#k$<A>C*@W#,/EfMRwYylLBjfMQtYyl[O;at986W#o>6@Zjqg(b]TKQ#AbSCMkpyW#d-BQ#'nqXM_>/W#BOwW#%qr"
    "r7@*@W#-AafMY3;at@^nW#<5oo8Do#W#YS-V)J)Opow[.DMsth4ptb,V)NHKmpN;k1h@]l8qhE4##>rIo8O<[W#05oo8YtWX#9BafMV*;at3kUV#Qhbp8$"
    "(8iYRsRsn>s3V)jHcgDiAafMot;atLP/Y#Rq&59]QX3kg_@dsdfh0,ujCHENZ^Y#<);fM%viY#HVUV#lNKY#H`JVJ<M>SB_UMr7smyY#k$<A>ragY#D/Ef"
    "M($AdsLBjfM'x@dss><atOcKY#rZ2<[jqg(b`ggQ#XbSCM+PJZ#g@^Q##A$FM0VSZ#^/tX#^/tX#,>349Q0HZ#e)+DM-Q9attb,V)pNbgM[@VdN,N/3N)B"
    "FKM<j3V)Yr[(t/p^dN-WKON.^&,N<j3V)SM`+s+E*/MJbA,uXrMZQShGc%<;WfMkbFTS-Z^kNCb,5K<5oo8LD8Y#YS-V)-&_dNn%n(bbsyQ#<dSCMi]2j#"
    "nRyQ#>rIo8Wu+Z#.K`c<;y8j#eD[YMloNj#:(Cj#n5r#ZU8&Et@SUj#[^w<(E7_j#,=WfM#2Rda=<kcQM;/NhG_/(Rtqkj#p'T$'`Dqj#3$S#QSeGc%F%y"
    "CMm6&k#vF-FMfo.k#28[1h9$k#SeAV>#-5oo8MS,k#h%-YMi*Kk#N`>k#;dbp89Fnm/8lQ0cL0rN#bi9YRtIl<(CF,5T<j3V)C@hpSL@syPEq'9U3AgpTD"
    "(4V)(InpJE)a^M*35l#suXU#Fy)0VMBjfMp:AKVivBatMXEl#K2TatLR;l#H`JVJl$r9StIl<(PQ]gVg95V)g^x+WH*QfM(m:##Q`gIWo09EXSeGc%DDaf"
    "Mt.CatS&&m#+qrr7J-lU#ADafMt.CatQqjl#NLfs7m.P1Xq69EX&$-V)X'A,)MyxCMu>Mm#e=GDM[AXm#5EIdaJ+lEZU*DHNPA0bZOK*>Z",
    ";g3V)frQ^YxS_%u]^ym#SFe;[efh0,]k.Krx;fs[2#GT]kE4^]&p>^uXQw<(3_=n#[^w<(5qYn#R=WfMJVo(bcy+R#=)+DM:_AW[y/Eo*^*:To2)Yp]<E^"
    "0,gwj.r^$d.rEKx+N`h*9_:T_m^=E^0,_wPWRK[OWR<1',Nb#cq_>m>N_J:4V)0)[j_fg&EtncDo#[^w<(#HMo#Z=WfM5s'EtpoVo#[^w<(,mSdaSeGc%$"
    ">GDMrqvo#8NIdaaHmKbhI,/Mg^1hb@8KW[r'T$'Em-p#c;349W%Ap#SAafM7(Datnoio#H`JVJ@SNoTtIl<(EfL^c;g3V)GrhycX'dgMm=*bd%=DW[r'T$"
    "'K4]p##Ncn^Rf;K`ulk&eO4DQ^)mU%ulcVo#cyQ,aefh0,Lcl%cWqdvdlt`dNu$h#fUwDWeThGc%Z=WfM2^Gds'G,@f=Q'5^Y-t+aV/`$'CWbAuQUeO#nc"
    "Fq#uq:qfV/`$'EWbAuhGpVgGiDat)0cq#H`JVJQoJlUtIl<(bdu1h;g3V)dp9Nh>Go(bhAZR#3eSCMT[;r#^#ZR#w#W5gSeGc%8>GDM3WPr#;WIdaywN2j"
    ")<-/M(6kNjX+LW[=m3V)<JA^u=Go(biGdR#=,+DMnSDdjy/Eo*x*/Ek@sQj_ShGc%p=WfMHGHds85QhkxV=Qg(sYmg<j3V)kN&8fT@a%u&uFq#thvTfefh"
    "0,lQ&8fk-f%lDY(Et=HIs#[^w<(Q,Rs#*>WfM]9)Et@T[s#[^w<(#6`vmSeGc%K>GDMBV$t#@dIda0Kw^n#_m%cnV0)o/+FP#_UMr7LU2t#)qrr7bx7m#f"
    "khXMfyPt#LbEt#%qrr7RhNt#i++DM)Fi4pub,V)DNTmp.yU%u;H[s#47<wm&$-V)JTC,)XyxCMgA(u#V>GDMMC3u#AgIda;YL5rGWFHNBohQrjHj.r;g3V"
    ")Iv4NqE8./MD*I2st'MW[=m3V)XFB^u=Go(blY(S#Y,+DM5QyGsy/Eo*Xre(tFANg`ShGc%,>WfM[*IdsT)/LtLHDZmWp`vm<j3V)3o55K$3@YM#:7v#Um"
    "+v#1j$_lSeGc%',;fM,AAv#(dFq#Y6[s#P(D_uMBjfM*TQyus>FatW@Qv#R:$@vMBjfMm-fv#K>WfMDWn%c]gY;M4DkP#_UMr7+NX-$H`JVJcvZ'YtIl<("
    "oZkgMAs3V)<Ey%Y,H3/M*HBkN/gKHN<g3V)u(hdN@Go(bnf:S#<gSCM^=E.$mJ:S#PyU>vSeGc%i>GDM<9Y.$EsIda*juHPvPs%chu.kP5JtP#_UMr7B:h"
    ".$)qrr7]#8m#amhXMa]./$BG#/$%qrr7HM,/$,w#YMciA/$%P+n#+A;IawGw(bprMS#GgSCMl$K/$xPDS#_AafM$FFatXFZv#Rq&59EyB.$e^H/$(rqXMk"
    "6g/$cjZ/$Ngu^uSeGc%D,;fMt<p/$X*Is#g6Zv#@B16TNBjfM[u*0$9AWfMG.4/M>Rc8U,RJW[r'T$'5V4/br'aS#U.+DM1^`pS'U]0,G,jjUQ'+Eb5:V%"
    "uG6w/$>;DnT<g3V)[orvZX'dgMCw#RV&=DW[r'T$'8V4/bu9%T#X.+DM<Y8KVs'T$',sm/$iNS;7i_s0$Up$T#Y%7T#=)d5TTeGc%8GafM+ZCat`p=n#%q"
    "rr7.R+n#GAafM(QCatb%Qn#aE0/`4W7CMw)(1$MyCCMn)11$IAT)X'$-V)a(cdWdo$DMs5M1$,We=M4kV1$a,M1$oaKM:sk.1$rJl<(bc>BYLSCo*w:a>#"
    "3<&2hQJ0FZ$(E###3oo8$-T1$5U-V)k*wyY#B-FM+q@2$L8Img_6R_[(6WZZ,O7;[ZwGc%daJCMtX,V)nDE##[jS$'maLatb(d2$c#f395kY2$5%Sd<8wl"
    "2$.7>>#4/As7lAWZ5n(yCM0N33$&ArEMIv<3$=213$5Ue=M6NF3$n1<3$ww678@,(3$_f7gMJ4)/`4W7CM7dX3$Q.DCM5yb3$]/XL:]AWfMSo]da^,qNa8"
    "hWZZxfAma9^n^=iVs)bNBjfM`0=Eb8=Matq-A4$_UMr7QWi3$-i=v@Fg`W@&)yCM>Ph4$fGafM;7Matr3J4$_UMr7TWi3$iqrr7`=o4$/JEo*O]^;$Y7^d"
    "ai:F&e')'#Q*c>De-P)&evIl<(B(bg`.<6V)R_NWeu&cEMK*[5$icO5$g=N)bTeGc%^.;fMT0e5$Xv@4$b%J4$#ivTfey#J$`;349@*s+;]/XL:-[ACMLR"
    ")6$x57ngtCl<(CCZ8%_UMr7w$u5$e$<A>%=C6$R0`$'LZbAu6kL6$+Vh6$&ekKivIl<(fgGQg)-6V)o]w+jtUJDM#)07$_d&7$c#f393i,7$&[O/iTeGc%"
    ";)yCMT,B7$:Ql`MY2K7$#>_/cR6u/ldk[jkvIl<(%Pp%ls'T$'/0[7$c;349Uf%1$uGafMR$Nat/XU6$Rq&59:o57$46e7$(g7gMt[*/`4W7CMc^y7$S4D"
    "CM`p+8$]/XL:C[ACMb%>8$6JtWntCl<(_,[8%eH&M:&KD,a;Ag[ok&gCMkDm8$xCl<(c8[8%eH&M:*KD,a@f'upk&gCMo]:9$#Jl<(:bivmvIl<(;eivm<"
    "g3V)I(Zjqer$DMk]`9$cnhXMpci9$:8una>uH2s8k6/ME3eNs-QYKDJ&XmCe;B9$dTg9$Z)yCMp$7:$I)yCMq*A:$oWe=M'1J:$F.@:$Kh3V)Y-o(tPgog"
    "MKk]Huyt4#>J&XmCw.Z:$v.Z:$.Xe=MN[p:$Dy,:$b)yCMwOx:$I/+DMn2+>v7U-V)etgyug#+DMp>GZv#0Eo*#f+/`Nm)8ovIl<(xgRZms'T$'>XtI$wn"
    "rr7T<m:$q'T$'A_&J$fK<p8gMV3$Rtj8$_UMr7;K)8$Z5v5p**.2h(>&ON)B([#[>:RpjTLK`0g^kN#R$5p(U_da&E^/OxB#)bKJ/9$VO-FMZ:aJ$:Nr(b"
    "LP89$>jSCMcJjJ$$//9$gG$FMiSsJ$Xe/J$94hJ$_UMr7EW;8$J&XmCBA#K$AA#K$9;s^M2*9K$r.D>Z:`@FQBf1&Pg>;gMwg0/`4W7CMlOP0$T7DCMb'K"
    "K$]/XL:E^ACMb-^K$7R/XRuCl<(_4b8%_UMr7NYHK$e$<A>TxvK$R0`$'d]bAuNL)L$Z9EL$<)d5TwIl<(;l*wQ*-6V)FkvmTq<%DMnecL$PDGDM;hmL$x"
    "EZL$alekUl.q%uG92L$=2(RTwIl<(@x*wQ*-6V)NE7/Vq<%DMr&1M$M1+DMf4ogVwb,V)dCxs[)s%&ckeMRW&6TTVt'T$'mk7M$<wGqSUeGc%<c.gMfy#J"
    "$Y[::7kEo(<]/XL:W^ACMvKVM$]/XL:Y^ACMvQiM$L]P&YwIl<(]7ldWi95V)wiHBYJ*QfM17N##XI$`Y*<aZZUeGc%f+yCM$kRN$cDGDM>Z]N$2).maQc"
    "H_[El&&cq^+&]5d%)[t'T$'2kcN$_UMr7)-^M$g$<A>6wuN$S0`$')^bAukJ(O$:,1O$Y&^5^wIl<(ki0)X=g3V)&[UQ^j3JDMH:YO$3/7maZ_<U_N0'&c"
    "#Zws_>`qv^t'T$'EK`O$YtAq]UeGc%n+yCM1dtO$O#N^MKP'P$<HIOtq$.P$[^w<(Lj6P$^DWfMTufda^,qNaOV=/MdB5kaMRE/D%+X]>93gM$+Kl<(@4+"
    ")b,IEo*L'Dq%S.+)bvIfP$dJafM81Vatmo-P$_UMr7;-^M$g$<A>[7oP$e0`$';^bAu&cxP$`D*Q$luF#dwIl<(&J1)X=g3V)K3@>d$iJDMZRRQ$EA'oam"
    "V&Ceah'&c5RaaeQWZddt'T$'jcXQ$ll*_cUeGc%hJafM&QUat]dGN$_UMr7D'TM$iqrr7nokQ$#Kl<(3riaX>B^0,i2TTfNOO##JSCo*8`k>#G$(&c>EuZ"
    "gW17Bft'T$'v09R$_UMr7K-^M$g$<A>#=LR$d0`$'K^bAu5hUR$'J_R$$R3khwIl<(5x1)X*-6V)j=-/i0ykXMTn.S$f/7ma&9t2jK&OQg",
    ">THPj0`),je-wyP,L/kj;&)Nj,IEo*k)a5&m$,)b9;RS$'KafMQ$Wat.U_R$PxL#ZUeGc%Pc.gMfy#J$`;3497L3E<]/XL:(EWfMv,hda(XG,lvWDBc.nc"
    "Hlj2jQB3I6pBmDSX@E,yCM_a4T$2j7gMub3/`4W7CMHi#q#R1DCM`s=T$]/XL:/EWfM&Chda/B[Bnw;hda0Kw^n8k@/M6a;#og<=#>_UMr7KO;T$%qrr7R"
    "tsT$+Kl<(4F:>m=g3V)=;kpo3n'FM=SEU$MnjT$U/8U$_UMr7PO;T$_UMr7RUET$8Hfs7=:65/Rv`9M@]0qq^oGNq@m3V)J.djqy8'FMDx%V$dTpU$dTpU"
    "$[%XmCB:65/`ZyU$wnrr7ia+V$(IEo*-5Bn&2uhdaDCEksH*22hFFE/tvvl>#-i=v@/K]X@^,yCMvCfV$sP-FMx@oV$3ge%chc@Ku1-r.uwIl<(d_8Bu8U"
    "-V)Yo`grn>GDMCO=W$4F4W$bqIo8(N:W$+n&59xsGV$wA(W$f,yCMPp:f$]J$FM)1Ff$.g8f$.g8f$)8y*FA<AVMm[Mo*ug&hM@A`HE/(_,Ngy#J$`;349"
    "KL3E<]/XL:'GWfMu+nda&E^/OvVJBc,ZyKOj1pQB3I6pBnRfX@D.yCM^]7g$1l7gMta9/`4W7CM[/&s#R1DCM_oAg$]/XL:.GWfM%Bnda-.rEQw:nda.76"
    "bQ8jF/M4MR&Rg;D#>_UMr7IM>g$%qrr7Prvg$+Kl<(11WBP>g3V):'0tR4n'FM<OHh$Klmg$S-;h$_UMr7NM>g$_UMr7PSHg$8Hfs7<<65/Qx`9M=IGtT["
    "ZdQTAm3V)Gq(nT#9'FMCt(i$bRsh$bRsh$[%XmCA<65/^X%i$wnrr7g_.i$(IEo*.G(O'1tndaB/[nVH)82hD2[2Wvur>#-i=v@0YoX@].yCMu>ii$rR-F"
    "Mw;ri$2ie%cfOVNX2w02XxIl<(aJUEX9U-V)VZ%kUo>GDMBKAj$5B7j$bqIo8&L=j$+n&59vqJi$u>+j$e.yCM#h[j$[L$FMS(gj$+_Yj$+_Yj$)8y*F=["
    "GfZm[Mo*rU.wZ>@fHEYFe;[gy#J$`;349cL3E<]/XL:QGWfMHSodaPcd>]I'LBcVx([]<YqQB3I6pBC`xX@n.yCM0TXk$[l7gMG1;/`4W7CMw'su#R1DCM"
    "1gbk$]/XL:XGWfMOiodaWLxT_JcodaXU<q_c9H/M_kX5`9dE#>_UMr7FE`k$%qrr7Mj@l$+Kl<(.w_Q^>g3V)7m7,a4n'FMgFil$Hd6l$P%]l$_UMr7KE`"
    "k$_UMr7MKik$8Hfs7g<65/$y`9MhgM,cXIlabAm3V)D`0&c#9'FMmkIm$_J<m$_J<m$[%XmCk<65/ZPFm$wnrr7dVOm$(IEo*Z)b/([DpdalMb&erP92hn"
    "PbBeIFt>#-i=v@]f*Y@//yCMH62n$ES-FMJ3;n$]ie%c8n]^f_D7BfxIl<(^8^Tf9U-V)SI-#do>GDMlBbn$b8Xn$bqIo8#D_n$+n&59sikm$r6Ln$7/yC"
    "MM_%o$.M$FM&w/o$(V#o$(V#o$)8y*F:#Nuhm[Mo*oD6/iiggHE,ekKigy#J$`;349TN3E<]/XL:$HWfMr#qda#*kNjsNMBc)@/kjg)sQB3I6pBol3Y@A/"
    "yCMZKyo$.m7gMqX</`4W7CMi*T/$R1DCM[^+p$]/XL:+HWfMy8qda*k'elt2qda+tC)m5bI/M12`Emd3G#>_UMr7C<)p$%qrr7Jbap$+Kl<(+fgak>g3V)"
    "4[@;n4n'FM9=2q$E[Wp$Mt%q$_UMr7H<)p$_UMr7JC2p$8Hfs79=65/Ny`9M:.T;pU7tpoAm3V)AN85p#9'FM@cjq$[B^q$[B^q$[%XmC==65/WHgq$wnr"
    "r7aNpq$(IEo*/dCh(.lqda>lh5rEx:2hAohQrsmu>#-i=v@1s<Y@Y/yCMr-Sr$oS-FMt*]r$/je%cc4dms3i=QsxIl<(Z'fds9U-V)P752qo>GDM>9+s$6"
    "0yr$bqIo8w:(s$+n&59pa4r$o.mr$b/yCMwUFs$XM$FMPnPs$%NDs$%NDs$)8y*F7BT-vm[Mo*l2>>v;7iHEV+rZvgy#J$`;349Y$s+;]/XL:bbACMU:W*"
    "%'m&LMwCl<(Rgs8%eH&M:qRD,a,dpONn&gCM_Y.+%xCl<(Vss8%0fDFOQBjfMO4J+%-JWfMy:wda*juHPBHrda+s9eP0QO/M11V)QF'%_Pv'T$'N@T.b9A"
    "q*%FpSCMk'y+%'wg*%(PafM^Ngat<YQ+%_UMr7ihis$_UMr7@sT*%%qrr7Or(,%QJGDMH/I,%)=%DMd9P,%O1yCMe@Y,%Y+$YMjFc,%V9W,%IFHINLy,DM"
    "LFX;Rv'T$'K@a,%km&59OKw7$9:,+%+PafM^Ngat:M>+%Rq&59Tlv+%NFj,%3o7gM+8D/`4W7CMWmQi#V=DCMmq'-%>;DnTZ/`$'jcbAu1ixSUp4hatNkA"
    "-%AE`2UWeGc%Y1yCMnwU-%iO$FMG8a-%jqS-%jqS-%HNelCmw]-%8%-V)U*f,)&Kl<(VvF,WBE^0,$,cHWr'cHW+ekT]rEx3Xq*'eWn[Mo*aDC)X])S0uM"
    "e7-%@E`2Uifh0,82X5KoE=.%Fo7gM9dD/`4W7CMwYQX#YGDCM,2S.%MflBYZ/`$'xcbAu.+a/Z%Zhat]jl.%n1:c<)RP.%V*i>ZWeGc%jJGDMh-,/%uo$D"
    "M&&3/%6e&dM&*5uLn1:c<,RP.%Snv-NCgFe)k7+DM:hS;[Gev<(gty2uc7M/%UXEt[ifh0,JYiHN-#lT]8tS;[mWl=^2H2_=aalR^6`a##dWP6^CghQ^We"
    "Gc%>WeYM4d80%ly=Z]q%-W_@EP8]Z/`$'1dbAus*A0%KjI0%`^U/`@g3V)%-8wZL*9&c<+=M#_@7M`yIl<(Fg%h`yIl<(9IpW[Aj3V)J(^HaU3=)be=D/%"
    "dPafM74iatloI0%P@[0D-iefM1yhatfJi/%+qrr7:8V/%biGc%SJWfMmwI)OeKQ/blY4[5)qrr7Y=31%`$-V)p9F1%h6ydar`*.cE0bZvvUO1%blL##",
    0};
static const char *const diti_spirv_text_qkv_post[] = {
    "GZ1N5jsi^Pg^&M$=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>MfJh1q0`r6%/s$X$Bfbq%RXH3'6tY<R$jZK(D4TvdwGcu$/9-V)YLc&#4>)i((il"
    "<(g<Lvd-<mW-&il<(``4;ex./%#9['EMdu^vd/L:t-&il<(g9Lvdv1TA#(il<(gxY;e$BK%#9['EMg'_vd0RDt-&il<(h9LvdyDpA#'il<(nEAyd#KyA#&"
    "il<()9.yd%W4B#)il<(i`4;e&Z+&#D9-V)eLc&#@MU@,(il<(o<Lvd5n`X-,9-V)fLc&#J0e],kb5;e-(m^#C#1EM&yM8.79-V)#>l2(J0e],(ns<e1M-w"
    "$ST1EM*:s8.H9-V)70u>-J0e],<yY>e5rE8&d.2EM.SA9.X9-V)Ly&L2J0e],P$%%e%gl^#FxZx,xm0EMm^]a*LCE=-e@Lvd's'_#3)r3'8['EMe#1_#42"
    "6P';T(EM`$t;$J<Wu-/T1EM's18.yCT$':b'EMftY&#5;Rl':e'EMb*t;$LO7V./T1EM)y18.yCT$'<b'EMgwY&#6En0(^,O>Mt9$AMgeLtSQcC@-UGk<("
    "gry8TOcU@-.HUP049IUT_w]60YGk<(#CthWi,Xu.tr=31$THi1r%#AMe0_r//g(J2%V$AMbVbq/0Kk<(V+MiWp4-m1K**BM9(T(#wci&45GxC4s-V@M_8f"
    "kV(PAM(6P<`4(IgCM$I1n&,YX$5r`(BMP$,)#9l8]5x-V@M_2SkV,o3.):uTx5*OgCM)[:n&CYX$5,tp@MO/dR/1k3S/9a(BMG'Db#1k3S/E:jBMqn8%#Q"
    "oO(4%@od)*,k<(,2<KV_yE78gl]F*lGk<(Fp*.aRmd_$mik<(N_fvZyhD69h'l<(o#Pm^7&yS9%@@v6=5Fl9pyp@Mp/gj9d>b0:Lsp@MPhTQ/1k3S/Vl%5"
    "^Jy.*+rtDo*1:Jv6ZxDo*W/wJ+Q:k<(4r&PW[JND$hDl<(sNJHW]PWD$JxDo*xD[M#G-s@M_Wd20l1:c<o#gCM=,rt$l1:c<hCjBMw;q%#1k3S/YJ%CM';"
    "6(eFf'v^EG.d=WC@j3kC9$,ysR$'(pq@M]qS@,pVR$>Z1_@M%wWU/nM860l:XU/l:XU/U`n@>1ngCMIj2r%CYX$5N2q@MgmHR/1k3S/eV%CM.gw(eM9iv^"
    "L0Cy@_n)k3n_5x,ysR$'.yq@MgKP<-w@g9Aj*)BM&Ja#&d>b0:i@%CMhRf/=t<%CMH7g2OF-.yZLX:WBgik<(p%>wZNkr7Cdik<([+P<MY7km^G-dnCG[w"
    ":7QoO(4CZdjCD:,V)BgF99CE'T/OI8873xDo*%lVT#_Q'CM/C[*[vFyr^WW/jE@NNx^Nnw,FFR[v6QoO(4QDx(FPxDo*<:JM#[0&CMC3,+e2H%t^a:dGGs"
    ":5m3CYX$5e)q@M+v)30CYX$5qj(BM=,DB&CYX$5#))BMBK6#'CYX$5'/)BM6Ha;(CE'T/)#i^+<yDo*(KXQ#QP*BMJ@.I-CE'T/,#i^+@yDo*+TXQ#FQV@"
    "MojfkVIA0[-&l<oK8#hCMwbLo&r,N9.ysR$'6.r@M6+jU.CuX3Lvb%CMg;SUN0$yo^d*^nL(MOvIQoO(4R8TQ#c0'CM:X+M#V'Dh*>qxr.Ex.et0W3M#Kg"
    "(J2lCD,abFCLNi&gCM@5QM#xCl<(7TE8%Kg(J2pCD,afkZeOi&gCMDNvM#xCl<(;aE8%CtOo/tCD,aj8s&Qi&gCM@NDN#xCl<(7mE8%CtOo/xCD,av7'AR"
    "i&gCMDgiN#xCl<(DyE8%Kg(J2%DD,ar+LXSi&gCMH(7O#xCl<(@.F8%Kg(J2/$<&cE#:uTssjiavSv5UHxm%P%j:RU,&ka*oaKM:XS)c3Dk3S/_-nO#&4t"
    "x>^uJ@5Dk3S/c9)P#b.YS/c3wO#u(6YMViFP#Tre2O,SOhW,&ka*b.YS/jLEP#_:GDM3bdP#U($DMV*lP#a:GDM5nvP#^A$DMX6'Q#%)6YM^<0Q#rq%Q#d"
    ".YS/ww.Q#5yZ0,L1N>#AYdyYAy3V)K$)>Z8Gb%cg#k([N2Gna2U$@[=Vb%ci5Ka[O8Pna4h[w[X3:HN:&x;])R]s[:g3V)TR%;[`hn%P<8Xt]w[,BY%$-V"
    "):]#n&(Kl<(^;u4^>s3V)^5Yp]Zxy.MA^p5_5EUm^q'T$'[J-DM<Av/bsQ>OCadCO_LBjfMQVpR#V:WfMN`f(b4j<M#Nt3V)D::87:AafM4s9atiM(S#3b"
    "LT/D2vR#DE:S#j2s^M+BOS#>kGR#loA*b7c2##of%faLof(bReGc%8hhXMvyaS#A>1S#IFHINJJ2K`R@/fbmq:HNtIl<(Dlv+N;j3V).S'BcP$g(b4j<M#"
    "@hhXMra;S#@^;0uiM(S#f=N)btIl<(Frv+N5U-V)-l_ycxA-FM(TKT#mi7KMUbl#e^&@Zd4R-V)89[vdTJ-DM)yt:etb,V)<XWse'ui1hX/-<fE33###'l"
    "30QkGR#lA940kPxT#0)+DM]p3U#_KuN_ReGc%U4NfMUC3##pn7fEpc<U#w,sQgShGc%o:WfMGA>dssiyrgE]gR#XWvDt.@YU#[^w<(u$cU#r:WfMj[g(b7"
    "%YM#))T$'A3oRN`mJnhU6gO#&[O/iReGc%r(;fM=S(V#x$cU#)D9V#JY*(4)7'V#Q.EfM;Se+jLBjfM:Pe+jN';at0X9V#b.YS/bwYR#9)+DM>#_(ktb,V"
    ")F<d%cmsHdafiQek(T$FMECsV#4chV#lomi15]_V#A#yCMCO.W#YmqXMHU7W#9o#W#KX(*O6,XdNuk]Cm8LyAltIl<(iE8EO;j3V)p):Zmr2h(b8+cM#ah"
    "hXM6Y1V#b+t0u-FuU#*2,ejtIl<(jBt(O5U-V)oBr:nxA-FMIkoW#6j7KMv,'<oHTRsntIl<(oW8EO5U-V)ws2ToxA-FMM,=X#:j7KM#R>UpP.k4p4R-V)"
    "'tn7o%Rh(b;='N#LbSCMUNYX#%t&N##'l30tkGR#cmmi1Z#bX#tB[YMXauX#Y)kX#Nt$'PeewDtOV&Y#[^w<(y4(KrReGc%V#yCMWs9Y#WL6FMayCY#__4"
    "##Nt$'Pk,X%uKJ&Y#CbeKrtIl<(';q%P5U-V):f@dse#+DM0kTY#_>940jNKY#@v3V)=u[(tK^x+N1%h)um,<atNxZ0,J&Q>#65529@mq$HG_^_GF&l30u"
    "s+Z#eA940umyY#.Re=MfPIZ#C+@Z#lA9400tJevq'T$'(OX%u*3YU#y>S2hg<5V)(ns(Xs7uDt4gFi#[^w<(*NOi#x<WfMYTu=v#DWfMr1j%c=f(5NbJ@p"
    "aa@9LN4=v%PgUUhNV*:HNBy3V)1oAQ^QJIDMol)j#5x%DM:51j#E=GDMqx;j#6$&DM<BDj#a+6YMBHMj#7(Cj#b.YS/<s/j#I=GDMu9bj#7'&DMAZij#K="
    "GDMwFtj#8*&DMCg$k#g+6YMHm-k#=M#k#b.YS/IAhj#07NfMqA:##(K%VJP`>k#:n+USThGc%3=WfMc>Fds6S2vSxUJi#-V&EtJ9[k#[^w<(Uxdk#6=WfM"
    "JMCHN#WZqTV6gO#AE`2USeGc%6+;fMYM*l#Xxdk#a@;l#JY*(4a3)l#$1EfMr:%/VMBjfMq7%/Vk%CatLR;l#P/]_PEYf(b=J9N#PdSCMb*Yl#S%0N#_gh"
    "XMXxkl#Igti#RB<@QEYf(b@VLN#WdSCMe<ul#U1CN#aghXMZ-'m#O3)l#dF,^5i3g@5^%yCMZ@9m#xjhXM^@Cm#ut0,cI^JdYk0%HYuIl<(JiQ^Y5R-V)N"
    "Yq%YQ]+/M5OD_ZUZDNU*IEo*rqD/(s4Sda4b6@[Tf+/M8k@[[gc't6dF,^5t9p@5h%yCMe&@n#%D$FMo;In#._=n#b.YS/8#ZR#s1@YMqH[n#r8^m#nomi"
    "1(fsl#0&-YMsTnn#8wcn#TTtwQBSo(bBc_N#kdSCMo>wn#n=UN#cghXMoQ2o#agti#nomi1-fsl#+2@YMxsEo#ydGn#jomi1F>:o#u++DM",
    "$XPj_r'T$'uGMo#F2Gs.E2(o#JMqN#b.YS/_3)l#%jGc%9=WfMvSv=v#DWfMIJCHNHG-LaV6gO#f42eaSeGc%[+;fM'&to#%sZk#Sp-p#JY*(4Sdro#Q.E"
    "fMeCPabMBjfMg[L^c8=Datt<Jp#Y+QUSEYf(bG*6O#udSCM0aTp#]],O#O(+DM3(^ycV/`$';WbAu6dxL#`7]p#n0'[dBy3V)(Ap(bhvjXM)dyp#&Dop#d"
    "F,^574g@5,&yCM)v4q#GkhXM,v=q#,Dop#dF,^5;:p@5/&yCM,1Qq#0&yCM2GZq#aF-FM2=dq#$4GdN_^aqgnpase6U-V)EEy4g--@YM5P(r#siOq#gA94"
    "0x$lq#U2@YM7]:r#pV3q#iA940yubq#LqqXM9iMr#'DCr#cmmi1(70r#;,+DMG)c+jThGc%g=WfMu_,/MeD'LjFYf(br'T$'AR_r#KTHi1>W#O#]GMRTfI"
    "<K`hVL,kvM-5TcjT%uq*.p#hP.bb;g3V)w'p(bM&T%unoio#jcfBcTO/J$n.PN_il5Ik^Cln_aVHekkiS$'$:Eat85@s#Dk3S/9o,s#DY*(4=*Is#20`$'"
    "XWbAuCZRs#DCns#3.xZmuIl<(f[g%l*IEo*IU9w#W9Udapnbwn^[a%u;H[s#47<wmuIl<(ieg%l(-6V)tmw7oOAIDMfmPt#LZGt#Dk3S/RhNt#x-;j1Qdo"
    "s6O&yCMJ;lt#MmCaMOBut#u5yvf%n:RqWVp1qThGc%,>WfM[*Ids/8WnqG8DZmPZ`vmYwGc%O_JCMtX,V);[=##@jS$'M*^j_wsIkrkiS$'O0^j_&HOLsS"
    "eGc%Z&yCMTyqu#Di:^MhS$v#Iw=JtW3,v#[^w<(ps4v#F>WfM:#Vda,v4bu12n%cA9.(vQ<qa3F&l30y.Qv#dF,^5bBN>5b,+DM.wy=vuIl<(Aui+si@5V"
    ")1h_vv2APfM`gC##0=U0M-NOKMTeGc%<(yCM6wu-$qkhXM;&(.$Uw0,cuZ2jN]B*t6F&l305m/.$dF,^5@DN>5@.+DMA4,)OUhGc%y@WfMojZdaeeQeOux"
    "0;[yyA+PGaK873*ACPNBjfMLi`^PXEKat;Jh.$Dk3S/SJKu#b.YS/DAq.$e$-V)5-3HsN1$DMEp6/$MAGDM`SA/$F=%/$U^8<R_^g%u:D_.$0irBPvIl<("
    "(-o+si@5V)*fXWR5GPfMrGD##C5>uRR&98STeGc%O(yCMI7o/$qkhXMN=x/$j,D,c0SsVT_TbT7F&l30Z-)0$dF,^5RDN>5R.+DMfdmmTUhGc%4AWfMhjg"
    "%uS',v#L^YBuuIl<(0@Sgr(-6V).&NNUL($DMToX0$l=rEMe'c0$dLW0$1Oe=MZok0$ULc0$gb(Z6YJW>5W.+DMrVfgVvIl<(7[o+si@5V)IpFHW4DPfM*"
    "vD##Ri+fWq0')XTeGc%_(yCMX<L1$^Nl`M^CU1$2u55M1*,FYdY0t6H8Ll0qV^u#jGaj1$9g1$(V1w#qD'T/bAWZ5hAGDM&O-2$a)`1$pHR[ZyVh%uS)81"
    "$IAT)XUhGc%D>WfM$ey=v7dJCMtX,V)kr2##BjS$'ITLat^g=2$CtOo/BJD,a5new[k&gCMe,[2$xCl<(]3Y8%[5gq]NBjfM*5x2$UAWfMK]x(bbyG2$1J"
    "l<(YbsvZs'T$'7213$JW_40fk#s#0eP2$Dk3S/6R42$b.YS/C>D3$X(T$'Uek*be4d2$ogSCMwgW3$`hY2$(G$FMy%b3$CKV3$YtAq]TeGc%o(yCMomj3$"
    "mPl`Mtss3$8xPkaC:-LaCl8BcIPIhay6Q;6S/YS/Qj-4$ln]0,(PyW$/yx(bvIl<(#:=EbLSCo*n0b>#vGi%uc.m2$XtAq]ffh0,&aEK`Ixt%c1MEZvt@]"
    "4$n.PN_>ZyQ_enUo_GuJbcliS$'kJMatwRx4$CtOo/[JD,aOOc#ek&gCM'p=5$xCl<(#*Z8%KTHi1e=o4$_>940lcO5$4U-V)<njse#>$FM;Am5$nob5$C"
    "K-DMeJ+e)Dk3S/h7f4$6Ohwdc[y(b&r<5$Y(T$'muk5$Nd9t.>>8u#dP35$h]F5$aE0/`4W7CM1%qT#8;CCM3c16$y>S2hW/`$'JZbAu$reqhKuMat.RL6"
    "$KTHi1$106$+[O/iTeGc%;BGDMZwa6$Gg#DM4li6$`[&dMRQAn:KTHi1'106$t7(+<2>ygis'T$'/]q6$*Gm97(scfMW3Nat4w,7$3bLT/#yEVh7<Takj@"
    "5V)k0t(k(sFfMHFTakNBjfMJ_P^lWCNat:Ee7$k.YS/6Vh6$,M5V)utlylR-2EtBd)8$[^w<(EO28$.BWfM=k6/Mq[o>n0rs(k'$-V)c)[8%J)yCML5P8$"
    "K)yCMM;Y8$XtqXMRBc8$NbN8$H=5Ijckj%u=W)8$3.xZmDev<(;o>-u72I7$-N(bkCy3V)Z*t(k6PcfMW3Nat9>[7$h.YS/@Vh6$Vs3V)y4bpo+)HDMv`("
    "9$+R_da$n1rpkKGZvH=/9$n.PN_1utLWg#io_rEm5qliS$'6uNatKPK9$CtOo/1^$eayp$Or*[_da##AkrD57/M)8]/seFVgrs'T$'eZp9$Kmmi13qrS#V"
    ")yCMV+-:$;R-V)BrRdsNg3,N41_Itltn(tvIl<(Rv;q%cmmi1syG:$$*-YMeY[:$r(Q:$F&l30gqA[Q9`:'vw^K^uW/`$'vZbAu^DncvwKOatZU(;$&4tx"
    ">3,a[>Dk3S/VO1;$Dk3S/F=B9$b.YS/.ZtI$ADGDMSd:J$DZ1J$F&l303m8J$Dk3S/J=B9$b.YS/2ZtI$ZphXM@B`J$Y#1,c)ETgOIc.KOwIl<(dSmaO7R"
    "-V)f1UHN:7qdNta7cP^fHBPVhGc%JBWfMy/Sds&,T'QnLZjqa.MZvW/`$'[]bAuI#qdQ^TTat@fHK$&4tx>veXUADk3S/L`QK$Dk3S/V=B9$b.YS/OfZK$"
    "QDGDMdoxK$VfoK$F&l30TxvK$Dk3S/Z=B9$b.YS/SfZK$kphXMPMFL$j#1,c9*^sT[N7WTwIl<(-kvmT7R-V)/I_TSGDYKM-GAoUSTVNUVhGc%/DWfM_8X"
    "ds6i]3Vb(1>vUkfZQ[wGc%SdJCM'####",
    0};
static const char *const diti_spirv_text_expand[] = {
    "GZ1N5jsi^P,f]L%=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>MIJh1q0`r6%/s$X$Bfbq%OK8^#75H>#0eu6&-;1EMg+18.yCT$'#b'EMYOY&#)$b"
    "x#8_'EMN`3U%8B@4'e@LvdkT%]#*-&=$8['EMZUlB#426P'xm0EM[)]a*:Twl'e@Lvdma7]#+6BY$8['EMZOP&#;^;1(fIh:euv%A#>n0EMnGD8.39-V)g"
    "mSq&;^;1(#UN<eyD=Y$OH1EMr`i8.D9-V)$`]&,;^;1(7a4>e&jUr%`y1EMvx69.T9-V)8Qf21;^;1(Llr@e*7n3'pS2EM#:]9.[DT$'(b'EMGgH>#8WNi"
    "(qd'EMagKC+9aj-)nZ'EMm.0'+.R=V%<W(EMOAaW$<%g**rg'EMU]s;$@7Gc*/T1EMtS18.yCT$'0b'EM`bY&#/[Yr%9b'EMP1eZ#Zo3C+n9u_+bZR$'yD"
    "u>MrH:>$tn>],_.c>MtBH&#m)w<-h%#AM=Xy^,x;Wu-m'$AMF_Yv-0%$AMD)1w-rWSr.j+#AMLTiw-'k3S/.1$AMM;:w-m%k<(f:KdWb&T60*Ku>M'bZ^#"
    "0Z5114_xgWakWu.*Ku>M9v]@$3v1.27_xgWZ*((,41$AM[Evv-5d1#[[)9,3A/:c%+qR$'kf_@M:(+IWJQDs&%Dl<(i*jwZi+;*4aik<(%%9HWMd`s&lpR"
    "$'po_@M>:=IWNjis&'Dl<(cv<IWOprs&opR$'ql_@MCMPIWPv$t&)Dl<(dg]hVnlXx,KU4#-KU4#-KU4#--yq@M2H*0(VuTx5`x(BMG$D&$<05Y6nxq@MH"
    "@3x,)xZx,Bv(BMAuh&$)xZx,h7dvZlfB88cik<(0JS:wdik<(=X]vZo*>59)jk<(Ed9xZq<vm9/-]0,XfJ=723+BMskX6M'e(BMcD$7(3&l30P%)BMJOI'"
    "whik<(8BO<MEprvZx&3,<%kk<(`S$yZ-wpe<nik<(l%$M#3&l30fP)BMaS[s')xZx,Vs(BM'UUsL)xZx,Q1Q<MVu(BM'b,8MV/(7$)xZx,ws,BMvnpQ))x"
    "Zx,Yj(BMC5jB73&l30^p(BMjJ5F$3&l30*=kBMfF/A#&]_$,Z^(BMYCfk<)xZx,YU+BMxLrkF)xZx,j),BM,TpF-)xZx,ba(BM4C6xgbik<(m@mS#&]_$,"
    "d1Q<MQo1BM4xDSEx-]0,K#VPD'u*BM%ox`%)xZx,np(BMVV'a7)xZx,EJ3BMi+f14qnPA[Ntj%HL1L[BO]oG3V'WK(#XS$'Iu%CM0_e.Zmt%CM4[RjY`3d"
    "+[RgC@IywDo*(a/R#nat@MyZb#,O]oG3_-WK(xjk<(%-Yn^j<&vJ`x)VJ)xZx,*g]m^[7RTKW5i;DEG]0,kJFQ#0DT#_nb=7LSa8cFO]oG3f-WK(CG]0,n"
    "SFQ#5:K#_af.2MM=&2L42-BM*@+M#w.Z:w[+k<(uS9#$-UQ-NT@3M#IUQ-Ny:.HW9%GM#x8kBMhRBA#H&)jM]e7MD*El<(]b1@#0xZx,fYvAM>>QM#@jVF"
    "3epR$'#m_@MUIMJW;1YM#.[gCMpf%q%mik<(5%^Q&3&l30f%jwZh#)*P`0)BM3w'N#%2Q<Miik<(3QeW$0xZx,j](BM@K:N#w,]0,2f=B=suYD[u^7_QuW"
    "Bg=l-]0,NM;EFiW=G[wpo>RUH%VD'.]0,B)kpA=-jE[+dLxRY`Po:c-]0,t(UT7;&aB[-v,YS@u&@Bw-]0,w7qp7I4#U_)gG^#e1XfM)5i+aoygTTi&gCM"
    "E(SO#xCl<(<7F8%<<Wu-,DD,asG(nUi&gCMIAxO#xCl<(<DF8%Tw:JNwFF8%OJl<(,KSgV%$-V)_D*t$RJl<(0d3HW:g3V)0^o+WDtj1h%4<HXi`+HN'=X"
    "dXm*0EX%$-V)PksP#Ga#DMPu&Q#xghXMU$0Q#rq%Q#cIZY6/7xTA;xZx,y&8Q#cIZY6JgY;I;xZx,&3KQ#^;)y,&-BQ#-5IYM[IhQ#WyG8M1Civ[=Hod)["
    ";)y,.LpQ#P#4V)Onx7]BqIYM`b5R#(X+R#c;)y,*x.Q#0)6YMbnHR#Y#h'cU-ss^,(Qka3w%5_3q]s[NYMS_7Qq1_U/`$',TbAunSdR#A,mR#`^U/`SO/J"
    "$_T9k_%$-V)x9+t$$Kl<(d:2K`:g3V)]KYp]-muDtplDS#[^w<(a`.HaReGc%$;GDM4aXS#qpHda=%6HbfC#/MD:RdbBWYp])IEo*-o'q%-sJdaAA2EcTC"
    "c%cea`dc`tkM#;xZx,Yv-T#[;)y,Yp$T#+;GDM<:LT#df$DMr:TT#r&a^M4(_T#_7ST#teHXeLBjfMtTWse=M:at#`oT#cIZY6*$@&PtIl<(1ks7ff95V)"
    "Hw7Tf1eb^M:M>U#ws&N#=GJG3o]3U#pAafMEM:atyXfT#@y<H3k=]T#_iFU#j4NfMXL3##+h*ogv]l1hReGc%xY.gMUeGc%sAafM7%:atl`DS#+osy,aE:"
    "S#N+AT#o(;fMIrvU#d+mR#luXU#)&9LiLBjfMto0V#x:WfM2[;HN]j3Kj3vJR#`;)y,-JCV#JAafMQr:at0X9V#'ekKiReGc%s(;fM:YVV#+=0V#__;HN`"
    ".0Hk3vJR#^;)y,2VUV#'t#YM5lrV#3chV#0a`BlReGc%%);fM@x-W#+7'V#=*@W#+osy,;iqV#46RW#();fME@]W#Z6'V#C*@W#Y;)y,lkGR#cxZ0,,CP>"
    "#4TCW[lL5V)%Lr:nZ@[(tK13X#WTbAuJ+*X#P[2X#;xP5pU/`$'bTbAu5_uU#VtWX#=31npShGc%5;WfM1td%c9:GTqu(&jao,QmqDN<HNuBm1r>pFjq%$"
    "-V)Z8-t$DyxCMG>0Y#qt#YMLE9Y#Q0IW#mjsy,A165/1U32bI6IO#U)+DMWG7Zmq'T$'Jt,W#`cIOU)@4K`,27gs`hBQTX^v1UfsT%uE%FX#<*mQpdfh0,"
    "U`syG_NKY#U;GDMpiiY#(c%DMNjqY#a;GDMru$Z#v(Ida$EBauPs<HN*Z^%v(v5^u:g3V);IX%uRy<HN,m=^vfG_W#Y;)y,#)>Z#d)+DM:5/&+bu)0V98i"
    "(bO[)P#WbSCM13=i#D0nO#a9)P#Y;)y,62IW#Y0`$'OVbAuLm$JNO)Bat3mbi#BGJG3/NOi#JAafMU)Bat2gXi#@y<H3U:nRp0mBHNV/`$'SVbAu=:ui#7"
    "m&j#.V:bO;g3V)YZD^l9`cfMY5Bat6('j#+osy,;u,W#4y8j#%+;fMD9SW#-TXi#/C^%u:>@W#2%]>m:g3V)eBr:n9`cfMZ6;atCp2X#aE0/`4W7CM9,Dj"
    "#'_BCM0,Mj#2$S#QuIl<(]oV^P<B^0,n-7>Qa.:##JSCo**>V>#W5Rdacq$>R-$;Qg'Hl[RIO3;Rc-wyPoQovRHOH^R5R-V)jOovQe7:ZvCr>k#n.PN_T7"
    "sMMVo*n_hQkWSkiS$'@kYj_fK&8TSeGc%OpfCMB%ok##Jl<(t8LTSg95V)7k(2U&sOfMyY:##K(oOUc=AKVSeGc%V%yCMIMOl#UMl`MNSXl#du%jasV-KW"
    "*sj%c@k5jWSaB1Wr'T$'kXal#CW@kUSeGc%W%yCMMftl#UMl`MRl&m#hu%jaw$FdX'Wn(bKFnk#ZdSCMU$9m#K'nk#c<hA5[y>&4_++DM(Pq%YThGc%;=W"
    "fMsJv=v7dJCMtX,V)B(;##6jS$'>ECatYK^m#cIZY6iof;6;xZx,(@gm#;xZx,'3Tm#F<)y,,Lym#qg3V)JIjvZBck%cUiH>]eC/y[uIl<(Pt*8]uIl<(J"
    "6nyY-<6V)T5cp]m:8YMcwdn#/%0Bc7#bp^6BCQ^-<6V)ZZ_m^<u9gMG(w.`4W7CMf2)o#*hBCMbB2o#`^U/`&$-V)y@4t$YJl<(eA;K`uIl<(d1[j_(-6V"
    ")iYs+a_ZjXMm^jo#JW`o#hkDv6u(I&4x%yCMkj%p#y%yCMlp.p#&mCaMqv7p#Xe.ONFM2Ec(+9p#F<)y,Vj$p#1mCaMt1Tp#+f/bvuCSp#",
    "n.PN_Hi.BdWu3n_Dlf^dSeGc%/>GDM@P#q#O($DMuP+q#,&yCMvV4q#0Nl`M$^=q#RMU4MPRCWfig%8f*IEo*6upW$:GTdaMX#8g_ITdaNb>Tgpb,/MTwZ"
    "pg79aT7F<)y,v$lq#qg3V)6qEWeg#m%c#Yrph23YShuIl<(C%VjhuIl<(6_IZd-<6V)G=6Kim:8YM0PVr#T<1Bc]j3Kj#7n+j*36V)I=r.io:&YM3crr#^"
    "Riyc`.0Hk1uj(k+66V)Pl2HjXk<Zv6)-s#n.PN_gfH)lY*Gn_]DHElSeGc%BqfCM89Ss##Jl<([[+Blr'T$'@6[s#;9)y,%8]p#XD$FMKUos#C<es#C<es"
    "#Ltxr.FCns#u<6V)lH$;ng:1Zv@a)t#n.PN_g*AvnZ0Pn_f@<;oSeGc%M&yCM>hOt#WmCaMDnXt#t&<*dpk8Tp^:rg:;xZx,R[;t#F<)y,X#kt#x<6V)x`"
    "p1qTD$DME50u#WmCaMJ;9u#cN>cZ3p<PrIo8)3G,OhrMBjfMrIi+sj#FatN`Tu#m]_$,d;8u#[w,%,iT^u#T_n<(1lIds+66V)3xe(tg2^yuum)dtuj=Zv"
    "S',v#Dk)hrg95V)B45Nq9VPfM,#>##U.1'uwd^yuSeGc%HEafMx;FatW@Qv#Y;)y,k/&u#KiGc%F>WfMuwIds4.>^vf9Jv#y.Qv#H<)y,&;dv##76V)^]="
    "QpBvjycZVJNMk-ka<I<)y,,NX-$%PaJM+Uu-$)f7gMlB'/`4W7CM0['.$-qBCM/t0.$,DZ)OtCl<(,dW8%<<Wu-u[$ea^<#)Po(w(b:=C.$@gSCM92`.$h"
    "vB.$Mk`bOoaCK`aI>aPCa^aOZwGc%AaJCMtX,V)$2D##9jS$'$OKat>],/$;xZx,GG#/$K<)y,JS5/$$46V)iX<;Rcl$DM=dR/$NPl`MCj[/$iKn%enWOW"
    "Sg5m^=;xZx,MG#/$K<)y,Vxm/$rJl<(lOA>Q.<6V)wWQQTSa=^M^u<0$c>lMtO[E0$[^w<(`FN0$;AWfM:V4>dvJ(2VhKiZ>y]_$,eLW0$JjwKVTeGc%Ck"
    ":^Mc<l0$:m+JtT#t0$[^w<(je%1$AAWfMl>s.rsY@gWFYhdNyo[+Xy..w>%yZx,qq71$I<)y,swA1$5PaJMNxT1$Lf7gMyALatPns0$Y;)y,frd/$+46V)"
    ">c>BYiF3aMX<q1$d8g1$H<)y,k'w/$-76V)D'wyY%sdyu&`PyZ(1EZv]a42$n.PN_/6:>[]6Yn_*3iZ[liS$'F^LatayY2$<<Wu-EJD,a2e)t]k&gCMb,w"
    "2$xCl<(Y<Y8%<<Wu-K]$ea3w%5_3&PT]NYMS_91+t@bm_k_NBjfMQ1)/`/yLatjYV3$;xZx,;_G2$;xZx,=eP2$Y;)y,JQ`3$w.+DMJ:%,avb,V)UU[^YL"
    "RmvdAvUgaBPG8A;xZx,A_G2$;xZx,CeP2$Y;)y,Tp64$=nhXMr(T4$VZ32bf:m2$ygSCMs.^4$,tl2$K<)y,[1]4$9S-V)u3^daB'FZvvLo4$_T9k_vIl<"
    "(eQTW[vIl<(g^ps[<g3V)(06>drh5/ML-+>eLi+t@x:+6^WrEK`L6GZe-t&5^.<6V)/_NWedo$DMxfY5$i(yCMylc5$,nhXM'sl5$nob5$[;)y,ruk5$u("
    "T$'W$u5$;9)y,K0Km#uPl`M*.16$nG>,dU)w4hXI(qAI<)y,scO5$<Ql`M-AM6$bd3naS8s1i@D]daTB7NiYu4/MZWSji)=@Kis'T$'aUh6$;9)y,S0Km#"
    "vPl`M2`$7$vG>,d^sOgjab(qAI<)y,-DL6$RG$FM6u@7$,o57$2EdEkey#J$C>940-VEN04$2u-<[ACM36]7$0j$_ltCl<(0qZ8%<<Wu-wJD,aeu`^mm2y"
    "CM9L38$79s^MS8=8$BgMKtEvE8$[^w<(KbN8$3BWfM(F_dahC<Woq)_daiLXso3[6/Mobt7pR.bpos'T$'K#t8$;9)y,h0Km#QpCaMG,09$aF9.uAjE8$8"
    "]T8ovIl<(h&q%lvIl<(j25Bl<g3V)#jy1qFHogMuBm1rYBO87Q9*@m)@GK`uK1Nr^r%>m)-6V)*A:KrUUdfMdXNatAjE8$+osy,a//9$YTg9$M)yCMK^#:"
    "$]nhXMPd,:$oYyjavme+t%2ovd%,*HtbakT7Y;)y,og+:$_/+DMeONatvb,V)<d^^Yu8_da#;&EuwZ:Bc)QBau[hZB4^;)y,y4d:$j-6V)=Uk%uD7pvd,m"
    "=^vivkT7H<)y,(H(;$176V)gUw+s&wgyu`0POM.WtgMfFlkMbjJ5B.vBhMfy#J$EQql0,k%/14$2u-9^ACM0&MJ$,DZ)OuCl<(-ja8%<<Wu-tLD,aaO>)P"
    "l&gCM9E$K$xCl<(1va8%<<Wu-xLD,aetVBQl&gCM=^IK$xCl<(5+b8%<<Wu-%MD,aiBoZRl&gCMBvnK$xCl<(97b8%<<Wu-)MD,amg/tSSENfMvVM##er;"
    "U(]VhQTvAEL$%M&U%dxQnT%ZWL$0-Z2'nUskU,ysL$=2(RTwIl<(jlUHNt'T$'Q_%M$8u,%,Nj&.$VI$FM]39M$$j.evQw7M$>;DnTwIl<(muUHNt'T$'U"
    "qAM$8u,%,Qj&.$D+yCMOxTM$YphXMT'_M$wwY/b=SqJ$[jSCMR$hM$87qJ$`Qql0twJM$Mi7gM#HUatKRWL$;xZx,WsBJ$;xZx,YyKJ$`;)y,&F+N$*h3V"
    ")BoHBY=D*)b>Y#K$bjSCM[RHN$]:#K$;xZx,]sBJ$Y;)y,._PN$$)T$'edYN$8u,%,^j&.$RrCaM`kmN$mLE7r*-i:]aRrdN0C-W]3w<8]wIl<('SVHN=g"
    "3V)VBup]tI.DMt,85^wb,V)&YVHN$jABc7#bp^310qAm]_$,A>MO$[w,%,A8DO$_f%KMbBjO$/J$FMvvsO$>QiO$f^U/`UeGc%V+yCMgW%P$YphXMl^.P$"
    "X7'3bBl>K$sjSCMjZ7P$<P>K$;xZx,nsBJ$Y;)y,Qp@P$*Kl<(5-sdNDy3V)q3+)bXM-DM*Bedat'T$'%+]P$JW_40t&I7$J`QK$l]_$,Y1fP$[w,%,Uj6"
    "P$:J$FM*d+Q$Ij.evvO*Q$BW@kUwIl<(:6WHN=g3V)&'$#dl-%DMtPGQ$a=IYMyVPQ$hD93bE'[K$,2+DM7Puvd$0Eo*iWB;[MebWRwIl<(@FWHNt'T$'2"
    "ibQ$8u,%,$k&.$cO-FM&puQ$6XQ.rH3'Wf'UsdNNICsfo(TTfwIl<(EUWHN=g3V):K45gTA-DMBINQgwb,V)D[WHN:[.2hT)w4hKLk>#m]_$,%DUR$[w,%"
    ",%=LR$%g%KM(GrR$MJ$FM<$%S$#VqR$,ekKiUeGc%X+yCM-]-S$YphXM2c6S$#QL3bI@)L$9kSCM0`@S$D$)L$;xZx,4tBJ$Y;)y,5uHS$.Kl<(S/tdNDy"
    "3V)U<BEkq4kXM80oS$80eS$Z4mqSobOK`bJ,ElhmhpS,36V)[b=BlM<dJMBb3T$MZu`MGh<T$K=wrq_P(^m=BtdNefDym<qUZm7R-V)rHrvm^#;gMd[Wat"
    "H@;L$l<EeEn.PN_oXxZncU0o_e6xvnmiS$'*fWatE.&U$<<Wu-+a$eajUt7p%Lhdak_8TpE^8)OqtTppj3B&=^;)y,];KU$Ih3V)wP/5p,bhdao,QmqHy4"
    "&PuBm1r*BG/DY;)y,cH^U$X2+DMf*DKrwb,V)t;#&l&UhdasQi.sHy4&Pyg-KsrLB&=`;)y,mm=V$Mt3V)3x[dsgX&FMb4[V$pyPV$pyPV$Ltxr.na+V$j"
    "sCaM[AnV$a^#O#QT=&ufy#J$Hmmi1R0y+24$2u-]_ACMSJ2W$OyU>vuCl<(P%f8%<<Wu-@ND,aWSJ2Mm&gCM1nCf$xCl<()aj8%<<Wu-pOD,a[xbKNm&gC"
    "M5/if$xCl<(-mj8%<<Wu-tOD,a`F#eOm&gCM9H6g$xCl<(1yj8%<<Wu-xOD,adk:&Qm&gCM=a[g$xCl<(5.k8%;xZx,eI1W$K<)y,Nlmg$",
    "qJl<(+5vyu*-6V)mqkWRS]EaME%<h$(WomaiKOWSBgEBcoaksSTvb;6K<)y,Z9Nh$Y0`$'hi&^uUM#STxMjh$&Y/U%i9EkU)s7i$23Hn&uw*-W1A^i$'B_"
    "atKUjh$;xZx,wC(W$Y;)y,u2pi$`Jl<(>pvyu=g3V);MUEX;=3)b_kDW$_mSCM_U>j$]MDW$Ntxr.&L=j$/JaJMf&Rj$l]u`Mk,[j$a:CN#V*i>ZVeGc%V"
    ".yCMX[dj$%rhXM^bmj$AIn5M/01>[k^P;Ru'T$'.ouj$Bqxr.b&6s##K$FMo/2k$U-;h$U-;h$Ltxr.5w'k$wuCaMi;Ek$iALN#4UHi1:2Dk$komi1<8Mk"
    "$4`7gM1v_atMb%i$;xZx,1D(W$Y;)y,AE`k$>h3V)^m#n^'W2)b5%9f$omSCMoa%l$3_8f$bKls.#.;h$U-;h$VVl`Mqm7l$G^-l$Qtxr.Kd6l$0JaJMx="
    "Kl$dl7gM97`atNh.i$;xZx,9D(W$Y;)y,QvRl$Qh3V)nxSHa'W2)b6+Cf$wmSCMw:pl$4eBf$bKls.+.;h$U-;h$VVl`MyG+m$W7xl$Qtxr.[=*m$GyxCM"
    "qA=m$%rhXMvGGm$B$Z/b71Lf$&nSCMwMPm$tjKf$bKls.dVOm$cVOm$+/yCMuYcm$wJ$FM1slm$gcbm$gcbm$`sxr.#if*e+-6V)2CI>djQ)wdTeCwe2dQ"
    ";R)36V)9w%te++y=dVw#XfgaA8fb^n<(G8^TfAm3V)IEypfg11Zv+FUn$Ca[/VxIl<(j<]^u=g3V)=^YQgkvjXM-Grn$9svg$H<,-NeCXK`[WsQh6n),NA"
    "E^0,aGN8SU/L8S..KBc_jS2i)1rjh0<6V)ND6/iw.IdaUKSjiTdA/M[ao.j`L>t@IFHINkUXK`[j3Kjv,EHNAE^0,VuNHj4rNHjp&qdaYpk+kP9nmgmlhH"
    "k83/)k83/)k>g3V)@EH)FIWl`M@L3p$9<)p$Qtxr.@C2p$QV'aMBXFp$EThN#Otxr.9i>o$0WaJMI)Yp$4m7gMbXaatPtAi$;xZx,bD(W$Y;)y,Jbap$a("
    "T$'Bgjp$;xZx,eJ1W$KX(*Ox&YK`sexZnCNtdN]juyuu59xniEYZvD+/q$Es;hVxIl<(+0^^u=g3V)o(<8oxR.DMPcTToxIl<(.@yyut'T$'K4Kq$F2Gs."
    "SkaT$=A,g$4UHi1Z;Tq$komi1]B^q$JyxCMFEqq$c,yCMGK#r$/ReYMLQ,r$RmM9MuBm1rb*mjqu'T$'S`4r$Bqxr.P'6s#F.yCMKdHr$,@IYMPjQr$Q@#"
    "xg/NfKslb-,slb-,s+-6V)5VMKr@++wd*HF,t`<S;R^^n<(F3*)tCs3V)H@FEt;gx.M6D>*uj#bat]wGc%HHWfM8%oda#;&EuTdA/M)QBaupYvN9;xZx,&"
    "K1W$`;)y,(TMs$Vt3V)E2>>v9:lXM]]js$(a`s$;xZx,VL1W$c;)y,1sT*%Ih3V)w($wvp.;)b@c>g$;pSCM;5r*%=E>g$bKls.JCWh$[@Wh$YVl`M=B-+"
    "%74#+%Qtxr.;:,+%0JaJMEj@+%0o7gM^NgatS/^i$;xZx,^F(W$Y;)y,BMH+%5Kl<(%&(#vDy3V)`x`BPHo9YM>Zn+%EoM9Mgn:BQF-A#QyIl<()2(#vG+"
    "4V)hRxZQ::lXMCs;,%Mx1,%P/]_P#/`K`pa3[R@aY^PAE^0,yNQ5T[TH5T17KBcssk;ST&9tR1<6V)x8U8Sx.IdajTksSUdA/Mpj/8Tb-%O9;xZx,nL1W$"
    "c;)y,aR%-%Ih3V)#eQ5T1v;)bBoQg$SpSCMSlB-%@QQg$;xZx,rL1W$`;)y,ikJ-%KF^0,3QJ/VjMJ/V9PTBc'+AkViPfKV1<6V)7j*hV*v]yc)=xKWbHu"
    "WR*66V)/kqTSyi(#v/$U-X%(aZvVE4.%H78eWxIl<(>s(#vDy3V);P_EXei$DMTFQ.%/ReYMYLZ.%R1D1O*YTaY:rV/D;xZx,(M1W$c;)y,,el.%+Kl<(E"
    "(e^uBs3V)c&L&G%whXM`q:/%0w0/%K<)y,/_c.%Nt3V)]3W/D.whXMc,W/%52M/%Y;)y,:8V/%i7+DMt#bT]yb,V)3.3&l>S>)O5h)8^p@e58^;)y,AKr/"
    "%AF^0,cghQ^BdhQ^Q@UBc>Q^5_Ag,n^1<6V)g(I2_x.Ida52^m_UdA/M;Hy1`8NR&=^;)y,B`wkX@g3V)hPE/`kRQ/M>du.a>tW>Zv'T$'#(o0%Bqxr.r)"
    "6s#i46YMq++1%9F&ngOfR,bV0ydaV0yda,-6V)w-^Hab82wdJ`2eb-gV8S)36V)&Yuab,+y=dLrjEcS@9&cc^n<(3rUBcBm3V)5'r^cj71Zvyhk1%=2(RT"
    "]wGc%%$$J$5u,%,v>=H24$2u-(eACMvr02%pC_;ewCl<(s;v8%<<Wu-cSD,aMOC;fn&gCM(:`2%xCl<(wHv8%<<Wu-MsOEt1b#3%*QJo3bn&@##Rn1h[V>"
    "3%]H>X$#KWfMp8:&cwXIQi)N^jaUKSjio##eaVTo.je#VBc]j3Kj=fuB4Y;)y,5$e3%A2yCM3034%IwhXM86<4%9<24%hkDv6A5I&4D2yCM6CO4%.ZaJM4"
    "@X4%2p7gM`Ujat/b53%;xZx,+p&2%;xZx,-v/2%^;)y,.]L)m@g3V)b)m^l%R>)b*<C2%GqSCM=_/5%%xB2%:7<wmWeGc%:2yCM=n85%.2yCM>tB5%M86Y"
    "MD#L5%'-S/MlFx:oQp)tnv'T$'75T5%;9)y,w>(o#:g'aMG5h5%Z39*vgCX7poWcZvIMp5%$R3khyIl<(QdoZdyIl<(Sp3wd@g3V)yc^Qp0t>)b,IU2%Rq"
    "SCMLT>6%J*U2%;&EUf-LcK`p&5mq0iHTf^wGc%>KWfMpwydap5m1r`Lydaq>1Nry&R/MwTMjriLVKrv'T$'Fyc6%;9)y,s9Km#=g'aMRyv6%Hv#4b/[q2%"
    "YqSCMPv(7%6=q2%M/&esWeGc%$p7gMpuMCMtX,V)8h4##DjS$'PR+k_v%FHtoiS$'RX+k_x7&)uWeGc%b&gCMTJa7%xCl<(P+x8%<<Wu-@TD,a*sY^vn&g"
    "CM]o.8%xCl<(%g%9%<<Wu-pUD,aYf*kMr8+DMM3K#H*(_,NXeGc%%:;fM@2@G%1E0eNw:)ea[*CHO)1Z>ZfL_dO5QoOOrL5V)mAqHN]E8)tG*wG%WfbAuF"
    "$nG%HfvG%1r6_P[/`$'^fbAuUip@QejpatB$;H%;xZx,dC:7%Y;)y,R-NH%GMGDMd0cH%1'&DMB1kH%n:6YMG7tH%U@jH%;xZx,jID7%Y;)y,[FsH%:Saf"
    "MddpatC*EH%;xZx,kC:7%Y;)y,aX7I%*SafMddpatAu1H%+osy,aR.I%W_AI%2GNfM%si##%/)YIgkSI%AN$OU#Jl<(1)9)tv'T$'uufI%n6$@v-NiK`vD"
    "d1VI-*#vEm;&cxa]WV]=lHNw'T$'m&pI%-DZ)OXeGc%X4yCMN$,J%(FIYMS*5J%WNg2cA#RNW9S:lavl[gWW0rHN%+x+Xt30eWAg3V)6%4hV_eN&P'=XdX"
    "KJY/Mq'T$'(PYJ%pI[wv9siK`7F5*Y]mLZvWXE2h%=tDY,Aj##K<)y,(XcJ%:(+DM]AgEXw'T$']j'K%O.;j1'DvV$54,G%mf#A,.q0K%f)IA,0w9K%#Y-"
    "FM]kMK%MEImg4<v=[3_AwZ3_AwZBj3V)K[%[ZHcF)b77qF%RGNfM:]j###tHxH<K$L%Vba8]w'T$'/6`K%VXEt[XeGc%$%DaMfB.L%&9D,c6uBB^eh7q]#"
    "Jl<(XaU5^+$-V)RNn^uu=E)bmrIL%ZSafM/vqatdAiK%-DZ)OXeGc%_yhXM88IG%CL],u7=5G%0irBP#Jl<(OPn^u^wGc%pmJCM'####",
    0};
static const char *const diti_spirv_text_elementwise[] = {
    "GZ1N5jsi^P.L:W*=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>M%W#2q0`r6%^K%8fL.TmpCD%,a@xkjU@oyycB;xgM[%QKiijwdWw,SwZ%;v;R&vm"
    "K(D4Tvdu0jo#xm0EMJo;##D9-V)^i08.yCT$'Y@^vdxC.p#8['EMnIjW-&il<(Nur;$G#nXe]q@=e.0+q#e@Lvd&o*q#(il<(jNY&#H5N9fe9Lvd@N@s#-"
    ";1EMl&=##D9-V)(j08.yCT$'$A^vdCa[s#8['EM8XkW-&il<(tC3U%iND6p]q@=ePMXt#e@LvdH4Xt#(il<(4OY&#ja$ope9LvdiAd2$xm0EM=ME##D9-V"
    ")Ql08.yCT$'MC^vdlS(3$8['EMb'sW-'il<(>xr;$6=eL`^q@=ev-a3$e@Lvdnl`3$(il<(ZQY&#7PE-ag@Uvd.@c5$-;1EMZLF##D9-V)nl08.yCT$'jC"
    "^vd1R'6$8['EM''tW-'il<(+;d/(q3x3UKLc&#hY-3Usa'EMKD@t-&il<(;a0_#te+fWTxY;e`WTM$e@LvdW>TM$(il<(DTY&#w)(cXiF_vd$]oP$xm0EM"
    "T0O##9['EMNC/[#AL9$dh<Lvd'o3Q$9b'EM#&It$/9-V)1p08.yCT$'-G^vdLG&U$8['EMB#'X-(il<(=<d/(WR#1MLLc&#Nx/0Mta'EM2THt-&il<($mL"
    "#$%X[@Z^RM<ei:dj$e@Lvdaycj$(il<(MWY&#(tW<[lRqvd6w#o$-;1EMgkX##9['EMa&9[#R:_Lii<Lvd92@o$<k'EM);Rt$7ll<(,e[a*np-SpLLc&#e"
    ">:Rpta'EMIBLt-&il<(=2Iw$R9U0MNS+wd>S#+%pa'EM..%@#/9-V)Bu08.+9-V)C$:8./9-V)D*D8.39-V)E0M8.79-V)F6V8.;9-V)G<`8.@9-V)HCi8"
    ".D9-V)IIr8.H9-V)JO$9.L9-V)KU-9.P9-V)L[69.T9-V)Mb@9.X9-V)NhI9.]9-V)OnR9.a9-V)Pt[9.e9-V)Q#f9.i9-V)R)o9.dDT$'=L^vd3hq2%sj"
    "'EM2;(@#)il<(o*A8%7PE-aSfGwdT-dn%vs'EM,Ptt$/9-V):'18.yCT$'6U^vdU5y)&8['EMKMRX--il<(SoKC+,BpU]K.Kvdp'f,&:Q(EMR2RR&Bil<("
    "OPH>#B@R[#Ub;x#L%k<(6/1QTma]t$IZR$'fDu>MKG7<$aGq;Ig>^u$G(0QTC]CN#[c(BMvHUN#bik<(SJy.MRsc%'jZYr%w^L<MvB$wZlS.X[Q0Q<MPi("
    "BMEu4R#%t'.Tmik<(buy.MTg8L$jZYr%;_L<Ms8$wZ,#L#d=bL*WIi(BMbs3U#r/QVsdik<(6KLZQjKYl&jZYr%hwwVmS@vvZ;V8khtelboY*)BMjM'V#r"
    "NF3vdik<(vW4##xV68&a5&Y#`5&Y#.>t>MHx3;Ieik<(VT%/MwFL:$jZYr%T*7ZN)6vvZ>q+LMf+4wk<i(BMy^,k#cik<(g;f+s)KX:$g>^u$wHmvZg.2w"
    "ZVi(BMDr=n#fcbsvQpR$'5MAhVr*so#Zxp@MW2-n&wpfCMb9PabHQb>MnCN;-bik<(W%Ap#UGk<(Uq/r%mW,<eKv^@MpK);eWGk<(r8DXesCl<(j]<q#mi"
    "k<(ciOq#VGk<(^U3u$,u-ClO+_@MFU+BlWGk<(HVE_lsCl<(@6[s#mik<(yBns#WGk<(x#L6&7,ZqoLy^@M].XpoWGk<(_eq5psCl<(V#kt#bGk<()`O9%"
    "DoPFt1c:;[f_#v#Wy&N#HP,k#:fT@MBF9q%V1gq]%GGHWkMv2$K=%,akMv2$.YALVmfV3$UsR$'GKV3$fF)i`Ek`3$*G)i`G,6n&q%EUfP+_@My+KTfXGk"
    "<($b[qftCl<(t*'6$ZpR$'jXJhVN_WL$6'q@M3$>n&SvfCMo1sjUR+U@M1cb8%GUy)XouOHW]Q^M$<m-,a]Q^M$w[ALVwOoP$XsR$'[7oP$oBu_cPTxP$3"
    "Cu_cRN@n&3_BXnMv^@MVaRWnYGk<(XFYtnuCl<(R#&U$ZpR$'%ZJhV5%9f$I(q@Mr3Gn&:yfCM<a&hMS+U@M=Fh5&OHR[Zy<YHWf4mj$F47,af4mj$)`AL"
    "V2k#o$YsR$')V#o$)1C0ido,o$E1C0if1Jn&85v5pR+_@MbM85pZGk<(dw5RpvCl<(_Npq$nSS$'&mJ5^>#dHNV](BM*Ej,%M>)0vu,]0,hM.-%[Fj,%[F"
    "j,%n>^u$hxDgVAVr-%;:St$;:St$Bikq%;:St$[Gk<(tb],WwCl<(s8+.%jik<(:34.%XGk<(1Oot$x/='c,fx;$x/='cAqq5&bxhO_<*NwZyI7p#F/awZ"
    "yI7p#LtDwZyI7p#WZFq]IM)Bggik<(lU>3%fik<(pnd3%hik<(t/24%n'l<('2d##x/='cmV]n&+a><I<u(BM)CyQ%jik<(Ro8tn;:)T%g>^u$)h(wZdj5"
    "#Z_o(BMFC-h%hik<(LKIh%pVS$'^@KwZ#07)bau(BMeIl%cnXaBMD[gn%x/='c+PGO'7+QUSRv^@MdW5US_Gk<(fxhqS#Dl<(ewx)&mik<(3i**&qik<(."
    "656&KW[@Z+EAHWiS$,&=J],aiS$,&$D.HWk`6,&_CjBMIX[,&rtDo*;je,&oSUN#FmfCMGdHn^b3jBMdJH/&rwDo*nn8[Z-H'CPswDo*v/9[Z2vZwQswDo"
    "*%C9[Z41;XRtwDo*._9[ZEnDeWp,]0,1UjcXp9LaXx,%;[jKKhV1Gh%YrFh%Yo,]0,<W_Y[+RAW[*I%;[l^+IWi6GabR6Gabo,]0,f`ilhyrLjhQg&;[np"
    "c)X4Zl1huYl1ho,]0,dAQSgqA4QgMZ&;[p+DbX,)Tpfm(Tpfo,]0,G7wr]3,Yp].U%;[r=$CYL8u4^58u4^qX,V),Kvv#V`NX$3*ACPVHsfMG`M^P[eGc%"
    "QVGDM.DC)Xd3+wmuIl<(#V_)XCg3V)%c#FXW'$)OfZ9&Y0USwZ&$-V)(#`+&:1Ap#y>^u$0,`+&&5&=[9qSwZwyHdajJ.t[e@m/Mp`J8]7&Pt[=U-V)BaL"
    "q]2$6YMPkw,&Cpn,&&5&=[K.In^wyHdar<_N_mXm/MxR#k_K:)O_-$-V)::X-&FuOq#y>^u$UDX-&DZ+v$XJb-&X>a^MtH*.&UVt-&j`7FbTBjfMeLY)bD"
    "`-btv_/.&1irBP[eGc%JNIYMb%h.&=wL+&IZ+v$b7F-&-B6YMgD>/&N[pm#x2aqfTBjfM*K+UfR3.bt-_Z/&t81GX*iLeW:4xdag.2wZO3_&ccp=.%-F+."
    "%f1yCMHUeH&6E6YMM[nH&UaeH&@Z+v$>QIH&4,iXMPn2I&]R>/&BZ+v$;n9+&qMNfMhA6$#0=U0M,Em>v[eGc%--iXMPqEe&rVUN#@Z+v$J(3I&ejhXMT2"
    "ke&.xjl#3ciGtE+$6^I%@R^&&q#Q*'[K`c$+R_]f+/M$ovg`PY.L`Gm3V)V-Th`:3Nmgf_#v#^iKf&]iKf&Mpe=MMtUdac$+R_tVq2h)OoabML8$#-=2=I"
    "<E#+%(4NfMxs9$#3ZZIjGqc&l]eGc%Qjl`M(0=j&k-Pq#N4YSg27#9fv[F^l'Jl<(MN`#mTSCo*K4Yj&P:Rj&1[+v$41#g&X-`EM1_uj&Walj&8S8tn]eG"
    "c%KZGDM3=.Ek`O0BcZXPeaER-bkft]&uJc'k&7S8tnnfh0,WmVckOd;Xn>fr2h-t/#dNUT@#Ov'CuVBjfM[Sl2q$XBbtUO6l&,[+v$HJHg&5>GDMXA,Hsk"
    "q0Bc7HRea[xfdsg9s#QKuCN#f(ps6o1DaMBswl&.ZUN#9t's%*yel&NaafM*tBbtQ6ik&C&-%d6WNbbZhhyc'Jl<(oXMkq^hGc%OZWfM'XFesXW&[m#Gm2"
    "q%0.Lr@U-V)gqPeaU5NfMvo@$#3ZZIjBPdeN^eGc%Oll`M&&7%'s-Pq#N4YSg03)9fs>AEO(Jl<(H-abOUSCo*I*S%'N0L%'1[+v$:emg&",
    "X-`EM/To%'SXf%'563[Q^eGc%I]GDM0x(,NaO0BccqPeaB5(INepc&uHXx%'463[Qofh0,VVQJNKC<@Q=bx2h5g`TfPh4x#LYy)XWBjfMX6gqS#THbtSE0"
    "'',[+v$N&;h&5>GDMU$'/Vlq0Bc5DXeaX[aKVf5y#QKuCN#d*ps6m3DaM@iq''6ZUN#9t's%&q_''LcafM(pHbtO,c&'C&-%d4STbbcZATf'Jl<(j7NRT_"
    "hGc%M]WfM%TLesZj^;nu%nqSxf.3UHE^0,>t#@mmYkxm[_fogf_#v#mAXI&P=XI&mNs^MUu1NhS2&2hs[Mo*4P6OhQcHhrShGc%*YWfM0VD[ZbAemODc`B"
    "PU/`$'jrbAuIC%a&RX]a&463[Q1-6V)ydy5^*[m%cZ'9u#Z=kt#.Joa&#Iy9%_kxa&:X+v$gq*b&ISCo*X,ub&^2nb&:X+v$jq*b&JSCo*[>9c&aE2c&=t"
    "'s%tKub&4U-V)scAOU,E-FMBiUc&IT[1hdH=eW-JS@#FW68&%eCc&$qUc&L`afMp=>btB0.a&,[+v$x'3I&L>GDM[+vyP*_1Bc$dNeaL7&@Ql.Z&uMt<b&"
    ":n+USnfh0,cXFAQgip)Xn4Z&u9V:`&'m&LMnfh0,gxKYnXEPkhJ'q&cv6A0%8F+.%t1yCMVKtI&L+<ZM]T&J&9vtI&0:6P_;FMeWS'yda$0sHapDLng2eA"
    "ea]<+Ia]<+IaEj3V)]0Kh`CVrEtD44.'X;`$'kYE)'UXEt[q95V)ImchV^>tDt)CH+'[^w<(I7b)'m]WfMy1Z[QxF0R^K0O#vI:4V)ZIu)b6j^dN&ud/`]"
    "Iu)b[FsI-LU^@#.Pu)b/NH[Q*C%IaMO^wvRFsI-tv_@#a0HLV')1%QUZKwm(M=]mGj3V)DL(-W[ygeN.h<bbZI9Fb_hGc%0^WfMOaT[ZGWTjcgEuWRV/`$"
    "'NvbAu/[Z+'#6a,'luF#dT:4V)k#v)bf'NZQ6Zm;e;SXnTKSCo*&;`@#3g#$Qdl[2qBTpTpwAi]Q_f;kqD%p#d;j3V)w7*-WkcdbOc3T,s-jCMrT:4V)'I"
    "o,s2<@KMk&-_u7cs'u^FsI-9v`@#R)H_uw41%QPQ5LMX@k0s3.CFXiFsI-l`e@#,/PLMsQtfNIQMeNaJLINmgn<(]n$3qKv3V)N6jbOc*%$QR=F_P,UpDP"
    "mgn<(sZtfN_FsI-v'f@#K;m`P<<lxvP]=XR/K-0`Y$9Y#Dq1,'C`1^M<4uB'd,YB'n:rXMpxM,'&_uB'I(D7&$cv+'xcafMcqJbt1)a,'-=2=IO9g-%A7N"
    "fMf>C$#*_fRg5V[kh^eGc%g1<ZM>YUC'FbgQ#[o[8&P,kj02VuV*cI&KM>r#D'0ve=MHx,D'AO$D'E(D7&31=V*/g[YMG3ID'F/@D'-EdEk^eGc%/0;^M8"
    "JW-'wQpm#-KQejWBjfMB*XhiekJbt:a]-'R(D7&MxKJ&7Te=M]kEE'[g*E'I$(W*jeu6&AvEE'S=i7&PGb^+5;rXMT,kE'@JXE'L(D7&UxKJ&]fafMcqJb"
    "t=sx-'-EdEk^eGc%-K;fMa%^B*Y7b)'yUd+'[K%-'pp]-''#y-'t81GXAUMeW]Cyda&L3&cfw_&ccp=.%DF+.%/2yCM_.,K&ME6YMd45K&l9,K&@Z+v$l*"
    "hJ&K,iXMgGQK&sR>/&8Y&<nUBjfM'&kWel)8bt+UZK&t81GXKtMeWlqyda0QD8fp>`&ccp=.%NF+.%>2yCMil1L&]deYMnr:L&vw1L&t81GXQ/NeWt2#ea"
    "61<2h7)8IN<GXNh.4i2hDg3V)(ap8f5bw/M@cTKi*N8Xe^/`$'`pbAu;:U*%=hAM&*2,ejDg3V)BFFLi>ax.ML#F>mMYEXR;g3V)FRFLiMqWmgf_#v#KXs"
    "L&Ug0K'xve=M:thK'b:YI&(khXM3#rK'N+iK'BZ+v$g:rK'[@$FM$at4phogqohogqoZxZ0,m+6L'<mMK'ol-FM9HRL'3vR%c-uSp#sM(3$9=RL'%[Yr%T"
    "_*^':X+v$sM6L')IEo*A_5`'J(Ap#cHyCM>x>`'xn-FMByEM'5+f%c-uSp#EN(3$BoEM'%[Yr%OPBb':X+v$$N6L'+IEo*jOMd'J(Ap#kHyCMhiVd'Ii$F"
    "MTS&N'j1@`'e#Wd'3ciGt>8QO_PJ2O_Jj9U]Y$9Y#ZHK1$]-2^M*w6]'ha&N'=BafMft7bt8N%M&,[+v$vWsL&L>GDM3xXg`r,:BcUOcea$-a,aHrn&uC4"
    "+N&1s@#mmfh0,Cg).a=w;LMB)<LMRNKwmpn$4qihGc%7WWfMge;eslUpHsjv:GkTNV#m_/`$'qpbAu;:U*%^s'O&:o4qoo95V)6VBFtX/tDtbAn$([^w<("
    "slnh';fWfM6]PCcPGT;R(QPqf<B^0,TwB#(9F(D*1Oe=M94L#(VwD#(N4YSg^qZUo';5;R((T$'kQL#(/=2=I4MXI&07NfM3`]$#GZV6T#:C-WaeGc%x:i"
    "XM<`5$(TfUN#tM#BQqJLIsGG*^#LSCo*,cx@#w'5'c8bcq#jD&U$<U5$(d0bhV.%)'u].e$(F%X,WbhGc%NfWfMPU73h_rjKr<4J%#C&-%dAA+$da5);e#"
    "(T$'$(3i'/=2=I<KXI&-4NfM9pV$#PWTIs1;Z_u`eGc%)9iXMD1ki'1WUN#=t's%6-(D*)IEo*I9/j']+Ap#jQ+DM28#'uahGc%SdWfM7-J<[+e(Kv.QDX"
    "RV/`$'^'cAumvKj'pJox'P+rZvHg3V),iH<e=Is1hD/HhM@G*^#C&-%d'M0$dnU,/M((T$'H@]x'+1#INaeGc%:EN^MB2.y'2xjl#6F<@QZBjfMQ-aFOtA"
    "dbtDI3y'@Z+v$9eQK&pI-FM0dXy'IMo%c-uSp#2l3Q$+DFy'Q8x#QsD('uJnky'3-o>QbhGc%NfWfM*.)'uTFrO&6JtWno95V)ucAFtX/tDtLlLg'[^w<("
    "B/=f'2dWfM->JCcHU-&l=nQwm<B^0,Qcqg'9F(D*1Oe=M6w#h'Scsg'tM#BQg)FIsGG*^#LSCo*yAr@#%:sngU%D5pglpqo6IEo*[HCg';+Ap#OQ+DM`c4"
    "6pahGc%8dWfM(/JCcC'QHj=nQwm*IEo*J#cf'2+Ap#JQ+DMdUEIsihGc%8dWfMlBy&uTFrO&CbeKr]hGc%vSWfMP*jEt:KW0&[^w<(3<N0&'TWfMwWV&cc"
    "p=.%1U+.%a1yCML&8&(xfGDM:[3t[XE^NhyIl<(Ba0u[7IEo*a.T&(R(Ap#wMyCMP>^&(%gGDM>)L5^,lv^YyIl<(J:I6^Ms3V)J4-r]wwM0Mv@C2_O:)o"
    "^Ig3V)QcE3_2RNhM%x:,aTb-Xe^/`$'d(cAu;:U*%LZ0+(,EdEkIg3V)+W-l_Dax.MQPpWR6srXR;g3V)/d-l_RqWmgf_#v#9->'(fQU>()(f=MCV5@(l0"
    "e'((khXM;]>@(<t5@(BZ+v$w%@@([@$FM)6HNUxfS3UxfS3U^xZ0,ueZ@(EOr>(wt-FMB*w@($X5ZZ96HZ_Ic`BPU/`$'I+cAu&0QC(cO(D(cyQ,a6-6V)"
    "AU1iVqnl%c8bcq#l0=q#b0:D(y>^u$nbDD(+4UAQL&,A#O#8xd,bOBcspCxQ1I-V)mE$cbVF3'u,n$E(_T9k_8IEo*`olC(V%Ap#gPyCM^1vC(joafMOCo"
    "bt,n$E(lQrs%P]vC(k)sD(Bu-FMFCEA(tloDtEG0G([^w<(rZfE((jWfM#&]Cc;=<2h`W/rf*IEo*-[OF(b%Ap#DQyCMtkXF(j(f=MJRf.iGhqph;<6V)_"
    "pJ*X<oQpfD0Q,jE@&iichGc%1jWfMug@'c-uSp#pD.p#F8EA(%[Yr%5hxE(*)hHjbeGc%.W;fMV':D*3[fE(At3F(:X+v$08[@(V/`$'r+cAu&0QC(^A@H"
    "(47<wm6-6V)rlcCYqnl%c8bcq#=1=q#3yQH(y>^u$iS[H(+4UAQuJ-A#xG9xdUv95p$2DxQ1I-V)h'hUo(k4'uU_;I(0j$_l8IEo*1a,H(",
    "V%Ap#oPyCM/#6H(;pafMxgpbtU_;I(lQrs%$N6H(fr2I(ku-FMNt7B(vx*EtC<*Y([^w<(DL&J(QjWfMLJ^CceR'&uhp/rf*IEo*VLgJ(b%Ap#mQyCMF]p"
    "J(;)f=MsgPyup%]du;<6V)80%]Z<oQpfmE;wv@yi[vchGc%/lWfMG4B'c-uSp#BE.p#Nj7B(%[Yr%0Y8J('db/MceGc%,Y;fMX3MD*.M&J(;fKJ(FW68&B"
    "81D*>XDD*.+%FM>J-8]fO=-aeO=-a#M5V).5pB(54gB(rAi7&QcpB()j/Y#1j$_laeGc%79;^MMwC,(9+'N#G,OhrZBjfMh`B9o'bgbtTUw,(,[+v$=+>'"
    "(L>GDMuxPjq9)2Bc6QweaWP;/rY_A3hb@GEt2T`$#+4UAQ-v$A#:xA3he[CBu3^$A#+4UAQ0(%A#=*B3hj)@#v:m`$#=t's%8`8.(5U-V)6^d_u/B-FMPu"
    "y.(V_ImgK;q/M=jD@vA+%xvbhGc%KgWfM:jSCcTmupo2X(xm*IEo*[7e,(x%Ap#[NyCM8Tn,(DmafM&tgbtZ#X-(mZ68&.%o,(V=f<(FmafMj8gbtG]U+("
    "mZ68&EeVD*<gyB(.fNfMeE_$#0=U0MgQ2$daeGc%9gGDMR*Q>dIip^cyIl<(qvN@dIg3V)t.k[d,s_2hdH=eWFGJ%#C&-%dIbD$da5);e((T$'4jW](/=2"
    "=IOId'(-4NfMB9p$#U-(cXB2GxZceGc%1BiXMLk7^(6gUN#=t's%EZ`D*)IEo*QsS^(]+Ap#rY+DM@/g@ZdhGc%[lWfM@Nc<[0:Sd[;(sXRV/`$'9.cAuu"
    "Xp^(T0Z_(UXEt[Kg3V)`Z]<eCIs1hu6c5^HY*^#C&-%dZ>E$dH^GT]*(T$'W$H_(]8=n^ceGc%nKN^Mugp_(<0kl#hMWea]BjfM_'8l_R3xbtw&v_(@Z+v"
    "$rB.)(pI-FMdAD`(OMo%c-uSp#fr3Q$_x0`(+A;IaQ6<'u&LV`(e42eadhGc%'gWfMf56'ccp=.%DU+.%+2yCM_=1((I;iXMeJD((qb>/&,[+v$8nD((L>"
    "GDMYp=BPBABBc(1K*bL#0Z([+bfMY_fbt6Qo)('ekKiZeGc%&NNfMkE'$#4dvejBUpEkZeGc%JTGDMjPnakCip^cyIl<(Ch4bk1IEo*2eS1&*,Ap#I;yCM"
    "yt]1&d)iXM'$g1&HTUN#Nu-ClgwJ&u<d71&,EdEk^/`$'cmbAuLPy1&TH42&47<wm-$-V)b9Ou(Du/2%y>^u$L_Ou(DZ+v$1Lh.&fDiXM*Qtu(6k>/&t81"
    "GXe*>fW:4xdaB>`EO:MP'ccp=.%h^+.%f1yCM+pKv(q]6YM0vTv(8$Lv(@Z+v$],0v(oDiXM31qv(@k>/&,[+v$)[qv(L>GDMx(pyY2_1BcI<Cfai4w>Z`"
    "eZ'ccp=.%o^+.%+2yCM2D5w(tDiXM8PHw(`wtu(,[+v$O#Iw(L>GDMBK*;eDABBcjHDfa2W1Xe)q['ccp=.%t^+.%G5yCM7cdw(yDiXM=ovw(ewtu(,[+v"
    "$uBww(L>GDMcm;To+QJBc3TEfaSyCqo*epFts[=#)[^w<(i)2x(`oWfME3Q'ccp=.%bd+.%:2yCM%Q8V)gJiXM+^KV)UoyQ%C&-%dt+:S^q#EHN0Jl<(M9"
    "WfNNg3V)C`<i`)U.INeQuaXuWyCPLg3V)jH&GOn[i0Mhmq^YcH*Ye/-6V)v2J`Y2[m%cO:*t#Wm[s#6@ZW)&eu6&o%eW)G(D7&0&nW)FG<ZMUByy(%9_V)"
    "E(D7&KY+>)^uafM:c)ctoO=#)mZ68&$i+>)%N4#)ioGDM5-W>Z^E^NhyIl<(<B+AZ<IEo*WJlZ)J(Ap#w]yCMUduZ)KJ<ZM[gY#)o-vZ)@Z+v$VoPZ)L:G"
    "DMd:$2_]-9BcWkLfauO#O_:pM]QyOLn^0QRP_Oj3V)RJIr]'6j0M&*WHa2jIYR*IEo*hUR])J(Ap#2^yCMfo[])/Hg_Mwv=$)4GEd%kiSbb^BjfMb9^0`W"
    "C*cty5D$)%[Yr%%6S])i[Yr%xgO^)FW68&lh`$)kh`$)/WyCMv#C_)G$%FMq`$%)>HC_)>HC_)[o[8&x;kj0fni$)quafMMC*ct*h6%)mZ68&1R($)b).%"
    ")FEiXM&@#`)0@kl#C&-%dot<S^lMq.i0Jl<(CU/Mi]:4V)yM+YeMT&1MGLiakMTcxZ*IEo*1mv`)J(Ap#S^yCM//)a)%K<ZMq9o%)[[)a)E(D7&(CS%)TE"
    "iXM6Kaa)7&mf%C&-%d(O=S^%3#;n0Jl<(dl8Yn]:4V)9H+JNc7CMM9vi8f/dGueLg3V)*iI]ZUxK&c-uSp#1b(3$>rSb)%[Yr%(Y^b)R(D7&W0tE))RrXM"
    "#rk&)7/c&)@Z+v$ApPZ)sPGDMN(Hds]-9BcB+Ofa`<G)tYSg'ccp=.%Z_+.%r7yCMuw/')`EiXM$-C')Kxtu(,[+v$uZC')L>GDMOk-/MX$LBcMMOfa@w4"
    "LM^)U]QE->hio.d*tOj3V)<l$Sgm&gFtV_E))[^w<('Nh')CpWfMBNk0M]_E/VbUh*b0IEo*HHJu)J(Ap#j`yCMFbSu)oxGDMh=6)kJV8&c$Jl<(H/Q*kL"
    "g3V)NHmFkLMh0MM,bZmHP,Ye/-6V)uBD]m2[m%cO:*t#)(qq$P.Pv)&eu6&KoYv)R(D7&.mcv)/TrXM:Q;))Z`)))9]T8odeGc%@^;fMElMT*507%)^mh'"
    ")Ex/0MJda*bWnjE)Tl+DMEME]Ql/`$'_3cAuU-dn%qik9)L^YBu6$-V)0qP+)ox'o%y>^u$A@Q+)@Z+v$DFZ+)U'm`M9cD8*qtns#eQZYnO=@Mi(;5;R/("
    "T$'iTHS*(m&LMeeGc%`w$FMig*,N()/Xeu(/XeCg3V)aJ/:)cWK1$3ciGteF(GX'`#FX4)0U]Y$9Y#W&0:)>>2^M94q:)f1NT*@KaJM)N8BYKCRxd_F#v#"
    "Joc:*E#E^M+W+>Z;YpoTW=t<(XO=AZuft<(8D<]Zuft<(s@'AQh/`$'s3cAuWZ5;)p7w;)5@OwQ$]Mo*]tJcOop^ir^^n<(7dU;*iIDaM7SIT]BlpoTl<5"
    "V)5sq;*33/-%q$e<I`[r;*'%e<I>X$<*<wGqSeeGc%D`;fM_c,<)Ykk9)oj>;)H4bhV_BjfMv]7ST672ctXy1<)t81GXxhHfW3(<eaT6I2UO3Z'c8bcq#s"
    ">y)&@tD<)@Z+v$]uPZ)bSGDMh`;K`_-9Bc^,`fayt:h`M7#4qWRE/VDQfunnBbKVuv_xQ:V1BP`N+DPShGc%PrWfM,AN'uFD42&5AX;n[hGc%2VWfMjGi>"
    "v7dJCM'####",
    0};
static const char *const diti_spirv_text_pixels[] = {
    "GZ1N5jsi^PHQ`6$=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>MYJh1q0`r6%/s$X$Bfbq%RXH3'OK8^#75H>#426P'xm0EM[)]a*:Twl'e@Lvdma7"
    "]#)$bx#8['EMXIP&#6En0(xm0EM^/]a*<gWM(e@LvdomJ]#*-&=$8['EMYLP&#8WNi(-;1EMoD18.yCT$'+b'EM[UY&#+6BY$9b'EMVx3U%A4pf)e@Lvds"
    ".p]#,@^u$8['EM^e0_#<%g**qg0EMsP18.+9-V)dt#@$CGPG*p#[;e'^Gy#G/1EMwiV8.;9-V)xf,L)CGPG*-/B=e++`:%Wa1EM$+%9.L9-V)5X5X.CGPG"
    "*B:(@e/PwS&h:2EM(DJ9.]9-V)JJ>e3CGPG*VFfAe3u7m'xl2EM,]o9.m9-V)_;Hq8CGPG*jH0'eu:+^#>7Gc*rg'EMWcs;$BJ'D+/T1EMvY18.yCT$'2b"
    "'EM__Y&#.R=V%8_'EMQ.I>#C]_$,vs'EM[os;$J0e],e@Lvd%gl^#/[Yr%8['EMc)i>$FxZx,up'EMZcaW$H3;Y-xm0EM's18.yCT$':b'EMaeY&#0eu6&"
    "9b'EM_u%t$KO7V.xm0EM*%28.yCT$'=b'EMbhY&#1n9S&:e'EMfvKC+Mbo6/nZ'EM)j0'+3)r3'<W(EMai)w#jKx20&nbO0qZR$'1Eu>M9%p@$,K,M1n]c"
    ">M,qH&#%^d-2w%#AMlhDP10pDf2%V$AMr#7i29=Do*7-oi2-Kk<(JtEVTkpCp0cik<(sW5TS.0qMWI;5>%#qR$'&:`@MCMPIWOprs&)Dl<(WehqSe)FB-b"
    "ik<(9('HWR+7t&#qR$'+D`@MG`cIWS1At&+Dl<(s-jwZ,9wy6VGk<(IjI$[yX>Y7OpR$'+=`@MKruIWWJft&-Dl<(x0jwZ0_7;8WGk<(<3fOVIl-.2eY%f"
    ")jGk<(Edo-aT%2$%bGk<(WYg9^N1t-*BSO0>qeVl11fVl11fVl1.JZo0.fVl1F,*P9*XgCM4tZq%El8]59#q@M_(]h1El8]5Hj(BMnA,=&El8]5Q()BMn:"
    "_]%El8]5T+)BMqP5y%D7o_4gpR$'1:`@MY[`JWfI9v&4Dl<(2:jwZ>1ag<hik<(isuwZADAH=dGk<(WN-$[CVx(>pik<(Wph4^S`Pc+rwDo*^2NQ#U5'CM"
    "v-PdZnMyWT7C,t0XGk<(2Xs([<DXx@cik<(VmO<M7%UQT>wMq1XGk<(:qA)[=VT9BM>)0vdik<(ZyO<MsTtp]Y<i(,8THi1[1Q<MU$2BMZ<#xBR]w>M%_n"
    "%$lLU@,'tR$'*sq@MmQp[,(3@lCf*)BM9&Ir(D7o_4+WS$'DjU@Mt1=lVIA0[-fEwLD8#hCMZStn&El8]5gm(BM:&-:(8THi1d1Q<M_[aBM5S;#[LwEiEQ"
    "pR$'<:`@MpjoKW*B/y&@Dl<(QDjwZZ%>KFrik<(d)NHWyEvJ#xDl<(>L.HW#L(K#@(l<(,F4Q^@O9[/0YM2a.^g='swDo*w(OQ#0pmBM4K;'#El8]5sv1B"
    "Mbe,EA^w4BM]3=K>Qe4BMg5;BBng:CMdV6##%fGc%9El<(7LH,a]SnxIxCl<(9RH,a_fNYJxCl<(;XH,aax.:KxCl<(=_H,ac3grKxCl<(@eH,aeFGSLxC"
    "l<(BkH,ac@Y3MoKGDMXg,M#V:$DM:t4M#SghXM@#>M#B_t3Omw#MNl0WaFnW/1:BiSw5KTHi11TOM#=Z9DGDYNC4KTHi15abM#iomi15ZXM#UF-FMGN(N#"
    "Q$6YMHT1N#9s&N#=Z9DGJ`WC4KTHi1@(9N#iomi1@y/N#J:GDMgfWN#R.$DMIs`N#f(6YMNyiN#:NFM#Jlb`4G4LN#/4NfMp:1##C5>uRNq&8SReGc%8Y."
    "gMUeGc%l4IYMR:7O#8NFM#romi1K4LN#Z(6YMTGJO#vo;PtK<RO#[^w<(rXZmTReGc%9AafMlj8atI<eO#:Kaj1YlHO#]3wO#pghXM[r3P#aQ1.Q8-Y0W@"
    "LIkVY@;T];UqMWbGo+WXQw<(f9)P#[^w<(e9)P#A:WfM3ge(bm/svUtb,V)>+0EXGolXMYfxO#Nl$,uI<eO#H78eWSO/J$>;DnTq'T$'EOe(bknm^Tx/Eo"
    "*EDh%Y=1T;M8UmFYS4UT7<.WUJO(+DMQ.*Q#Lj>m0tksP#n%mXMfX9Q#*T32blnQ&Tq'T$'X[1K`;kMCZFm)5Kah3V)@,@QTyb.DMC&:O#B]33L`aSCMjb"
    "UQ#p)+@Li4)21xejP#x,BQ#i:GDM.qiQ#$S%DMh&rQ#k:GDM0&%R#.r%DMj2-R#/)6YMo86R#mW+R#iomi11LpQ#-hhXMqEIR#qlHO#CfOOLB(T$'mTf(b"
    "1WxL#baSCMu;RR#-IuwL$Y.gMfy#J$Iv1.2b/=H2@2_L1W:WfMNYJdaE=`O`XN3Qg[Lxl`D72K`^rdyPQuR0aqmNm`tIl<(q.Rj_;B^0,)a.Ha9ujZ#LSC"
    "o*irN>#CkOmgR<tIbKlf(bXwGc%tZJCMtX,V)go2##EjS$'$>Rj_OL+GcReGc%&#yCM'W8T#ie:^M5yBT#n(QJt#SJT#[^w<(_7ST#i:WfM^0KdaW/$]eU"
    "Fc%coPkye,VE^etIl<(;_WseShGc%g:WfM_3KdaZKwXfVO'Bcaa;uf0ovs6it`:72W7w50#yCM2DHU#VQe=MC`QU#3uHU#KTHi1fp$T#Zpmi1vuXU#rI-V"
    ")JWPmgHrV%uvFJT#n0'[ddfh0,F,t7fmMLjhC*3Zv-FuU#n.PN_Bj+6_f#io_cM0PijiS$'9(Sj_aGC0jReGc%9nfCM;'NV##Jl<(YD-Kif95V)iua(k)("
    "PfMdn3##6vVFk7IyAlReGc%A#yCMCO.W#@Kl`MHU7W#Zf=kanRJCmk/d%c7T6bmF+c(mq'T$'@*@W#.N(bkReGc%B#yCMGhSW#@Kl`MLn]W#_f=karwb[n"
    "hkg(b5qLV#EbSCMO&pW#bOLV#oTX49NdJw5I)+DMUZRsnShGc%&;WfM^_o=v7dJCMtX,V)8<4##EjS$'McSj_xam9pReGc%MnfCMSQPX#xCl<(K5I8%nW/"
    "1:c*Ek9KTHi1Z#bX#KTHi1V[2X#nW/1:h<%L:KTHi1a5&Y#momi1a/tX#phhXM]yCY#`B8Y#KTHi1]b;X#iomi1hHBY#Z)+DM3f5)*^Qr2q+F4K`4+CIt("
    "qImpiE4ZvQo^Y#n.PN_1(_etet_o_0=Z*ujiS$'J6<atU0,Z#LpDf29ED,a8orCvoKGDM*YJZ#_S$DMdfRZ#g;GDMXj>i#`V$DM:wGi#W+6YM@&Qi#SFFi"
    "#KTHi1OipY#oomi1/TXi#@=GDM^1ni#aY$DM@>vi#bJeYMEE(j#2gti#KTHi1TipY#romi19s/j#[7IYMHWDj#2HFi#KTHi1WipY#romi1@.Lj#:%yCMGj"
    "`j#c;GDMgijj#b]$DMIvrj#f+6YMN%%k#GGqj#oomi1G:_j#J%yCML17k#'6IYMQ7Ak#JGqj#romi1P`>k#I%yCMODSk#*IeYMTJ]k#MGqj#nW/1:imX)<"
    "KTHi1Xxdk#momi1Im&j#ljhXMXc*l#SS,k#momi1N(Cj#cjhXMZo<l#XfHk#momi1GHFi#g+6YM]$Pl#cFEl#momi1T4Uj#cjhXM_0cl#gRWl#iomi1kXa"
    "l#Q++DMt>>NUr'T$'r]jl#Lj>m0^W)X#w(>Z#Mc=FXMBjfMH]/m#F=WfM>Gk%cRGYIY:uila4R1cY:Mk%cLsx(Zg0SdYuIl<(NumyYAv3V)IAu(XwP_%uS"
    "&&m#L]P&YThGc%D=WfMspFdsC2.$[xRUaXqCq%YYwGc%a^JCMtX,V)S7;##EjS$'h^Zj_:Bbx[SeGc%hpfCMnEIn#xCl<(f0P8%KTHi12R+n#nW/1:.nX)"
    "<KTHi1:wcn#oomi1:qYn#o%yCMqa)o#3KeYMvg2o#=&mn#nW/1:0R],;KTHi1E>:o#nW/1:4e<e;KTHi1IKMo#momi1IEDo#v%yCMx4ko#",
    "18IYM&;to#MW`o#KTHi1AX4n#romi1Sj$p#$>GDMDG9p#_S$DM&TBp#C,6YM+ZKp#K%Ap#oomi1Vdro#8khXM-g^p#[1Sp#momi1`7]p#<8IYM/spp#OQV"
    "o#iomi1c=fp#NKeYM1(,q#MQVo#momi1hP*q#BKeYM34>q#OQVo#iomi1kV3q#3>GDMP9Rq#fi$DM2GZq#O,6YM7Mdq#ooXq#iomi1tubq#s++DMVU(;er"
    "'T$'U$lq#Lj>m06X)X#4kPn#(@S2hdy#J$EQql0*Fu(3DWve21XACM7u:r#&ekKisCl<(4LQ8%LpDf2r'<&c.bTOj4P1lahl,ijn8m%c0t40k5V:laj'eI"
    "k1nEHNp<)fk2'/EkuIl<([AVjhBy3V)gIg%lrEm%c5Kiel8iVlaoUA'm6&FHNuk]Cm<ecyluIl<(bYr.i;g3V)p&(>mt2Udas#Y@n//y%Py8u[n>RKakr'"
    "T$'7Cns#G4q,jsn<K`#<uwn;xIgim5m%cI*QAo<*%mat5UXo@HbdN#LqtoMp;To&$-V)l2R8%rJl<(';t4p<j3V)'5XpoiE=ZvG4kt#n.PN_395*Yet_o_"
    "$&j6qkiS$'>oEatJG/u#LpDf2.HD,a,W*Prj&gCMZ(Mu#xCl<(RNR8%LpDf22HD,a0%Cisl2yCM[7ru#W>GDM$7%v#V:$DM^D-v#N*a^Mlf6v#nm+v#Ov'"
    "CuMBjfM+UB^ur;FatV9Hv#W2$@>L^YBuV/`$'tWbAu`MnGvtBFatXFZv#KTHi1k)tt#amn/r92Vda7o6$w*bq(bO`Bu#aeSCM@qY-$g88u#Cd7gMS&KatW"
    "@Qv#*.LLMNBjfMgVn-$y@WfMpmZdagb_0N*_q(bPfKu#=(yCM>;(.$T,+DMUdFHN#0Eo*.16;[eLi+sYwGc%&AWfMojZdaj&[-O*_q(bRr^u#A(yCMBND."
    "$T,+DMZ.CEO#0Eo*X<ANhieIdsYwGc%=aJCMtX,V)Gm1##GjS$'/CKat:D_.$LpDf2vID,aspo'Qk&gCMK%%/$xCl<(CyW8%LpDf2#JD,aw=0ARk&gCMxb"
    "K/$xCl<(t.X8%KTHi1G.U.$P/]_P&Tw(b@]q.$W0Eo*$(CTo@x$#QvIl<(u$)&Ps'T$'Mxm/$SKX[QLsUCMVJx/$IB#/$I(yCMRY*0$E.+DMZ;QQTs'T$'"
    "w+WT`*%)rTKJivQ5CamgY=3;UUB55TQ[]ZQW:OWUu:F8A=@8=@a@E0$5)T$'WFN0$T/Q>@Eejj0SDl+IK@8=@eLW0$STCo*us`>#`qv1q[uP5W1vw(bF*R"
    "/$@:NfM(pD##x`_$,me%1$H78eW`^n<(k222U.<6V)u1')X`.>^MBEN1$r=KXU<wM+YtGh%uQt%1$G.tHWffh0,w(>#,Z,T1$B:NfM/.E##W@`CY$oZ^YT"
    "eGc%hAGDM,k$2$yL%DMfw,2$'nhXMk&62$Cv//cSSUB[mXk%[bYh0,ZU7;[2o3Z7Oo0_YTeGc%H:NfM6DE##$%[x,2eP2$Vba8]vIl<(rtusRBguI-:0PT"
    "]1]%[#e#+DMx/kp]UhGc%PAWfM*T0EthAv2$[^w<(XH05^TeGc%sAGDM7W33$$S%DMqd;3$p(yCMrjE3$^mhXMwpN3$A>D3$#J+VAvfQ/$dmmi1GKV3$4U"
    "-V)t=)/`oT'aM$2t3$IEtFdOrnLaJV%,a7U-V)wG)/`pW'aM'E84$h<jIdR6kIbP$y(b,66V)*:=Eb&rJDM@4U4$#BO3$0oo&c9Gi%ud4v2$Y&^5^W/`$'"
    "9ZbAuGcsac:DMatuFf4$muF#dTeGc%d.;fM6py4$<-RZdMsPT]ej[AeY>pdEw&nXeG9F###uQ<egTNWeTeGc%0BGDMN0R5$%V%DM0=Z5$3BGDMP<e5$)c%"
    "DM2Jm5$O/6YM7Pv5$iuk5$iomi1qiX5$3)yCM5]16$^mhXM:c:6$v006$^r&%58aH/$*)yCM5fM6$;BGDMPIW6$>3;6$Dpt/i(96/MYw'`d-f1t6muF#dT"
    "eGc%mGafM@DMatt@]4$aE0/`S0###",
    0};
static const char *const diti_spirv_text_group_norm[] = {
    "GZ1N5jsi^PV$1c(=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>MpV#2q0`r6%J,HQT8gv.`YJCEO#,DK`u1JHW2q*t[l;g^usd9k_U`Co*:gH>#'il"
    "<(etr;$^>fCP]q@=eE`Cj#e@Lvd<GCj#(il<()NY&#_QF$Qe9LvdK9Ik#xm0EMwG:##D9-V)3i08.yCT$'/@^vdNLek#8['EMDyhW-&il<(;5d/((k;xZ]"
    "q@=eg%qm#e@Lvd_dpm#(il<(KNY&#)&tX[e9LvdmVvn#%#1EMBV;##D9-V)Ui08.yCT$'Q@^vdpi:o#8['EMf0jW-&il<(76d/((`R$vILc&#v-`#vqa'E"
    "MWd0t-&il<(GRlB#V_mINSxY;eAJ0.$e@Lvd810.$(il<(%QY&#Y#jFOg@UvdJ6R/$xm0EM#HD##9['EMtY$[#hM:rSg<LvdMIn/$8_'EMI<=t$/9-V)Wl"
    "08.yCT$'SC^vdrx`3$8['EMh9sW-,9-V)Gm08.+9-V)Hs98./9-V)IyC8.39-V)J(M8.79-V)K.V8.;9-V)L4`8.@9-V)M:i8.D9-V)NAr8.H9-V)OG$9."
    "L9-V)PM-9.P9-V)QS69.T9-V)RY@9.X9-V)S`I9.]9-V)TfR9.a9-V)Ul[9.e9-V)Vre9.i9-V)Wxn9.m9-V)X'x9.hDT$'CD^vdY>BM$<W(EMj,l>#(il"
    "<(1's;$+#F]ZLLc&#yHR[Zta'EM^'Jt-&il<(Nd0_#=0='cG.Kvd&l<m$:Q(EM&5[t$/9-V)4v08.yCT$'0M^vdO`g5%8['EME29X-)il<(Io`W$vxlbtS"
    "`4;eatiS%/T1EM8>m##9['EM2QM[#y<i_uk<Lvdc)%T%;h'EMrojt$+ll<(ul[a*])WfNOLc&#SOdeNwa'EM:vdt-&il<(.1-[$f:Z9SNGpvdd1:g%qd'E"
    "MT5IR&Ail<(AMH>#B@R[#Ub;x#L%k<(6/1QTma]t$IZR$'fDu>MKG7<$e:Rl'V7q@M]<Yq%:qIo8]f(BM96),#O$k<@[c(BM@_sH#jZYr%Uvtnb<,)BM-j"
    "f:MJ)3K$jZYr%t1Q<MPi(BM9]'<M]Yi&'jZYr%dvtnb>k(BMu80N#oRruOeik<(C7UdN[:1:$jZYr%63LurQ#vvZXR)OUNuaqdP*)BM/KwO#k%bUvdik<("
    "[cSvmB<Wm&jZYr%w$w@`p;vvZ$0sHaRc1BM_kMS#JKDS#JKDS#U9N)bM+k<(OWVS#eik<(xb#/MwFL:$jZYr%v)7ZN)6vvZ5v@qfe+4wk<i(BMouqV#cik"
    "<(]r_+s)KX:$g>^u$mFmvZ^3GEtUi(BM92,Z#fcbsvQpR$'WLAhV<GCj#%xp@My@+n&BpfCMNrryPHQb>M8QL;-bik<(DAhj#UGk<(wp/r%7+QUSKv^@M]"
    ",LTSWGk<(_chqSsCl<(Vxdk#mik<(O-wk#VGk<((U3u$NHR[ZO+_@M26NZZWGk<(4)jwZsCl<(,R+n#mik<(f^=n#WGk<(C#L6&YV'3_Ly^@MIg#2_WGk<"
    "(K7>O_sCl<(C>:o#bGk<(K_O9%fBu_c1c:;[0$Kp#r[f%AGtWX#J$D_uO+_@M*_B^uWGk<(,^Z#vsCl<($;dv#ZpR$'QC.hV810.$x#q@Mu64n&=sfCME:"
    "HEOQ+U@M#A8q%7y49S^AFHWLCe/$,8$,aLCe/$gXALVkYD3$UsR$'C>D3$d3I0`C_M3$(4I0`E&6n&:tu*v8:St$;:St$>:St$;:St$+W]HWahv:$=w',a"
    "ahv:$/rMwZDf_j#xJSHW8(uI$`o(BMM]v%PZo(BMZ&,5TWf(BM^B(2UDEt>M1PFt$XGk<(hxMgVuCl<(mqAM$VGk<(%o$t$CZb@Q5<'U%CZb@Q@bCq%n>^"
    "u$Y<QvZDf_j#(2jwZDf_j#veJLV`sYj$XsR$',_Yj$Vj;xZ9xcj$rj;xZ;bHn&n>^u$J83Q^`K/M$^D3m$[t4BMqMVq$JKDS#mB%CMIu0/%<7X##SsW<[v"
    ".3/%X%tX[5u9/%t%tX[7$y;$]J4r]t)h&[oxbQ^j&^m^yLC2_C-@m$rwDo*n)J)Oj93&lbik<(>/24%oik<(CHW4%^pR$'dYAhVIGT5%1.q@M.sSn&N&gC"
    "McA&qoc*)BMiQ^%uR.q@M=7Xq%kSS$'XPtM%G`GbtS(_@M)Xtat]Gk<(+Q_&uxCl<((g$T%mik<(c[-T%_pR$'X_AhV=`dc%&3q@M#Vcn&C+gCMJYvEOe*"
    ")BMLSZaOqejBM*K7e%aik<(Ueoe%kik<(Y&=f%s'l<(-Js##fRK-W=08@#n>^u$IEFm^&GWS#AIKQ#IFLv^&GWS#HIKQ#FrJE[@.Nte-S;jG1.]0,%:X$H"
    "x.mG[BA.UfIK-bJ:.]0,C46`P<cM^P_6$;[DSf5gtGSgVdGSgVo,]0,V)[0V`.s.Vpk$;[FfFnglm:NU[m:NUo,]0,TbCoTWTZmTl_$;[Hx&OhU=k#L>.]"
    "0,:te3LSUH[_j;N;$L>WfMnwfCM+C=.'+$-V)4%3i%LBAmauXZK`YRL&c<4uI$=V(;$H%yCMS;Oi%=&iXMXBXi%TDOi%kiSbbSBjfMfRlEbGi$btv[ti%P"
    "R#1M(>vZv<;`daaOCBu`V_)Oge_^uAc[BuK+4V)DQrHaFpN&c<4uI$ZX(;$E+yCMp;Z'&_A6YMuBd'&bEZ'&PR#1Ma:$[vADSdaA5D)O=.LhMHT$bO>1Lh"
    "MVxZ0,iV@@#^YDbO-$-V);oV(&l1;L$y>^u$L'W(&PR#1MhP$[v,dedaHvW>QIid)ON4tZQOOx>Q-$-V)c6.)&05AmaK:T;Rk+H&uHOA)&7R/XRlfh0,uG"
    "i<R57f5T&U8U]#:WS#'%B^(2GEfMjZ#9SUBjfMlv1RTsA5btNtx)&PR#1Mtu$[vBMfdaT6I2US$-IN^haKVc]_)OCg3V)qr*LV$aS&c<4uI$$Y(;$t+yCM"
    "9S'+&(B6YM>Y0+&x^'+&@Z+v$t,4*&*B6YMCrU+&vX%)&@Z+v$+k9+&.B6YMG3$,&N@%)&Y[Yr%6>$,&TFe;[ZeGc%QA;fMZ/T^(,`x)&p[,/&i5vv$wZ6"
    "ZTsmNwdtL5V)HK[,&r9N(&x/2ueS_&$#bEpU]^>JteZeGc%ZYafM57-btjln,&lQrs%ZJT^(U$U.&iA;fMh1:`(Oim>dU41U]#:WS#Z<:`(3GEfMs>6_cT"
    "BjfMVMEk_Ku-bto3F-&DZ+v$O+K^(%)iXMZQ&.&EVt-&@Z+v$_]&.&r>;^M>At.Vc$Y>>TLR[ZUBjfMyo3LV'a5btUKuF&ePQ=R]2g#QwG2Eb%Jl<(x6l,"
    "W]hGc%SVWfMExyBcdHYEX:Yk2U*IEo*qd_G&NAhj#f=yCM>uhG&4me=MEstG&isjG&1[+v$Jl8.&5J-V)1<)CY/(R&ucD@H&Q3-[Zmfh0,FkrIW)3%@Z[*"
    ":LM/tkBcenlIadhGc%lSWfM#-n/M/&L>d<$_3UThGc%ZSWfMK'J&u(@,/&o9CwdCg3V)Q^t>Zvv^%udG6,&rU>teK(4V)Ys8[Z8+I&u/km/&v#W5glfh0,"
    "VClIa]<b/`%03es#+Kt[i/Wse;4dLrlfh0,;:y@>JMi3&QLs^Mv(0NhtgT'PaQw<(sAV3&[^w<(16E0&GTWfMXOJ&u58N0&%[O/ilfh0,RD$V]T.=npp#3"
    "es+u#O_tc1lhbuY2qlfh0,CPy@>O4D3&MLs^M%a(Hj)T1]QaQw<(k(13&[^w<(=[%1&CTWfM=>/INI_IBl5@6fWCg3V)f7=_Y@)o/ML#F>mtFj5^v95V)I"
    "TwH&PClMt$uKJ&[^w<(Ev)I&_VWfMTI_&cO9$k#qMUj#Jvo1&%[Yr%K+<I&g=N)b[eGc%'gl`MU5bI&UDwk#p_&mU*7<RToTYj_&Jl<(Qfj/`SSCo*BGK@"
    "#CCWwd&*WHat/et@9t's%[V&J&g]afMCc6btwhKJ&lQrs%SGFI&RiBJ&=>-YM.F42&l)e/&Dv's%1%m_(uje=MCw'3&Em52&01(`(@<M2q",
    "ZeGc%s)iXM6)D3&-]wk#&[O/iZeGc%DZafMvK/btS<V3&@Z+v$28^^(:DafMR6.btVOr3&PR#1M%8([v1vnda]*+)tCgW&c<4uI$'Z(;$_.yCM<gI4&+C6"
    "YMBmR4&AoI4&@Z+v$(a-4&-C6YME(o4&xdA^(@Z+v$0(]4&nTGDMPsFKMoNpZQBg[)b;YvC&R)iXMwQ1D&e.xjOIT`)ODNGxZ1IEo*H`VD&gJhj#FD+DMH"
    "`m)ODg3V)hM-[v;#XdNP=t>QGjCu[S(4V)Tb*@QgUi,NSYp;R)WMxQWxZ0,uuI@#Nd)Ia)IEo*SLfE&gJhj#LD+DM_8CXR]hGc%;VWfMF)g2hSllTSK6X#"
    "#@Z+v$((B^(=]afMk(,btO&=F&iP.bbYeGc%kJNfMUXt##wXU@dr+^8fYeGc%mJNfM'/:$#XKI@>$WWfMuT`&c<4uI$Y](;$U+yCMo9jL&`QIYMt@sL&sB"
    "jL&IZ+v$xPXi%EWGDMBty(kr,95TwIl<(@U^)kJy3V)DhyEk#_`&c_QKM$^-BM$sJl<(J;:_l.$-V)>.4N&tfAi$y>^u$RB4N&PR#1Mla0[v<;`daK;^Wn"
    "Lg8INQQysnIQ2Xn.$-V)ESlN&x'gi$y>^u$_glN&DZ+v$_acN&o,iXM2k0O&Zs'O&DZ+v$`8XX#`,iXM5&MO&f.DO&ePQ=RwC$<[R<m1q&Jl<(lF(Oq]hG"
    "c%EWWfMt5<esRpWkWLi:2h6_jCYnfh0,hX=$m_%'@Z;>CU]#:WS#+ON](6KEfM:F2CYVBjfM,XtEt1+@btZkRP&@Z+v$uacN&0Z6YMwTD`&wmuN&@Z+v$J"
    "J=N&_.iXM$ni`&T0DO&PR#1MeM6[vs1edaCH$bO-%g&c<4uI$f_(;$j%yCM$/7a&jG6YM,H]a&jF%a&BZ+v$T@7a&voe=M6Toa&3.&a&pG6YM0a*b&S1pM"
    "&Y[Yr%aq*b&ePQ=Ru>*<[@D#)O'Jl<(g%)6THp3V)j4ERTTdx/M[U)kUq(tt@ePQ=R$R*<[UW`jU'Jl<(sox/VFj3V)qV%3UXr'0Ma,^HWIv`&l)IEo*dZ"
    "_c&gJhj#dAyCM@uhc&JSNfM/JA$#XKI@>IZWfMSUs2hdIG)t6ro$#Dv's%*yel&NjA_MIG6^uFQ6IaU/`$'(tbAuhN<m&5SXm&Np9#v^hGc%I]WfM^ts2h"
    "D/HhM8$4A#Fv's%^gCc&hc[YM)/7%'s2*m&Zf@t%Gj')3G97%'Zh-FM2g3&'ZIBKMVul8Sp-#*XJv3V)S'--NEVdeN]Ue2Uu7h)t]FsI-+M]@#-VEFOK,^"
    "ngI>@RVo[S[Q'gd&uXd_''Es;hVofh0,m06fW/BALV32_&u`46d&MflBY@U-V)J9,Cc*chXMH@Rd&2W@d&DbeKr[eGc%rYGDMH&pW[p@/#m#(T$'9WW](u"
    "07'lco:Q^XhGc%XYWfM0sCeskW=)XGqsZZoHI_cr@5V)KdEe&#bP1t1eZg&CsbAus9Fe&_UZg&Y&^5^vL5V)O%ke&nZa](m$4CcVBjfMVM;O_Ku@btp@te"
    "&@Z+v$*>+N&lSyCMAu`f&uYGDMYl<)bJGA,a'Jl<(G`l)b`/`$'S('^uY0@gY^eGc%)i-FMLRn('jT[1hnMNwZPR8$#Dv's%<^n('hmA_MQ8^s[Po<IaU/"
    "`$'1vbAuq0F)'H7b)'Vba8]_hGc%&^WfMg:#3hv@'R^Q[T@#=t's%Yx^f&=p3V)N:IR^$_bbO'*;h`>/4<[^FsI-Qh^@#(%^h`oG#3h/&0_cP_p[#=t's%"
    "l-qf&<j3V)oQR_c1tfeN6^(XeTVEO_Kv3V)$EKXes^y#QHcxQg/4EYfiHN[dDwEo*GK5<[yYCRg_hGc%&^WfMU6NesT+8LXX%(9]jxiq]%(T$';dj](kcf"
    "Bc]eGc%Tt&dMF@^%l-1-&u&9>g&kl*_cKy3V)Htr)Xd<W%uhf)e&n0'[dq<5V)cCmg&]UlMt1q(h&[^w<(xhvg&uYWfMP<]&uP0`k&rU>te/$-V)^e1h&j"
    "Mhj#bqIo8'u1h&PR#1MUw8[vq2#ea3m@5guNi&c<4uI$W`(;$G2yCMm0jh&[H6YMr6sh&5@jh&@Z+v$10Nh&Y/iXMvOAi&O1DO&ePQ=RJ1Tqo;nOgi$(T$"
    "'XD`O&@Z+v$BbAi&9V-V)77>Ufs8GDMXg(BlXc$[Qw^m)bE=4j&e/iXM)6Gj&90rV#=t's%>$;h&6U-V)>M>Uf8<[YM1_uj&Walj&vLrCuqm9[v9;$eaPa"
    "Y8oMWFLMVvuTo^Dt8oTSCo*y.V@#kGZbOX1V5pGqGk&ePQ=R]iTqoFs`yl$(T$'g.Mk&>31np]eGc%BaafMJr$bt+O5k%P(D_uYHsfM-@U0'CbeKrAU-V)"
    "B%8Cc.$6YM>dn0'=fe0'r&QfWvMFIWgu$DM<p)1''3iXMBv21''.*1'PR#1M+TD[v)Zeda`F'&ua440Mf[CBu#iv2qAy3V),8,CuZ%u(Oj)[Zv/5H_uO+4"
    "V)[^4FthcLINBt+hMc^4Ft%$-V)9o6A'm1wk#y>^u$H37A'PR#1MfVI[vADSdaB>`EOI]QINHT$bOKuMFOvF5V)$.fA'pJ]A'43]_PXBjfMUFJCPn.QbtE"
    "IoA'Ngu^u_eGc%lA$YM/aFB'e%%A'S1vv$=U65/e'_Y#PR#1Ms'J[v,dedaO`lTSX@2*OUu0qSwBUUS1$-V)L/0C']324%y>^u$mK0C'FZ+v$,bt1'P`GD"
    "MYB6/Vhd5BlyIl<(r$40VKs3V)ruokU]':0M`#B,Wu$lhV1$-V)Vm5D'-olN$y>^u$*26D'PR#1M,YJ[vKifda`EuaXg_RINfZ9&Y57_bXGg3V))oheWe@"
    ":0Miv5#ZhUrhMb/`$'1ybAu)'uM%>%OE'P*i>Zr95V)t]6]'PClMtMqO^'[^w<(D3A]'3cWfM)1GCcD/dHNBH99]*IEo*lx[]'eAhj#JJyCM'>f]'2iafM"
    "l:ZbtC@o]',[+v$rf)E'n=GDM/I<BP%bTZQ%pjeaGj)_PG&43hQY4tRwrR$#LU^=@Z0ps6mn-FM67C_'KHeyPVy6>T]5.wSCU-V)gsH9S.B-FM<S__'Cde"
    "1h[Ue2U+=S$#=t's%rWL_'<E^0,pMaRTsVA3U)mv&uIeO^'3-o>Qqfh0,ctW*O_%xkUm1v&ul-tE'SFe;[Gg3V)5k.$Z7skXMNnja'd5rV#@Z+v$Ag)E'e"
    "A$FMaW+8]<q][ZFQ'u[[xZ0,AFp@#455Ft:g3V)>//$Zu)%iMu6'n^No9u@U56acIMwn^TJwn^+55$Q0$Kp#fX65/Pigb':X+v$[opb'e95V)o>fe'PClM"
    "tJ`9g'[^w<(9noe'-dWfM#q-'cO9$k#@ZUj#&]4c'%[Yr%@#+f'1j$_l`eGc%Msl`M$xOf'1Swk#p_&mUP_cRT9)0Hj*Jl<(BbgejWSCo*hnq@#ij&xdHU"
    "-&lT*:u@9t's%PNlf'5jafMi2^btFS9g'lQrs%]14f'Ga0g'[o-FM`(Zc'6goDt_,Fi'[^w<(N:$h'BdWfM7W.'cO9$k#TZUj#*uYc'%[Yr%iG6h'FtE,s"
    "`eGc%bsl`M8E[h'5Swk#p_&mUeEdRTN3Qmp*Jl<(kR13qWSCo*%Ur@#&Q'xd]`NKrX6:u@9t's%yrwh'JjafM&q^btZwEi'lQrs%rU@h'p-<i'po-FMdA("
    "d'7mxDtHU3y'[^w<(c_/j'VdWfML=/'cO9$k#iZUj#.6(d'%[Yr%:lBj'.MvEOaeGc%vsl`MymIx'9Swk#p_&mUNZiRT6d*/M+Jl<(<AhLMXSCo*fjw@#g"
    "f,xdE8(eN^C:u@9t's%LFfx'3lafMg.dbtDI3y'lQrs%0#Lj'nV*y'-p-FMhYMd'8s*Et]y>$([^w<(L0uy'@fWfM5S4'cO9$k#R]Uj#2OMd'%[Yr%e>0#"
    "(CW@kUaeGc%`ul`M6:U#(=Swk#p_&mUcAjRTKnKTS+Jl<(f12rSXSCo*#Qx@#$M-xdYCI2UbO:u@9t's%ujq#(HlafM$mdbtXm>$(lQrs%",
    "rK9#(l%6$(mk$FMvr`d'y7e[(&Ew[(U56ac9GN<R`;C<R)_TU]$AaS#Fa8u#'02^Mw97e'(*ad'_AafM7JRbtl-tE'mZ68&*K)](EH7e'dS+DMb;ILVdhG"
    "c%_`WfM64Vesg2&hVHlvE'/j^F'(0g*b1-mhVu+q)tS0VK'8ybAu#lTF'0(VK'_T9k_Gg3V)u;shMh#X*O(<7)b8=xqSKs3V)ak'*bK&%/M*OoabHiBFb1"
    "$-V)>0YbkHl/fa,#L#do;$'cO9$k#<Wg5%,'ZG'%[Yr%xn:H'Fv's%wb(H'P5iXMlo`H'd=0/cO9$k#BWg5%6e`H'%[Yr%+6jH'Fv's%)$NH'U5iXMq67I"
    "'%6rV#ePQ=RCyfqo4-;Qg)Jl<(1DingLv3V)/+mqf&h$'c<4uI$]f(;$g5yCMrUfI']5iXMxbxI'y$#G'ePQ=R]/P_u<nOgi)Jl<(@C&-j1$-V):vFJ'bW"
    "(d%y>^u$J;GJ'@Z+v$MBPJ'-aGDMXg(BlOF3[Q#hdeaHn)_lTY-$QYQF#m6l<ShL5V_l&(T$'7a'K'@Z+v$qK;](:DafM9PRbtKoUK'&eu6&V>=.'(tt/i"
    "[HsfM;GZ%(No0_Yt95V)GWj%(hmCNt%3Z'([^w<(A1t%(ifWfMu.v[Qq]s;[E:9<eI:4V)([$un/IWdNv3Pq]-[$un_FsI-HRy@#Sb$un_-f[Q#Yh2_nvF"
    "9fRFsI-ps#A#3q*ueI7R$QNq6bk$d)GkJj3V)n4cUfQv+fN'')L`R]A0`bhGc%,gWfMK^p[Z#:WS#5i7e%&5NfM[)_$#n]aIardj[daeGc%V:<ZMgJ1((6"
    "d]T#R(D7&=4`K'mQe=M9)-,(ODD((WV68&@Srp.Ln<b(R(D7&hG@,(cmqXM;Ne,(OYR,(L(D7&Sh3b(-;<ZMD(X-(mxEP#E(D7&^tFb(2&f=MUG/.(S'y,"
    "(_#Pb([o[8&bt')3&Y/.(i+f=M[lg.(S'y,(g/cb(I(D7&-mw,(]1&KM$2o<(wZ@YM*>*=(VI@,(S=i7&)Pb^+73&KM#0'c(>&f=M:WO=(<T(c(Aj3b(je"
    "u6&VkO=(19+Gb-S='cF_)>ZUP&@Q[bfCPMVqLM25U#dIDn@QOv3V)n;VFbVF*'u;pF*(n0'[dt95V)gh-)(Y1XX#w)EUfZBjfM*KgXe^Ufbt0,7)(R(D7&"
    "g6`K'uGsI-*S*A#qWcOhpa5xvV<6RTh;G$Q`_RnT<v%TTKj3V)P5kUfgt.cO`nNkUnEVOUchGc%,gWfM^=q[Z#:WS#Hi7e%A5NfMhN_$#)UJ6g9][OhaeG"
    "c%i:<ZMII;A(kA,Z#[o[8&Z5kj0e7lb(37&KMIbaA(:(f=MRhjA(K>bA(E(D7&fj3b(9p[YMQ#/B(%)&B(&[O/iaeGc%+mafM_nfbt;pF*(.Ah:&H<Q'(^"
    ")j((G5[@(b4/B(L4`K'ET+DMdN)-W5$-V)IuqK'sioe%y>^u$g:rK'PR#1Mv1M[v413eaR%rmpY7UINX:62q(oZnpGg3V)f'hqoWp<0M[V2/rZ.uhMb/`$"
    "'&#cAu)'uM%%4<M'CbeKr)Jl<(bmZbkq95V)LySB(vNlMt%6mC([^w<(KV^B(ciWfMXnZCcqifT]6x;9]*IEo*ED+C(aBhj##W+DM;4:-s`hGc%iiWfM^&"
    "[Ccv@C2_6x;9]<B^0,=W:-s1QM$#JSCo*Ow+A#QghRg.VYjb(<x,sn-wyP.e3&c/NGgbDR-V)h/D*bsH@'c%Dao#xJC.$$VGC('s#0`VF3'ux)mC(agqK`"
    "chGc%QaWfMBZeeacU0btp]U[Z#:WS#S2:g%T0`$'',cAu55.E(GS[H(n0'[dEU-V)URobtt5GDMD]_se[R]ZQ7T)*b5H]E(+IN^MpH7Tf+T/u@'kXkh[Bj"
    "fM3+1rfgqobt5NxE(@Z+v$WueL'9V-V)^kobtu8GDMLO7Nh[R]ZQpWD*b=yOF(+pafM_qobt;sXF($0g*bFua<R^*wDtI`UG([^w<(FHuF(5jWfM=;X0MC"
    "'QHjfmv&l5U-V)g/pbtv;GDMUK,Ek[R]ZQysD*bGYLG(4pafMh5pbtESUG($0g*bO9b<Rn[wDtR@RH([^w<(X(rG(>jWfMGWX0ML#F>mvR(3q5U-V)pKpb"
    "tw>GDM_Gx:n[R]ZQ+8E*bP9IH(=pafMqQpbtN3RH(KKyatbeGc%`yl`M6>nH(iPwk#=o+>@$PXM'*W>>#OpPv$[jWZ5bjGDMr[Qmp)k^ZQ2NE*bXk;I(NI"
    "N^M;&*NqZJs&lU/`$'&,cAu`,OI(+fKJ(AO-kqJg3V)l<hUo3FuEMH)2J(/GXM'5Ue=MH78J(e#1J(p_&mU;KiL`UkIgr)(T$'0Y8J(JB^EtbeGc%RpafM"
    "-5qbtbQTJ(M^YBu_eGc%RgafM-,UbtbHtM'p9CwdYeGc%pVafMC]$btwb&j%aE0/`S0###",
    0};
static const diti_spirv_module diti_spirv_modules[] = {
    {"gemm_cpu", diti_spirv_text_gemm_cpu, 7036u},
    {"gemm_gpu", diti_spirv_text_gemm_gpu, 6618u},
    {"gemv_gpu", diti_spirv_text_gemv_gpu, 5340u},
    {"attention_cpu", diti_spirv_text_attention_cpu, 5511u},
    {"attention_gpu", diti_spirv_text_attention_gpu, 7122u},
    {"norm", diti_spirv_text_norm, 4752u},
    {"qkv_post", diti_spirv_text_qkv_post, 3076u},
    {"expand", diti_spirv_text_expand, 5003u},
    {"elementwise", diti_spirv_text_elementwise, 4459u},
    {"pixels", diti_spirv_text_pixels, 2653u},
    {"group_norm", diti_spirv_text_group_norm, 4142u},
    {0, 0, 0}};
DIT_INTERNAL const diti_spirv_module *diti_spirv_table(void) { return diti_spirv_modules; }
#endif /* DIT_IMPLEMENTATION */

/*
MIT License

Copyright (c) 2026 the dit.h authors

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
*/
