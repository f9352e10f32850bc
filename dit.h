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

/* Threads of yours for file reads and pipeline builds. Zero: the calling thread does everything. */
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
    VkQueue transfer_queue;                      /* for uploads; NULL: queue does them */
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

/* Where bytes come from: a path, memory, or callbacks. All zero: nothing. */
typedef struct dit_source {
    const char *path; /* of a file or, for a whole pipeline, of a diffusers folder; NULL: data or read_at */
    const void *data; /* a file's bytes in memory; NULL: path or read_at */
    uint64_t size;    /* of data, or of what read_at reads; 0 with path */
    /* copies size bytes from offset to dst and returns their number, less is an error; NULL: path or data */
    int64_t (*read_at)(uint64_t offset, void *dst, size_t size, void *user);
    /* opens another file of the same folder or shard set by its relative path; DIT_ERROR_IO: there is none. NULL: path
       does it, or the source is a single file */
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
#define DITI_ZERO \
    {}
#else
#define DITI_ZERO \
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

/* What every room needs from its caller: memory and a place for messages. Copied by value into whatever lives longer. */
typedef struct diti_env {
    dit_allocator allocator; /* both functions set: diti_env_init fills the defaults */
    dit_logger logger;
} diti_env;

typedef enum diti_log_level { DITI_LOG_ERROR, DITI_LOG_WARNING, DITI_LOG_INFO, DITI_LOG_DEBUG } diti_log_level;

/* --- errors and logging --- */
/* Fills err (may be NULL) with a formatted one-line message and returns result, so that `return diti_fail(...)` reads well. */
DIT_INTERNAL dit_result diti_fail(dit_error *err, dit_result result, const char *format, ...) DITI_PRINTF(3, 4);
/* The same for a Vulkan call: keeps vk in err and maps it to a dit_result (memory, device lost, else DIT_ERROR_VULKAN). */
DIT_INTERNAL dit_result diti_fail_vk(dit_error *err, VkResult vk, const char *format, ...) DITI_PRINTF(3, 4);
DIT_INTERNAL void diti_log(const diti_env *env, diti_log_level level, const char *format, ...) DITI_PRINTF(3, 4);
DIT_INTERNAL dit_result diti_env_init(diti_env *env, const dit_allocator *allocator, const dit_logger *logger, dit_error *err);

/* --- memory: 64-byte aligned, never zero-sized; NULL when the hook refuses --- */
DIT_INTERNAL void *diti_alloc(const diti_env *env, size_t size);
DIT_INTERNAL void *diti_alloc_zero(const diti_env *env, size_t size);
DIT_INTERNAL void *diti_alloc_array(const diti_env *env, size_t count, size_t size); /* zeroed; NULL on overflow too */
DIT_INTERNAL void diti_free(const diti_env *env, void *memory);                      /* NULL is fine */
DIT_INTERNAL char *diti_copy_string(const diti_env *env, const char *text);         /* NULL for NULL or no memory */
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
/* strtod and printf obey an application's setlocale; these read and write a decimal point always. text: a JSON number. */
DIT_INTERNAL double diti_parse_double(const char *text);
DIT_INTERNAL bool diti_print_double(double value, int digits, char *out, size_t size);
/* Bytes (1..4) of the UTF-8 character at text; 0 when it is broken (RFC 3629: no overlong forms, no surrogates). */
DIT_INTERNAL size_t diti_utf8_length(const char *text, size_t size);
DIT_INTERNAL uint64_t diti_hash(const void *data, size_t size); /* FNV-1a */

/* --- JSON: a parsed tree in one allocation; numbers also as NaN, Infinity, -Infinity, as Python writes them --- */
typedef enum diti_json_kind { DITI_JSON_NULL, DITI_JSON_BOOL, DITI_JSON_NUMBER, DITI_JSON_STRING, DITI_JSON_ARRAY, DITI_JSON_OBJECT } diti_json_kind;
typedef struct diti_json {
    diti_json_kind kind;
    const char *key;  /* NUL-terminated, unescaped UTF-8; NULL outside objects */
    size_t key_length;
    const char *text; /* strings: NUL-terminated, unescaped; numbers: as written, so that 64-bit integers stay exact */
    size_t text_length;
    double number; /* numbers; bools: 0 or 1 */
    uint32_t count;                     /* children of arrays and objects */
    const struct diti_json *first, *next; /* first child; next sibling */
} diti_json;
/* Parses size bytes. Depth is limited to 64, duplicate keys are an error. The tree is freed with diti_json_free. */
DIT_INTERNAL dit_result diti_json_parse(const diti_env *env, const char *text, size_t size, const char *what, diti_json **out, dit_error *err);
DIT_INTERNAL void diti_json_free(const diti_env *env, diti_json *root);
DIT_INTERNAL const diti_json *diti_json_get(const diti_json *object, const char *key); /* NULL when absent or object is NULL */
DIT_INTERNAL double diti_json_number(const diti_json *object, const char *key, double otherwise); /* absent or null: otherwise */
DIT_INTERNAL bool diti_json_bool(const diti_json *object, const char *key, bool otherwise);
DIT_INTERNAL const char *diti_json_string(const diti_json *object, const char *key, const char *otherwise);
DIT_INTERNAL bool diti_json_u64(const diti_json *value, uint64_t *out); /* exact non-negative integers only */
/* A whole number from 1 to most; otherwise when key is absent or null. Anything else is an error that names the key. */
DIT_INTERNAL dit_result diti_json_size(const diti_json *object, const char *key, uint32_t otherwise, uint32_t most,
                                       uint32_t *out, dit_error *err);

/* --- small floats, bit patterns; every conversion rounds to nearest, ties to even --- */
DIT_INTERNAL float diti_half_to_float(uint16_t bits);
DIT_INTERNAL uint16_t diti_float_to_half(float value);
DIT_INTERNAL float diti_bfloat_to_float(uint16_t bits);
DIT_INTERNAL uint16_t diti_float_to_bfloat(float value);
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

DIT_INTERNAL dit_result diti_env_init(diti_env *env, const dit_allocator *allocator, const dit_logger *logger, dit_error *err) {
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
    if (!diti_mul_size(*capacity ? *capacity : 8, 2, &wanted) || !diti_mul_size(wanted, element_size, &bytes)) return false;
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
    uint32_t bits = diti_bits_from_float(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu, shift, kept, rest, half;
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
DIT_INTERNAL const char *diti_type_name(dit_type type);                 /* "Q8_0" */
DIT_INTERNAL bool diti_type_from_name(const char *name, dit_type *out); /* case-insensitive: "q8_0", "f16" */
DIT_INTERNAL uint32_t diti_type_block(dit_type type); /* elements per block: 1, 32 or 256; 0: in no file */
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

static bool diti_type_same_name(const char *a, const char *b) {
    for (; *a && *b; a++, b++) {
        char upper = *a >= 'a' && *a <= 'z' ? (char)(*a - 'a' + 'A') : *a;
        if (upper != *b) return false;
    }
    return *a == *b;
}

DIT_INTERNAL bool diti_type_from_name(const char *name, dit_type *out) {
    size_t i;
    for (i = 1; i < DITI_COUNT(diti_type_layouts); i++) {
        if (!diti_type_same_name(name, diti_type_layouts[i].name)) continue;
        *out = (dit_type)i;
        return true;
    }
    return false;
}

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
    bool absent = false;
    dit_result result = root->open(member, &source, root->user);
    if (result == DIT_ERROR_IO || (result >= 0 && !source.path && !source.data && !source.read_at)) return DIT_OK;
    if (result < 0) return diti_fail(err, result, "%s: the open hook failed: %s", member, dit_result_string(result));
    result = diti_file_create(env, &source, member, &absent, out, err);
    return absent ? DIT_OK : result;
}

static dit_result diti_file_open_below(const diti_env *env, const char *folder, const char *member, diti_file **out,
                                       dit_error *err) {
    dit_source source = DITI_ZERO;
    size_t size = strlen(folder) + strlen(member) + 2;
    bool absent = false;
    dit_result result;
    char *path = (char *)diti_alloc(env, size);
    if (!path) return diti_no_memory(member, err);
    diti_format(path, size, *folder && !diti_ends_with(folder, "/") ? "%s/%s" : "%s%s", folder, member);
    source.path = path;
    result = diti_file_create(env, &source, NULL, &absent, out, err);
    diti_free(env, path);
    return absent ? DIT_OK : result;
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
#define DITI_VK_INSTANCE_FUNCTIONS(X) \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceFeatures2) \
    X(GetPhysicalDeviceMemoryProperties2) X(GetPhysicalDeviceQueueFamilyProperties) X(EnumerateDeviceExtensionProperties) \
    X(GetPhysicalDeviceFormatProperties) X(CreateDevice) X(GetDeviceProcAddr)
#define DITI_VK_DEVICE_FUNCTIONS(X) \
    X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueSubmit) X(QueueWaitIdle) \
    X(AllocateMemory) X(FreeMemory) X(MapMemory) X(UnmapMemory) X(FlushMappedMemoryRanges) X(InvalidateMappedMemoryRanges) \
    X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements) X(BindBufferMemory) \
    X(CreateImage) X(DestroyImage) X(GetImageMemoryRequirements) X(BindImageMemory) X(CreateImageView) X(DestroyImageView) \
    X(CreateShaderModule) X(DestroyShaderModule) X(CreateComputePipelines) X(DestroyPipeline) \
    X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreatePipelineCache) X(DestroyPipelineCache) X(GetPipelineCacheData) X(MergePipelineCaches) \
    X(CreateDescriptorSetLayout) X(DestroyDescriptorSetLayout) X(CreateDescriptorPool) X(DestroyDescriptorPool) \
    X(AllocateDescriptorSets) X(UpdateDescriptorSets) \
    X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) X(FreeCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) X(ResetCommandBuffer) \
    X(CmdBindPipeline) X(CmdBindDescriptorSets) X(CmdPushConstants) X(CmdDispatch) X(CmdPipelineBarrier) X(CmdCopyBuffer) X(CmdFillBuffer) \
    X(CmdCopyBufferToImage) X(CmdExecuteCommands) X(CmdResetQueryPool) X(CmdWriteTimestamp) \
    X(CreateQueryPool) X(DestroyQueryPool) X(GetQueryPoolResults) \
    X(CreateSemaphore) X(DestroySemaphore) X(GetSemaphoreCounterValue) X(WaitSemaphores)

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
    VkDeviceSize storage_range;      /* maxStorageBufferRange */
    VkDeviceSize allocation;         /* largest single VkDeviceMemory, at most 1 GiB */
    VkDeviceSize storage_alignment;  /* minStorageBufferOffsetAlignment */
    uint32_t group_count;            /* maxComputeWorkGroupCount[0] */
    uint32_t group_invocations;      /* maxComputeWorkGroupInvocations */
    uint32_t shared_bytes;           /* maxComputeSharedMemorySize */
    uint32_t subgroup_size;
    float timestamp_period;          /* ns per tick; 0 when the queue has no timestamps */
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
    DITI_MEMORY_DEVICE,   /* device local; mapped only where all memory is host visible */
    DITI_MEMORY_UPLOAD,   /* host visible and coherent, written by the host */
    DITI_MEMORY_READBACK  /* host visible, cached where possible, read by the host */
} diti_memory_kind;

typedef struct diti_buffer {
    VkBuffer buffer;
    VkDeviceSize size;
    dit_block block;  /* block.mapped: host address of the buffer's first byte, or NULL */
    diti_memory_kind kind;
    bool coherent;
    VkDeviceSize charged; /* counted in memory_used */
    void *hook_mapped;    /* block.mapped as the application's allocator gave it, for its free */
} diti_buffer;

typedef struct diti_device {
    diti_env env;
    diti_vk_api vk;
    void *library;   /* of dlopen, when dit opened the loader */
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
    diti_rung rung;          /* the rung in use, after overrides and the self-test */
    uint32_t max_dispatch_us;
    VkDeviceSize memory_limit, memory_used; /* of dit's own allocations; used only under the lock */
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout pipeline_layout;
    VkPipelineCache pipeline_cache;
    bool owns_pipeline_cache;
    diti_pipeline **pipelines;
    size_t pipeline_count, pipeline_capacity;
    uint64_t pipelines_compiled, allocations;  /* counters */
    int lock;                /* spin lock: pipelines, memory accounting, the staging slot */
    int queue_lock;          /* spin lock around the queue when the application gave no lock_queue */
    diti_buffer staging;     /* a slot: whoever copies takes it out and puts it back */
    VkDeviceSize staging_bytes;
    int lost;                /* latched: nothing is submitted any more */
    uint32_t fail_submit_after; /* test override: the n-th submit reports device lost; 0: never */
    uint32_t fail_pipeline_after, pipelines_tried; /* test override: the n-th pipeline fails */
    uint64_t submits;
    float us_per_gflop;      /* GEMM cost at the rung in use: a guess, or the cache blob's figure, until calibrated */
} diti_device;

/* "VK_ERROR_…" for messages. */
DIT_INTERNAL const char *diti_vk_name(VkResult result);

/* --- inside the room --- */
DIT_INTERNAL dit_result diti_vulkan_load(const char *loader, PFN_vkGetInstanceProcAddr given, diti_vk_api *vk, void **library, dit_error *err);
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
DIT_INTERNAL dit_result diti_candidates_list(const diti_env *env, const diti_vk_api *vk, VkInstance instance, diti_candidate **out, uint32_t *count, dit_error *err);
DIT_INTERNAL void diti_candidate_fill(const diti_vk_api *vk, VkPhysicalDevice physical, diti_candidate *out);
/* The candidate that choice names; NULL with an error that lists what there is. */
DIT_INTERNAL const diti_candidate *diti_candidate_choose(const diti_candidate *list, uint32_t count, const char *choice, dit_error *err);
DIT_INTERNAL void diti_memory_init(diti_device *device, VkDeviceSize limit);
DIT_INTERNAL bool diti_device_has_extension(diti_device *device, const char *name);
DIT_INTERNAL void diti_staging_free(diti_device *device);
DIT_INTERNAL dit_result diti_layouts_create(diti_device *device, dit_error *err);
DIT_INTERNAL dit_result diti_cache_load(diti_device *device, const void *blob, size_t size, dit_error *err);
DIT_INTERNAL void diti_pipelines_free(diti_device *device);
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
DIT_INTERNAL dit_result diti_device_open(const dit_context_desc *desc, const diti_env *env, diti_device **out, dit_error *err);
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
DIT_INTERNAL dit_result diti_buffer_create(diti_device *device, VkDeviceSize size, diti_memory_kind kind, const char *what, diti_buffer *out, dit_error *err);
/* Memory for anything else (images): fills all of out (zeroed) but buffer and size; the caller binds it. */
DIT_INTERNAL dit_result diti_block_create(diti_device *device, const VkMemoryRequirements *need, diti_memory_kind kind, const char *what, diti_buffer *out, dit_error *err);
DIT_INTERNAL void diti_block_destroy(diti_device *device, diti_buffer *buffer);
DIT_INTERNAL void diti_buffer_destroy(diti_device *device, diti_buffer *buffer); /* a zeroed buffer is fine */
/* Host copies that wait: for loading and reading back, never inside the step loop. Direct where the buffer is mapped, else staged. */
DIT_INTERNAL dit_result diti_buffer_write(diti_device *device, diti_buffer *buffer, VkDeviceSize offset, const void *data, VkDeviceSize size, dit_error *err);
DIT_INTERNAL dit_result diti_buffer_read(diti_device *device, diti_buffer *buffer, VkDeviceSize offset, void *data, VkDeviceSize size, dit_error *err);
/* Makes host writes of an upload buffer visible, or device writes of a readback buffer readable (no-ops when coherent). */
DIT_INTERNAL void diti_buffer_flush(diti_device *device, const diti_buffer *buffer);
DIT_INTERNAL void diti_buffer_invalidate(diti_device *device, const diti_buffer *buffer);

/* --- pipelines: created on first use, shared by everything on the device --- */
DIT_INTERNAL dit_result diti_pipeline_get(diti_device *device, uint32_t module, const uint32_t *constants, uint32_t constant_count, VkPipeline *out, dit_error *err);
DIT_INTERNAL dit_result diti_cache_save(diti_device *device, void *blob, size_t *size, dit_error *err);

/* --- submission --- */
/* Submits command buffers under the queue lock; signals timeline with value when timeline is set. Latches device loss. */
DIT_INTERNAL dit_result diti_submit(diti_device *device, const VkCommandBuffer *commands, uint32_t count, VkSemaphore timeline, uint64_t value, dit_error *err);
DIT_INTERNAL dit_result diti_timeline_create(diti_device *device, VkSemaphore *out, dit_error *err);
DIT_INTERNAL dit_result diti_timeline_value(diti_device *device, VkSemaphore timeline, uint64_t *out, dit_error *err);
/* DIT_WORKING when the time ran out. */
DIT_INTERNAL dit_result diti_timeline_wait(diti_device *device, VkSemaphore timeline, uint64_t value, uint64_t timeout_ns, dit_error *err);
/* Records and runs one command buffer now, and waits: for set-up work only. */
typedef void (*diti_record_function)(diti_device *device, VkCommandBuffer commands, void *user);
DIT_INTERNAL dit_result diti_run_now(diti_device *device, diti_record_function record, void *user, dit_error *err);

/* --- embedded SPIR-V (vk/spirv.inc, generated by make shaders) --- */
DIT_INTERNAL uint32_t diti_spirv_count(void);
DIT_INTERNAL const char *diti_spirv_name(uint32_t module);
DIT_INTERNAL bool diti_spirv_find(const char *name, uint32_t *module);
/* One embedded module: LEB128-coded words as base85 text, cut into pieces that every compiler accepts; pieces end with NULL. */
typedef struct diti_spirv_module {
    const char *name; /* NULL ends the table */
    const char *const *pieces;
    uint32_t word_count;
} diti_spirv_module;
DIT_INTERNAL const diti_spirv_module *diti_spirv_table(void); /* defined at the end of spirv.inc, which stands last in dit.h */
DIT_INTERNAL uint64_t diti_spirv_hash(void);                  /* of all modules */
/* Decodes a module; words is freed with diti_free. */
DIT_INTERNAL dit_result diti_spirv_decode(const diti_env *env, uint32_t module, uint32_t **words, size_t *count, dit_error *err);
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
static bool diti_instance_has_portability(const diti_env *env, const diti_vk_api *vk) {
    VkExtensionProperties *list;
    uint32_t i, count = 0;
    bool found = false;
    if (vk->EnumerateInstanceExtensionProperties(NULL, &count, NULL) < 0 || !count) return false;
    list = (VkExtensionProperties *)diti_alloc_array(env, count, sizeof *list);
    if (!list) return false;
    if (vk->EnumerateInstanceExtensionProperties(NULL, &count, list) < 0) count = 0;
    for (i = 0; i < count; i++) {
        if (diti_equal(list[i].extensionName, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) found = true;
    }
    diti_free(env, list);
    return found;
}

DIT_INTERNAL dit_result diti_instance_create(const diti_env *env, diti_vk_api *vk, VkInstance *out, dit_error *err) {
    const char *portability = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
    VkApplicationInfo application = DITI_ZERO;
    VkInstanceCreateInfo info = DITI_ZERO;
    VkResult vr;
    dit_result result = diti_global_functions(vk, err);
    if (result < 0) return result;
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.pEngineName = "dit.h";
    application.engineVersion = DIT_VERSION;
    application.apiVersion = VK_API_VERSION_1_3; /* the newest that dit knows; older devices are fine */
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &application;
    if (diti_instance_has_portability(env, vk)) {
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
    if (diti_atomic_load(&device->lost)) return diti_device_lost(err);
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
    if (!diti_device_has_extension(device, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME)) return 0;
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
    dit_result result;
    VkResult vr;
    memset(out, 0, sizeof *out);
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
        diti_log(&device->env, DITI_LOG_WARNING, "the cache blob is ignored: %s", problem);
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
    dit_result result = diti_cache_data_size(device, &data_size, err);
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

/* The highest rung that the enabled features allow, or the one asked for. */
static dit_result diti_device_rung(diti_device *device, const char *overrides, dit_error *err) {
    char wanted[32];
    int rung;
    device->rung = device->has_fp16 ? DITI_RUNG_FP16 : DITI_RUNG_BASE;
    if (!diti_override_text(overrides, "rung", wanted, sizeof wanted)) return DIT_OK;
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

/* Everything that is known once the physical device and the queue family are. */
static dit_result diti_device_describe(diti_device *device, const dit_context_desc *desc, dit_error *err) {
    dit_result result;
    diti_device_properties(device);
    diti_device_timestamps(device, desc->overrides);
    diti_device_override(device, desc->overrides);
    diti_memory_init(device, desc->device_memory_limit);
    result = diti_device_rung(device, desc->overrides, err);
    if (result < 0) return result;
    diti_format(device->info.rung, sizeof device->info.rung, "%s", diti_rung_name(device->rung));
    device->us_per_gflop = device->is_cpu ? 100000.0f : 1000.0f; /* 10 GFLOP/s and 1 TFLOP/s: careful guesses */
    return DIT_OK;
}

DIT_INTERNAL bool diti_device_has_extension(diti_device *device, const char *name) {
    VkExtensionProperties *list;
    uint32_t i, count = 0;
    bool found = false;
    if (device->vk.EnumerateDeviceExtensionProperties(device->physical, NULL, &count, NULL) < 0) return false;
    list = (VkExtensionProperties *)diti_alloc_array(&device->env, count, sizeof *list);
    if (!list) return false;
    if (device->vk.EnumerateDeviceExtensionProperties(device->physical, NULL, &count, list) < 0) count = 0;
    for (i = 0; i < count; i++) {
        if (diti_equal(list[i].extensionName, name)) found = true;
    }
    diti_free(&device->env, list);
    return found;
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
    const char *portability = "VK_KHR_portability_subset"; /* must be enabled where it exists */
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
    info.enabledExtensionCount = diti_device_has_extension(device, portability) ? 1 : 0;
    return device->vk.CreateDevice(device->physical, &info, NULL, &device->device);
}

static dit_result diti_device_select(diti_device *device, const char *choice, dit_error *err) {
    const diti_candidate *chosen;
    diti_candidate *list;
    uint32_t count;
    dit_result result = diti_candidates_list(&device->env, &device->vk, device->instance, &list, &count, err);
    if (result < 0) return result;
    chosen = diti_candidate_choose(list, count, choice, err);
    if (chosen) {
        device->physical = chosen->physical;
        device->queue_family = chosen->queue_family;
        device->info = chosen->info;
    } else {
        result = count ? DIT_ERROR_INVALID_ARGUMENT : DIT_ERROR_UNSUPPORTED_DEVICE;
        if (err) result = err->result;
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

static dit_result diti_device_check(const dit_context_desc *desc, dit_error *err) {
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
    dit_result result = diti_device_check(desc, err);
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
    diti_element activation; /* format of activations: F16 on rungs that have it, else F32 */
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
    uint32_t batch, heads, head_dim; /* head_dim <= 256 */
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
DIT_INTERNAL void diti_qkv_post(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc);

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
/* Planar F32 [batch * C, h*w] -> rows [batch * h*w, C] (activation format), value * scale + shift; and back to planar
 * F32. */
DIT_INTERNAL diti_tensor diti_planar_to_rows(diti_graph *graph, diti_tensor planar, uint32_t batch, uint32_t channels,
                                             float scale, float shift);
DIT_INTERNAL diti_tensor diti_rows_to_planar(diti_graph *graph, diti_tensor rows, uint32_t batch, uint32_t channels);

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
    float us;         /* predicted, then measured */
    float planned_us; /* predicted */
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
DIT_INTERNAL float diti_plan_slice_planned_us(const diti_plan *plan, uint32_t segment, uint32_t slice); /* as first predicted: for progress that never jumps back */
DIT_INTERNAL void diti_plan_wait(const diti_plan *plan); /* for everything submitted; NULL is fine */
DIT_INTERNAL dit_result diti_plan_submit(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *value,
                                         dit_error *err); /* value of the plan's timeline when it is done */
DIT_INTERNAL void diti_plan_execute(diti_plan *plan, uint32_t segment, uint32_t slice,
                                    VkCommandBuffer commands); /* into the application's command buffer */
DIT_INTERNAL dit_result diti_plan_prepare_secondaries(diti_plan *plan,
                                                      dit_error *err); /* once, before the first diti_plan_execute */
DIT_INTERNAL void diti_plan_learn(diti_plan *plan); /* takes over the timestamps of the newest finished slice */
/* Submits other commands in the plan's order, on its timeline. */
DIT_INTERNAL dit_result diti_plan_submit_commands(diti_plan *plan, VkCommandBuffer commands, uint64_t *value, dit_error *err);
DIT_INTERNAL VkSemaphore diti_plan_timeline(const diti_plan *plan);
DIT_INTERNAL uint64_t diti_plan_submitted(const diti_plan *plan);
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
    return tensor;
}

DIT_INTERNAL const diti_tensor_info *diti_tensor_get(const diti_graph *graph, diti_tensor tensor) {
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
    uint64_t size = tensor->storage == DITI_STORAGE_WEIGHT ? 1 : diti_element_size(tensor->format), from, to,
             div = binding->group_div ? binding->group_div : 1;
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
        size = tensor->storage == DITI_STORAGE_WEIGHT ? 1 : diti_element_size(tensor->format);
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

DIT_INTERNAL uint64_t diti_plan_submitted(const diti_plan *plan) { return plan->submitted; }

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

/* ======== src/graph/ops_elementwise.c (edit it there; dit.h is generated) ======== */
/* Ops that work on each element alone (shaders/elementwise.comp) or move between planes and rows (shaders/pixels.comp).
 */

#define DITI_ELEMENTWISE_GROUP 64u /* invocations; each does four columns */

/* Numbers shared with the shaders. */
enum { DITI_OP_MAP, DITI_OP_SELECT, DITI_OP_ADVANCE, DITI_OP_SOLVER };
enum { DITI_OP_PATCHIFY, DITI_OP_UNPATCHIFY, DITI_OP_PLANES_TO_ROWS, DITI_OP_ROWS_TO_PLANES, DITI_OP_IMAGE };

static bool diti_small_begin(diti_graph *graph, diti_dispatch *dispatch, const char *name, const char *module,
                             uint32_t op) {
    memset(dispatch, 0, sizeof *dispatch);
    if (diti_graph_failed(graph)) return false;
    if (!diti_spirv_find(module, &dispatch->module)) {
        diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_DEVICE, "the shader %s is not embedded", module);
        return false;
    }
    dispatch->name = name;
    dispatch->constants[0] = DITI_ELEMENTWISE_GROUP;
    dispatch->constants[1] = op;
    dispatch->constant_count = 10;
    dispatch->cost_kind = DITI_COST_MEMORY;
    return true;
}

/* Binding number `index`: the whole tensor, its offset in push word `word`. */
static void diti_small_bind(const diti_graph *graph, diti_dispatch *dispatch, uint32_t index, diti_tensor tensor,
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
    dispatch->memory_bytes += (double)info->rows * info->columns * binding->element_bytes * (reads && writes ? 2 : 1);
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
    if (invocations > UINT32_MAX - DITI_ELEMENTWISE_GROUP) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s on [%u, %u] is too large", dispatch->name, rows,
                        columns);
        return;
    }
    dispatch->push[1] = rows;
    dispatch->push[2] = columns;
    dispatch->push_count = push_count;
    dispatch->groups = (uint32_t)((invocations + DITI_ELEMENTWISE_GROUP - 1) / DITI_ELEMENTWISE_GROUP);
    diti_graph_dispatch(graph, dispatch);
}

static bool diti_small_vector(const diti_tensor_info *info) {
    return info->first % 4 == 0 && info->pitch % 4 == 0 && info->columns % 4 == 0;
}

static bool diti_small_is_float(const diti_tensor_info *info) { return info->format != DITI_U32; }

static uint32_t diti_float_word(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

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
    dispatch.constants[6] = diti_small_vector(from) && diti_small_vector(to) && (!add || diti_small_vector(add));
    dispatch.push[4] = from->pitch;
    dispatch.push[6] = add ? add->pitch : 0;
    dispatch.push[7] = add ? add->rows : 0;
    dispatch.push[9] = to->pitch;
    dispatch.push[10] = diti_float_word(desc->scale != 0 ? desc->scale : 1.0f);
    dispatch.push[11] = diti_float_word(desc->offset);
    diti_small_bind(graph, &dispatch, 0, x, 3, true, false);
    diti_small_bind(graph, &dispatch, 1, desc->add, 5, true, false);
    diti_small_bind(graph, &dispatch, 2, out, 8, false, true);
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
    dispatch.constants[6] = diti_small_vector(from);
    dispatch.push[4] = from->pitch;
    dispatch.push[9] = diti_tensor_get(graph, out)->pitch;
    diti_small_bind(graph, &dispatch, 0, table, 3, true, false);
    diti_small_bind(graph, &dispatch, 1, step, 5, true, false);
    diti_small_bind(graph, &dispatch, 2, out, 8, false, true);
    dispatch.memory_bytes = 8.0 * from->columns;
    diti_small_emit(graph, &dispatch, 1, from->columns, 12);
    return out;
}

DIT_INTERNAL void diti_advance_step(diti_graph *graph, diti_tensor step) {
    diti_dispatch dispatch;
    if (!diti_small_begin(graph, &dispatch, "advance step", "elementwise", DITI_OP_ADVANCE)) return;
    diti_small_bind(graph, &dispatch, 2, step, 8, true, true);
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
    diti_small_bind(graph, &dispatch, 0, prediction, 3, true, false);
    diti_small_bind(graph, &dispatch, 1, desc->coefficients, 5, true, false);
    diti_small_bind(graph, &dispatch, 2, desc->x, 8, true, true);
    diti_small_bind(graph, &dispatch, 3, desc->h1, 12, true, true);
    diti_small_bind(graph, &dispatch, 4, desc->h2, 13, true, true);
    diti_small_bind(graph, &dispatch, 5, desc->x0, 14, false, true);
    diti_small_bind(graph, &dispatch, 6, desc->noise, 15, true, false);
    diti_small_bind(graph, &dispatch, 7, desc->health, 16, true, true);
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
    dispatch->push[14] = diti_float_word(1.0f);
}

static void diti_pixels_emit(diti_graph *graph, diti_dispatch *dispatch, diti_tensor from, diti_tensor to) {
    diti_small_bind(graph, dispatch, 0, from, 3, true, false);
    diti_small_bind(graph, dispatch, 2, to, 5, false, true);
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
    diti_small_bind(graph, &dispatch, 1, input, 7, true, false);
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
    dispatch.push[14] = diti_float_word(scale);
    dispatch.push[15] = diti_float_word(shift);
    diti_pixels_emit(graph, &dispatch, planar, out);
    return out;
}

DIT_INTERNAL diti_tensor diti_rows_to_planar(diti_graph *graph, diti_tensor rows, uint32_t batch, uint32_t channels) {
    uint32_t area = diti_tensor_get(graph, rows)->rows / (batch ? batch : 1u);
    diti_dispatch dispatch;
    diti_tensor out;
    if (!diti_small_begin(graph, &dispatch, "rows to planes", "pixels", DITI_OP_ROWS_TO_PLANES)) return 0;
    if (!diti_pixels_fit(graph, diti_tensor_get(graph, rows), (uint64_t)batch * area, channels, "rows to planes"))
        return 0;
    out = diti_tensor_new(graph, DITI_F32, batch * channels, area, "planes");
    if (!out) return 0;
    diti_pixels_push(&dispatch, diti_tensor_get(graph, rows), diti_tensor_get(graph, out), batch, channels, 1, area, 1,
                     0);
    diti_pixels_emit(graph, &dispatch, rows, out);
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
    diti_small_bind(graph, &dispatch, 0, rows, 3, true, false);
    diti_small_bind(graph, &dispatch, 2, rgba, 5, false, true);
    diti_small_bind(graph, &dispatch, 3, rgb, 16, false, true);
    diti_small_bind(graph, &dispatch, 4, health, 18, true, true);
    diti_small_emit(graph, &dispatch, 1, pixels, 19);
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

/* ======== src/vk/spirv.inc (edit it there; dit.h is generated) ======== */
/* Generated by make shaders: per module `static const char *const diti_spirv_text_NAME[] = {pieces, 0};`, then this table. */
static const diti_spirv_module diti_spirv_modules[] = {{0, 0, 0}};
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
