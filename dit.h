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
#define DITI_VK_INSTANCE_FUNCTIONS(X)                                                                                  \
    X(DestroyInstance)                                                                                                 \
    X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceFeatures2)                          \
        X(GetPhysicalDeviceMemoryProperties2) X(GetPhysicalDeviceQueueFamilyProperties)                                \
            X(EnumerateDeviceExtensionProperties) X(GetPhysicalDeviceFormatProperties) X(CreateDevice)                 \
                X(GetDeviceProcAddr)
#define DITI_VK_DEVICE_FUNCTIONS(X)                                                                                    \
    X(DestroyDevice)                                                                                                   \
    X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueSubmit) X(QueueWaitIdle) X(AllocateMemory) X(FreeMemory) X(MapMemory)   \
        X(UnmapMemory) X(FlushMappedMemoryRanges) X(InvalidateMappedMemoryRanges) X(CreateBuffer) X(DestroyBuffer)     \
            X(GetBufferMemoryRequirements) X(BindBufferMemory) X(CreateImage) X(DestroyImage)                          \
                X(GetImageMemoryRequirements) X(BindImageMemory) X(CreateImageView) X(DestroyImageView)                \
                    X(CreateShaderModule) X(DestroyShaderModule) X(CreateComputePipelines) X(DestroyPipeline)          \
                        X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreatePipelineCache)                        \
                            X(DestroyPipelineCache) X(GetPipelineCacheData) X(MergePipelineCaches)                     \
                                X(CreateDescriptorSetLayout) X(DestroyDescriptorSetLayout) X(CreateDescriptorPool)     \
                                    X(DestroyDescriptorPool) X(AllocateDescriptorSets) X(UpdateDescriptorSets)         \
                                        X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers)           \
                                            X(FreeCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer)            \
                                                X(ResetCommandBuffer) X(CmdBindPipeline) X(CmdBindDescriptorSets)      \
                                                    X(CmdPushConstants) X(CmdDispatch) X(CmdPipelineBarrier)           \
                                                        X(CmdCopyBuffer) X(CmdFillBuffer) X(CmdCopyBufferToImage)      \
                                                            X(CmdExecuteCommands) X(CmdResetQueryPool)                 \
                                                                X(CmdWriteTimestamp) X(CreateQueryPool)                \
                                                                    X(DestroyQueryPool) X(GetQueryPoolResults)         \
                                                                        X(CreateSemaphore) X(DestroySemaphore)         \
                                                                            X(GetSemaphoreCounterValue)                \
                                                                                X(WaitSemaphores)

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
    diti_rung rung;          /* the rung in use, after overrides and the self-test */
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
/* Host copies that wait: for loading and reading back, never inside the step loop. Direct where the buffer is mapped,
 * else staged. */
DIT_INTERNAL dit_result diti_buffer_write(diti_device *device, diti_buffer *buffer, VkDeviceSize offset,
                                          const void *data, VkDeviceSize size, dit_error *err);
DIT_INTERNAL dit_result diti_buffer_read(diti_device *device, diti_buffer *buffer, VkDeviceSize offset, void *data,
                                         VkDeviceSize size, dit_error *err);
/* Makes host writes of an upload buffer visible, or device writes of a readback buffer readable (no-ops when coherent).
 */
DIT_INTERNAL void diti_buffer_flush(diti_device *device, const diti_buffer *buffer);
DIT_INTERNAL void diti_buffer_invalidate(diti_device *device, const diti_buffer *buffer);

/* --- pipelines: created on first use, shared by everything on the device --- */
DIT_INTERNAL dit_result diti_pipeline_get(diti_device *device, uint32_t module, const uint32_t *constants,
                                          uint32_t constant_count, VkPipeline *out, dit_error *err);
DIT_INTERNAL dit_result diti_cache_save(diti_device *device, void *blob, size_t *size, dit_error *err);

/* --- submission --- */
/* Submits command buffers under the queue lock; signals timeline with value when timeline is set. Latches device loss.
 */
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
/* One embedded module: LEB128-coded words as base85 text, cut into pieces that every compiler accepts; pieces end with
 * NULL. */
typedef struct diti_spirv_module {
    const char *name; /* NULL ends the table */
    const char *const *pieces;
    uint32_t word_count;
} diti_spirv_module;
DIT_INTERNAL const diti_spirv_module *
diti_spirv_table(void);                      /* defined at the end of spirv.inc, which stands last in dit.h */
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
    bool large = limits->group_invocations >= 256 && tiles >= 256;
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
static bool diti_attention_tiles_cpu(const diti_device *device, uint32_t quads, diti_attention_tiles *out) {
    uint32_t lanes = device->limits.subgroup_size, each = 4;
    out->quads = (quads + 15u) / 16u * 16u;
    while (each > 1 && each * lanes * out->quads * 16u > device->limits.shared_bytes) each /= 2;
    out->module = "attention_cpu";
    out->group = lanes;
    out->block = lanes * each;
    out->constants[0] = each;
    out->constants[1] = 32;
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
    bool fits = graph->device->is_cpu ? diti_attention_tiles_cpu(graph->device, quads, &tiles)
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
    dispatch.flops = 4.0 * shape->batch * shape->heads * shape->queries * (double)shape->keys * shape->head_dim;
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
    if (desc->devices && strchr(desc->devices, ',')) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_context_desc: this version works with one device; devices is \"%s\"", desc->devices);
    }
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

static bool diti_source_given(const dit_source *source) { return source->path || source->data || source->read_at; }

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
    uint64_t have = 1, bytes;
    uint32_t d;
    for (d = 0; d < input->rank; d++) {
        if (!diti_mul_u64(have, input->shape[d], &have))
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s has an impossible shape", input->name);
    }
    if (have != count)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s has %llu values, %llu are needed", input->name,
                         (unsigned long long)have, (unsigned long long)count);
    if ((input->type != DIT_TYPE_F32 && input->type != DIT_TYPE_F16 && input->type != DIT_TYPE_BF16) ||
        !diti_type_bytes(input->type, 1, have, &bytes)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s must be F32, F16 or BF16", input->name);
    }
    *out = (float *)diti_alloc_array(env, count, sizeof(float));
    if (!*out) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for input %s", input->name);
    diti_type_to_float(input->type, input->data, have, *out);
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
    "GZ1N5jsi^P%l=V*=&:c%>&:c%%':c%3QCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>M1W#2q0`r6%ql5KiXr0Kr6S`^P+wKQ^=45HscFA;R/vEEb`6`grC93"
    "wQ*>KKrv.],WY`Co*:gH>#'il<(X5d/(Eh5xd]q@=e,$pp#e@Lvd$cop#(il<(hNY&#F#nXee9Lvd3['r#%#1EM`X<##D9-V)si08.yCT$'o@^vd6nCr#8"
    "['EM,3kW-&il<(x5d/(e),un]q@=eL43t#e@LvdDs2t#(il<(0OY&#f;dUof@UvdPY&u#%#1EM%X=##D9-V)8j08.yCT$'4A^vdSlBu#8['EMI2lW-'il<"
    "(;6d/(WR#1MJLc&#Nx/0Mra'EM0H5t-&il<(x]0_#Z,.cOSxY;eEcU.$e@Lvd<JU.$(il<()QY&#^H*`PhF_vdX5&1$xm0EM1sD##9['EM+.%[#vwcFXg<"
    "Lvd[HB1$9b'EMC*=t$/9-V)Ql08.yCT$'MC^vdlS(3$8['EMb'sW-(il<(Y8d/(Eh5xd^q@=e--45$e@Lvd%l35$(il<(iQY&#F#nXeiLhvdTu^9$xm0EM"
    ")hG##D9-V)<m08.yCT$'8D^vdW0#:$8['EMMBuW-*il<(*yr;$y3MCu^q@=ebbZ:$e@LvdYIZ:$(il<(FRY&##G-$vjRqvdFx>K$-;1EMr=M##D9-V).o0"
    "8.yCT$'*F^vdI3[K$8['EM>p#X-*il<(xH3U%k`rRT_q@=eTkEL$e@LvdLREL$(il<(8TY&#lrR3UkRqvdv<AP$-;1EMKxN##D9-V)_o08.yCT$'ZF^vdy"
    "O]P$8['EMoR%X-+il<(p$s;$g;dUo_q@=ePS&U$e@LvdH:&U$(il<(4UY&#hND6pm_,wdSrgU$xm0EM(hP##D9-V);p08.yCT$'7G^vdV-,V$8['EMLB'X"
    "-,il<(n=d/(W_mIN`q@=eBV_f$e@Lvd9=_f$(il<(&WY&#XqM*On_,wdF$Rg$%#1EMrAV##D9-V).r08.yCT$'*I^vdI6ng$8['EM>s,X-19-V)Ur08.+9"
    "-V)Vx98./9-V)W'D8.39-V)X-M8.79-V)Y3V8.;9-V)Z9`8.@9-V)[@i8.D9-V)]Fr8.H9-V)^L$9.L9-V)_R-9.P9-V)`X69.T9-V)a_@9.X9-V)beI9."
    "]9-V)ckR9.a9-V)dq[9.e9-V)ewe9.i9-V)f&o9.m9-V)g,x9.q9-V)h2*:.u9-V)i83:.y9-V)j><:.&:-V)kEF:.*:-V)lKO:..:-V)mQX:.2:-V)nWb"
    ":.6:-V)o^k:.::-V)pdt:.>:-V)qj&;.C:-V)rp/;.=ET$'QI^vdKGB5%wv'EM-,(@#'il<(&QdZ#R9U0MQ`=wd`mYJ%sj'EM9S.@#-il<(Jx$t$KQJ6gM"
    "GpvdCssl%qd'EM8:KR&Bil<(HmKC+&c)xvVxcwd[ZY*&nZ'EM;FQR&@il<(.L<5&,BpU]xE'9SPOSdWanvZ#P>^u$]8t>MCp:[#PB4r%m+k<(0TJHWvDl9"
    "%`Gk<(BmxHW1]e;%P%k<(PwNgV+)S(%tbt@Mq*S&G`=UwHuxd<Ivc,BM#b#O#L+k<(rqV[#g>^u$k8ZvZlS.X[;utnb<,)BMBcpQ#rnnrPeik<(f*#/M$`"
    "q:$jZYr%5_L<M1;owZ#'W,a;utnb>k(BM^ZfT#oRruOeik<(+IWdN[:1:$jZYr%v3LurQ#vvZA-mHjNuaqdP*)BMolUV#k%bUvdik<(DtUvmB<Wm&jZYr%"
    "`%w@`p;vvZdb_BuRc1BMG5,Z#rmyY#rmyY#IF-$vHM#wZC>DeNR0Q<MLi(BMs/0j#Ub]Tudik<(MX/8ShXr8$g>^u$oBdvZ`;=eWyf>=iMi(BM;Jgm#dik"
    "<(9uS;$jZYr%8sH`_VpMKV#]fp#YsR$'b=fp#tpQ<eQaop#8qQ<eSQ-n&x.4cFG6QvZCmU`fIvp@Mga-n&XpR$'IA.hV0U0r#pxp@Mms-n&5qfCM576KiS"
    "=q@Mr+.n&UpR$'`SJhVDs2t#,yp@M)W.n&IqfCM]s;ToP+U@M'>R8%>dRkqcQ@HWRf8u#2Iu+aRf8u#mVALV^_mv#YsR$'TCmv#+CqLMbhX-$GCqLMd*4n"
    "&+k`bOMy^@MEMdaOXGk<(GNw&PtCl<(@:h.$ZpR$'pOAhVU//1$=$q@M:65n&ZsfCM'7CEXT=q@MCO5n&jik<(BKa>#T(KU]Lv^@M@/PT]XGk<(Bdbq]tC"
    "l<(:,(3$bGk<(HX3u$kEL[dP+_@Mm8RZdXGk<(o)dwdtCl<(h]F5$ZpR$'lPAhVQog9$9%q@M6+8n&VtfCMv_6HsQ+U@M2^@t$Jr'CupyIHW_[d:$>q',a"
    "_[d:$yYALVBl>K$YsR$'HS>K$9mBxQrpHK$UmBxQt[=n&9=16TNy^@McQ>5TYGk<(e$IRTuCl<(_FWL$ZpR$'7YJhVs6JP$['q@MX;@n&xvfCMb9GEbR+U"
    "@M$HEq%7#>Uo`HRHWMM/U$-@0,aMM/U$h]ALVOfgU$UsR$'cNgU$G7XLr(kpU$c7XLr*.Bn&&<,-NR+_@M<sB,NZGk<(>&DINvCl<(94qf$ZpR$'[I.hVC"
    "uZg$+*q@M(]Gn&HyfCMWR3wQT1_@M`APt$;:St$;:St$;:St$;:St$;:St$;:St$;:St$`f0o^@O`k$$g0o^BbLq%x.4cF>U0JWr'.l$`o(BMaOMl$tik<"
    "(qBBh(x.4cFvvxxZX);JmnO)BM>3&r$vik<(NoS#,x.4cF6qoxZMq]VMqU)BM,u8+%%jk<(Ob^&+*W#xHCFjBM2wc6%h'l<()8d##*W#xH5T%CM3u&G%Um"
    "pF%),.cO6c:;[PCeG%Jf#O#Z0)l#Re(BM3L5H%dik<(:AVk'n>^u$-BFm^h^uaXBF1EX#RTm^*Nq1Y&PLaXqt;T]xDm.Zhik<(N]#6&n>^u$MBFm^4E,wd"
    "BF1EX&_^m^N4(HeJ6Zvds/t4^3m@5ga<%CMoV>O%iC5O%Vh(BMy:LO%lik<(y;]n&xpPv$#,%T#UkG2$xpPv$=KST#/5mn#9J;yHyLTQ#`g#O#x.4cF4@s"
    "wZMq]VMg0)BM7DYf%#xDo*FCDwdq6lHW#xDo*CJJwZcmh8SswDo*MXDwd=r<nTbik<(R9%0(x.4cFJV5o^%i>/`ovo4gqU`vZE(6Agau(BM%Q#l%q'l<(d"
    ">u##;%xkq*EAHWXF1o%-nU,aXF1o%kA.HWZRDo%h#gCM#0F)t`-aBMVvip%n>^u$)E3Q^`X(o%sEY*&WrQO#xpPv$hj%pVa0jBM9S'+&l'l<(Y97<-j8YC"
    "cEb[,&kBu_cEUDeW_Gk<(hOt^cZ:k<(]lxdW_Gk<(D1rakjik<(-@wt$x.4cFsw:wZeA,=q^i(BMFkY3&V:k<(6.xoW_Gk<(*BLBu$xDo*g5v&=*HFm^O."
    "<#QgL;T]`1o/VWEGF&.l'IWXKPF&kYo/V752L&7>'IW8;;L&KRq/V^k-P&#='IW_q6P&2FTn^]OI2U(#f*&rwDo*U<IINm@_eW$xDo*V@IIN&wKU]$xDo*"
    "YU)*O+Hdn^S:k<(u_j/VbGk<(qCNKV&Dl<($wh''YGk<(OhX5&xpPv$(qFM#2d[,&xpPv$+&YM#ZEmn#xpPv$7&YM#>;mn#xpPv$D&YM#>;mn#9mBxQ@$j"
    ";[PkV)kARAW[+RAW[o,]0,#fsu[-_]s[+L%;[R&7bkSj5N_=j5N_o,]0,A`QYeeN;WeGH&;[T8oBlJ3Bak43Bako,]0,TTv*k0ra(kX%';[VKO#mBY)Hj,"
    "Y)Hjo,]0,R5_ii(AIgiTp&;[X^/[m[DNg`FDNg`o,]0,8H).aHPj+aCy5N_j;N;$L>WfMnwfCM`7D[)xCl<(DiB:%);Rl'L$E,aM2FCly&gCMp67E(xCl<"
    "(l6q.&xCl<(H#T1&xCl<(..f4&xCl<(m>YF&xCl<(-0EL&xCl<(yf@P&+$-V)qAMo%^j#O#y>^u$sAMo%nYBiryEF)t(>Ida_<catCgN&c",
    "v3.l$5[rk$.&yCM<d6p%''iXMBj@p%'m6p%1DRl_Wr23_Mloda&L3&cl2$'cv3.l$Yjrk$x.yCMaDvG'ON6YMfJ(H'o[vG'FZ+v$R*Ap%QN6YMlo`H'sOd"
    "G'1DRl_eC33_`Lpda3m@5g8wshM:4xmg,ZpteZxZ0,`Hh@#>jhngP+4V)^&P_u1E0'PC'QHj9V-3hGg3V)0%qteHg4*OGLiak9V-3hb/`$'UlbAuiKfp%<"
    "`((&'m&LM-$-V)nGm'&XlFq#y>^u$=Sm'&)vBhMZeGc%JSGDM%'A)O@,gW[vIl<(AYd)O[hGc%)SWfMX5/es*u>/`Hy/LMCPHeN^/`$'`lbAuiKfp%QF.)"
    "&1r6_P-$-V)x-s(&9eG2$y>^u$R9s(&3$S#QZeGc%TSGDM/,Q;R`E]TfuIl<(U&u;R[hGc%3SWfMcT/es+'[K`]FA_PWtXwQq[Mo*36lxvEb^ejKs3V)ru"
    "*LVi9-INc>=)XyCCeWGs3V)x=lHsWrl/MfZ9&Y'f>bXq[Mo*49lxvEtYbkKs3V)-]GhVD:I&ukrw,&Z/yQ^lfh0,9c3:S16)UfHd0U];L:W`K5]fWaQw<("
    "M1<-&]^w<(O%*-&^SWfM8GI&usLk-&cyQ,alfh0,:i<:SXHJteNv0U]D>k1c[oRV]aQw<([Vt-&]^w<(`Vt-&fSWfM_eU&cHfA=edRyHavB$+b,R5/&xhh"
    "XMhJH/&RBH2$dyQ,aZeGc%gYafM9D-btn-<-&@Z+v$wnex)PGafM6:-btm'3-&w#W5gZeGc%tA;fMoinx)xi2-&6,20&24nxH)unx)GGEfM41`2hUEjfM6"
    "+(RgU<.bt0qv/&@Z+v$`wL+&PZ$YMxU.1&5YRO#S1vv$/J65/>b.1&6GF[mTBjfMtJa>mr;/btC1p1&1DRl_xqf2_(b>eaK;^Wn12W&cv3.l$%_rk$S;yC"
    "M,[c2&rB6YM1bl2&Qgc2&@Z+v$^N=2&=ZafMgt.btNu'3&1DRl_+9g2_2)@eaUAnjq;QW&cv3.l$/_rk$^;yCM6Bi3&%C6YM;Hr3&[Mi3&@Z+v$r4D3&HZ"
    "afMgt.btD7y1&i5vv$=Dv2&dY$4&]TGDMZV74&3unx)hV+FtJ<3Gt`#J4&[^w<(hc@4&LTWfMEpW&cv3.l$$krk$F/yCM+bLK'WaGDM/-ZWnyXB>mxIl<("
    "YAOXnKs3V)Y:3<nV:5*OUv95pSpa8oP+4V)VQ>Fk8T%'cv3.l$0krk$V/yCM7TeL'daGDM;EKKr2>KKrxIl<(r&ALr3-6V)rw$0raMUIN`$KHssww,s1$-"
    "V)8r;M'/.mr$y>^u$*4<M',[+v$.:FM')O6YMF:kM',MbM'FZ+v$*ZIL'ZaGDMJosvvnIdKMyIl<(dSnwvKs3V)dMR[vh7r#vN#yrM-%+'cv3.l$qlrk$D"
    "1yCMx%S]'2raJM3b`]'fD$YM8hi]'HF]]'IZ+v$c[IL'tN6YM.^O^'K'.]'t/4cF]wO^'SJYcFb&Y^'_h$FMKd3_'lJf]']cGDM56#D&Runx)F*LLMuVv&"
    "u[nI4&KT=&u[hGc%#TWfM1Xn/MC&H,NYPMY[UhGc%wSWfMUFJ&u<fDD&+:>eNmfh0,;i3:S[fMq]r28U]fi7KQ8(w$QbQw<(H'aD&]^w<(LrMD&/VWfMAJ"
    "5INQPpWRL)%.WCg3V)yZTq]IGu/MTllTSkdtHsDm3V).Z-L``<jyP_IiQT>G8XSr4qEtZ^'G&[^w<((MuF&OVWfM@c^&cv3.l$2ark$Y;yCM9V9G&fVGDM"
    "B$:)X/>KKr%Jl<($]h)XHs3V)qP;RT]'v/MfZ9&Y'fHbX]hGc%GVWfMI'_&cv3.l$:ark$O;yCMB0-H&nVGDMJnjZZ%9:8o%Jl<(4hA[ZHs3V)yi;RTe@v"
    "/MnMjW[7qx;[]hGc%GVWfMv:9es)l#k_144LV6I)CY.$-V)D78OUlBr*bkonH&n*bfMcj4bt@x`D&@Z+v$_&xx)PGafM`a4bt>rVD&1DRl_G7n2_$N)eap"
    "*'n^mXv/Mv@C2_B,B[ZBy3V)KAn2_3s_%uqCkI&`^U/`mfh0,<l3:S9Dq,NBGV)t$i&J&8gF%uu[8J&d+nHa_/`$'w$cAuLGB5%v+6`'=2(RT2$-V)1I__"
    "'.*p-%y>^u$sd__'DZ+v$wjh_'GiafM&pZbtYp5`'Fs;hV`eGc%HP;fMr$3y)u^U_'jZ5`'24nxHn,*y)w-kfMc*/L`AV6btrItI&lro&cUBjfM5qvabHl"
    "6btyt^J&ll*_c[eGc%jD;fM;=d7*-`^J&5J>K&24nxHCLd7*GGEfMv^;[dVEjfMxW[#dLx6bt&6,K&1DRl_`*o2_2)@ea1Z`TfqB`&cT0Kvhj3)CP2Jl<("
    "DWIkh>U-V)eir0i*B-FMahJv)*Xe1hx(hiYpHh[#1DRl_>+;3_6+xdadj5#Zo,<*Oj(R>ZZ(q$Zk^n<(HuJ@ZHg3V)F]NCY%R8'Prr*q]Z(q$Zk^n<(X)$"
    "r]Hg3V)O'k_YTmC9]7'#>_bKxtelI5V)gK[R^Q#S^Y:Cv:`Xisk_c/`$'B%cAu&*,c'eOmc'agqK`2$-V)UrGc''Tyq$y>^u$d6Hc't/4cFf<Qc'34nxHU"
    "+ba'liafMH']bt%<mc'*gayHe$,c'k<dc'f]NfM[&U$#r*ybbus%xd`eGc%5dGDMdOh^c8m')txIl<(lWe_ck^n<((f)$d#P5V)vy[R^UCx&u-n`d'o9Cw"
    "dqfh0,.Jibbrda[do;-'cv3.l$cmrk$V/yCMj'.e'$saJM%d:e'WE$YM*jDe'Z)H2$i9rdF.CKK1U$4q#BdGDMpgXQg3>KKrxIl<(-=VRg506V)>8:6g'k"
    "-'cv3.l$lmrk$_/yCMs_*f'-saJM.D7f'aE$YM3JAf'd)H2$i9rdF7CKK1^$4q#Nyu`M7cff'=b]e'c@^u$Fhfe',[+v$N#+f'_Q6YM0khg'X(`g'@Z+v$"
    "'H=v)>saJM/&-h'e8iXM4,6h'dA-h'D:2=I80EL&Yi+DM2Zt;e2$-V)rdSM&.4V3&y>^u$FtSM&DZ+v$X:6h'c,iXM&xoM&7)gM&FLaY-K&T1&Yi+DMN/v"
    "Bl]hGc%pVWfM'<w/ML#F>m&hTY[UhGc%mVWfMK*S&u#$hJ&iYJ&c]hGc%6WWfMfb;esS1x^P:da%ceVXtnuL5V)ndM_PG7V)tPlYN&fpbAuU31O&XZYN&5"
    "AX;n]hGc%@WWfMo&<es[$Q8S_Jo:nwmJkquL5V)'p&9S0HL)tYLVO&pvkAu^e$P&k:VO&><M2q_/`$'ypbAuiKfp%`dD`&JKyat.$-V))/wBl>i^facb##"
    "vdV9INj)[Zvq8X^PPg3V)0KQ#v6cD[Zxb*TsqkX8SU/`$'Y'cAud>Oi'0`/j'G/&es4-6V)/grwvjkl%c7[Yq#l/Ft#L'ki'&eu6&2Sti''db/MaeGc%rs"
    "l`MIPBj'R%Gq#X9jfj#OJLrE$]yu*Jl<(5j:@vCU-V)i`[[v>Le=MZVq(OMP%kNDU-V)li[[v@Oe=M^rm%PPlxgODU-V)M0E*O/B-FM0dXy'6ge1hN4X#Q"
    "wr[$#=t's%YkFy'<E^0,Vb]CPZk<$QuJ('u<uIx'&db/Mrfh0,;rj'upbo[Q58#'u]weP&(vBhM/$-V)_y$Cl>i^fa@,(eNCJ>INGK`EOr8X^PPg3V)C`Z"
    "eNmUI[Zs2EZUkUX8SU/`$')(cAu`(6$((Kn$(BW@kU5-6V)`&&cOkkl%c7[Yq#Hx*q#HhQ$(&eu6&*>[$(NflBYaeGc%nul`ME9)%(0'Gq#X9jfjYGVLi@"
    "Lv(X+Jl<(,0[FXDU-V)3OwbX@Le=M*Y$;[tR/&[DU-V)6XwbXAOe=M-uw7]wn+#]DU-V)DQP<[/B-FMWH^&(^ge1hu6c5^G9^$#=t's%PPK&(<E^0,M+iU"
    "]Q4I6^Ei)'udYN%(MflBYrfh0,39-.W<Z(o^/sHFt1&s((X;`$'+cP'(agqK`d/`$'@(cAu=J#G%eIm'(bp5h`bhGc%ufWfMtf#ogPCeG%",
    "/:s`&I-s`&d.iXM2^%bb6K_CPCE^0,0[V((L1FI&L1FI&hbR$veBrbbZpT@Z7Kq>dWN<'Y0CX%u-qr((n0'[drfh0,;w%(YuQN@dN-*'u]weP&KT=&umfh"
    "0,ABy$Zr<r_Y&R6'cY0mXRnw&9S/(T$'*`';*<&59SVBjfM^$<tRr:>btKh*b&D:2=IK2EL&bcyCMJs]b&>SNfM*77$#HdrRTsuXhV]eGc%]AyCM;Y9c&;"
    "`afMvP>btWZCc&BN$OU]eGc%AG;fMeyU;*rElb&vFCc&VgTXRC-k'uLn3b&9eg8S^hGc%CWWfMQdx/Mc>=)X0,UY[UhGc%@WWfMuQT&u^($d&KS4bXnfh0"
    ",iD;:Sa0Hnp<BCU],pMgZgZ'%QbQw<(2E@d&]^w<(48-d&PYWfMI*h&c1F`Z[im>US2Jl<(;;GX[Is3V)E+[n^H'61Mrr*q]DWCU]`/`$'4sbAuiKfp%X$"
    "hf&[8=n^p95V)n4nhrbKtDtKiU+([^w<(@/G*(1gWfM'/SCcAlpgih^<Uf*IEo*0qb*(hV3q#HNyCM%6l*(0mafMj8gbtA7u*(,[+v$w7Fe&4>GDMJ0Kak"
    "*,bse#nveaDO6&lF$A3hN>B;nvp_$#40J7Tq:$A#'=A3hQZ=8owy#A#40J7TtD$A#*GA3hV(:qo'2`$#=t's%iA6,(5U-V)gx^Uo/B-FM<Ww,(C_Imgdl["
    "2qm->6pqFvnpbhGc%7gWfMgtjesekRnTL3<0i`Kqejd/`$'.2'^uFu#O#KgWfM%kKFtbBt-([^w<(Z&b-(NgWfM(),'uhsy.(G/&esKE^0,gE8.(F%<e&F"
    "%<e&nGScO,2hbt@I.ngPCeG%DBFI&L1FI&kNs^M3kp=v8W($vw[Mo*9pD@v2SJ`uShGc%XgWfM0)lesg&3OU1aq-s6&lesbhGc%`YWfMKQK[Ze`s.QskX8"
    "SU/`$'s*cAuR2'>(eW_>(3-o>Q6-6V)%w4r]kkl%c7[Yq#Z4Ft#:rB>(&eu6&gKL>(@;DnTbeGc%axl`M7Dq>(Z'Gq#X9jfjivXLr1yMTS,Jl<(h7;rSEU"
    "-V)oVW6TALe=Ms.SgVg(_QVEU-V)r`W6TBOe=MvJOdWjDZNWEU-V)(Y0iV0B-FMJRNA(Pje1hgd9bX:lf$#=t's%5^;A(<E^0,13I*X6<)cX8D2'uVd>@("
    ">;DnTsfh0,n:[YRyb`CY%a1'uo9ke&]BY2_nfh0,$DPPU5,nRT1s1'u'@Hg&luF#dnfh0,q];:S%#o5p(yq2h3T(te+7%$#24nxHXg]9*sMEfMypawdWEj"
    "fM%n)@dO*Abt(FQg&MEi7&V[gm#21^9*#@S2h]eGc%yG;fMT#=:*30Qg&KIsh&24nxHk4=:*GGEfM:P6OhWEjfM>]6Oh]RAbt5>sh&DZ+v$a5j8*Q/iXM&"
    "$+j&ig]9*3Twl'ei@P&qcyCM)CGj&$TtZM.LYj&@6Wh&Ai9d*6=q.&qV+j&%[Yr%XZcj&Dv's%Zalj&QH+DMZ+<XnEg3V)l1t)X9dh%u48jh&$R3kh^hGc"
    "%rYWfM)F)0MUv95p9HUY[UhGc%oYWfMM3]&ua:@d&No0_YEg3V)bkKUS9dh%u^($d&MflBY^hGc%9WWfMHHx/MYDRNq(kTY[UhGc%6WWfMj#tEtXU-l&[^"
    "w<(a=$l&EZWfMwZ^&uVU@l&Dk)hrnfh0,a+;:SLsFLM4'FU]%0Cmt_B'%QbQw<(yfIl&]^w<(&gIl&IZWfMZDCINge_^uO7Rn^&$-V)<&EOU8S^fadk>>v"
    "c:+0Mj)[Zv3B>_u$(T$'5SXm&@Z+v$T^v7*PGafMyZBbtXbRl&CXI/r]eGc%FaafM@Y6bttU/J&@Z+v$22*y)PGafM<P6btsO&J&DZ+v$fyC+&:NIYM',A"
    "%'oDmn#1irBP^eGc%1J;fMs*<y)':&J&4`o%'24nxHB><y)GGEfMZe<@QXEjfM]_]_Pm+HbtEF]%'9[KtR^eGc%9J;fM91Q7*P0]%'8-P&'24nxHhEQ7*V"
    "GEfMi^59SXEjfMmj59SuDHbtMwO&'DZ+v$T><y)4)iXMD*@('rEQ7*FZ+v$0>@('1khXMF6R('kDI('Ai9d*S@q.&DbQ7*%[Yr%:^n('@Z+v$&FQ7*U:GD"
    "MeHF)'u5<y)rDyCMNwN)'52iXMR)k)'`q)l#Ai9d*^@q.&eYk)'%[Yr%ODt)'@Z+v$0FQ7*i=GDMo.L*'u5<y)%EyCMX^T*'9c$FMgg^*'A+O)'UiT*'5i"
    "j-aCC(-WLot)b#$q*'B2iXM_s++'#dmn#9[KtR^eGc%@cafMj.HbtGRo%'@Z+v$s><y)PGafMg%HbtFLf%'kcfBc^eGc%kJ;fMt0Fy)Q6f%'K_m+'24nxH"
    "'FFy)sPEfMv^2@dWBjfM#_R_cO*Jbt'CZ+'y;%6gWBjfM`@@qf^UJbt1)a,'@Z+v$hse,&x'bfMUIJbt6H7-'FZ+v$3FFy)^2iXMx_f-'ad]-'w#W5g^eG"
    "c%wJ;fMu6Oy)06a,';U7-'0gMbkWBjfMnjhEkj#Kbt@(4.'.N(bk^eGc%pjeYM,Lu.'>vl.'DZ+v$Xau.'1khXM.X0/'#^'/'.N(bk^eGc%.K;fMwCby)f"
    "+4.'UHP.'1DRl_'6+3_BD]daNWYTo'Mnt[mSU%pGy<Vokft<(ym^qoa/`$'nvbAuWFi/'kG$0'<*mQp0$-V)0=60'XlFq#y>^u$qS60'04nxHQXby)Fdaf"
    "MtNKbtQ9$0'*gayHn4`/'``I0'@WNfM/KD$#M;XLry2o,s^eGc%IdafML-JbtXee0'@Z+v$iAA%'=yGDMOoe&u)gHbt(Jl<(.,h&ua/`$''wbAuiKfp%4S"
    "b1'Mgu^uLy3V)/G=Ccq*,/MLy;#QQF]_PP+4V)2P=Cc]xk%cYBGB'nyh''Yq<B'%[Yr%a&PB'@Z+v$35],&YsIYM@1+C*0emn#@Z+v$g`A%'i%HDMs5AOq"
    "'OWnp=yaeaXS2kqoxQJNdIcat19FT]Cg3V)2^QctCT'+Of[CBuTKmo^;g3V)pnjcOXoy'cYBGB'8@i''&7=B'%[Yr%M&%E*DZ+v$p(hm#4)iXM2:mS*EgF"
    "y)FZ+v$epmS*1khXM4G(T*YTvS*dG5yQuI5.WaTh]Q)Jl<(_K0%QSE^0,tPeYR5vI]v-%s'ubEb1'Np9#vofh0,0Y7Duxy-0V:t/FtJf_G([^w<(T,JE(6"
    "jWfMRFSFtFM9G([^w<(X2SE((jWfMsa@'cv3.l$esrk$l4yCMl9fE(V>iXMrFxE(/eby),[+v$DkxE(4>GDM>fJakxdjse%#2faGbR&lsE='uBA9G(w,sQ"
    "g4$-V)mW<F(<,VK%y>^u$;#=F(@Z+v$>)GF(AyGDMu=5/igE]TfuIl<(90F0iLm3V)<@bLiyWr*bKu,d(GBafMoNybtL*Rd(i5vv$B:$O#cngf(*,f=M=;"
    "wd(28(G(c5s^MO5-e(Plwd(P%mbt.Hr$#C6H9o'bybtceGc%vBiXM;aWe(;&0#*,[+v$w-Xe(;mCaMA(/f(#ogm#,T8^ZJ*$Ye6Ho1qKg2fa]xJ,sP7K'c"
    "q;DJsDD#Ye.(T$'.YBf(@Z+v$b)0#*PGafMoNybtcZpf(&eu6&u.-d(+2,ejbeGc%/W;fM)o8#*BRSE(8xpf(E(D7&oyoU*)(bfMi8pbtFY_G(mZ68&e1p"
    "U*paUG(1dNfMIRy$#A&59S`7(ctDRku(,4nxH0-uM%64NfM.Yx$#6uM*Oh(.STdeGc%yC<ZM2vBv(8Eli#R(D7&PDU#*c1@YM7=qv(PDU#*[o[8&P%()3R"
    "DU#*mM<ZM;V>w(RM0j#[o[8&q;kj0eF;A*y:f=MhAM$)Z]D$)E(D7&jRNA*Ld@YM@odw(h+[w(YtAq]deGc%OB;^MWi,x(4D)l#Mc=FX^BjfM$%+PU9A)c"
    "tZ+2x(R(D7&aDU#*gi;ZMHIWx(UCkl#S=i7&R0E;$6.f=Mv'S%)tnA%)'Q<ZMp3f%)t94U#E(D7&FSNA*[v[YMtL3&)Fhx%)R(D7&6h3&)",
    "]nqXM%''')PBl&)[o[8&=&()38B'')&;f=M7L_')2q4&)WlsA*[o[8&D&()3>g_')yp@YM/e,()By#()jeu6&@CS%)I(D7&^:I()].f=M92e()2a[()jeu"
    "6&g6-()[o[8&N&()3m[e()BG&KM7WE))UBg_Mv`Opo7M%`ui[Mo*k9>rokYb<nMj3V)j</ckh]HfNgWc)X0o>fWehGc%coWfM6)4]Z'Bq1YUE&[ZV/`$'/"
    "1cAun0By(CPgy(MflBYZ:4V)TOErf'CkyPnXT,sSP-3riYkxmvgn<((_O-s[SCo*6(AA#sV0MMgXlEtu>TfsT(4V)]hErf<HH'urbY#)P*i>Zw95V)nrmC"
    "c.a'EttbG#)[^w<(Kc+#)aoWfM#H:]QnB)[v&9#1`SFsI-o$FA#C7+]m3ZexvA)QhMXeb$QJKm,N*c@jMNj3V)ND7ckYFJcOJZi)OJmcfNfhGc%coWfM<o"
    "E'urbY#)XtAq]6>Jo3S_07Ts6Z*X0%)ctvBb*Oo+CrfH]eFtm1>K([^w<(9j#H(YjWfMk8TFtippJ([^w<(qo,H(FjWfM4TA'cv3.l$&trk$95yCM-w>H("
    "YjGDM/-ZWno75/i#Jl<(]SkXnNs3V):yx_c[mX0MSdYTof]K9oJg3V)d$hUoeMQ]Ze`s.QLGa8SU/`$'v3cAuUN#;)k%[;)3-o>Q9-6V)c5a6ppkl%c7[Y"
    "q#]<[K$=6>;)&eu6&mpH;)@;DnTeeGc%d*m`M:`m;)C7Gq#X9jfjilo3U3yMTS/Jl<(kJWrSHU-V)ris6TDLe=Ms.SgVj(_QVHU-V)urs6TEOe=MvJOdWm"
    "DZNWHU-V)+lLiV3B-FMMnJ=)Sse1hgd9bXA'+%#=t's%;+8=)<E^0,4Fe*X<OEcX>VN'uY(;<)>;DnTvfh0,R<TYR(u$DY+sM'uedpJ(=31np4$-V)3]EI"
    "(b[HO%y>^u$w'FI(1DRl_4kP3_n&,eaWSNKreYqIN^ijgrTu1MrJg3V)sw`Oqc:Y0Ma-gdsSYY@d9$-V)<<BJ(XlFq#y>^u$2`BJ(BZ+v$5fKJ(=g+DM;o"
    ".`uShGc%`rWfM7J6fsBD]Qgf<Hmplnc-aaxZ0,EbGA#_&5o^mL5V),X,SgJ`R*t1&AA)C4cAu%3(@)h/AA)Z/yQ^Mg3V)@i6fsolQ]ZGZg.d]xa8SU/`$'"
    "Z4cAu7KxA).tOB)m'c>d;IEo*W5<B)=Z3q#,ZyCMoLFB)$yafMa)4ct4QOB),[+v$y[V@)mAGDMqEJTfWSlsenTDfa2d$qfNGe$QTU@O#EAps6NJDaMxt8"
    "C)2SRO#9t's%@;'C)-yafMa)4ct=1LC)lQrs%:tFB)6NCC)CsGDMt$s@)oSh#*).[h`m8c'u&R$A)cyQ,aMg3V)vx,Sg8dh%uoRP>)f=N)b/Jl<(SjB`Yf"
    "hGc%UjWfM-#uesJ*Ckhe&ioTt8`*bRv3V)bwN6grBc'ui%>K(Q46wvsfh0,F3%7gQLy[v75UFteYW]([^w<(^.*Y(QlWfMasYFtaA2]([^w<(g33Y(<lWf"
    "M*7G'cv3.l$surk$f5yCM#;FY(OlGDMxY1,j0KiTS#Jl<(Ch^-jx95V)^uyIjoKtDtP<wD)[^w<(T.@D)7sWfMjKP'uL0wD),EdEkSy3V)5s<`cuEP'uL0"
    "wD)1s@#mvfh0,Xh4:SHa6`l<T]'cv3.l$wurk$A7yCM'TkY(mY6YM,ZtY(W-lY(@Z+v$S_FY(kAiXM/m8Z(Dgby),[+v$e@9Z(4>GDMIkZsnqKsse1NEfa"
    "Qgc8o*qP'u]42](3-o>Q5$-V)*'UZ(6`$T%y>^u$eKUZ(1DRl_2nl3_,g)eaR%rmp5`@]Zqxm=qv;#:SU/`$'&5cAubBBF)(YTF)@FiNqfhGc%QsWfMa$n"
    "*O_r.,sRGUopfhGc%QsWfM)w8fsK@QHjhO(Nq-<Alq7$-V).@#[(i1>c%y>^u$md#[(DZ+v$c-e$*vAiXM9S>[(kp5[(@Z+v$tv>[(AyGDM7v)nThE]Tfu"
    "Il<(ncAoTMm3V)qr]3U#Xr*bfm=G)GBafM2N5ctgycG)i5vv$R:$O#$uZW)q3f=MX31H)M,x[(c5s^Mj->H)$e1H)<#_<Rxu2%#[f)xv]5,=RfeGc%fJiX"
    "M+^KV)g3n$*,[+v$V2LV);mCaM0%#W)jvgm#,T8^Z/S+Gb$FadN==KfaIv;_PCfc'c^95%Qr(@fj.(T$'e^5W)@Z+v$b<n$*PGafM2N5ctRWdW)&eu6&(/"
    ">G)EjwKVceGc%JY;fM:))%*iSwD)o%eW)I(D7&uRE%*:(bfM,4wbtaMW](mZ68&l`E%*:bN](LfNfMX&q$#SrG*XLFH'cceGc%QfNfMTqp$#YR@$Z8HCu["
    "ceGc%qlGDMD6raXD_N>Z$Jl<(/I2cX5$-V)Dj7^(>;$h%y>^u$A78^(DZ+v$cZOy)4BiXMO&T^(@DK^(@Z+v$HJT^(*L;^MWoQX)ji#O#Mc=FX`BjfMyo]"
    "oT7:;ctZ1WX),[+v$:`g^(4>GDMSobjU8P#te<rKfa[kj/V6=W'ufufY)DjwKV:-6V)4;'=[qkl%cCHir#nCng$OKAY)#Iy9%81KY):X+v$A7TY)ISCo*#"
    ".GZ)v3@Z):X+v$D7TY)JSCo*&AcZ)yF[Z)=t's%NiGZ)4U-V)DN+AZ5E-FMZj'[)bp[1hs$+U]OXPA#FW68&V*mZ)U6([)e$bfM1M;ctfufY)mZ68&#t%Y"
    ")AC:[)Q$bfMI3xbtnFy^(1DRl_JVW3_CV3eal]fT]cnH'cv3.l$Mvrk$n7yCMT^P_(CZ6YMYdY_(m6Q_(@Z+v$Wo4_(ABiXM]vu_(qgby)1DRl_SrW3_aF"
    "TdauXZK`+OAiM%x:,aqZa@d.(T$'<V,Z#a^U/`feGc%ic;fM<Ba%*y0y^(0nO^)S1vv$rk65/RTmn#24nxHBoa%*niEfM-QB]d`BjfMp8i*bek<ct*n[])"
    "@Z+v$oLv_(GL;^M9lO_)#j#O#1pi&l`BjfM=iRogp5=ct<.U_)(;k]ZN]l6pcn0Bc0Jl<(<03PhghGc%:vWfM,N*DcAlpgihYDY[+IEo*xJ>`)<^3q#M^y"
    "CM&XH`)s4f=MXECdjP>NNj@<6V)1d*DcJ3RpfI_-bkW>(GkghGc%:vWfMj5BfsXW&[mGuRogS_k0i8$-V)t9x6^CWs*b4NF^)B(bfMUb<ct2HO^)@Z+v$M"
    "oa%*PGafMG6<ct5Zk^)&eu6&uID[)f42eaceGc%kY;fMEg.&**HgY)5)l^)E(D7&I9K&*E(bfMM@xbt*e$a(mZ68&yFK&*S#s`(4mGDMcFLBcjW<5g$Jl<"
    "(m^eCc5$-V)ctIa(eqvk%y>^u$'CJa(DZ+v$*[Oy)SBiXMn0fa(&O]a(@Z+v$.Ufa(yrNfMojq$#YR@$Z,ArRgceGc%,@;^MM2Ra)Gj#O#C_6Oq`BjfMeM"
    "Xxm-t=ctPLWa),[+v$Okxa(4>GDMJtv7o27hse3^j*bWq%b)K(bfM'/>ctUk.b),[+v$Tkxa(C=rEMv&Agr$c:SprrdyPb'/,sghBmrOB^0,qNPc)%Yg&*"
    "5Ue=MMcYc)jNRc):bG:%7'>c)rvGDM[vo1q;Shse8mj*b^>^b)V%bfM'/>ct[8gb))wK,jceGc%GmGDMqptmghE]TfuIl<(2]6ogMm3V)5lR3h#Xr*b1/7"
    "E(QL;^Mgu4d)Gj#O#KP^eWaBjfMA%W$v*mDctj7:d)PyU>vfeGc%Xd;fMH.p&*uy9d)`8_r)S1vv$6n65/kTmn#24nxHi^p&*2lEfM[F).NaBjfMOx(.N*"
    "jDctFh^r)@Z+v$Fmxa(iyGDMC`5s)ROp&*%[Yr%aW5s)(;k]Zk[:GX$O%)O.(T$'c^>s)@Z+v$t^p&*PGafM6^>ctQTms)I78eWgeGc%c0m`M9`1t)[2H2"
    "$&Jo7TeW7Sp9j@%#JSCo*)lXA#t0m'c#:a3$/d(3$BU1t)Z4mqS9w/=[pnH^Td#$PUV/`$'):cAucMjt)1=gu)>;DnTOg3V)mARYRMF2Qg",
    "Xb@O#,Xg&*)72w#OpPv$ixWZ5oxGDMCY+,Wfwise@-q*bfr]u)S'bfM/JEctdlfu)I78eWgeGc%V'bfMd,ybtA=Cc(n'c>d^eGc%M2iXM=`qC'W>H2$kcf"
    "Bc^eGc%u$/gMfy#J$",
    0};
static const char *const diti_spirv_text_gemm_gpu[] = {
    "GZ1N5jsi^PiHt%*=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>M5W#2q0`r6%ql5KiXr0Kr6S`^P+wKQ^=45HscFA;R/vEEb`6`grC93wQ*>KKr^+g"
    "/Mrs'<R&vmK(D4Tvd'ifp#-;1EMS3<##D9-V)gi08.yCT$'c@^vd*$+q#8['EMwejW-&il<(]C3U%Q('lh]q@=e8n0r#e@Lvd0U0r#(il<(tNY&#R:_Lie"
    "9LvdGy)t#-;1EMs;=##D9-V)/j08.yCT$'+A^vdJ4Ft#8['EM@nkW-'il<(yC3U%n%xkq]q@=eUl/u#e@LvdMS/u#(il<(9OY&#o7XLrf@Uvdbkmv#-;1E"
    "MgdC##9['EMav#[#TL5iMg<Lvd9+l-$9b'EMq];t$39-V)(l08.yCT$'$C^vdCch.$8['EM8ZqW-(il<(&xr;$y&QfWJLc&#pL^eWra'EMRV6t-&il<(C^"
    "0_#,BpU]O`4;enSm2$e@Lvdf:m2$(il<(RQY&#/^lR^hF_vd(r*5$-;1EMT9F##D9-V)hl08.yCT$'dC^vd+-G5$8['EMxksW-)il<(yxr;$qAthr^q@=e"
    "Y0h9$e@LvdQog9$(il<(=RY&#rSTIsjRqvd]OQ:$xm0EM1)H##D9-V)Em08.yCT$'AD^vd`bm:$8['EMUZuW-*il<(w:d/(bd&]Q_q@=eK3IK$e@LvdCrH"
    "K$(il<(/TY&#cv^<RkRqvdOX;L$%#1EM$ZM##D9-V)7o08.yCT$'3F^vdRkWL$8['EMH4$X-*il<(P;d/(:c%fa_q@=e$PJP$e@Lvds6JP$(il<(`TY&#;"
    "u]FblX#wdKAtT$xm0EMwNP##D9-V)3p08.yCT$'/G^vdNS8U$8['EMD)'X-,il<(x$s;$o.<0r_q@=eX-qU$e@LvdPlpU$(il<(<UY&#pAthrm_,wd<DUf"
    "$-;1EMi%V##D9-V)%r08.yCT$'xH^vd@Vqf$8['EM5W,X-,il<(oK3U%aZb@Q`q@=eK6[g$e@LvdCuZg$(il<(/WY&#bmBxQohH;err`k$fIh:err`k$kb"
    "5;err`k$p#[;err`k$u;)<err`k$#UN<err`k$(ns<err`k$-/B=err`k$2Hg=err`k$7a4>err`k$<yY>err`k$B:(@err`k$GSM@err`k$Llr@err`k$"
    "Q-AAerr`k$VFfAerr`k$[_3Berr`k$awXBerr`k$f8'Cerr`k$kQLCerr`k$pjqCerr`k$u+@Derr`k$#EeDerr`k$(^2Eerr`k$-vWEerr`k$27&Ferr`"
    "k$7PKFerr`k$<ipFerr`k$B*>Gerr`k$F9H+ejY`k$(il<(p9xp%pAthrI4Tvd`kM7%pa'EMh.-@#.il<()o`W$$O@$ZPY4wd('uM%tm'EMaq/@#*il<(b"
    "`(w#o7XLrpEAydf>Sp%;T(EMrS@@#&il<(/f/'+_QF$QUlPwdPnJ)&DBO>MP%#AMv&cpS/Fm;-L+k<(u8'5T.L1<-Vdu6&R%q@MT*u5&n6Gc*JHb>Mm3gB"
    "#pPu'GNHVSW-EFE%Y0:c%(kk<(j:1##7VV6T0VdvZS--nTR`(BMA]gQ#rnnrPmik<(^iy.MJ)3K$jZYr%1_L<MP;vvZyt:h`;utnbG,)BMO[:S#%t'.Tei"
    "k<(ye#/MGnnJ$jZYr%n@#Vsh&vvZ>r4hi'ET@PHi(BMm`CV#BC%^slik<(BnUvm3n&;$jZYr%hhBdMmqiwZGeeBlvWF@WPi(BM8,#Z#n,]0,%LtAurHtAu"
    "dtBQT^O5Z#sj(BMptki#Iqhntdik<(cxLZZX;a:$jZYr%i>DEgDYuvZU@eNUTc(BM5sjl#q:*<udik<(.M7w#g>^u$4OvvZwbZ/`i.0LoDjT@MX5M5&mNh"
    "wd9->HW)uxp#a$t+a)uxp#R)jwZAZu'fR](BMpKJq#WGk<(a#L6&w]<OhLy^@M-p9NhWGk<(/>TkhsCl<('DCr#bGk<(i_O9%3_BXnO+_@MTT@WnWGk<(V"
    "@YtnsCl<(NbEt#ZpR$'fA.hVMS/u#5yp@M2s.n&RqfCMo31KrP+U@M;7O5&$x/0Mu.AHW8%c-$pT#,a8%c-$SXALV;DL.$VsR$';(L.$4>fCPkHU.$P>fC"
    "PmF4n&DCBIWO(_@MvoFHWXGk<(x&YeWtCl<(qwA1$bGk<(;t/r%x.4cFtl1KVe4d2$UsR$'6qc2$^SP6^<9m2$ySP6^>k5n&e<eL`+NaKV$f*5$YsR$'dJ"
    "*5$tpQ<eSj35$8qQ<eUW6n&@v2LrO(_@Mn@:KrXGk<(pZJhrtCl<(iay9$ZpR$'q=%hVYIZ:$B%q@M>D8n&_tfCM/kgyuQ+U@Mw@^5&2KX[QZ7OHWH-RK$"
    "(/-,aH-RK$c[ALVKL;L$VsR$'Z3;L$Ci6oT$QEL$_i6oT&x=n&a@;IaQ+_@MYrJHaYGk<(['SeauCl<(U+]P$ZpR$'cSAhVH:&U$0(q@M-jAn&MwfCMcA/"
    "5pR+U@M)EIt$@mn/rhaRHWU'#V$5X0,aU'#V$p]ALV87Uf$YsR$'5yTf$/h1fNj;_f$Kh1fNlCGn&/8x#QOy^@MO37#QZGk<(Qy7@QvCl<(Llmg$wh9$L="
    "9St$;:St$;:St$;:St$;:St$;:St$;:St$+W]HWolik$LP7,aolik$=wMwZ,PTY__Vq@MOhLq%gik<(dw],)x.4cFZWJxZUe>MlmL)BM1:[p$yik<(D%@e"
    ")x.4cF7>PyZn<x3tlI)BM'Vb*%$jk<(7'=_+x.4cF>f,s]`m<dnn'l<(yyc##n>^u$*$Jp]O/+;MuR,V)tpC#ZD&vQTDudG%[o1BMZuiBPXEZmTmXMZZci"
    "k<(&hew#x.4cF+4C6^_;YEXa<%CMCScJ%B@YJ%HB%CM]MpJ%&FcJ%>)WBMS`4K%x.4cF>mk5^'UOBca<%CMg%LN%B@YJ%KE%CM)wXN%JoKN%A5jBMfP5O%"
    "rwDo*oE`BcS.#X[dik<(t&AR&x.4cFl4_n^Mte^ligo4g:Hhm^c0KHsBF1EXAW_m^%xFpsxyxGslF`vZskTiue-)BM)iBc%oik<(/*LU%xpPv$AMST#xHY"
    "f%9J;yH%OTQ#ci#O#xpPv$HMST#=.RO#x.4cF;T7xZ#T`c[sq%CMX)3i%nC5O%>b(BMx7Uk%iik<(uwiq%n>^u$J>0QTW@(o%Nyp@M-2:@#X,gCMuXiKrN"
    "sp@M/8:@#gik<(9$(0(b.<0r2Z:@#n>^u$kD3Q^`X(o%HrD(&WrQO#xpPv$<V@.Pc<%CM+#a(&>fV(&WLjBM$)j(&#xDo*EY,INFF]#Qq'l<(u6<<$xpPv"
    "$FgFM#kVJ)&xpPv$`gFM#r:mn#xpPv$aV@.Pc<%CMOLI,&b16,&MuK@M[Hh&GR6q@MK[99%PuK@Mr.sq%1uK@M>iwKidS&IW@dj0&bAUwZS.62qd*ivZcb"
    "##vhL%CMI(o4&@xr(&GvK@MF`86&L7q@MA+A<$i/gCMi7p/MOdK@M$S=6&R6q@My9B9%+9q@M$.F<$%xDo*Q*6INwsGn^twDo*uav&=lGFm^^XeNUNtYmT"
    "05Qn^ig9&YG@&8S$,j/VfDrG&(P0IWgJ$H&>Gf,agJ$H&x32/Vs<<I&t-0IWtCFI&<w%@Zm6Jsrkik<(&#O<$x.4cFlp(wZ8hEMcbo(BMsy^g&X:k<(fWY"
    "tR_Gk<(k/[Nqy,]0,uLNY[+RAW[*I%;[Ob:ejB_]s[-_]s[o,]0,)OCP_=j5N_3e%;[QtrEkyN;WeeN;Weo,]0,RWMck43BakZ+';[S/S&lEra(k0ra(ko"
    ",]0,P85Jj,Y)HjVv&;[UB3_l<AIgi(AIgio,]0,3/[i`FDNg`7q%;[WTk>m]Pj+aHPj+aqX,V),Kvv#V`NX$);Rl'b$E,aD5H0M$'gCM]vY#)xCl<(2+&:"
    "%);Rl'roD,ap'f,&M]D,a@dj0&t]D,aG9aD&$`D,atCFI&Q`D,aZ[$l&=D<&c__Do%p4:o%LyxCM6>Vo%*_eYM>W$p%wYro%FZ+v$$HVo%",
    "gQGDM1)vZvq,l8StIl<(0QvZv,$-V)k4Q'&V`3q#y>^u$7AQ'&@Z+v$c5fp%FSGDMIeN>ZM([N_xIl<(5nA@Z1$-V)D^EE'IpIl$y>^u$AvEE'DZ+v$Ap;"
    "E':ZIYMQ&tE'kuWE'DZ+v$M=tE't`GDMV.[N_`wD;exIl<(P`NO_Im3V)Sojk_(,,$Q+0wg`Xd9_Z+#0'P'3sdakU2X[P+4V)bhcea#*;0M,bOBc_b#'cM"
    "y3V)ftcea'OSINN4tZQ4dH@QGs3V)7fl>d9=T&cv3.l$(^rk$K4yCM/mx)&q(iXM4s**&rTgm#FZ+v$i&+*&1khXM9:Y*&tTgm#FZ+v$sEY*&T7NfMe>L$"
    "#A$hXn'.ing_eGc%=aGDMlBA8f5Y=,WyIl<($^49fKs3V)(pPUfZRo&u6KJI'x57ng`hGc%'aWfMV<Wes2hoab4^pteFONmgKs3V)u-GhVOFxFt`yC+&[^"
    "w<(hb9+&LSWfM'jH&u^yU+&MflBYlfh0,=l*:SA3Q#d850U]1G*E]]``u[aQw<(0,`+&]^w<(7,`+&PSWfMYa^2hwR#k_kM$$#DZ+v$g,x]);)iXMV8X-&"
    "7;O-&FZ+v$UDX-&1khXMXEk-&)Jb-&1DRl_OMe2_BD]day&sdav)NhM(<7)b6JOnTNxZ0,IOB@#yFY)b-$-V)rm3J'nH;p$y>^u$F/4J'1DRl_rk33_yBq"
    "daA6MEkHZTINGLiakIk=FkMy3V)+)EFbK71'PM,bZm+c3bk1$-V)'aLK''Tyq$y>^u$_yLK'1DRl_'943_2tqdaMN=8o<ZACcSdYTobP/9oKs3V)VjV_l="
    "W%'cv3.l$+krk$_/yCM256L'apl`M9HRL'h4iK'DZ+v$nA$L''[IYM>g)M'RBPJ'1DRl_5e43_o%wda[xfdscSUINb6+)t'OXesj^n<(6ft)t1$-V);-XM"
    "'l=5+%y>^u$0GXM't/4cF2MbM'SJYcF1AOM'6neYMKYBN'RBPJ'DZ+v$msBN'OpaJM1UM]'dD$YM9nr]'iTkM'PjC(Gch[L'nPo]'B(R]HVpn,&8d+DM.t"
    "FbOHg3V)e&V&c7dh%u^yU+&OxL#Z[hGc%LSWfM(mH&u'9#/&n0'[dlfh0,>o*:S^*/_l[G1U]OM@af:.n$QaQw<(tO>/&]^w<(vC,/&qSWfML*J&u/km/&"
    "v#W5glfh0,0G3:S(-P&lbY1U]W@p:i2=ouRaQw<(+uv/&]^w<(/uv/&ySWfMrHV&c[gFGk&nrBckwq*b@p71&xhhXM$iJ1&H>H2$w#W5gZeGc%#ZafMM'."
    "bt*L>/&@Z+v$83*^)PGafMJu-bt)F5/&3%]>mZeGc%0B;fMt-3^)405/&1Q42&44nxHC93^)HGEfM[me;nTBjfM_j-[miw.btD7y1&.4nxHE93^)14NfM%"
    "#($#FRD6pex=npZeGc%%o&dMlsDNUmHK&uQ0D3&AO-kqlfh0,Yj1:SU6x;R-i2U]ykFpsx^gu[aQw<(o:M3&]^w<(s:M3&DTWfMM<a2hdR'&ukM$$#DZ+v"
    "$o'#s)(*iXMCs[4&$vR4&FZ+v$a)]4&5,6YMwQ1D&b/f4&IZ+v$d)]4&1khXM#eMD&AlDD&3Twl'M-jD&S`yCM)>.E&QVGDM_eF[Q>Jm)O#(T$'S@.E&@Z"
    "+v$Z)#s)PGafMtE/btS<V3&9[KtR[eGc%7D;fM7y+s)_'V3&1loE&24nxHg/,s)AJEfMgQ#9SVEjfMng#9Sq75btKeoE&:X+v$a$N(&=s3V)]_2FOdru/M"
    "b5ydWw1xHWJy3V)$VLeWo&x%Pk1nZZpy_tRGs3V)4hA[Z`P_)OnMjW[py_tRCg3V)8#^wZkk6INp`J8]8VN#vL+4V)1'MeWf*,/Ms$G5^D^Uq].$-V)UDn"
    "2_2=Tfaxhd/`][_&cPe7E&E>-H&vD+DMWfj/`Dg3V)xZ3FO8dh%uJ_fE&:n+USKev<(^3)l#AZafMq;/btNu'3&24nxHp;3^)IMNfMPO/$#poA*bdkCbb["
    "eGc%hPNfMT[/$#A$hXnljs;e[eGc%OQIYMfAHK&Nnc*&muF#d[eGc%s]afMIu6bt&6,K&i5vv$AqHK&0p#O#qPNfM^w/$#A$hXn'+i2h[eGc%[deYMoxDL"
    "&Nnc*&vq:qf[eGc%%^afMR97bt/n(L&i5vv$LQEL&'<3^)[E6YMs9jL&'amn#(n/hi[eGc%&E;fM>Mms):X(L&]jAM&24nxHY[ms)TGEfMFCBejVEjfMH<"
    "b,j`[7bt9T.M&:X+v$L%N(&=s3V)OcI[QO5x/MM,bZmc(a>mJy3V)Sj6[mf*,/MRZ=8oW'Ctn.$-V)(^uN&9eG2$y>^u$amuN&BZ+v$cs'O&vPe=M;q9O&"
    "<dmN&#eeYM72`O&s>mn#@Z+v$SIjL&BQNfM.B1$#A$hXns2xHs[eGc%eWGDMWTVP&-Xms)48P'G(sRP&:X+v$@@]P&4U-V)Nv;ct+E-FMkK=[)@ye%cv3."
    "l$'mrk$^1yCM.vt^'v]IYM3%'_'eNu^'t/4cFg>'_'QJYcF5*1[)%peYM;Vq_'eNu^'t/4cFwpq_'QJYcF>0:[)TTj^MXcC`'=$4q#14nxH'&-`'pUv]M["
    "u_`')>R`'R9r#ZYBjfM0o5*X67[bt_7e`'1DRl_;y:3_/kqdaaN9&Y6Ps#vsjKMYBW#r])TQjY%lMCYahGc%UcWfM-s_es3(2KZ*K'-s0*6*Xc/`$'2%cA"
    "un$Oa'FJ8b'Q3-[Z2$-V)Fmja'/.mr$y>^u$E1ka't/4cFG7ta'34nxH6&-`']iafM8P[btm68b'*gayHFvNa'CD/b'ucGDMSj_Q^0#ONqxIl<(KA[R^k^"
    "n<(_Nwn^Jm3V)aZ;3_p2&#Q=3qu_JryXSaV@N_2$-V)R`+c'*g=r$y>^u$^$,c'>KYcF^uyb'-dGDM]fSHa8m')txIl<(^XPIak^n<(qfleaJm3V)sr0*b"
    "p2&#QG/flbReR3VjR4Eb506V)y9ibbL9t#v,,,wdi/ICc6g`Tfc<TL`Ls3V)yA&xd7hE0M8y@5goAUrfk^n<(x%f_cHg3V)-7:6gaex&uWX6P&F&bHsmfh"
    "0,,N8Sp6Mi2h;4`es5:j+[d)c,jIs_U]yL5V)lle/rye:_Y[d'8Ns>fiM`/`$'[rbAuD$N`&ZKub&+:>eN/$-V)ux$a&rrr`&y>^u$L3%a&1DRl_wsu2_'"
    "dNeaHvW>QKc>INN4tZQ(Q:AQEg3V)NCs&PMi>INQPpWR+wj.rDg3V)W,lwQwtI[Za;e1ljUX8SU/`$'m%cAuL`'g'X(`g'/a`Bl4-6V)VF/uRkkl%c7[Yq"
    "#4v*q#4HCg'&eu6&ZsLg';o4qo`eGc%Zsl`M1qqg':'Gq#X9jfjFbOLi-U>Wn*Jl<(^SttnCU-V)er89o>Le=MobDjqa[OTqCU-V)h$99o@Oe=Mr&Agrdw"
    "KQrCU-V)utikq.B-FMD(Oi'Jee1hc@+es2TV$#=t's%).<i'<E^0,'O*-s*Xbes0,#'uP9@h':o4qoqfh0,(UD]mm&BFtr5BFtJbFy'X;`$'oBBj'Np9#v"
    "c/`$',&cAu=J#G%='_j'OyU>vahGc%6fWfMa)tngPCeG%Rwxa&^kxa&n.iXMK4U,NO<]CPCE^0,I@*y'fwx)&fwx)&hbR$v>cH-NsbR@ZPyIbOx2kX[/CX"
    "%uFUFy'/`V&Prfh0,JyLY[yCwbO:H#'u>ui`&AN$OU^hGc%/YWfM_NBes%:p8]02#(Pv;>NU/$-V)eks&P:]p*bXZ0c&e'bfM__7bt;aAM&@Z+v$r^ms)P"
    "GafM[U7bt:Z7M&H.tHW]eGc%GG;fM@Svs)FE7M&b,rc&24nxH$evs)AJEfM/i5FXWEjfM1cUeW*j>btZm_c&:X+v$m'N(&=s3V)qylwQpC(0MmDN;[,AMw"
    "ZKy3V)<8+<[g*,/Mrr*q]'R/U]/$-V)IvNe&XlFq#y>^u$K1Oe&BZ+v$M7Xe&vPe=M]2ke&^%Ge&DgeYMXK8f&<Bmn#@Z+v$tKjL&qQs^M",
    "v^kf&634*&lro&cVBjfMjnLbb^UAbt#'#g&1DRl_Xow2_`_Pea)h/#dk/i&cv3.l$]drk$3ByCMdPmg&RH6YMiVvg&dbmg&@Z+v$uIHg&TH6YMmoDh&hQ4"
    "*&@Z+v$,*Eh&EH6YMp*ah&aqVh&@Z+v$+o(h&+-;^MQ:l#(dd#O#LYy)XZBjfMrDjRT,pdbtTTq#(,[+v$TNjh&4>GDMRfFNU=gbse6PteaZbNkU+s('u`"
    "A)%(Ca[/V5-6V)Tj=3hkkl%cCHir#riBu#InZ$(#Iy9%,Ee$(:X+v$4Kn$(ISCo*tPa%(pVY%(:X+v$7Kn$(JSCo*wc%&(siu%(=t's%B%b%(4U-V)<#8$"
    "Z0E-FMT5B&([a[1hrrf8]D6y@#FW68&J=/&(IJB&(_lafM++ebt`A)%(mZ68&.>@$(4VT&(KlafMGr@bt7K.i&jYJ&c]eGc%iG;fMVwou)5j)%(V6.i&3T"
    "wl'q:OI&^f+DM_HWeWhhGc%MYWfM[-(0MC'QHj+qKY[UhGc%JYWfM(sZ&uyt^J&hP.bbo95V)A3J_cpKtDtD1yi&[^w<(F)pi&0ZWfMct]&uFD42&-N(bk"
    "^hGc%3ZWfMc[Ees]-mTSUW>ak/LH[mvL5V)sVKUS;Wc(tM]Pj&dykAuQuuj&RNPj&1s@#m^hGc%;ZWfMktEes^61qSY%Wylw@9UovL5V)%ygqSwpK)tU6D"
    "k&jykAuYOik&c(Dk&9fpToIs3V)j2hqSepf/Ma-gds&_BbtFs3V)xKFesa.p/MdIcatq2LUS9$-V)l/*m&/*xl&&eu6&.4*m&3Twl'&T-l&df+DM12#CuE"
    "g3V)tQhqS8dh%uKi0k&:o4qo^hGc%TZWfM,hFes_@M5TcxKpoy5jhMwL5V)kL16Tq^K)tCxV$'Y$lAuG9%%'=lV$'&db/MJs3V)f:D_uB1l/MJg[BP[T16"
    "TSs3V)LFACPb.p/MM+X>Q]KQUS9$-V)V_x%'HXo%'&eu6&Zex%'8R/XR^eGc%8J;fMJ9%u)EDM$'1'G&'24nxHwM%u)7GEfMgQqtRXEjfMk^qtRtAHbtLq"
    "F&'=t's%hk*&'+IEo*+no/r2tO]ZuIl<(v*GLVAU-V)j^uwQu;GDMXU-('#L%u)T%yCMB-6('$i-FMH9I(',x[%c&:k`YqN(3U:NIdag%R#Zasy2hmD2[Z"
    "wr@$#Ai9d*-V-l&h9$O#%[Yr%Ap2)'Ai9d*n^s0&(j%u)%[Yr%I1X)'Zf@t%lj')3>v;)'Dse=Mc8t)'_aJ('B=k)'Zf@t%nj')3*86('Fse=MeE/*'T#E"
    "''9J&*'v(KU]sk10My[>/`68LY[UhGc%;]WfMqJd&u;f`$'(vBhMFg3V)1A36T8dh%udNbm&'m&LM_hGc%6ZWfMEB*0M&*WHa1)LY[UhGc%3ZWfMi/^&uF"
    "D42&5AX;nCg3V)d8R_c7dh%uC1p1&47<wm[hGc%l]WfMDYMes650#d[ASvm/DY_cwL5V).]n#dp^K)t.UQ+'E%lAu2nv+'lIQ+'iYJ&c_hGc%t]WfMLrMe"
    "s7>L>d8da%c8029fwL5V)7'3@dvpK)t6/E,'M%lAu:Hj,'%$E,'qL#XeJs3V)ZqF_uB1l/M=PtjhEtxNhFg3V)4f[kh7B=JND0mdjokOtRCg3V)P9TUS=,"
    "30MGLiak1K3@d8$-V)w1P.'9eG2$y>^u$PHP.'24nxHHhS-'3WNfMumC$#;M3$mVgI[m^eGc%T^GDM.$>;ncE]TfuIl<(V.*<nwL5V)h@QbkrBg&uGSu.'"
    "3.xZmofh0,mhi#mBBatnl#/FtR3`/'[^w<(c.V/'>^WfM7Qs&cmUkop+)S#d$IMfaVAR2qTg30M[V2/rMO_oT)IEo*i;9IjLid0r(Jl<(tw6LrFg3V)GG4"
    "@dA(k%cwZ$+t+)S#dMT[eaaFcEt_.40Mf[CBu`GH]Z*IEo*sZ9IjVntCu(Jl<(1EH_uHE^0,%uv2q&X/Ft0w/FtSCI,([^w<(^a3*(@gWfM[_JFtO*$,(["
    "^w<(bg<*(1gWfM%#7'cv3.l$nprk$l4yCMunO*(`;iXM$$c*(GE=.',[+v$VEc*(4>GDMIkZsnwdjse.;)faQgc8o$_4'uKu#,(*2,ej3$-V)v4'+(<,VK"
    "%y>^u$NT'+(@Z+v$QZ0+(O^GDM(DFBlfE]TfuIl<(MNMClKm3V)P^i_l/hv)bTRnH(GBafMxgpbtU_;I(i5vv$A7$O#JM3Y(3)f=MGpaI(;mi+(c5s^MXj"
    "nI(XFbI(.P5iM7ai$#M;XLreM9iMceGc%(@iXME=BJ(Dqk^),[+v$2`BJ(;mCaMJ]pJ(,lgm#,T8^ZSCrXeAM(EtS(*fag&[>vXPB'c$BT]vL]qXe-(T$'"
    "A3,K(@Z+v$>vk^)PGafMxgpbtA<<Y(&eu6&]bnH(57<wmaeGc%8T;fM(ft^)T,=*(LX<Y(E(D7&#ck1'(%bfMrQgbtO6I,(mZ68&fqk1'e=@,(:aNfMRkp"
    "$#A&59SiPvbtM/UZ(,4nxH9*uM%64NfM7ro$#A#_<R#G5fWceGc%+A<ZM;S,[(7Bli#R(D7&X79_)c1@YMArZ[(X79_)[o[8&Yy')3Z79_)lJ<ZME3)](["
    "J0j#[o[8&#9kj0k-e$*v7f=Mqu6a(d9.a(E(D7&p9w$*Ua@YMILN](#^E](dyQ,aceGc%X>;^MaFn](4D)l#WhNX[]BjfM7C2cXBYwbtd`s](R(D7&i79_"
    ")gi;ZMQ&B^(T@kl#S=i7&[-E;$@+f=M(]<b(&L+b($N<ZMyhOb(&74U#E(D7&L:w$*es[YM&*ub(LBcb(R(D7&IBub(]nqXM.[hc(VsUc([o[8&G#()3Ks"
    "hc(#8f=MA)Id(;Nvb(^SE%*[o[8&M#()3QAId(vm@YM8Bnd(TSed(jeu6&Rt<b(I(D7&pl2e(f+f=MCgNe(;=Fe(jeu6&ifnd([o[8&W#()3o3Oe(>D&KM"
    "A4/f(_>g_M)f`+s@fs_ui[Mo*'XF-s&xiOqLj3V)qCF*kpu>fNq]s;[C5GxZdhGc%llWfM@B+]Z1G*E]TE&[ZV/`$'8.cAuwe+_(U*Q_(Wk%U]Y:4V)^h;"
    "rf&CkyPx^e>v]U=Fuc:*Amugn<(;%W@vZSCo*@A7A#%p'MME,5LM%8[xvS(4V):XArfq7D'u$@D`(Z/yQ^v95V)w3eCc.a'Et&@1`([^w<(^<m_(jlWfM,"
    "a1]QLmIbO%3q0`SFsI-x<<A#vlF$m/N[xvK.b#Qa&Y$QTP&@Q3hP%QMj3V)UJN*kb_AcOT`y;RRljxQehGc%llWfMF0<'u$@D`(cyQ,a5>Jo3]^7JW.Ub<"
    "[nh@iM2ai<RwD9rfPu[FtKkb=([^w<(CGe,(7iWfMtQKFtGR<=([^w<(#Mn,(OgWfM=m7'cv3.l$/qrk$95yCM6T)-(cgGDM92kjqn75/i#Jl<(pqrkqMs"
    "3V)V2YLi[.P0M^ijgrx#SLrIg3V)wBohrr]U[Zoe,BTKGa8SU/`$'(1cAu_+ew(&WEx(=2(RT8-6V)vShIsokl%c7[Yq#f9[K$Gk(x(&eu6&(K2x(JAT)X"
    "deGc%m'm`MD<Wx(L4Gq#X9jfjr-g3U='_gV.Jl<('i_-WGU-V).0$JWCLe=M&4dyYs-odYGU-V)19$JWDOe=M)P`vZvIkaZGU-V)>2T$Z2B-FMVK4#)]pe"
    "1hqiJt[I@y$#=t's%N]yy(<E^0,Hdl<[OmLu[GoE'uc]%y(IAT)Xufh0,[;[lU:;,V]34E'uCF<=(H8B)t3$-V)<9/.(b[HO%y>^u$2Y/.(1DRl_=,H3_n"
    "&,eabX_^umrhINhn##vg#G_uIg3V)/>hbtkSP0Mk2wvvsAnbk0$-V)rue<(XlFq#y>^u$F@f<(BZ+v$IFo<(LK+DME0&`uShGc%ioWfMAc-fsBD]QgoBX("
    "t'5k@d`xZ0,N#>A#<n0o^mL5V)5q#SgRxI*t:Z*&)L1cAu.hi$)#b*&)e42eaLg3V)S/>xvmfH]ZQ`wAg[xa8SU/`$'d1cAuA(c&)AN9')",
    "w,sQg:IEo*aj&')=Z3q#5WyCMx)0')-vafMjB+ct=.9'),[+v$46A%)mAGDM$KZgiVSlsewm:fa<i4,jV`[$QTU@O#N=ps6WGDaM*R#();PRO#9t's%Rmh"
    "')6vafMjB+ctGf5()lQrs%CN0')I(-()LpGDM&Y]%)wGL_)33l#dk2Y'u//f%)m'c>dLg3V)(:$Sg7dh%ux/:$)pC_;e.Jl<(g0Jr]ehGc%3iWfMcjpesJ"
    "*Ckhm%p*X/Wg<eQv3V)@hJ6gp;Y'uG_b=(/`V&Psfh0,E-s6g789cOm%QFtn6BB([^w<(gck=(ZiWfMj4QFtjusA([^w<(pht=(FiWfM3P='cv3.l$%srk"
    "$f5yCM,p/>(XiGDM+`B>m/KiTS#Jl<(V.f@mw95V)q;*]mnKtDtYqa))[^w<(g`)))ApWfMsdG'uUea))6JtWnRy3V)Q,uLiu^G'uUea));xP5pufh0,Wb"
    "+:S['>roEmS'cv3.l$)srk$A7yCM01U>(vV6YM57_>(`_U>(@Z+v$f80>(t=iXM8J#@([G=.',[+v$wq#@(4>GDMSpk.rpKsse:g;fa[lsKr22H'ufisA("
    "=2(RT4$-V)3[>@(6`$T%y>^u$w%@@(1DRl_;/d3_,g)ea]*+)t=x6]Z$''Qt'Uq9SU/`$'/2cAukv++):3>+)JKyatehGc%ZpWfMj<e*Oiw>>veLj)tehG"
    "c%ZpWfM280fsK@QHjqT8at@ZH'u6$-V)7td@(i1>c%y>^u$(>e@(DZ+v$kxH`)(>iXMC0)A(&Kw@(@Z+v$/Q)A(O^GDMB$:)XgE]TfuIl<(**I*XLm3V)-"
    "9eFX0hv)bDOb9)GBafMh=1ctE[/:)i5vv$Q7$O#6OE<)#1f=M6mT:)VabA(c5s^MHgb:)XCU:)G(oOU)7*%#99J'PpS3PUeeGc%oGiXM4:5;)o'R`),[+v"
    "$id5;);mCaM9Yd;)ssgm#,T8^Z8lyFb.KqvQFVBfaS$MqSK'Z'ch>F7TOp:fj-(T$'w7w;)@Z+v$j0R`)PGafMh=1ct[4N<)&eu6&geb9)Oo0_YbeGc%SV"
    ";fM9wd`)$.b))*WN<)I(D7&&G)a)9%bfM5Mnbtj*BB(mZ68&jS)a)y<8B(UcNfMb>h$#SrG*X`dO9fbeGc%ZcNfM^2h$#YR@$ZLfJ0`beGc%#jGDMN;+t["
    "C_N>Z$Jl<(Cg9u[4$-V)MGyB(>;$h%y>^u$SiyB(DZ+v$usS-'=>iXMXZ=C(Ru4C(@Z+v$Z$>C(80;^MaL;=)ji#O#WhNX[_BjfM56e*X@S2ctdfA=),[+"
    "v$M9QC(4>GDM^tr%Y7P#teF3Cfafp#CY>VN'uoRP>)No0_Y9-6V)HY.P_pkl%cCHir#w@ng$X(+>)#Iy9%Kc4>):X+v$Si=>)ISCo*,c0@)(i)@):X+v$V"
    "i=>)JSCo*/uL@)+$F@)=t's%aC1@)4U-V)Wl2S^4E-FMdGi@)km[1h&*;h`WqGA#FW68&i[V@)hhi@)nxafM:f2ctoRP>)mZ68&+Ng=)St$A)ZxafMRLob"
    "tw#dC(1DRl_SoN3_CV3eavbvg`k/@'cv3.l$Vsrk$n7yCM^::D(LW6YMcADD((P:D(@Z+v$jIvC(J>iXMfS`D(1H=.'1DRl_]3O3_aFTda(_k^c3h7iM/&"
    "L>d9Cubk%(T$'FS,Z#kcfBceeGc%r`;fM;8Ea)+fcC(CH9C)S1vv$$i65/[Qmn#24nxHJcEa)wfEfMAoIog_BjfM,Wp<em,4ct3KFB)@Z+v$*'aD(FI;^M"
    "CI9D)#j#O#;uy8o_BjfMQ/Z*kxN4ctFc>D)(;k]ZWuc6pmsATf/Jl<(PN:ckfhGc%DsWfM5gxCcKq)#mpr:Y[+IEo**()E)<^3q#VZyCM/52E)%2f=McJS"
    "vmYD_am><6V)E*2VfI3RpfSd=tnj]/YnfhGc%DsWfMsN8fsXW&[mY;Z*kf%sCl7$-V)0X(JaAQj*b=+0C)A%bfM_#4ct;%9C)@Z+v$UcEa)PGafMPO3ct>"
    "7UC)&eu6&0$.A)p9CwdbeGc%tV;fMD^ja)2yP>)HZUC)E(D7&Q-/b)D%bfMVXobt3BfE(mZ68&w9/b)fT]E(=jGDMmK]TfiW<5g$Jl<()%mUf4$-V)lQ3F"
    "(eqvk%y>^u$9t3F(DZ+v$<tS-']>iXMweOF(8)GF(@Z+v$A/PF(0WNfMx+i$#YR@$Z@_yejbeGc%5<;^MVg;F)Gj#O#MdGbt_BjfMxk`3q555ctY)BF),["
    "+v$bEcF(4>GDMTy/Kr17hse<va*baNgF)J%bfM0H5ct_HpF),[+v$gEcF(C=rEM),Qyuy[1SpqrdyPl,@>vpmR(vNB^0,#,:H)#MKb)5Ue=M+E&V)s+<H)"
    ":bG:%vY(H)PuGDMf$)Et:ShseB.b*bgsGG)4$bfM0H5ctemPG)3%]>mbeGc%PjGDM$v-)kgE]TfuIl<(F#>*kLm3V)I2ZFk0hv)b:dx)(PI;^MEWXV)Gj#"
    "O#UUnwZ`BjfMT@s*O3.;ctHq^V).MvEOfeGc%6c;fMG%Tb)S[^V)rjHW)S1vv$@k65/tQmn#24nxHqQTb);iEfMod0AQ`BjfMc>0AQ2+;ctOEHW)@Z+v$X"
    "GcF(hvGDML<wW)ZCTb)%[Yr%s1wW)(;k]Ztt1GX.T5;R-(T$'u7)X)@Z+v$%RTb)PGafMlM:ctZ1WX)S<IwZfeGc%l-m`MC<sX)e/H2$&Jo7Tnp.Sp7d6%"
    "#JSCo*2-PA#&Jd'c#:a3$8a(3$K2sX)e9&-WB8'=[#tXpWl;rOUV/`$'27cAul*TY)DoPZ)IAT)XNg3V))`YlULF2QgXb@O#4LKb)(42w#OpPv$ruWZ5xu"
    "GDMM_;>ZewiseIFh*boOGZ)]$bfM8c;ctmIPZ)S<IwZfeGc%`$bfMmEpbtJr,H(;o4qo^eGc%@dafMR@Jbt/tM,'@Z+v$:QF^)VDafMO6Jbt.nD,'ll*_c"
    "^eGc%K2iXM'/SA'X;H2$iP.bb^eGc%s$/gMfy#J$",
    0};
static const char *const diti_spirv_text_gemv_gpu[] = {
    "GZ1N5jsi^PCZsD(=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>M1W#2q0`r6%Gxk%c/*g%lee)EtX.*,WlCkylf/gyu]-$wZ6F=BlqKT^u3$vdW;pM"
    "/`U`Co*:gH>#'il<(C5d/(/TP6^]q@=enPZn#e@Lvdf7Zn#(il<(RNY&#0g0o^e9Lvdv6so#%#1EMKr;##D9-V)_i08.yCT$'Z@^vdyI7p#8['EMoLjW-&"
    "il<(d5d/(PvbOh]q@=e7h'r#e@Lvd/O'r#(il<(sNY&#Q1C0if@Uvd;5rr#%#1EMhq<##D9-V)$j08.yCT$'w@^vd>H6s#8['EM4LkW-'il<('6d/(oyIo"
    "pILc&#fHVnpqa'EMG20t-&il<(7[0_#rSTIsRxY;e[9hu#e@LvdSxgu#(il<(@OY&#uoPFtgF_vdDiq.$xm0EMt4D##9['EMnG$[#bmBxQg<LvdG$6/$9b"
    "'EM.D<t$/9-V)<l08.yCT$'8C^vdW/t0$8['EMMArW-(il<(E8d/(0^lR^^q@=ep`(3$e@LvdhG(3$(il<(TQY&#1pL3_iLhvd@QR7$xm0EMl)G##D9-V)"
    "(m08.yCT$'$D^vdCdn7$8['EM8[tW-*il<(mxr;$e),un^q@=eM=O8$e@LvdE%O8$(il<(1RY&#f;dUojRqvd]OQ:$-;1EM1)H##D9-V)Em08.yCT$'AD^"
    "vd`bm:$8['EMUZuW-*il<(dH3U%VUQ-N_q@=e@G9J$e@Lvd7.9J$(il<($TY&#Wh1fNkRqvdbp4N$-;1EM6:N##D9-V)Jo08.yCT$'FF^vde+QN$8['EMZ"
    "l$X-+il<([$s;$R1C0i_q@=e;/rR$e@Lvd3nqR$(il<(wTY&#SD#iim_,wd>N[S$xm0EMk)P##D9-V)'p08.yCT$'#G^vdBawS$8['EM7[&X-,il<(-<d/"
    "(o.<0r_q@=eX-qU$e@LvdPlpU$(il<(<UY&#pAthrm_,wd]RdV$%#1EM1,Q##D9-V)Ep08.yCT$'AG^vd`e(W$8['EMU^'X-,il<(uCH>#x2D'YI:^vdg:"
    "vj$wy0EMKoW##:b0EMLxs>#>n0EMM*8[#C#1EMN3Tw#G/1EMO<p;$K;1EMPF4X$OH1EMQOPt$ST1EMRXl8%Wa1EMSb0U%[m1EMTkLq%`y1EMUth5&d.2EM"
    "V&-R&h:2EMW/In&lG2EMX8e2'pS2EMYB)O't`2EMZKEk'xl2EM[Ta/(%y2EM]^%L().3EM^gAh(-:3EM_p],)1G3EM`yxH)5S3EMa+=e)9`3EMb4Y)*=l3"
    "EMc=uE*Bx3EMdG9b*F-4EMePU&+J94EMfYqB+NF4EMgc5_+RR4EMhlQ#,UX+EME*8[#P('lhLMyvd<E[o$up'EM,&v>#,il<(,aD;$^H*`PLAgvd^aGJ%<"
    "W(EMBR>R&Ail<(EF<5&#F$`YJ.Kvdf=Mg%]mO>MP%#AMv&cpS/Fm;-L+k<(u8'5T.L1<-Vdu6&R%q@MT*u5&n6Gc*ax(BMc'A0#x8U0M0VdvZ<h+hMR`(B"
    "M*,IO#rnnrPmik<(G%y.MJ)3K$jZYr%r^L<MP;vvZcW9bX;utnbG,)BM8+tP#%t'.Teik<(cxy.MGnnJ$jZYr%W@#Vsh&vvZ(U3bb'ET@PHi(BMV/%T#BC"
    "%^slik<(+*Uvm3n&;$jZYr%QhBdMmqiwZ0Hd;evWF@WPi(BMyR[W#n,]0,OBr:nE>r:nJlETS>^nW#32H9ogZL;$jZYr%m_L<ML/vvZ]xJ,s[-W'^Ni(BM"
    "3eKY#MUn0pdik<(_(rZ#jZYr%/iX@PL3vvZPi0qSUf(BM0^Wl#eik<(w39EXpM0;$U1gq]O+_@MA5cp]WGk<(Cj&6^sCl<(:&mn#V%k<(RKcB#loL3_3V;"
    "##loL3_7osZ#fF)i`.g.LVr*so#VsR$'Qdro#l&ybbI/%p#0'ybbK8-n&qTU@d+TjKV.Iuq#YsR$'x*uq#(('lh]M'r#D('lh_s-n&(Pm)kLy^@M=$k(kW"
    "Gk<(@1-FksCl<(7u5s#ZpR$'fSJhVJAkt#2yp@M/j.n&OqfCMif4NqP+U@M-QR8%EDKesid@HWX3qu#8[u+aX3qu#sVALV@]q.$XsR$'DAq.$8d&]Qoa#/"
    "$Td&]QqR4n&AVV6T<3NwZmVvn#`l1KVPhW0$UsR$'eLW0$II/iV(ma0$eI/iV*-5n&P2D'Y+NaKVgAv2$YsR$':&v2$`f0o^>F(3$$g0o^Aq5n&+li&lO("
    "_@MEOp%lXGk<(GP)CltCl<(@<n7$ZpR$']=%hVE%O8$-%q@M*^7n&JtfCM^yEToQ+U@M6+X5&Jr'CupyIHW_[d:$>q',a_[d:$yYALV6(0J$VsR$'1g/J$"
    "._mINg,9J$J_mINi9=n&L5r#ZQ+_@M0*)#ZYGk<(2t1@ZuCl<(,_PN$ZpR$'NSAhV3nqR$s'q@Mp+An&8wfCM9PegiR+U@Ml^Ht$+cMbkS#RHWAZnS$xq/"
    ",aAZnS$[]ALVOfgU$YsR$'cNgU$G7XLr(kpU$c7XLr*.Bn&G`GbtNy^@M&FXatYGk<((H_&uuCl<(yA(W$t'l<(yuV##n>^u$*wIp]CjnW#aN%CMySCW[)"
    "9%;[Q+k<(<'s;$xXIp^c'L2L.^ki#/l^@MePPt$;:St$;:St$;:St$;:St$;:St$;:St$;:St$e<eL`En6l$)=eL`GqLq%loL3_><Tw#hXaIa8o1wZmVvn"
    "#Z.C6^8Dtjh_<%CMrc5o$qO,o$1B%CMOi-KiUWg.i,J[BMF-*Hjfik<(i2)p$r'l<(xsY##xpPv$>EST#.kki#XZvun#:1wZJBN2Ln>^u$1<Fm^n>wvvAo"
    "2ZvrervZmVvn#b.awZmVvn#p0_n^RJ8wQBo2Zv$bgm^h^uaXrMLjh)n^m^O7oW#&ITQ#M4o,[mVvn#8;swZmVvn#@B%xZ5(xmghU%CMpY53%qO,o$/R%CM"
    "LM1NhS;k1h1c)CMw-w3%FS`s$(b(BMqSMdjg6)BMuxe%lqq%CM09^5%FS`s$(b(BM@M;Zv_u(BMo@dgMhLjBMxg(H%L+k<(($Ww#K[gIW'%4J%g[gIW)=."
    "@#MnG*XC;:,a]Z=J%/5o4^uXZK`IZK@MV2$6&[0q@MTq'9%it(BMpJ1Hj^o(BM#PBZm_r(BM9mCat[i(BMm-,/Me@jBM>oCg%rtDo*%#Mg%WW3M#1B%CMT"
    "heh%%Qs##xpPv$hdFM#L.xL%^xhO_I#oh%c*-l_Dnwh%'+-l_FO4<$m/='c:xVwZ*qK>dl&^m^4E,wd-WOg%rwDo*+n])O$bAeNp,]0,<fkRTUH>QTk[$;"
    "[3n])bfTZmTWTZmTo,]0,Hh`IWh`3HWtw$;[5)=bbFE9Q^7E9Q^o,]0,qpj[d_)@ZdD>&;[7;uBcih_ycZh_yco,]0,oQRCcVO'Bc@2&;[9NU#da6GabR6"
    "Gabo,]0,RHxbXp9LaXx,%;[;a5[d)Gh%YrFh%YqX,V),Kvv#V`NX$);Rl'+lD,a>`tngu&gCM&&s@'xCl<(S&M9%);Rl';`D,ayX<M%]6<&ccsPJ%xEGJ%"
    "EKl<(#VhEX+$-V)&k'K%c/Xqadj5#ZFoB&c$S]l$>vIl$q%yCMAxCK%+#iXMF'MK%/&DK%DZ+v$4,MK%^=GDMSK+t[Qf7,axIl<(9/=t[Ag3V);;Y8]IY#"
    ")Orr*q],VP,WThGc%YMWfM1judsLHdHNx7.&cBQuT]L+oW##4ox'^AEfMPy5n^SEjfMU16n^54ratjfIL%3Twl'ZDFM%LS+DM1RmWn:g3V)x>sHNu%h%ui"
    "`@L%]BY2_YhGc%kMWfMCGvdsMQ(eN>NQ2_QbDwdrL5V)31qN%ri-L%tbq[dORk##&9N9fjKwZdXeGc%2NGDM(%jdjolMHj#Jl<(:6&ej+$-V)wZsP%IH:o"
    "#y>^u$FbsP%BZ+v$Hh%Q%`Pe=M.o7Q%T8WK%NNGDM2*#wmyq^Zm#Jl<(OZ6wmEs3V)NKV>mB/]/MQQysnHNnWnEs3V)eTR,W:AL0MTmupo",
    "W7kTol95V)n8@,&D6,RtuLX-&[^w<(<WI,&[SWfMQCqBcqifT]+9P/`*IEo*FTe,&_2(o#r:yCMOqn,&ZYafM<M-btkrw,&,[+v$(T+R%w=GDMfG@N_o9A"
    "N_M*=eatL,k_j7_2h'<7)bC-&$#ujH1MDOB@#QQ_2h*X3&cD6B@#ujH1MGXB@#TZ_2h/&0_cKF&$#=t's%fi8.&5U-V)j2rBc)B-FMg:#/&mKImg<jQwdj"
    ">R#dnW2[d[hGc%bSWfM911es.6e/`HEPt[]]-R^Cg3V)`VQ<[:PiyPD`XNh(Td8gJHtHN@cTKiO^E<nAg3V)@e4*k:2O0MC'QHjW7^Uo[/`$'p(cAumf@,"
    "&ZT'+(+;H)k5-6V)CbTIjZ-l%c.$^p#EF6s#s10+(#Iy9%Ra9+(:X+v$TgC+(ISCo*>GU+(QMN+(:X+v$VgC+(JSCo*ASh+(SYa+(=t's%ZsU+(4U-V)Ud"
    "i_l0E-FM4&-,(;b[1hRZyWn$/$A#FW68&b.r+(a:-,(>mafMv^gbtO6I,(,[+v$YHl*(w=GDM7IVpolu@N_0>weaT+`5p%b+'uSOn,(<*mQprfh0,k6>6p"
    "gY&unHBO0Mc@GEtm_6eNOxZ0,5(%A#1T.$mEs3V)3^d_uJ/]/Mk2wvvj/lZvIg3V)gc)xvqqWEtVWq>([^w<(%6L>(1iWfM,AYCcD/dHN(5I0`*IEo*+4<"
    "=(h2(o#LPyCM&HF=(bt-FM*KO=(GH[yP=%yL#Q6ps6dt-FM,Wb=(HNeyP=%yL#S6ps6ft-FM1mt=(8d[1hN4X#Qy'*A#=t's%]&l=(4U-V)VhfCP0>$FM>"
    "1C>(]2'>(a>9>(;n+USbeGc%_xl`M41U>(qi:o#8xsi`HgC0iqvPWR,Jl<(ej>uRchGc%CiWfMrAqesbOVqSiW_<RW*R-NJg3V)1&Y<[O9syPljuaXQ_)L"
    "WKHtHNhmq^Yy,M<nAg3V)i3<*kdXV0Mk1nZZ*_eUo[/`$'B+cAumf@,&UJKB(SFe;[6-6V)<;y[Z[-l%c.$^p#nH6s#E%TB(#Iy9%MV^B(:X+v$O]gB(IS"
    "Co*h9yB(#ArB(:X+v$Q]gB(JSCo*jF4C(%M-C(=t's%UiyB(4U-V)O=6r]1E-FM^pPC(ed[1h#f>k_NU+A#FW68&]$>C([0QC(hoafMH-obtx)mC(,[+v$"
    "T=8B(w=GDM`Ss+amu@N_Ye'fa%6%IaO03'u%C:D(e42easfh0,ehcIab3K0`@Y2'uP$mR%BXI/rjfh0,hRQ3LK2:g%QFs^Mm<[(tOr]L`_Qw<(o41S%]^w"
    "<(q(vR%CNWfM;NE&c$S]l$9wIl$c5yCM;ZrS%hNGDMLcwyu.1F2UvIl<(+25#vCm3V)->Q>v:PiyPrKwvvXD2X]PvE&c$S]l$nxIl$@7yCMp8Hc%_=6YMu"
    ">Qc%a>Hc%@Z+v$^brS%]%iXMyWvc%KJyQ%KEQunKnHhVvTRfMoQ'$#.,'lh908ejZeGc%Fdl`Mt<a0&oP:o#8xsi`g@Jn^a:Qgi%Jl<(<*X,j[hGc%1TWf"
    "M&qrBcFCMEkvmU/`*IEo*&XA1&K2(o#G;yCMxkJ1&]`-FM+<42&B3[yP=%yL#Ryos6e`-FM.OP2&C9eyP=%yL#Uyos6h`-FM3ec2&9O[1hW1V5psmC@#=t"
    "'s%aaY2&4U-V)bV&Uo)>$FMA)13&aml2&ey'3&1j$_lZeGc%.B;fMcWp&(8<N0&S[%1&TM[wvUHsfMTNd3&Dk)hr^/`$'tmbAuiA(k$vY$4&EtE,s[hGc%"
    "RTWfMQCEng$:jk$lNyQ%YHyQ%l#iXMA.$&u:b+O_AE^0,8xe4&;ErK%;ErK%RNm9o%#L&u1Mv>ZrN)[v<U/R^jUW%ub;*5&Q46wvlfh0,QJeR^.2([vl#9"
    "USVul8STxA0`^M4V),,Z2_o,qUS_hEkU0:3rS_M4V)4EZ2_'s,ogl^+IW`g(RTprX,W,$-V)E=3eaS@ueabKc)XWu'LMha'FXx9uHWx'T$'#_uf%FtE,sX"
    "eGc%w#iXMBi9g%*`;0$CXI/rXeGc%DTafMIlrat&-LN%:X+v$0&Mg%9g3V)db@eN3v>&u#r/N%n0'[dYhGc%TPWfM,^'esNZD)O(2GN%RK-h%QEQunh,])"
    "O@.:)tni6h%+pkAur*]h%<Q6h%UXEt[<U-V)@wN#Z1$6YMW;Oi%&SFi%@Z+v$XDOi%hMGDMepti%(A*y'&eu6&`]ti%;Ic'cZuW/`[FP)b%$9j%D&iXMas"
    "Kj%V_;0$UO)X[YeGc%=k&dMAv^dNCu@&u)C#k%qL#Xekfh0,3'I<e+H+hrX%h;[L+oW#<J3y')Sw<(xU>k%[^w<(#J,k%sPWfMZD(U]L+oW#U[cJ%3`NfM"
    "c)u##-#cOh1PR/iYeGc%%WafMYI%bt6;El%i5vv$0fYwhRnO,jsL5V)FL%m%KDxL%/ZZIjc;9@#7(sbk9*kHjYeGc%V]-FM$f7m%Y<+HNJhe^lr_KClBg3"
    "V)I2(_lXoY/MSdYToHmyEO3$-V)4ZGn%*T=n%&eu6&_ZGn%;Ic'c-FY/`(U5eaV=@npLT*LM]S[2qbcT5px'T$'dsln%@Z+v$-)/&(;GafMYI%bt8HWl%&"
    "[O/iYeGc%dk&dMAv^dNCu@&u,U>k%thvTfHy3V)WJ#FO`8^%u)C#k%s_Z8f,$-V)7=Vo%*A;0$y>^u$uGVo%QEQunt]8bXwHbEt^k$p%[^w<(yYro%JQWf"
    "MSLW2he[CBu1Ps##DZ+v$(]cJ%jQGDMU6X>v=`w^u$Jl<(2EZ>v]/`$'5pbAu:2@o$<DbI&IAT)X_/`$'1pbAu=E[o$/E6H&JJpEX.$-V)>n_G&q;)p$y>"
    "^u$,&`G&@Z+v$/,iG&r]l`MT2ke&:W:o#8xsi`HGw2_@g#2_'Jl<(RS;O_^hGc%]VWfML0_&c$S]l$C(Jl$D/yCMECIH&/,iXMKO[H&7;VK%6r.JaGVJh`"
    "L`SdakSJ8]j[VhMrr*q]>/y;[w'T$'#beW#e+nHa]eGc%dG;fM2H<y'&og2h3Nq#Q1hoab^MNt]*IFT]L+oW#2Y<y'iMEfM)h-CcVBjfMo2-Cc[OAbt%35"
    "g&@Z+v$Xa[H&Uul`MgJdg&[Z:o#1[+v$xUZg&S=GDMQ0ITfIsHN_pAy8f'Jl<('^=Uf/$-V)#Vt/`/%8*b42Nh&T/iXMq0jh&X_;0$e+nHa]eGc%@ByCMs"
    "I%i&d`afM7A6btl$<I&mZ68&)]&f&[K%i&Z5rXMX;XI&oVFy'`T9k_[eGc%^D;fM:mby'*Zro%M+<I&43]_PXHsfMB<8j&/a`Blp95V)M)Gj&JO3M#F#3L"
    "rVBjfMWT$@m$XBbtEDPj&R(D7&Yrby'%h;ZM3h'k&bxKY#I(D7&`m'k&x$f=ME/Vk&KA;k&[&cy'R(D7&i4Vk&%Re=MBvF&'HDak&jU(((S=i7&.did)q7"
    "rXM<H$l&<6P&'I(D7&eZcj&EaafMh(HbtUO6l&KEQunm&JhrS&&EtfNOm&[^w<(ylRl&RZWfMfLS[QfOP)tgK30rI:4V)jFs#QNuryPc#OkU-XOatXxZ0,"
    "-P]@#]`TbbW:4V)x-GLVk6>KMfNGeWI_D-WN(4V)Ho8FbpWY[QnAw>ZSk-<e;j3V)RCq&cv^y#Q'=Tt[]m=JXUL5CcaFsI-B6^@#`)lt[9j>$Q-uLn^]m="
    "JX^qm#dNv3V)=R@FXF9^wvxhd/``OeeN(0Eh`<$HLVUSCo*LU^@#[L^wv+ntBc,,#$Q7#^)b%/4Gcgb9Fbogn<(fku)b(f5V)1.Z+'ebeW#rAi7&pOZ+'h"
    "0,+'E(D7&OP1((QQ@YMJAFm&,A<m&2r6_P^eGc%Y-;^Mv8Pvvhb/qSV/`$'YubAulgbm&@xi$'&db/MT:4V);m#$QbUjyPGVJqf&N#xew%k[dogn<(+pcq"
    "fUSCo*a;_@#FkNLM@Vb2h#g_RgN(4V)D.$$Qa[f&uEF]%')(_,Nq95V)Hd$%'i]Wl#2x$'PWBjfMLf(*OjyGbt@'.%'R(D7&Ouby'+Te=M",
    "5-4.'4)q-'#0s((jeu6&J54.'S=i7&)Eb^+f8rXM-FY.'1KG.'L(D7&Wuby'5dafMh(HbtC9J%'2r6_P^eGc%2J;fMTsky'cNPj&+mRl&9gM$'N4.%'UOJ"
    "%'-KQejUBjfMBnug`a_7btsO&J&)&9LiUBjfMyk8,aM$7bttU/J&6r.JaU*Kh`nyvday&sdabk_&c$S]l$X(Jl$B1yCMZm^J&IE6YM`sgJ&Er^J&@Z+v$d"
    "iBJ&G,iXMc.,K&O;VK%KEQunn%`wvvTRfM.HD$#B-,ung'Znp^eGc%]ml`M3w_/'XW:o#8xsi`pmc#vu;Vpo(Jl<(gxy5p_hGc%H^WfM<g7CcYDRNqc0k/"
    "`*IEo*<:@0'g7(o#^EyCM7NI0'si-FMBv21'X<[yP=%yL#i+ps6$j-FME1O1'YCeyP=%yL#l+ps6'j-FMJGb1'PX[1hk2[>v5d`@#=t's%6MX1'4U-V)4N"
    "H_u,>$FM,hi@'6Yk1':f&2'Ek)hr^eGc%EK;fM@49#(f(M/'UI$0''ekKi[eGc%6WGDMm,)wdoOH/MyIl<(ppWwd.$-V)fRdK&o1#+%y>^u$#cdK&DZ+v$"
    "QbcJ%Q,iXMlf(L&ynvK&@Z+v$*u(L&pMGDMv(umgQJ;/`uIl<(+1MngFm3V).Ai2hKcF)b>ur@'0BafMeyPbtB6SA'i5vv$[DMhdi(wqSZxZ0,oue@#s&n"
    ",WmL5V)PA*B'ZexA'Em6oT(4J$#<UF$Qe%snT_eGc%l4iXM1mXB'F$uy'KEQuna^'xQwTRfM>$K$#OM/iV+lHFX_eGc%i`GDMxVbdWwIJN_,+beaaEY)X."
    "%n&uhlNE'JJpEX3-6V)o.`XR9+t%cfmT1$o4b8$9/eD'y>^u$6WnD'ujH1M0xf@#3urwdk1nZZRlqhM1I-V)8h%$Z7An&uhlNE'SFe;[pfh0,o<>*X3_xw"
    "ZN0#'cf,fVSNRb[Q((T$'e2'#(<wGqS_eGc%t4iXM7:9C'__;0$.MvEO_eGc%^GyCM9SLC'-fafMZR7bt7HsL&mZ68&gE9#(u[LC'%T@YM$`7M&cKC#(+2"
    ",ej[eGc%)E;fML'R$(X[]%';OsL&P(D_uUBjfMfD6)k,q8bt<gJM&LZ+FtUBjfMC6KEko28bt=mSM&6r.Jav5Lh`CPxdaCI-&l+w`&c$S]l$M1Jl$+/yCM"
    "O2/F'e2;^M(4;Q^oL>3Le1[h`XBjfMTAnn^BYRbtpFBF'cp5h`_eGc%DZIYMZ^pF'97/F'cp5h`_eGc%dM;fMDY,$(ssJL`ah#'c$S]l$#)Jl$p1yCM%34"
    "N&kE6YM*9=N&dP4N&@Z+v$O)gM&i,iXM-LYN&q;VK%,[+v$5dYN&w=GDMe*PabBZQN_[bcea*eX&cN-o&uZkRP&8]T8o.$-V)-^uN&@t0/%y>^u$amuN&6"
    "r.JabXgh`[@pda+#hZdYs^[ZL+oW#xn:H'&1`$'PybAu4&EH'%*WH'pC_;e`hGc%$aWfM384*O7p$qfN<vZd`hGc%$aWfMS3Wes`IiQT0vQH'**WH'6r.J"
    "a/hLh`IcxdaS.62qT(9INYDRNqnQ73qDg3V)doKqoRax/M]`NKr)G$<[+$-V)7D$P&IH:o#y>^u$uS$P&BZ+v$xY-P&m:+DMITNXnShGc%*aWfMYFWesaR"
    "-nT6D2I'X;GJ'S1vv$0V65/qlWl#QEQunObunTf[s)tXO-L']ybAuG==J'YG-L'+;H)kGg3V)^@@LrC$QCcJhe^l*<00`-<6V)ON:Cl4pj%cZtw/$q#QN$"
    "u7uJ'SHyCM/qUK'XaGDMDN`K'Tk#$(Vh^tnOW<0MTmupos]J3UUhGc%*aWfM68eeaU4$Rp__o&uZkRP&IB^Etmfh0,Dx4'c9HFRpY=qeNjthBuvufOUbhG"
    "c%OWWfM'U<estG@_YeYnej*etEt_/`$'qrbAu8)@3%&P'c&Np9#v_/`$'mrbAu=E[o$k1%a&OyU>v.$-V)D6<Q&o2)4%y>^u$6G<Q&6r.Jaq(Rh`v;#ea<"
    "h+hM@A>INC&H,N^*:hMEg3V)eMRwv<y&0MFBD)Ol_)<[l95V)aMnL'y9,Rtha/N'[^w<(yxwL'NaWfMD(BCc`$KHs%&r/`*IEo*8i;M'(9(o#eHyCMB.FM"
    "'MgafM/2Ubt^/OM',[+v$h.j`&w=GDMTY$Bu<LTN_@geeac_h^uat.3hAt+hM:jM$#ujH1Mccn@#pe33hD8(eN;si@#ujH1Mfln@#sn33hI^$FOoYR$#=t"
    "'s%L9J]'5U-V)K';*O.B-FM.T3^'4ZImgVJF_PP3sbOTLSCPahGc%TaWfM,nXespy'FX)<]hrn+>Ft`hGc%AYWfM+(g&c$S]l$y*Jl$B2yCM$/7a&PYGDM"
    "0n8#QxC*&lyIl<(OXo#QIs3V)i3QbXDA'0MO=8wQSbO[QEg3V)V)lwQO'C&c$S]l$++Jl$s%yCM-g3b&q:$YM3sFb&w=VK%Q8x#QiUW%uN,'_'8[KtRqfh"
    "0,WxP3LiAe`'4ye=M@=L_'A'Hb&M5s^Mc6BQTyYN6TfQw<(.>R`'[^w<(qd__'PcWfMSuC0M]_E/Vpo8IWt95V)oNNa'2:,Rtxnyb'[^w<(>%Xa'[cWfMQ"
    "L,'cVhw/$e)-S$1X,`'%[Yr%E1ka'`T9k_`eGc%$sl`MR/8b'l[;0$#e6(YqhBCl;8GT]*Jl<(G($r]WSCo*h3Tb'#:Mb'1[+v$<&-`'K-`EM[^pb'Tigb"
    "'`T9k_`eGc%bP;fMO<w$(C%Xa'P=&b'<Plc*mqF^'iS+DM)`qeWbhGc%McWfM[6D0Mc>=)X%vJ3UUhGc%>cWfMFikead^CbXrAv&uP/Yb&=2(RTnfh0,/0"
    "[FX7:hbXfI`LM_e2OU4CwbXbhGc%EYWfMt7Ceswc;[Z:Va_ul7ERT/$-V)7F0c&=i$8%y>^u$uW0c&6r.Ja8.Sh`q.)ea[w]HW_F@INb5ydW%:lHWEg3V)"
    "v0=LV]'(0MeQuaX3e*<[[/`$'0sbAu=E[o$3QRd&L]P&Yp95V)+mPc'+<,Rt2)jd'[^w<(fCZc'pcWfMf8ICc)FSEbE+s/`*IEo*[6(d'y2(o#0Q+DMUmg"
    "[ZbhGc%vcWfMkHICc.t/#dE+s/`<B^0,*w6e'B1t%(1Oe=Mt3Ae'9w8e'g,n1MXAh[ZD<=]#LSCo*`Kq@#cDrng;DF2h3=rng6IEo*m[`d'+3(o#5Q+DM,"
    "463hahGc%vcWfMRLx&ukxEe&P*i>Z/$-V)FE[d&IH:o#y>^u$:W[d&BZ+v$=^ed&m:+DM/FA[Zt95V)EX3f'+<,Rtg^8j'[^w<(B/=f'AdWfMawx&u=yFf"
    "'(wK,jqfh0,cCQ3LTA-h'sye=M/3lf'Ydxd&M5s^MRRBakt@OFkfQw<(]Z'g'[^w<(PZ'g'@dWfMCEF0MKq)#m7bfwZ3$-V)yvWIWQ0ueaL;Bwm9K.'cVh"
    "w/$Tv5/$wGCg'TU&<nOWF0MRZ=8o0AK3UUhGc%.dWfMsWy&ucQ8j':o4qo4-6V)t`pbXFUEQgB1yL#./t%(3]>>#OpPv$]dWZ5cdGDM)FWjq5/HN_3K2*b"
    "Ykwh'OCN^Mhf'Krq#]eNV/`$''&cAua,3i'-`/j'Dk)hrHg3V)pUQRp/Y1QgB1yL#8/t%(7$2w#OpPv$gdWZ5mdGDM3Kh%u5/HN_=j2*bdQ&j'QjafM-/_"
    "btbK/j'Ngu^u`eGc%TjafM6A@btkxEe&KKyatYeGc%Op.gMfy#J$",
    0};
static const char *const diti_spirv_text_attention_cpu[] = {
    "GZ1N5jsi^PtvXi'=&:c%>&:c%%':c%3QCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>M5W#2q0`r6%I&>QT6am.`SVGjq6YryPJo3Eb-uJak>-xvQ1>,2_7H]"
    "mpLk68fb<`gr;+R;R&vmK(D4Tvd>DuM#xm0EMkv0##D9-V)'f08.yCT$'#<^vdBV9N#8['EM7Q_W-&il<(oqr;$iM:rS[q@=eOC6O#e@LvdG*6O#(il<(3"
    "KY&#j`rRTd9LvdaaKQ#-;1EM5.2##D9-V)If08.yCT$'E<^vddsgQ#8['EMY``W-&il<(=@3U%3yhO_[q@=eq`dR#e@LvdiGdR#(il<(UKY&#44I0`d9Lv"
    "dEj[W#xm0EMq24##D9-V)-g08.yCT$')=^vdH%xW#8['EM=ebW-'il<(rrr;$lj@3q[q@=eRVXX#e@LvdJ=XX#(il<(6LY&#m%xkqe@Uvd6m<i#-;1EMca"
    "9##D9-V)vh08.yCT$'r>^vd9(Yi#8['EM/;hW-'il<(iB3U%^>fCP]q@=eE`Cj#e@Lvd<GCj#(il<()NY&#_QF$Qf@UvdlPmn#xm0EMAS;##D9-V)Ti08."
    "yCT$'P@^vdoc1o#8['EMe-jW-(il<(Bur;$:c%fa]q@=ey<jo#e@Lvdq$jo#(il<(^NY&#;u]FbgF_vd1Olq#-;1EM^R<##D9-V)qi08.yCT$'m@^vd4b0"
    "r#8['EM*-kW-(il<(dC3U%Xi:*k]q@=e@Brr#e@Lvd7)rr#(il<($OY&#Y$sbkgF_vd:1u-$-;1EMkpC##9['EMe+$[#XqM*Og<Lvd=D9.$:e'EMui;t$3"
    "9-V),l08.yCT$'(C^vdG$6/$8['EM<gqW-)il<(*xr;$&Li'YJLc&#tqu&Yra'EMVc6t-&il<(HgL#$.TP6^O`4;ep`(3$e@LvdhG(3$(il<(TQY&#1pL3"
    "_jU,;e/9G5$fIh:e/9G5$kb5;e/9G5$p#[;e/9G5$u;)<e/9G5$#UN<e/9G5$(ns<e/9G5$-/B=e/9G5$2Hg=e/9G5$7a4>e/9G5$<yY>e/9G5$B:(@e/9"
    "G5$GSM@e/9G5$Llr@e/9G5$Q-AAe/9G5$VFfAe/9G5$[_3Be/9G5$awXBe/9G5$f8'Ce/9G5$kQLCe/9G5$oaU'e'xF5$(il<(eP(w#gE(roO`4;eMJt8$"
    "/T1EM%OG##9['EMva'[#ja$opg<LvdOV/9$;h'EM5;d>#*il<(VIdZ##F$`YP`4;ebp4N$/T1EM97N##9['EM3J.[#&bw[Zh<Lvdd%HN$<k'EM]#Ht$+ll"
    "<(ajw%+K;;YeKLc&#BbHXesa'EM%*Bt-&il<(q.Iw$ja$oplEAydV-,V$;T(EMn:r>#&il<(+Y/'+ad&]QMS+wdMO;h$sj'EM*wu>#-il<(>GH>#B@R[#U"
    "b;x#L%k<(6/1QTma]t$IZR$'fDu>MKG7<$e:Rl'V7q@MUl]t$Z6Ku@ax(BMOa=.#e7P'G[c(BMU11K#q,#INOpR$'VIAhV;='N#$up@Mx9ym&AmfCMMliy"
    "PGQb>M7KC;-bik<(B4LN#UGk<(vm/r%7+QUSJv^@M[&CTSVGk<(^`hqSrCl<(TlHO#mik<(MxZO#VGk<('R3u$NHR[ZN+_@M10EZZVGk<(3&jwZrCl<(*F"
    "gQ#mik<(dQyQ#WGk<(BwK6&YV'3_Ky^@MHaq1_VGk<(J4>O_rCl<(A2vR#bGk<(J[O9%jZYr%A<m:[:Wq>dZh_ycZh_ycbik<(ShK;$2U&<nM(_@MQBr:n"
    "VGk<(S3=XnrCl<(JOwW#ZpR$'b7%hVJ=XX#2vp@M/g%n&OnfCMjlGjqO+U@MhcJ5&%*LLMIZ;HW8yOi#pQq+a8yOi#SUALV;A9j#VsR$';y8j#5H*`PjEC"
    "j#QH*`PlC+n&XMcn^N(_@MGZ_m^WGk<(I.#3_sCl<(A81o#ZpR$'1:%hVq$jo#Yxp@MV/-n&vpfCM`-4EbP+U@McTM5&wSx2hDL>HW3['r#kCt+a3['r#N"
    "VALV6#ir#VsR$'1]hr#0rVFke'rr#LrVFkg4.n&&<,-NP+_@M:g/,NXGk<(<wCINtCl<(5s8.$ZpR$'YC.hVAc#/$)$q@M&P4n&FsfCMUFxvQQ+U@M5x8q"
    "%Jqu&YpxFHW_Z^1$>p$,a_Z^1$yXALVgAv2$UsR$':&v2$`f0o^>F(3$$g0o^Aq5n&g>^u$/%WgVu]I5$;:St$>Mot$;:St$;:St$;:St$v+2ueRmF5$:,"
    "2ueTB:q%CZb@QOwyW$yG.rf6o1wZC]CN#Y5*5^I)&wm]<%CM)];8$(I28$5yDo*<TE8$dN;8$dqR$'a=%hVI=t8$1%q@M.j7n&NtfCMfS^mp`*)BM[3d1q"
    "hRWBM_Tl=vk'l<(YjL##CZb@Qhfe;$CZb@QvFFt$G6O0VD&Cn^eBydW)3UvmGyhm^B=GM#xBTQ#&=DVV]^+N$XsR$'&F+N$TW[@Z5c4N$pW[@Z7U>n&CZb"
    "@Q9&W/(CZb@Q>;sK(xpPv$aAST#/j<U#K8aJNEE&wZXK=)FmW,<eP(_@MrW;;eYGk<(t>DXeuCl<(nutQ$mik<(-r&R$sik<(6R#S$tik<(TjnsnD-Y.(6"
    "ND6p&EAHWOYBU$$F0,aOYBU$b4.HWQfTU$h#gCMm9`grU`(BM;Q:W$k'l<(d:r>#[(77p>YvaOhn;y^Ms[BP_*8g$h'l<(min;$n>^u$jnJ0VW5Bi$_AXH"
    "WX;Ki$#'.wZC]CN#'k:wZC]CN#)=W/VxLfl$bAXHWyRol$M.$n^;.A5g_*8g$rwDo*-_aHN1aqZQwwDo*.baHN7:N8SV:k<(*wEngZGk<(&[)2hvCl<()]"
    ",o$YGk<(hRX5&n>^u$3H,o^`lNKr_*8g$rwDo*S.C)OcFMKrV:k<(k)2/rZGk<(qTSHsV:k<(j=N/rV:k<(geA-%-*q@M2`t8%7lK@MPtq5&-*q@MN[u8%"
    "jEjBMS5*1%aik<(K%T5%jik<(QJ46%kik<(N==n%lik<(Tcun%mik<(>(u/M$`q:$CZb@Q3k:3'CZb@Q>;WO'r2k]##OFatoL1,ai%rbXu&gCM#iJ-'xCl"
    "<(-dN9%);Rl'7cD,aX;Ki$5PD,ayRol$VPD,ayRol$YPD,aZIdr$7QD,aW8T-%4SD,as0J0%PSD,ayRol$vXD,as0J0%l9<&cUrTU$^;KU$1Kl<(cxGNq("
    "$-V)dg4V$CaUoaZoJHs6B)&c3Rl5$BmX5$GyxCM4&QV$vqhXM9,ZV$nyPV$HaSrf)mp8f`L^da=rPHjAQp)OD0mdjXtFHj.$-V).XJM&s696$y>^u$DnJM"
    "&FZ+v$DhAM&kdeYM+@GN&CtSM&IZ+v$h:ZV$IWGDMZ*J^u0T#wQwIl<(&kT^u=g3V))#qyu[J9)Ok2wvvO-65gU/`$'ypbAuI+F8$rlIP&=31np.$-V)Bv"
    "LO&8589$y>^u$k4MO&@Z+v$n:VO&MWGDMv,%KrWY`ZQ28IeaX]jgrAaa&c3Rl5$F(Y5$iyxCM8Q6P&.ne=MFW@P&HP%P&I^afM(k8btYeIP&HaSrfJxq8f"
    "@=Jda_<cat)nT&u]weP&KT=&umfh0,cj^estB8bt_G9INKpw^PPP1CP>g3V)H*s^PLdXHNO=8wQJFoZQCs3V)]nijq@D_HNTllTST,L8SWhGc%9GWfMiZb"
    "dsR(]BPKHiP&RSsh$D#;JNQOWBPhK&)tSnjh$jfkAuW/8i$_Ljh$=2(RT)$-V)G-pi$D'gi$y>^u$u2pi$HaSrfIe@8f)QIdacaq^YY6`HNiv5#Zc4G_Y>"
    "g3V)kT4wQD]#iMoV.t[E&#_GS1vv$U<65/2&1k$@Z+v$1XPj$qGGDMgA15^T1mp]xIl<(@TC5^Cs3V)>EcT]c9H/Mv@C2_05#n^Cs3V)y##wmZgA/M%x:,"
    "aIMsg`)$-V)Do=,W*%/*bs9]l$&HGDMYC6m$+J3^'0oo&c*q(&c,o,,d%nXBP'(T$'_17T#o0'[dVeGc%h4;fM=2@h'_/)&lQ(dT]>1GM#",
    "D1@h'K8EfMuQ)wdPBjfM#b)wdEc`at$rkm$DZ+v$CJ3^'jshXMquQo$DnHo$@Z+v$4uQo$_dGDMI<KEk0ljdju'T$'w7AT#@Z+v$T1@h'9AafMF]`at%xt"
    "m$AE`2UVeGc%pshXMyOEp$WI[O#=)d5TVeGc%<MafMbXaat>dWp$i5vv$l-hxTJZe;npL5V)ByAq$U_*^':i/xmiHY##D@dUoJH$wmVeGc%1NafMktaatH"
    "DTq$i5vv$uwDfmO3ZQppL5V)MfPr$u0Hr$De$opqgu>#ON8-s]`pmpVeGc%WHGDMYx-BuRv48]tIl<(%eBBuCs3V)_Whak_7cHNk2wvvb8TCP>g3V);`$_"
    "PcvJ/MBt+hMK<rjq@m3V)=YD&PYFi=M&9,+%(2i*%[vhXMv>5+%]8,+%8+TJ)X0mr$gP+DMDGH)O@g3V)Y.F,WrpT%uHDTq$=31npWhGc%/JWfM_>kdsiE"
    "^HW8xjq$dr(,%D#;JN^PbHWhK&)tI3w+%`ikAuMLE,%Jlv+%2$S#QXhGc%7JWfMgWkdsZs=8o.<q+%h@a,%D#;JNW@C8out))tQej,%fikAuU&8-%ZFj,%"
    ":n+US.IEo*ndfKVl/69o'(T$':47T#@Z+v$n'-h'9AafMjsgatILj,%563[QWeGc%fvhXM=JG.%nI[O#2r6_PWeGc%2PafM&WhatZ^Y.%i5vv$wv:JQLHb"
    ">ZqL5V)^sC/%,xMW$UR@$Z.Ga##_)tX[*0;#ZWeGc%MPafM/shatd=V/%i5vv$gbTiYi$N5^qL5V)fM60%<+eg$_N4r]8l%@#gsL3_<H0q]WeGc%TDNfMH"
    "*b##YSI@v[/2wdWeGc%'KGDMhm<1%N,7e'y>^u$[D<1%DZ+v$hr<U#*8iXM^Zb1%_VX1%=#;JNoANeadqQfMsc6$#0=U0MBSv)O]eGc%Jil`MxZM`&IbyQ"
    "#/%(s]chEX[7yt+N'Jl<(CM>IN^hGc%5YWfM*++CcHT$bOSpP8])IEo*wr-a&n4LN#KAyCM%27a&ae-FM/Zxa&F8[yPh'4(SUhm^R@U-V)T[7CP<Oe=MJT"
    "Jb&Xk>b&=t's%dq*b&4U-V)cWhtR,E-FM97cb&AT[1h[Ue2U%1S@#FW68&l2Pb&k>cb&D`afMh%>btECJa&mZ68&O+a`&VKub&0`afM<Diat%$02%8+TJ)"
    "C$Ti$<KyCMa.L2%O86YMg:_2%NtZ`'@Z+v$t0L2%P,$YMm`>3%M7_2%alekUEJV%uZm_c&H78eWnfh0,++E*FYsEe&Ape=ML'-d&#l@3%%3s^MeA+BYmA4"
    "'YcQw<(Gv2e&[^w<(2E@d&]YWfM`9(0Ml:2wZ66PBls95V)n6/f&Js)Pt-XZg&[^w<(W]8f&hYWfM^hh&cN0`N#yG9N#k=ed&%[Yr%^iKf&o0'[d]eGc%0"
    "jl`M_ppf&v@[O#p_&mU2VFRTuA)Eb'Jl<(cwLbbTSCo*afT@#Lbawd.t/#dUWZ_G9t's%n<5g&p`afML*Abt)LZg&lQrs%.yTf&eOQg&.ZGDML],e&cV0g"
    "'tmjt[m;y&uil2e&Vba8]Eg3V)qU&ClrpT%uZm_c&Y&^5^'Jl<(2S^kU^hGc%bJWfM9(mdsY^/[mYi6$QKy#6^/$-V)vUF/`oB1*b9Bw3%:jafM2%iatgP"
    "r/%@Z+v$407e'9AafM/shatfJi/%.N(bkWeGc%(8;fMx3Ae'aM5#dmxmT]>1GM#=6Ae'>;EfMNtl^lREjfMPn4&l^Ujat;TN4%:l^tnQBjfMqJJWn'bkat"
    "D.B5%HaSrf61L8f'[#eaOaupo/,;&cd'*SpIi#qf*Jl<(_`^Qp*$-V)>W=6%;Q46%y>^u$ea=6%DZ+v$dT+6%rwhXM5qY6%amP6%DZ+v$eBGN&&rhXM;>:"
    "7%o:17%DZ+v$Is<U#*8iXM>QV7%xMM7%=#;JNg)QeadqQfMkK9$#(L.rf1JRkh]eGc%Bjl`Mp*ah&*cyQ#/%(s]/)&-N00Nmg'Jl<(2Dr2h^hGc%-ZWfMy"
    "j-Cc@cTKi4lR8])IEo*oBAi&B7LN#CByCMtXJi&Xf-FM'*4j&=9[yP`5eilMvFHl@U-V)DRk,j<Oe=MB$^j&P:Rj&=t's%SB=j&4U-V)RND_l,E-FM1_uj"
    "&8U[1hSd=tntpU@#FW68&[Zcj&Zguj&;aafM`eAbt<j]i&mZ68&8Rsh&Fs0k&(aafMhnjat^q$8%HaSrfNxL8f'[#ea:UK/MHs;&cOsViMJi#qf*Jl<(6s"
    "8hM+$-V)*5>G%;Q46%y>^u$;A>G%DZ+v$;:5G%^yhXMxNZG%8MQG%DZ+v$PDGN&&rhXM't:H%Fr1H%DZ+v$4u<U#*8iXM*/WH%O-NH%BZ+v$mO1W$O:+DM"
    ">p*@dShGc%CZWfMr2FesCMxmgLB(8%5GFm&S1vv$IP65/:u<U#D#;JNJIWng&Ib)tlgbm&&tbAu`tIl&.Ybm&F&bHsEg3V)jk3<R`Dh[Z>1GM##J*1%j0`"
    "$'jubAuG9%%'MLS%',DZ)O4IEo*Ju@%'G5LN#gByCM';J%'3cafMpAHbtD@S%',[+v$l/xl&V:GDMgO.>QZVMZQ%mWeaI(tZQV_x#Qec7+RSLqaQ7<6V)l"
    ":HbtB#dEM4sF&'^w<&':eg8S^eGc%:J;fM(Vfe'L3.%'YLS%')Ppu@uy9k&BQ+DM_ks2hahGc%QZWfM`:+0Mj)[ZvRUC3UShGc%CZWfMJmRea>np/MtE^&"
    "uE4K5%7S8tnifh0,9onkhB&*0M45_&uQ)pI%Ca[/Vjfh0,yfD*F/atM%sX-FM<GPJ%dm-T]>1GM#^j3f'FAEfM#vO,WSEjfM&soKVuDqatR/yI%MEi7&)V"
    ":W$@)4f'Q*i>ZXeGc%L:;fM/3lf'IH&bb72uT]>1GM#p7lf'/:EfM;U%[ZSEjfM@b%[Z+mqat`(DK%DZ+v$f8Ae'$#iXMPeRL%nj3f'3Twl'LsR0%LKyCM"
    "S,oL%NGtZMX5*M%<k'K%-i=v@4$^-%v(SL%%[Yr%U73M%Dv's%W=<M%$;+DM[0+eaAg3V)yO]EkrpT%u_y9K%R<IwZYhGc%EMWfMS`Y/M,bOBcSeC3UShG"
    "c%BMWfMwM5&u=aa4%0j$_l@g3V)o14qfrpT%u:NE4%/a`BlXhGc%NJWfM]xP/M0/hZdurA3UShGc%KJWfM)g,&u'3UN%pC_;ejfh0,EwB*F>1<i%(Fs^M6"
    "Vm4gkgl[Q]Qw<(tCqN%]^w<(v6_N%qMWfMj)D&c989;h<<:)X*Jl<(-+M2hYhGc%$NWfMSxvds4qoEb*8tWe8#L,jjfh0,asC*F,Qdc%4Fs^MCn^(k<.,0"
    "r]Qw<(562P%]^w<(7*wO%&NWfM3X[/MHU-&l,vjeayL5V):T%Q%KJ*^'5=*@mRBjfMQ/:#m%[tat@p.Q%@Z+v$Ssmg$mcGDMH2apo=Y32UtIl<([M/qoCm"
    "3V)^YK5pRFi=M9[GR%:N#R%YNGDM9xxR%y1e`'-KyCM62(S%`NGDMrsvmTElkjUwIl<(lDjnTKv3V)syOhrtJ,Ftq<k)'[^w<(tKL''[]WfMAlp&c3Rl5$"
    "H-Y5$h+yCM:ch''g]GDMURddWYv48]wIl<($]_eWJs3V)i_cwm^010MeQuaX)f>FXFg3V)+-[bX@q[/Mj(R>ZyQw5pCm3V)4h7@ZNi'YML[2)'#pGR%ePQ"
    "=R3#T[Ze@$;[(Jl<(@BPX[^FsI->0^@#><Z2U9Ge&um0k)'Wk%U]_hGc%^]WfM5.Mes:Qh>d4V+0V2#LU]%(T$'F`Md'3%]>mXeGc%iNGDMFk9T%y1e`'."
    "Q+DMrl3tnVhGc%1NWfM+tD&cCrdTMs0C)Xgblea@#HhMBxR#QMQd,Nk,2IbbT=&u682P%(wK,jAg3V)v=2earpT%u3&nO%'n/hi#Jl<(;XS2hDp3V)L0sB"
    "P0W5$QSJt>Q)hP%Q,$-V)FjZ)OFo/*bG@ad%4VafMjyyatGF%e%lQrs%gM7T#]tCg%5=;fMk:vc'l#c>ZxE&U]>1GM#<Cvc'<;EfMc8LtR",
    "TEjfMgELtRl(#btHL.e%-i=v@m&^-%NUvc'%[Yr%o24f%Fv's%r8=f%Tye=MCMYf%<'Qf%bu)0V<:3eadaU&YRf'LMk(6_YNE3'YBg3V)Gr/bbrpT%uGF%"
    "e%9eg8Sx'T$'v9mc')Ppu@NS<m$iJyCMKX@h%p7yCMNk[h%sfe=Mb&xh%f(Bh%]U:d'uv.9]9G@&u*FqN%s_Z8fAg3V)8<V)XrpT%u'3UN%rU>teYhGc%c"
    "PWfM:1(eslaYEXogkN%$Zki%D#;JN=brEX,Fx(t%ibi%:jbAu*09j%YPbi%d+nHaZhGc%lPWfMDM(esrAR>Zbq[i%*+Uj%D#;JNLZk>ZhK&)t.I_j%CpkA"
    "u2b,k%l0_j%m'c>dFs3V)Vjk>ZK.G/M:4xmg@RWQgBg3V)*(:ngJ6,'cC^no$-f,o$<8yCMq32l%BQGDMr1Hl%kcNa'%[Yr%7<El%R(D7&602l%FQGDM(c"
    "al%ZdNa'IGQej7he/MFCMEk'4B3UShGc%lPWfMJx@&u=g.m%.WD&lkfh0,M8C*Fm3q.&>Is^MLjRvm,^chr]Qw<(J#Km%]^w<(Ln7m%0QWfMaXaEtLY4n%"
    "[^w<(j8+n%QQWfM12N&c3Rl5$9yX5$S8yCM,XPn%XQGDMA8dn%-bWa'y>^u$emcn%HaSrf@S_8f0&6eaVJ2/rS%'IN]`NKriFM/rBg3V)fuT5pU+'INc@G"
    "EtmKP#v=g3V)t#.hr[='INf[CBuJ[1EXHg3V)&e&bt.J1[Z>1GM#XJ*1%j0`$'FvbAu%uT*'b65+'bp5h`2-6V)D-F_uIcb%cpM5R#oU0r#&Yp*'&eu6&d"
    "*#+'n'c>d^eGc%3ml`Mb.H+'-iyQ#:3TJa%'PbkxSa%c(Jl<(i>6CcAU-V)p^R_c<Le=M+NQ,'9eF,':X+v$yOZ+'JSCo*n9_@#d:$3h;=xQg^&C$#=t's"
    "%-*N,'5U-V).+(6g,B-FMvI7-'%UImgI*Ckh17`ng5P@Oh_hGc%q]WfMIiMes(Vl5^c<^h`$U:Fb_hGc%8QWfMK(O&c3Rl5$&$Y5$S8yCMp;Z'&ESGDM-t"
    "m'&-bWa'y>^u$=Sm'&HaSrf+od8f0&6eaA5D)O@A,INGK`EOAPd)OCg3V)<.0LMBG,INM+X>QnKP#v=g3V)J*EbOHY,INPGT;RK[1EXHg3V)Sk<[QIPLhM"
    "V'M5TjLJ;Ry'T$'wMAT#,;H)k^eGc%,K;fMY)/b'+HU5p]r$$QPwIBlCYp8TX%>T]>1GM#y=/b'1QEfMkfBUoWBjfMVNi#mwKKbtEGc.'@Z+v$Z]A)&d5;"
    "^MZ<$Kr_BP)FTM[wvWBjfM$'Shr+nKbtW_[0'ePQ=R2qck_E:o:n(Jl<(#F3Is_hGc%U^WfMG.8CcdIcatf/13U)IEo*rtE1'v7LN#hEyCMA1O1'6te=M]"
    "p[1'k/Q1'1[+v$um0/'KJ-V)3KH_u35h&ueW&2'Q46wvofh0,64`es-BD[vJ%t&cPU:Bolr19]'(T$'+E8b':fpTo^eGc%q2iXM4&i/'&J[O#,;H)k^eGc"
    "%ZEyCM6>$0'*dafMk&&btHM4n%mZ68&QVKb'DG$0'BdafMwM,btTBY*&i5vv$8OxCoDO(IW=U-V)ata&P[-s^Mc.KaX=[RFXaQw<(wWu*&]^w<(#Lc*&GS"
    "WfMX76ejrD[#Z76XQ^Dfw&ub:$,&Q3-[Zlfh0,^jC*FAuK.&aKs^MoF;T].Zm[Q]Qw<(8E-,&]^w<(<E-,&TSWfMf_-INv@C2_3<RFXCg3V)K=e2_]k,'c"
    "$d;8`5a$h`[0=eaxkvK`'5>[Q)9a,aC4%L`-$-V)pjf8f^Xlea&@Aeauw1LM,U])bZ0^,ay'T$']c/.&@Z+v$cx=c'9AafM-v,btdG6,&H.tHWZeGc%$)i"
    "XMav^.&+J[O#EjwKVZeGc%HYafMdh%btAyJm%@Z+v$VmWa'9AafMa_%bt@sAm%p9CwdZeGc%mA;fMUhaa'PM/ejZD1U]>1GM#`saa'/:EfM$wj;eUEjfM("
    ",k;eN'.bt)F5/&DZ+v$csaa'jshXMou10&Bn(0&@Z+v$0*20&ncGDM%SW0&]paa'&eu6&7CW0&U*a*k2Y@khp8Z)b;Wj0&[)iXMwO%1&yI[O#p9CwdZeGc"
    "%sYafMAV$btuUki%@Z+v$fBn`'9AafM=M$bttObi%6AX;nVeGc%fthXM$iJ1&_$5r$3%]>mVeGc%2NafMdk.btA%^1&i5vv$c)a*n>/6[mtL5V)C4=2&R*"
    "eg$8VO@moZ'$#A$hXnNHi>mZeGc%f)iXM0[c2&SUF^'HaSrf<Mh8f)QIdaR%rmp%GRt[>1GM#dgc2&=NNfM(,($#In@3qkF:kqZeGc%BZafMfq.btQ0D3&"
    "FtE,sZeGc%CB;fM>.'_'7sC3&&p-4&i5vv$pAQuq#KU)ttL5V)WXI4&S*eg$Mapes-KD@#U.1'uw83esZeGc%O-E^MfKPyuUk3$Qc/`$'&nbAugBf4&2:x"
    "4&OyU>v[hGc%ITWfMK+X&c>fdTM-2U>Q*Jl<(:y8LM(l5V)6D1D&w@7T#/](*OUBjfMGJQeNiv4bt<fDD&%[Yr%DSvC&Kv's%KxVD&3]afMad4btD9.E&-"
    "DZ)O[eGc%+D;fMFYh_'IlDD&*%.E&)Ppu@6Gxl$SJyCM6:YF&[=yCM9MuF&(PNfM/MJ$#wXU@dV4OLV_eGc%L`GDM7LNHNx%KTfwIl<(AYQINKs3V)H+Wb"
    "kOTo/MKpw^P]Ldqo-$-V)8G*B'xX#S$y>^u$Xe*B'DZ+v$X_xA'l4iXM/aFB'Rq<B'@Z+v$`wFB'N5y_MQ@&8SH'Z#dU/`$'rxbAuVBlB'm^LC':n+USVS"
    "Co*'Df@#ju9LM[LInTn1;RT`hGc%F`WfMxcm&uUTUC'AN$OUpfh0,pV%oTeRhtn:iy&cN0`N#H9uQ$R_XB'bu)0V)pv&uXgqC'DjwKV`hGc%ITWfMx>3es"
    "kOgHs%y6@vs'YLVGg3V)c>+@QrpT%uUIi3&G/&es-$-V)MbUG&J[LG&y>^u$*wUG&DZ+v$jy]M&r)iXMICIH&vic2&HaSrfUBo8fFlFeajJ.t[kk6INp`J"
    "8]<5Yt[Dg3V)3@IbXmq6INv@C2_oKP#v=g3V)Fj9U]<PR&uqCkI&`^U/`mfh0,09B*FT3NL&rNs^M'#)Ebv'owv[Qw<(Y]/J&[^w<(]PtI&dVWfMu87IN,"
    "bOBc]QH9S>g3V)6=AUSw/w/M/&L>d4^H[Q2$-V)):>K&x35K&&eu6&rI>K&R(D7&uOHK&=]NfMLLK$#YSI@v2/YX[_eGc%2N6YMJR2E':VX^'@Z+v$GGXI"
    "&]2;^M%hHdav';)FteHXeXBjfMie'*bP-Sbt#-HG',[+v$Tp;E'm:GDM]r&BcI$]ZQ]n'*b*RmG't]afMQ@Sbt(LvG',[+v$Yp;E'$:rEM2d(I'w[ZK&1O"
    "e=Mt0.I'9t&I'S+i(G*fZK&Rl1w#OpPv$=aWZ5Sf$FMuLSI'3[JI':3TJa41)xQ&yx=d&(T$'.bSI'rL#Xe_eGc%wfafMAfRbtirWE'DZ+v$]0=U#n7iXM"
    "R,&F'M4tE'BZ+v$=c1W$wM+DMV&SXeo95V)7TxI'al)PtgZ&N'[^w<(B)+J'AaWfMato&u=v3J'))hHjpfh0,5IB*FT:rK'sve=M/0YJ'eVUF'%3s^MF2Z"
    "%lZPabkeQw<(]TlJ'[^w<(PTlJ'@aWfMCB<0ML#F>m-g@9S2$-V)jBgbX:7keaME^;n8H%'cN0`N#mXg1$MA0K'U_BXnNT<0MSdYTomGA3UShGc%.aWfMs"
    "Tp&ucN&N';xP5p3-6V)*'tq]FI2QgsuQYq#/8XegrdyP^Ynjq[C*Tq5IEo*jFeL'm:LN#^N+DMte`kqt@5V)TRwL'S1.4$P(D_uXBjfM'9x,s2,UbtYn)M"
    "'@Z+v$xS@L'UC^0,b%VXeY&h[#LSCo*1mi@#%2&'cYtnO#9X:3$ckEM'kr'Cu1/q&ubHtM'Mgu^u`hGc%SaWfM/8q&uuepF'agqK``hGc%",
    "eVWfMsqv/M;=<2he7A3UShGc%bVWfM@`R&uD7y1&3.xZmCg3V)>%i#QrpT%uA%^1&2%]>m[O/J$blL##",
    0};
static const char *const diti_spirv_text_attention_gpu[] = {
    "GZ1N5jsi^P%`K=)=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>MYki;$o@2=sc#9N#lEgQ#rNwW#ERXi#m71o#g60r#6q8.$b8g1$ViX5$nUGN$9;K"
    "U$bksp$6Ed'&SZ.M&Q^p=$75H>#[5J'PM`4;e@J'N#/T1EMov0##9['EMi1iZ#_QF$Qe<LvdBV9N#7['EM$v)t$+ll<('W[a*mf`rSHLc&#d4mqSpa'EMD"
    "%$t-&il<(2EP&#&bw[ZYRM<ebgTQ#/T1EM9.2##9['EM3AjZ#)&tX[e<LvddsgQ#7['EMF-+t$/ll<(IW[a*7:6P_HLc&#.aCO_pa'EMf3%t-&il<(TEP&"
    "#bnK<nM`4;eFpeW#/T1EMu24##9['EMoElZ#e2H9oe<LvdH%xW#8_'EM')-t$+ll<(*X[a*p+f3qHLc&#gQr2qpa'EMG/'t-&il<(6OlB#R9U0MZRM<e7s"
    "Fi#/T1EMga9##9['EMasqZ#UUQ-Nf<Lvd9(Yi#8_'EMqY2t$/ll<(tY[a*bW3DPILc&#X&ACPqa'EM9a,t-&il<()QlB#0g0o^N`4;emVvn#/T1EMES;##"
    "9['EM>fsZ#3+-l_f<Lvdoc1o#9b'EMNI4t$+ll<(QZ[a*>$KfaILc&#5JWeaqa'EMnO.t-&il<(_Z0_#Md*ogZRM<e2Uuq#/T1EMbR<##9['EM[etZ#P('"
    "lhf<Lvd4b0r#9b'EMlK5t$/ll<(oZ[a*]*a*kILc&#SPm)kqa'EM4R/t-&il<(%[0_#UUQ-N[RM<e@D'.$e@Lvd7+'.$(il<($QY&#XqM*OiLhvdDiq.$%"
    "#1EMt4D##9['EMnG$[#bmBxQg<LvdG$6/$:e'EM6]<t$/9-V)El08.yCT$'AC^vd`ag1$8['EMUYrW-)il<(8xr;$4v9S^JLc&#+EGR^ra'EMe67t-&il<"
    "(VgL#$K;;YeJLc&#K;;YeOt#@$K;;YeTE;X%K;;YeYmSq&K;;Ye_=l2(K;;Yedf,L)K;;Yei6Ee*K;;Yen_]&,K;;Yes/u>-K;;YexW5X.K;;Ye&)Nq/K;"
    ";Ye+Qf21K;;Ye0y&L2K;;Ye5J>e3K;;Ye:rV&5K;;Ye@Co>6K;;YeEk/X7K;;YeJ;Hq8K;;YeOd`2:K;;YeT4xK;BbHXera'EMrBc>#)il<(qxr;$iND6p"
    "^q@=eQVt8$e@LvdI=t8$(il<(5RY&#ja$opjRqvdahv:$rg'EMesh>#(il<(.$s;$%O@$Z_q@=ef%5N$e@Lvd^d4N$(il<(JTY&#&bw[ZlX#wd+0YQ$xm0"
    "EMWFO##E9-V)ko08.yCT$'gF^vd.CuQ$8['EM$x%X-,il<(:jg_+w*1'uk>7ydd(Zj$tm'EMQ<t>#+il<(X$A8%n.<0rH4Tvd;T%-'nZ'EMsGoR&Y,:c%T"
    "%S$'>2b>MZLG&#SHy9%C8k>MFVTTTs7uq%YGk<(9s*IWl_lB%jik<(+f3QT*8O%&cik<(.`ATS1dFM#,t$'PM(_@MEMm%PVGk<(GQ;CPrCl<(=(9N#V%k<"
    "((HcB#CZb@Q`+1##:v^<R,a%LVF$-O#UsR$'PY,O#AVV6Ts(6O#]VV6Tu_ym&CZb@QlVM>#F-3lU)NaKV]TKQ#YsR$'&3KQ#WsW<[2YTQ#ssW<[4L#n&CZ"
    "b@Q,MjZ#]J4r]-g.LVhAZR#VsR$'<wYR#c*-l_=FdR#'+-l_@n#n&hXaIa8';wZ,#L#dRc1BMgEAT#Z%7T#Z%7T#g>^u$@yMKVA^[W#XsR$'F<[W#;),un"
    "nbeW#W),unpP%n&:HVnpJv^@MbMKmpVGk<(d&n2qrCl<(Z)kX#ZpR$'ORJhV3gFi#swp@Mp$+n&8pfCM;Z&,NP+U@MncN8%.&ACPRv;HWBYLj#ymq+aBYL"
    "j#]UALVhDmn#XsR$'<&mn#bxhO_>Ivn#&yhO_Aq,n&a@;IaKv^@MWf7HaWGk<(YxReasCl<(Qj$p#ZpR$'JSJhV.Iuq#nxp@Mkm-n&3qfCM1vUjhP+U@Mi"
    "TQ8%)Pm)kMh>HW<;$s#t_t+a<;$s#WVALV6%u-$YsR$'1at-$/h1fNf)'.$Kh1fNh64n&/8x#QMy^@MM'%#QXGk<(Os7@QtCl<(HS5/$ZpR$'tOAhVYHT1"
    "$B$q@M>C5n&_sfCM/iZ^YQ+U@MA0=t$XDGR^'MGHWmY13$MD%,amY13$>,jwZy&sdaHj^@MOx=t$;:St$>DSt$;:St$;:St$+W]HW,3P5$a0&,a,3P5$Rq"
    "MwZC]CN#DJSHW/Fl5$`o(BM>6j1h^9jBMwU28$rwDo*.Eovd%%j^GK8aJNeJuvZxP5)F7,ZqoLv^@M^4bpoXGk<(`hq5ptCl<(X//9$mik<(N.89$qSS$'"
    "U9v:$n>^u$T;QvZC]CN#hTvvZC]CN#kR]HWU&tL$lX%CM<%KM$(I28$pH%CMesj(Xw3PdW[HX@M90Cq%M5r#Zu0PHWcv=N$C(.,acv=N$4/jwZC]CN#9H7"
    "xZC]CN#HJ5o^1)0#d)3UvmVJVm^B=GM#ECTQ#J=DVV'$YQ$XsR$'jcXQ$v+2ueW(cQ$:,2ueYd@n&CZb@Q^G8h(CZb@QhlT,)jZYr%.Ot7nMxmRTNS8U$N"
    "yp@M$bl>#OwfCMgYgmpJsp@M&hl>#gik<(0SY/(]W`Rp&5m>#g>^u$]QmvZJ18wQ&<kBM=`Yj$+xDo*aU@)OM2<5gR:k<(b^[5gVGk<(GpK2_m'l<(Vpa/"
    "(g>^u$ZA#o^0wk^cm(a%cP=$n^1)0#duMA^chE:/V*-cm$>lB/V+3lm$ko<U#tpQ<eRmkm$;FHIN[l$n^Mte^lm(a%cy6)CM'VNp$=`mg$=O%CM,]Wp$PC"
    "qn$lVV:VG+bp$a;[HWH1kp$w29,aH1kp$pB35^VJ2/rU](BM`X$Kr]r(BMn+MvvR1q@MG3y;$kik<(gFQ/Mbik<()n*bOtwDo*2qjHN_xa^lV:k<(1>Bkh"
    "[Gk<(-#&/iwCl<(1$e3%eik<(F^%5%jik<(PD+6%%xDo*a6Z/MArKBcwwDo*hqR)Oy=ygrU:k<(@Kf8]X:k<(AQ-L%kup@MKU'9%PoK@Mij$6&Q0q@MgQ("
    "9%-U%CMI%]p%TQYj$5yDo*bV'INdAVZvY:k<(b#;wv^Gk<(238/M#Dl<(9Md'&vwDo*7pk/MC,#_GP2D'Y:rMwZC]CN#Q8awZC]CN#f:_n^P7X>QYP'>Za"
    "QO@M2xyq%V-q@M.MF<$V1gCMo1WnThI%CMcm^J&TQYj$5yDo*$9w/MC,#_G&:_Liwvmg$+D#iih9sL&GD#iijdH<$Ci6oTWgbm$xpPv$iTxL#C2D+[i8;w"
    "v[0Q<MPi(BMJD5EOj-)BMP$.>Qr[jBMm3%-'rtDo*F6.-'4)8jGr2k]##OFatoL1,aArTOhw&gCMGCe$(xCl<(Q)i9%);Rl'/jD,a^nE3Uu&gCMR4wj_m&"
    "gCMwdaWem&gCMNs5n^o&gCM.dlQgo&gCMrD%3UyKGDMorGNq-p>)Fy>^u$aH^U$IZ+v$fNgU$y>IYM8&QV$ea+V$i+f3qwQt%u%`%DM9E(W$fEGDM[3fyu"
    "/K_ZQtIl<((wpyu=g3V)(qT^uAa)&c3Rl5$).Y5$1)yCMsX]-'dWIYMx_f-'`U]-'HaSrf,%,9fe[^da>$mdjFa+*OE91)kCLTejO+4V)EXt,jJ(('PPH^"
    "Wn`wfgi0$-V)&nKf$0^QK$y>^u$3sKf$@Z+v$6yTf$aAIYMu5qf$(o<U#LZ+FtWBjfM^.&5p)hKbtO-i/'HaSrf@`,9f*[_daR%rmpSd30MYDRNqY>q)k4"
    "IEo*h6@0'N;LN#^EyCM6KI0'c^GDMP%9KrYv48]tIl<(qw6LrYxZ0,*T`@#9$Shr_hGc%M^WfMDvs&c3Rl5$J.Y5$iyxCM<p)1'LdafM(qKbt]&31'i5vv"
    "$e'f0't-*1'*L6YM(tvg$U+ng$DZ+v$XDl.'DGGDMNiONU;Y32UtIl<(f1aNUCs3V)Qy,)k<=/&c3Rl5$CoX5$iyxCM5.gi$$56YM:4pi$",
    "]Cgi$FZ+v$nPgU$THeYMAYPj$<m<U#DZ+v$,XPj$OMafM-j_atb.1k$i5vv$s:*PtcM(q]pL5V)d=ik$4:=U#^EpU]5cs>#fj0o^85cT]VeGc%qGGDMQiC"
    "l$xDLG((%@L`=GV%uo'Sl$cyQ,ahfh0,uc`*FW<Un$n>s^M-Zx=dy:F$d]Qw<(S%]l$]^w<([%]l$bGWfMZL0&cCS]Uf(`JEk'[M*b,FCn$BhhXMh=Un$I"
    "S[O#dyQ,aVeGc%cMafM0s_ateAMk$@Z+v$:ELG(9AafM-j_atd:Dk$'kXkhPBjfM2%VNhP-aat/_#o$(n/hiVeGc%x4;fM2LUG(ES#o$l,eo$DZ+v$Fmmg"
    "$6>s^MG;vAlIB:'l]Qw<(5*eo$[^w<(9uQo$&HWfM92B)ORZ=8oG.Q*OCs3V)U(<8oBg=&PV(VQpG.Q*O>g3V)Z=XTohnEEtQo+r$[^w<(oNyq$2JWfM68"
    "2&c3Rl5$@pX5$Y/yCM2tPr$tthXM<B1s$Q(8q$BZ+v$r`.i$hyZ0,-Hv>#Fqyyu>g3V)vpD/VCg2&c3Rl5$#rX5$h/yCMmw^*%[76YMr&h*%Zw^*%@Z+v$"
    "QuPr$YvhXMu8,+%ICWh$DZ+v$-r<U#mthXM#XZ+%>SQ+%=#;JNw;s/rcqQfMsiI$#Z]e[vloLIN_eGc%uml`Mxar@'fayQ#/%(s]cnWX[5g<KM)Jl<(AAq"
    "hM`hGc%5`WfM*1=CcFBD)OrnN8])IEo*wxRA'n4LN#KGyCM%8]A'ak-FM/aFB'F>[yPflSGRUU5&RBU-V)ROjbO>Oe=MJZoB'XqdB'=t's%d&PB'4U-V)a"
    "KC<R.E-FM9=0C'AZ[1hYC-RT'7f@#FW68&l>uB'kK0C'DfafMh+QbtEIoA'mZ68&8:.A'*VCC'0fafMp,batBx(,%HaSrf2$I8f0tqdaK:T;R@(P/MV'M5"
    "TRu88oAm3V)f:.kUPFi=M;dA-%<Vt,%qvhXM4jJ-%gbA-%HaSrf@LI8f>HrdaX[aKVQuhHN_q%hVjSfKV@g3V)a>Y;ROVP/Mb5ydWgvQ5TCs3V)O,F5gA8"
    "J/MgdUBYxX>&YBm3V)bIM,N=G<)bWZLC'gAafM&mQbtZs,D'i5vv$I2WfQ>KYX[ZxZ0,0if@#xEF5glL5V)[%[D'VQRD'^EpU]A'K$#U-(cX>HUU]_eGc%"
    "-5iXMJR2E'RwIa(=#;JN.jy/rcqQfMWnK$#h%iO_]6+-a_eGc%*aGDM1h0K`M*JZQDubeayt:h`Gon&u)R(H'cyQ,a3-6V)IQB@Z7va%cYtnO#2:IO#(i="
    "G'y>^u$h<HG'biC(G0.ps697DaMd=mG'n(6%g/&0_cm;@Cc`hGc%q`WfMIlVes;Z,[d`rjk_i[+-a1$-V)&883Ur>M*bkxNE'xrafM4ARbtirWE'@Z+v$c"
    "5Ja(9AafM&mQbtl-tE'&eu6&3_LC'BO-kqVeGc%:5;fM$Doa(@foA'K=tE'-v9S^uwG;n.n5)bli-0%$safMY@aat62eo$@Z+v$#NUG([PafMV6aat5,[o"
    "$%R3khVeGc%yMafM9:iatn$]0%lQrs%S;kT$fs;I&_7;fM3R_G(E:+&lMdlT]>1GM#-T_G(1^EfM^x]HaQBjfMau%h`9Aiato*f0%BZ+v$.BCG(u(f=Mhg"
    "t1%OkZj$Qe&dM^u]daCl-&u'0C2%qL#Xeifh0,t)%lq1f+hV,[jHN;=<2h&XJ)OpL5V),R>3%U$63%y8N9fR[b##-#cOhr+K8fWeGc%REIYMt3)4%_Wqf$"
    "DZ+v$96)4%jTeYMxLN4%_Wqf$@Z+v$><24%+ENfMnEc##YSI@v`wf^uWeGc%MKGDMBRhvm0CLZmyIl<(NT-wm@g3V)fgE)XBQX0MV(VQpGXtdj*$-V)=Q4"
    "6%:K+6%y>^u$cZ46%DZ+v$bNy5%qwhXM4kP6%ZgG6%@Z+v$jmP6%q46YM:817%,@N4%@Z+v$qyc6%Mu:^M3:q7f;+I)F+8q,jXBjfM.dPUf_XSbt1,sH',"
    "[+v$SV:7%m:GDMj;3QgElRZQj8dea9AFng^[o&u<p*J'y>S2h3-6V)XU7FtGcb%c$:ES#>WUj#>B]I'#Iy9%=nfI':X+v$FtoI'ISCo*'oh@#to-3hIhe^"
    "lkTh@#biC(GQ.ps6dl-FM/X0K'5[[1hO>&[msmh@#=t's%Xa'K'4U-V)Udr#m->$FM<tUK'Xm9K']yLK')wK,j_eGc%*N;fMq]i`(0<sH'K[JI'3%]>mWe"
    "Gc%iKGDM[3fyu0CLZmyIl<(*,,#v@g3V)T4K)XBQX0MD/dHN6&#ej*$-V)+;HG%:K+6%y>^u$=GHG%DZ+v$=A>G%_yhXMyTdG%bQZG%@Z+v$EYdG%q46YM"
    "(#EH%,@N4%@Z+v$LfvG%i.$YM0T7I%BxDH%Vh^tnGJV%uRC@L'=31nppfh0,c+`*F/J&N'8we=MDTeL'=`8I%%3s^MZ<$KrE=H0reQw<(6SkM'[^w<(yxw"
    "L'TaWfMW(=0Mb6+)t.NeHav95V):iI]'&q)PtQ2u^'[^w<(H@S]'4cWfM*.+'cN0`N#LvwW#ckEM'%[Yr%NLf]'8R/XR`eGc%Trl`M+K3^'nG[O#p_&mUY"
    "8fkq>c1BP*Jl<(P_o_PWSCo*-,o@#p'$xdO=8wQPFp_G9t's%_wO^'<iafMpGZbtM&u^'lQrs%2]o]'U2l^'RcGDMD2eM':VM`(jic&uO<<'uaBkM'L^YB"
    "uGg3V)FgIIaupT%uRC@L'OyU>v)Jl<(w<ltn`hGc%0KWfM`Cnds6)=bb2fJ-j:d1@v1$-V)+$pI%:UW4%bu)0VLF<'u*C_2%thvTf@g3V)om<,s>7-&u'0"
    "C2%s_Z8fGev<(Pj-4$mPafMxJqatUB=J%i5vv$`X'Df:FiEXrL5V)WQuJ%N:=U#OrG*X+D.@#W@`CYwCL)XXeGc%HSafM)dqat^s0K%i5vv$Q3]oW@wa>Z"
    "rL5V)b7$L%QdrK%Wew[Z1V.@#bEpU]0O%[ZXeGc%mMGDMUohL%96/J(.Z+DM_e>#d:g3V)Pf.h`upT%u^s0K%Q3-[ZYhGc%IMWfMWlY/M%x:,auyV3UShG"
    "c%FMWfM$Z5&usFFM%e42eajfh0,E'X*F`j7m%tEs^M,Q]ycc$R*O]Qw<(^VbM%[^w<(aJOM%fMWfMAY6&u%'CN%n0'[djfh0,OH_*F%h%Q%$Fs^M4D5Tf@"
    "d_9]_Qw<(n*LN%]^w<(r*LN%oMWfM)RsHN=PtjhwfG>ZKg3V)Of>,s/e;hMAlpgig1-_GS1vv$)D65/20)P%DZ+v$762P%athXMvCNP%`<8J(-v9S^8u)h"
    "iu8,eaFX6bk$bD&cP5*'lVdb>Z*(T$'BUaP%@Z+v$q%K^(9AafMHirat'3UN%3%]>mXeGc%.;;fMW&T^(:sxakt6wT]>1GM##,T^(m.EfMYaR;nSEjfM[Z"
    "rZmeksatB%BQ%DZ+v$g+QV$KhhXM1[GR%&,T^(Eqn/rRBjfMP+ljqyQtatOucR%DZ+v$haGR%athXM95:S%#=8J(-v9S^bAS;n72-eaaCP)txT8&uP$mR%"
    "IB^Et[/`$'wgbAubhv:$kJ.e%KT=&u+$-V)MY$T%>a=r$y>^u$*g$T%@Z+v$B$wg$r/$YMu>Qc%lpM.QKHdHN(<o2M7gb/ME8(eNRo_HN,$-V)-Kmc%M`i"
    "s$y>^u$BYmc%DZ+v$BSdc%a%iXM$e1d%dd(d%@Z+v$Il1d%q46YM(&Wd%O*8J(@Z+v$NxDd%:#;^MVnYmT<+I)FNlYbXYBjfMuVA3U,pZbtUWh_',[+v$e"
    "Fad%m:GDM5ps.Vp8KZQ6Pkea]t.LV+sv&uaDw`'Es;hV4-6V)hal[QIcb%c$:ES#7ZvR#cmQ`'#Iy9%.E[`':X+v$6Ke`'ISCo*K.p@#A/53hlDN;[8lo@"
    "#biC(Gu0ps60o-FMS,&b'Y^[1hrrf8]A-p@#=t's%I7ta'4U-V)EWcX[.>$FMaHKb'ID/b'MPBb'LS4bX`eGc%NP;fMbW4_(xjh_';2@`'",
    "M^YBuXeGc%VPGDMG(;8SBv8KrxIl<(ZEh8SBg3V)[5l;RJZ<hM[U)kU;Xy^GS1vv$EF65/i,+f%@Z+v$ln7i$aPGDMR6hgVPIbvvxIl<(qu<hVFs3V)qox"
    "KVTfc/Mb5ydWjftHWBg3V)xF9eWL]_HNfZ9&YGA>dsJg3V)&cqEX]3DhMl:2wZZM4&Yx'T$'WSAT#bgqK``eGc%dP;fMZ8p^(H($Xe>p5$Q.LsdaZmU#[W"
    "%>T]>1GM#ZSp^(iVEfM)8&xdYBjfMlwLFbYI]bt%<mc'@Z+v$O,:g%e>;^M8iMmg<+I)F2y-ClYBjfM9P63hek]bt7Tfe'ePQ=R==6$QyfA^c*Jl<(8onk"
    "hahGc%5dWfM',JCcBu4,jH-C3U)IEo*RjOf'L4LN#HKyCMx&Yf'nye=M<fff'K%[f'1[+v$5i:d'KJ-V)It+*km2y&uEM0g'/a`Blqfh0,mlM0iEk''l,#"
    ".'c.*eddL^cX[*(T$'dYy^(p9Cwd`eGc%Q8iXMlrrd''S[O#bgqK``eGc%:KyCMn3.e'biafM&[tatZbrS%mZ68&So4_([B.e'yiafMs;tatP$mR%mZ68&"
    ":fMS%2W=_(LTafM54$btji[h%i5vv$DTm9rnCAn^sL5V)lx;i%JdrK%csL3_>'8@#kAeL`I.[2_YeGc%2]-FM]Qbi%W<o%c+MPNbbirQ^&)nda(U3bbqMU"
    "2h.tkBcGbP]#-i=v@s_>O%T=.4$%[Yr%j$Lj%=t's%c`G_()IEo*vZuQg`=;`G%[Yr%tC#k%=t's%h`G_((IEo*$kuQgZg_*F%[Yr%'cQk%-i=v@fgIL%O"
    "*Q_(%[Yr%/$wk%Zf@t%3_')3%iZk%cge=M*7;l%&`ij%(02l%Zf@t%5_')3h*Uj%ege=M,DNl%sxci%w;El%B^<Oh6ee/ME91)k4f^3UShGc%ZPWfM8D@&"
    "uD1TQ%5AX;nAg3V)eD0[ZupT%uAv7Q%47<wmYhGc%gMWfMunZ/MI_IBlw%W3UShGc%dMWfMB]6&uAyJm%1s@#mkfh0,F*X*FI8$,&BIs^MO.Osn7FX9]_Q"
    "w<(P5gm%]^w<(R)Tm%3QWfMEQ&INUv95pptw(tJg3V)h[I,su<It[>1GM#dgYn%LANfM'&v##In@3qi@1kqYeGc%AWafMgq%btP'(o%DZ+v$y.QV$O)6YM"
    "xT((&aWv'&@Z+v$C`((&JIs^MHD1BP;gf>dZ/`$'albAuI<W(&gj9+&2$S#QCg3V)V)u;RZ7GhMUu0qS<Xy^GS1vv$@I65/_kf)&@Z+v$`]_G(ZQGDM:,J"
    "*&Ame3t,Jl<(oVJkU-$-V)b`_g'<PjL$%[Yr%_(`g'Hv's%jOP*&:^NfM;vV$#SrG*XpgY_u`eGc%]dGDMH2apoWQtvZwIl<(cxpqo2$-V)E=[h'QtuN$y"
    ">^u$q`[h'DZ+v$eal.'x8iXM;Wwh'plnh'@Z+v$xrwh't(iXMAvNi'p$/i$BZ+v$*:Oi'Vn3V)%bbes=GT&cN0`N#.xGN$e#ki'%[Yr%2Sti'Zf@t%aq')"
    "3huhg'RjafM08_btcQ8j'PyU>v`eGc%RQ;fMTbs](yA-h'ye8j'4-o>QZeGc%LYafMgs+btD6s(&lQrs%:%t](q5kT$iSGDM7*wBY@S(FOy'T$'4j%^(@Z"
    "+v$-9Ap%Xt3V)$]CiVDpk/Ma,^HW(ksRp]/`$'I1cAuI<W(&8%&y(IAT)XehGc%toWfMcXi0MeQuaXk4xgVNm3V))YGlUPFi=MV#^y(Wm8y(4EiXMO)gy("
    "[(Zn%-i=v@G.JL%Xq)fajANwZ`eQ'cY2tL$]@Y5$W+yCMRK4#)>d@YMWQ=#)Li4#)kiSbb^BjfM5_XT]Ff)ctpUG#)iP.bbdeGc%(pGDMf7mp][QtvZwIl"
    "<(KAIr]6$-V)f`l#)QtuN$y>^u$[6m#)DZ+v$.ml.'BEiXM]y0$)[C($)@Z+v$bI1$)6EiXMa:V$)80/i$BZ+v$jbV$)Vn3V)`eY-a^_Q'cN0`N#M,HN$,"
    "9i$)%[Yr%ptr$)Zf@t%(&()3Li4#)quafMMC*ct*h6%)lQrs%u).%)Ro=#)buafMOI*ct,tI%)lQrs%y5A%)6BkT$qoGDMV9Q#dc4&IW+(T$'%CS%)@Z+v"
    "$^9Ap%@/6YMu_b&);vv'&@Z+v$;/c&);KNfM3j$%#:CfCP8o[3hdeGc%-vafM(,,ct<(0')@Z+v$JDwg$^Q$YM&9U')lpM.QI65,j0+AnhJHk0MC'QHjfo"
    "cRp0IEo*u'Go^7yl(t,Jl<(I#5fj6$-V)^S,()<PjL$%[Yr%V(-()Hv's%Vy#()6jNfM1d$%#SrG*XNaiCldeGc%:vafM&&,ctJxQ()HaSrf:cd9f>Dfda"
    "GnE>m@^S'c3Rl5$<AY5$l+yCM/2w()u^6YM48)))^Gw()@Z+v$fMe()sEiXM6E;))]mh')@Z+v$ol;))t($YM:^a))h<=sMV(VQpaBU-j:IEo*`[s))c=L"
    "N#aWyCM<y%*)//f=MN(/*)D+%()i@&*)BO-kqdeGc%H^;fML4B*)mAR()Z:I()DbeKrdeGc%J^;fMNAT*)(M8*)Hn&')vKi'Ya]LiMydV*bbQ^*)*FiXMM"
    "uY+)]2_f$DZ+v$CFZ+)_(iXMO*m+)'/Zn%JGBIW_BjfMI40LMo11ctACb9)H.tHWeeGc%fGiXM(Ht9)tsY+)BZ+v$^2/i$hyZ0,p3FA#f'NfNMg3V)MSS'"
    "l>BN&cJ[xjOxnrHNCp)faGd[&P>YY'cY2tL$:CY5$W+yCM01q:)tf@YM57#;)`Qq:)H4bhV_BjfMj)gZQ%Z1ctN;,;)Fs;hVeeGc%^rGDMCZ#wQ]QtvZwI"
    "l<(^W_xQ7$-V)DFQ;)QtuN$y>^u$ovQ;)DZ+v$dol.'wGiXM:`m;)o+e;)@Z+v$u1n;)lGiXM>x:<)n2/i$BZ+v$&K;<)Vn3V)r$p3U<SY'cN0`N#+/HN$"
    "bvM<)%[Yr%,^W<)Zf@t%^(()3`Qq:)OxafM+72ct`Ms<)lQrs%1jj<)fW#;)@xafM-=2ctbY.=)lQrs%5v%=)lDkT$OrGDM3]_)Xm1$[v+(T$'8+8=)57<"
    "wmYeGc%h&iXMG3$,&qP[O#2s@#mYeGc%rk&dM^u]daCl-&ueM@,&TO)X[lfh0,x5%lqhNuZvBQ0U]>1GM#AOKJ(u=EfMHN0U]TBjfMMQPt[3.-btfSI,&F"
    "Z+v$DOKJ(a46YMW>b-&wZEp$IZ+v$HOKJ(]shXM[W/.&Y]&.&lro&cTBjfMKQ[aba_.btxkB.&HaSrfk(g8f[R=ea)h/#d$-n/M18,wd^P)&lJg3V)rsNw"
    "d][U&c3Rl5$u$Y5$7;yCMhcm/&VB6YMmiv/&%om/&@Z+v$w0h.&T)iXMp$;0&DMWh$DZ+v$(%=U#B)iXMuCj0&4Ia0&=#;JNT230rcqQfM$1]$#4cmINRF"
    "]CPaeGc%Rul`M)B3y'akyQ#/%(s]:8ukh<G5EO+Jl<(O@%cObhGc%=fWfM2PPCcLy;#Qoim8])IEo*(Yky'<8LN#SMyCM-pty'iq-FM7A_#(NE[yPlLLAT"
    "^5.wSDU-V)aNu[QAOe=MR:0$(aQ%$(=t's%tdh#(4U-V)oJN6T0E-FMBuH$(Ia[1h`#&LV1Vx@#FW68&%&6$($2I$(LlafMpJdbtM)0#(mZ68&jqFy'g=["
    "$(8lafMEf-bt<d71&HaSrf-vg8f[R=eaCI-&l=#o/MKq)#m^P)&lJg3V)NKM#m][U&c3Rl5$6%Y5$7;yCM)IG2&oB6YM.OP2&WTG2&@Z+v$RtJ1&m)iXM1"
    "bl2&]MWh$DZ+v$A%=U#B)iXM6)D3&f.:3&BZ+v$W/Uf$[B+DMOUM@dShGc%SfWfM+phesaR-nT.4;1&Vip&(S1vv$Y[65/I%=U#D#;JNx3/oT9.-*t%'5'"
    "(6(cAup3t%(O$5'(R<IwZIg3V)-Wpkq+X*]Z>1GM#:(5r$j0`$'N(cAu+Lm'(mhD((e42ea7IEo*.01((n7LN#wMyCMcM:((olafMTOfbt",
    "(RD((,[+v$aPK&(V:GDMHA^yc-wTZQa#vea*qK>d=m>$QFTgfd7=IEd:<6V)]`M9]F#dEMp-7)(&<.)(sU>teaeGc%vS;fMIud[(lOv'(yhD(()Ppu@>Ee"
    "$(cY+DM5VK3UdhGc%bfWfMpwM0Mv@C2_wi]3UShGc%SfWfMZRueaw_Hk_0+)'uyqK.&iYJ&clfh0,x0=lU6T$l_fw5'cs$%0%]-e3%*B+DM',j/VdhGc%X"
    "SWfMgIm/Mj)[Zv@)Q3_XhGc%USWfM37I&u9S(D&(vBhMmfh0,t@0unuGr8S]>8eslbcat>wF8]Poq,NDg3V)j_[wZ3&cT]>1GM#mWTJ(/JEfMF:q,NUBjf"
    "MLMq,Na^4bt:Y1D&DZ+v$hT4j$i+iXM-KSE&qWTJ(vKi'YKYUhM/mEeaP`PtRV_f#Q^6m8SQ9^)uQJu/MUu0qS%/W3UShGc%*VWfM&m]&chAM+&m2GF&W2"
    "+DM$WQ&uQev<(Pj-4$L86YM<P0G&Io<U#vKi'YsSWnT@DFeabNuEX[$v/MfZ9&YG,Q_GvKi'Yw`WnTFVFeafs5_YlHg#QsJR#ZP/8IXmKg#QtSn>Z5F(Fl"
    "h6v/Ml:2wZ@DFea'$-V)3TRH&&QIH&%[Yr%<WRH&@Z+v$1_0G&EGGDMB/0U]*[t8]&Jl<(DZ9U]WxZ0,@-K@#aWUq]WxZ0,A0K@#^Tq5^]hGc%`VWfM7.:"
    "esH#L/MkF`HNlLOk_uL5V)sRKJ&ICjD&f7I0`E3/$#poA*bS`j/`[eGc%AE6YM`sgJ&Dl^J&@Z+v$i*hJ&gY6YMe:>K&I35K&@Z+v$sI>K&MlGDM[h-Xe,"
    "Jh;e&Jl<(w18XeGp3V)#BTteypg#Q=7AqfmTtVf.$-V)Vw1L&'3#K&=8%6g0Rw/M:4xmgYv[3UShGc%`VWfMD8B[Z>1GM#]#mj$j0`$'SpbAu<NWL&5IjL"
    "&$R3khGp3V)G#vBl(qg#QMk-bk%1bGk.$-V)f%gM&[U4j$Mli&leqS&u6BjL&%[O/iKev<(Pj-4$mPafMft7btC4+N&i5vv$NVs9iNVXwmuL5V)EDcN&3<"
    "=U#9`k[msmL@#B-,unRZ6[m[eGc%lE6YM1e'O&Dm<U#@Z+v$ds'O&QlGDM(O;npQ7+Rp&Jl<(h-Hnp.$-V)0YPk_&s.faZfjKrY=UeNa$/hrnCd2q#(T$'"
    "rS$P&H/&es[eGc%FE;fMCYH[(T_8IN5*<U]>1GM#&iH[(g:EfM,RX)tVEjfM0_X)t(e8btYeIP&7mEm'R.'n$b%I[(&eu6&eNFQ&R(D7&;Y1`&[E+DMgG="
    "LMEg3V)PB(6TupT%uX_@P&IB^Et]hGc%6WWfME>x/MFBD)O_+]3UShGc%3WWfMi,T&uA*%a&.V:bOnfh0,*0^*FM&pi&BQs^MMrevQ5i_@d^Qw<(PFAa&["
    "^w<(S9.a&3YWfMf%Z&uJbxa&7R/XRnfh0,5R^*FnPRd&IQs^MUe=QT@*D$d]Qw<(aq*b&]^w<(eq*b&<YWfMNu>IN]_E/VPSx_lCs3V)s(GhrJo_0Ma,^H"
    "Wrd6,WGm3V)_bw)OPFi=MJrqc&LkVc&(/iXMCx#d&$,rc&-v9S^]=MhiBYOeafp#CYL*h&cpMn_YeK0<R*(T$'2>6d&@Z+v$$FhZ(9AafMm4>btLn3b&S<"
    "IwZ]eGc%RG;fM=:qZ(]#IejDWCU]>1GM#-LqZ(m.EfMFBct[WEjfMH;+<[54@btfYnd&DZ+v$37QV$KhhXMU8te&0LqZ(DZ+v$TJte&=/iXMYQBf&(YXY("
    "vKi'Yw2ahM[FPea$0sHacnh&c'APNb'5mWR-Jl<(dk0FbFj3V)fwLbbaUl)b%-qf&m`afMJ$Abt'@Hg&i5vv$5B1G[,;*@dvL5V))O(h&=$Pm$tbq[dVnT"
    "@#%02uerdE[d]eGc%6ZGDMx@Wh&o^5[(&eu6&/6Wh&R(D7&1<ah&-ZGDM(Ssh&@9qZ(^SyCMsI%i&Z5rXMxO.i&4Cjh&B^<Oh9n)0MBu4,jo]]3UShGc%o"
    "YWfMM3]&uhf)e&UXEt[Eg3V)KlNXRupT%ueSed&TO)X[^hGc%4YWfMC:'0MFCMEk`.]3UShGc%1YWfMg(Z&uq6x0%d+nHa@g3V)F&d&l1d#&un$]0%cyQ,"
    "a*$-V)jAGj&f`gU$P0f#mTd6$mw9.4$]f&2%4.xZm]eGc%3H;fM8q5H(v#cQg&SEU]>1GM#a+6H(m.EfM`.<XnWEjfMb(]wmn/BbtGPcj&DZ+v$m7QV$Kh"
    "hXM6/ik&]'`k&@Z+v$nAik&GUa^M]O[+sq^`kUY/`$'vsbAu`tIl&$s[l&F&bHs^hGc%9ZWfMDsj&ccM$/u#i^Zm,Jl<(,&_&u)l5V)[w;m&EE7T#SD@[v"
    "VBjfM8Nv>vdjGbtbBOm&%[Yr%c5*m&Kv's%jZbm&-cafM.)Cbt=rr$'Q+rZv]eGc%PH;fM<)@H(hNOm&$^r$'HaSrf13)9fy]WeaDQ@&PE700MLy;#Qm5j"
    "jq/$-V)9Jx%'6Do%'y>^u$Zex%'DZ+v$YXf%'m1iXM0d<&'Vq3&'@Z+v$bw<&':MafMrGHbtO,c&'i5vv$,%>fv2AknTwL5V)Q;C''7yOm$DdrRT*A]@#L"
    "13lUk1NRT^eGc%xJ6YM=]_''fyHH(@Z+v$s'5V$VTs^M`jNdWc_)*OY/`$'#vbAud7$(',86('IAT)X4IEo*_2JXeV=O<n,Jl<(:tS[ZT:4V)=,pwZrBTF"
    "tSCI,([^w<(_bF*(3gWfM>TgINBu4,jM6q+WFg3V)P<T9Sm`q[Z>1GM#N&uI$j0`$'%)cAu[hn,(w3O-(=31np5-6V)VEUIjPcb%cpM5R#XB9.$]L2-(am"
    "n/r;De&u`B/.(CbeKr5-6V)[TUIj_53Qg)@_iuE>PX[irdyPk#$#vkd6duJB^0,MGoX[A3y[#LSCo*94%A#<-&og@hT/M@%%xv7IEo*<'&.(F:LN#gT+DM"
    "bAP0MchGc%PgWfM,5,'uO6I,(,EdEkMs3V);fD6gQ'10MJhe^l]V.ClKm3V)L%L-N*);*b<p3*(`/;^MBd8HNy';)FTLR[Z[BjfMNr1fN*jmbtCF<=(-DZ"
    ")ObeGc%1V;fM>>nH(feV6T^tF$QQ(]BP@qe>n_%>T]>1GM#d_nH(6]EfMi>G$Q[BjfM]qF$Q)gmbtJq&>(@Z+v$^uU+(`jGDM3/X>(T]nH(%[Yr%iQU>(e"
    "PQ=Rq&%`YF9fvQ)(T$'kW_>(@Z+v$o_nH(9AafMg1mbtU^5@(R3-[ZbeGc%gxl`M=iQ@(XM[O#S+i(G4+<)'3S>>#OpPv$ciWZ5iiGDMx=SgV%_^ZQ8cB*"
    "b`=w@(UHN^M_a2HW:2weaW/`$'-+cAugV2A(97/B(H78eWJg3V)#:pOUI/vEMe<nA(Bv;)'5Ue=MObsA(lMlA(p_&mU=:N3_[MKaX)(T$'>+tA(Q*i>Zbe"
    "Gc%YoafM4Jnbti$8B(9]T8oaeGc%AmafM)sHbt^+6('@;DnT^eGc%v1iXMT5&*'_P[O#<wGqS^eGc%I/;^Mu&4N_<.@)Fcv#0`WBjfMY`ak_C]IbtrOB*'"
    "@Z+v$9=`k&sW6YM^my*'h-=U#vKi'YE'lnTaUYea1Q(XenwYea4m$Uf,h&Ft35AE([^w<(V+TB(wiWfMVb>'c3Rl5$]9Y5$2,yCMO;gB($jGDMkfIN_-y>"
    "KiwIl<(SrjO_Ns3V))NH$Qy2W0M#fZK`WlJ0`Jg3V)ZCgL`1R_h`>1GM#v;W,'d4NfMZ)h$#of%farQw_cbeGc%U(f=Mm]`D(p_W,'Dv's%x);,'roafMO"
    "Cobt+hrD(muF#dbeGc%qV;fMABeH(qbDD(7]rD(ePQ=Rs]P9ftsh+a)(T$'HYeH(p9CwdbeGc%xoafM>]IbtsUK*'7JtWn]eGc%m/iXMp-s,']P[O#4.xZ"
    "m]eGc%=y.gMfy#J$",
    0};
static const char *const diti_spirv_text_norm[] = {
    "GZ1N5jsi^PmGVC'=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>MpV#2q0`r6%,9yM#q2KQ#5*@W#Sk&j#41Sp#OW>/$2;B9$t0gM$Q^p=$75H>#Mcx"
    "RKxm0EMtt`a*S-coKe@Lvd.Hoh#P'uOL8['EM(iT&#XqM*OM`4;e<7cM#/T1EMlm0##9['EMf(iZ#[5J'Pe<Lvd>DuM#7['EM,7*t$7ll<(/W[a*uX8MVH"
    "Lc&#l'FLVpa'EML=$t-&il<(:EP&##F$`YQxY;e_T8Q#/T1EM6%2##9['EM07jZ#&bw[Ze<LvdaaKQ#7['EMg8,t$;9-V)uf08.yCT$'q<^vd8wCV#8['E"
    "M.6bW-'il<(h@3U%bX<`lHLc&#X'J_lpa'EM8[&t-&il<((OlB#tf4*tM`4;e]<_Y#e@LvdT$_Y#(il<(ALY&#w*1'ue@Uvd:.ci#xm0EMkm9##9['EMe("
    "rZ#Y#jFOf<Lvd=A'j#8_'EM+73t$7ll<(.Z[a*sFXlUILc&#jlekUqa'EMK=-t-&il<(;Z0_#=0='cZRM<e#PAp#/T1EMR$<##9['EML6tZ#AL9$df<Lvd"
    "%]Sp#:e'EM#w5t$7ll<(&[[a*kT1VoILc&#b#>Uoqa'EMC&0t-&il<(5nh>$`Zb@Q[RM<eFu,/$/T1EMu7D##9['EMoJ$[#cv^<Rg<LvdH*@/$<k'EMA]a"
    ">#+il<(6GdZ#DR'DcJLc&#DR'DcOt#@$DR'DcTE;X%DR'DcYmSq&DR'Dc_=l2(DR'Dcdf,L)DR'Dci6Ee*DR'Dcn_]&,DR'Dcs/u>-DR'DcxW5X.DR'Dc&"
    ")Nq/DR'Dc+Qf21DR'Dc0y&L2DR'Dc5J>e3DR'Dc:rV&5:x3Ccra'EMtHc>#'il<(;gg_+qJ8-sE.KvdW0#:$:Q(EM<9#R&Ail<(G]D;$&c)xvmk38SPOSd"
    "WanvZ#P>^u$]8t>MCp:[#PB4r%m+k<(0TJHWvDl9%V+k<(0WdvZmexTAaik<(v0ATSnQOTW2dtE%WpR$'s)_@Mt'4UW=`1$'BEl<(m-mqSTveI-bik<($Y"
    "0##,L5iM,a%LV7%YM#UsR$'3ZXM#2,.cOe)cM#N,.cOg3ym&409lLR*.HWC]CN#TpT@M,]B5&B'FLVdS3HWTn2P#4Ki+aTn2P#&&jwZ*ZqqWHvp@M9-#n&"
    "XpR$'s<.hVZH8Q#Cup@M@@#n&`mfCM3*EZZR=q@MEO#n&hik<(9P2##xV68&>&dR#=&dR#^b(BMQqiS#RpR$'NPJhV2_0V#rup@Mov$n&7nfCM:V)HjO+U"
    "@Mm^H8%.'J_lPq5HWAQ6W#xhk+aAQ6W#[SALVSuTY#XsR$'kTTY#Nxlbt)#_Y#jxlbt+1&n&'FHINKv^@M;mBHNWGk<(=&`eNsCl<(5m&j#mik<(iGrZ#="
    "cIOUO+_@MivDNUWGk<(kCakUsCl<(cFEl#mik<(;u7w#fno&cO+_@MbLl%cWGk<(dO/CcsCl<([1Sp#ZpR$'bSJhVF(Ft#.yp@M+^.n&KqfCMa4t4pP+U@"
    "Mv9T5&2KX[QX1FHWG$6/$')$,aG$6/$uYFU].`T^^k'l<(9`E##Jt1Ic8:St$>:St$;:St$;:St$oBu_cKB]4$3Cu_cM,:q%qTU@d6o1wZ<`T/iS0Q<MQo"
    "1BMyc_6$(JU6$(JU6$$VZIj2c:;[GW$7$jjHwBp71o#+@o_lS<75^K;^Wn^@%CMFcR8$dTE8$W,k<(soVw#Cj@3qn&/9$_j@3qpdc>#E%xkq.V1wZX]jgr"
    "ek%5^Yf.,s]9sBMwI6Hs(#&nB&yDo*uL8&=d^d.VY<5:$jnIHWZC>:$2e',aZC>:$pDJHW_[d:$_A(CMDN(;$>TE8$GpfCMuyaaX_@%CMF]GN$nnG##xpP"
    "v$[dXM#g^E8$409lL:UvvZFNOUaa@jBMXN3Q$rwDo*gBwvdNF-nB;]sYIFCTQ#Te5w^K+v+eC$>ZdvwDo*;/XHNx/5WnuwDo*BD_HNx/5WnuwDo*>$(wdN"
    "F-nB;]sYIuETQ##lA)[8-CF]Myp@MHRLq%jik<(vU)O'409lLRe1wZZXp#hfR%CM6[+r$aA3Q$@E%CMR[8r$qM+r$hjk<(Rt2U%xpPv$)GST#YmiS#;]sY"
    "IeHTQ#jnA)[s/IFS`x(BM>iu.%#xDo*MR1wdB/F>ZxwDo*LY7wZ14'UA409lL;)WwZ>e:@_b')BMklQ3%+xDo*y(3wdn`,/ixwDo*x/9wZ^b(UA409lLj5"
    "jwZk=y/mkXjBM@p-8%rwDo*LiqHNx/5WnsX,V),Kvv#V`NX$);Rl'IcD,aN:XCPs&gCM5#vN&xCl<(aKD9%);Rl'.`D,a`*/0rp&gCM&laP%xCl<()J&9%"
    "C^-3USHsfM-q`I%AN$OU+$-V)goAM$/_*na])ydWVL2&Pc>=)X_9PWn'$-V)l6pM$;a*nabWUBY=V&&c+xx4$BAo4$8yxCM;P4N$&qhXMAV=N$%L4N$DZ+"
    "v$,R=N$0>IYMG$vN$^^E8$@Z+v$3eYN$pDGDM`1MQ^%qb^PtIl<(AZUQ^@m3V)Cgqm^@oh=MVO`O$U5)O$vDGDMfiEK`S])/`wIl<(MMNK`($-V)YsIP$W"
    "m@P$y>^u$SvIP$DZ+v$MK`O$=qhXMX5fP$Q+]P$teHXeOBjfMtQ;;eD`Vat$oXQ$DZ+v$cmiS#FJafMMoVat*<9R$mZ68&+NmR#'6nS$r1;fM>1u&'ncXQ"
    "$3DUR$@n#AdpT$#d1jIda:VTKi]JZT][_csiLg9Li[Qw<(#DUR$[^w<('7CR$tDWfMMi:Ett@*M%[^w<(8&VK%WMWfMa0Z/Mp`J8]1+]QTq95V)pd2k_RF"
    "QfMZek##s3='chK;wdXeGc%1^l`M`j/N%'fNP#xQVGX;@Q,WlD]yc#Jl<(mE[>dYhGc%tMWfMi,`Bc3KdWe-f0eW)IEo*P*hN%Q5xL#25yCMdAqN%HY-FM"
    "niZO%--[yP;>Lsh<_UTh;U-V)'TT8f8Oe=Mqs+P%@#yO%=t's%2udO%4U-V)5P-kh(E-FMxFEP%(I[1hGLM)k`20@#FW68&:62P%9CEP%+TafMO'sat,R,"
    "O%mZ68&P4CN%%OWP%oSafM;DratgS-L%@Z+v$O:fP$w=$YMSwnL%L-u&'LcMbk2vU%uB%BQ%3.xZmjfh0,6HbUA+.(S%(ee=M36gQ%a+pL%n2s^MG6tQ%n"
    "KgQ%KN8-syyl##C6H9oeL@,sXeGc%l#iXM1[GR%:0F1'.GNYI4RM3$[0`$'YibAubtiS%+y@T%L^YBu/IEo*VX-T%gZGmp#Jl<(.25#vYhGc%-PWfMJ(bB"
    "c@bK/MVV1_P)IEo*;%>c%/5xL#@7yCMp8Hc%ffe=Mt0Tc%C7Jc%1[+v$PcGR%;J-V)>4_,N_^=&u<`vc%-MvEOkfh0,1Q(@v_SU)OIvE&cvLsvq__7&u%("
    "T$'x6O1'CXI/rXeGc%t#iXM7)(S%bE0N#4.xZmXeGc%^5yCM9B:S%-TafM;Dratp3*M%mZ68&6Sb1'J::S%x)rXM#GnS$'Xk1'#@S2hUeGc%QqhXMyL2T$"
    "UTwS$w#W5gUeGc%e=tZM'cET$Lk_6$4+X]>HUET$U4NfMD$t##`4^UA5PWfMgj^EtLX.e%[^w<(Q1sd%8PWfMj(>&um$xh%8[KtRIev<(GGqj#]BGDM#-U"
    "QTu(fdWt'T$'VgNT$%qBxQUnIgrUhGc%>PWfMns&esb[I2Up_xsR;,+X[o@5V)+<a2UZ@HfME/+X[SBjfMuV]/V2+$btR24f%4GNYIt2TM$CVNfM9]s##Q"
    "`gIW,Of;[YeGc%$&iXMAc0g%p80''wU6`u#d#bt<J3ea^CIgYCM3ea`U)HZMV'LMfkEdZ/92_Yx'T$'w1`g%TFe;[YeGc%:k&dMUCovQl2k%udD$h%TO)X"
    "[Hy3V)%ya2UgW^%uNqfe%Wk%U]Fs3V)@Kc8]'hv%cchd:$11H:$t7yCMH`qh%]VafM8=$btm$xh%d`K^>_sNT$$vnh%.]-FM+$kT$hpQ.r",
    "Rs9qo48paOX1V5pR.kpoVhGc%mDWfMEDZds&GGq],m;NU%oSN_Fs3V)3,eabqGq%uM`pU$BXI/rgfh0,:m`k_*BL>Qmn[dsjB/LV^n:WeTt),sgfh0,naS"
    "kq0^H;R7B)&c+xx4$;Bo4$ZyxCM5,ZV$Q<s^MU,hV$t@ZV$JEthrvpP##T%mbtgL`grUeGc%=>NfM]nt##ealR^a8e>dYeGc%D&iXM`mBj%;LL''.GNYIh"
    "TM3$[0`$'_jbAu=N;l%;[sl%'n/hi.-6V)#q-_c:7b%cbNbP#Q];P#02Wl%&eu6&=Oal%3%]>mYeGc%Lal`M#`.m%<iNP#,a+v[bJ0[Z.&Z%l$Jl<(G#dB"
    "l<U-V)NB(_l8Le=M,77n%R=-n%:X+v$StAm%JSCo*ow9@#%yV2hX:rQprdu##=t's%_N4n%5U-V)dfT5p(B-FM7#vn%=IImgf'<kqcr4npg3mNqZhGc%2Q"
    "WfMbO)esZgKwm>x2hiU8hEkZhGc%vPWfM$-e/M2BH;e7Y8/VHm3V)Lx`Et9Pt)bT91o%XAafM#U&btWRio%i5vv$2mZHd@D,INVxZ0,-Q:@#401bblL5V)"
    "(6E#m)OF)tF*;(&WlbAue2Ap%ej:(&Np9#vBg3V)&Dh;eoiU[ZhuJKQDJcTAEpekUTBjfMY_<[Qm+,btE<%)&V&)jM<+4OL.(Q'&%[Yr%XL7)&CW@kUZeG"
    "c%Ycl`M0Z])&9:0N#b4UAQMIa&P:<BTS%Jl<(`dQqSRSCo*r+A@#u'MwdYCI2UmAYnB9t's%iwx)&BYafMuG,btR5G*&lQrs%W]A)&`2=*&WSGDM;Iq'&`"
    "Hc.'H<,-Nk5g&u:Vv'&*1#INCg3V)E.J#mbET%uWRio%-MvEO%Jl<([qR/rZhGc%vPWfMNl(es[pg;nWd-@mEf(FOEE^0,f[%q]Jphq]r#.-NE,5LMEN30"
    "MY/`$''mbAumS(3$y^'+&G.tHW[hGc%RSWfMREBngGW$7$#[L''vdL''#2iXMd8aaX`PR)k>E^0,[q_+&r(ZV$r(ZV$J[<`l'x>bX1Ls>ZrMw>Z`1vKi.v"
    "U%ub:$,&Q3-[Zlfh0,Sk<Li$6s>Z^IIeNIQMeNH'12q^FsI-h:r>#v'12qg8y#Q]i&@Q6^diNRjwgV_hGc%AEWfMOKA/MPGT;RaHY[QWhGc%=EWfMcRbTS"
    "UlPtRSy9LiQM4V)fAxgV.jcmgOW`ySU5hTSY/`$'Xv&^uljU>^ZeGc%YMNfMD'&$#B-,unD1e2_ZeGc%]YafM^X.btm'3-&%qBxQUnIgr'$-V);8b-&quJ"
    "M$).[h`SD%#mGrqj#VPg9$dyQ,aZeGc%aA;fMGch''9q2-&.$)0&0GNYIBnh''_Rw<(/$)0&[^w<(`i8.&%TWfMP(1U]H^^jcto3,Wa/`$'MmbAu,@_.&v"
    "tv/&luF#dCg3V)HhDeW@up&cchd:$H4H:$3;yCM_;K/&4;yCMaH^/&@/rXMfNg/&yUH/&).[h`S<J&u0qv/&w,sQgJev<(GGqj#@HafMT<.bt1w(0&FZ+v"
    "$Vnh''0DafM>S-bt42E0&DZ+v$c/vN$OBGDMeqx+jU_]gi%Jl<(3+X,j[hGc%+TWfMZ<2ese0QmW(X^Q^7]@khY8n<(pyBEt7R-V)a2aNUQ6waOWAt7Vsx"
    "fkUY/`$'p`bAuY;Ki$o&^i$F%X,W>&Fo*y8DO_roV##H.tHWVeGc%A4;fMEg/('SN%1&f5Ti$=t's%&t,('4U-V)&J9)X]Z%KM8PLC'/^e=MU*(k$SwMC'"
    "$RGj$VMrs%VOnm/82dR#*Z=V]OF,#dDVodaq*c5^b<dKMw@'R^9EC5^NSCo*<ls>#.-xaOyR_2_aiim^nF5V)_UcT]-m9Ets3Sl$[^w<(MpIl$`GWfM:A$"
    "&uNnSI%cyQ,a)$-V)]1xl$Z+ol$y>^u$Y7xl$.GNYI[=*m$[0`$'=abAu&f3m$c]Xm$kl*_cWhGc%iGWfM'RA)O3KdWeO*cabWhGc%iGWfMA:ddslaYEXU"
    "UIm$i]Xm$@n#AdjE-#dbXpda3m@5gi)1&c+xx4$nDo4$7/yCMhV#o$V56YMm],o$bR#o$@Z+v$&=Un$yMafMX<aat5,[o$i5vv$tfgU$7`JI%6@s^M=PRp"
    "$%AZV$1m:*k`,Y##;M3$m70/)kVeGc%&BNfM*2($#ealR^R:&UoZeGc%i)iXM-IG2&D&@('.GNYI5XM3$[0`$'XobAuc)A4&.:x4&KT=&u/-6V)lrFtn;7"
    "b%cbNbP#v`;P#Ue[4&&eu6&0.f4&+1#IN[eGc%qdl`Mt>mC&blNP#,a+v[[<@[Z&2x.M&Jl<(8y8LM>U-V)@AUhM:Le=M&ouD&LukD&:X+v$GY(D&JSCo*"
    "ijI@#vkf2hPG8[QnV-$#=t's%R3sD&5U-V)Ue*@Q*B-FM1Z]E&7NImg^3ZtRVqbwQZ2CXR]hGc%,VWfM[B8esuP[#Z0#L&uti-[v[hGc%DTWfMIHo/MV(V"
    "QpALiaXHm3V)q;kEtBit)bNqoE&XAafMtG5btQ2PF&i5vv$qRi^o2FE_YWxZ0,'DJ@#YK;bblL5V)<jd&Y#BU)tk]@H&%pbAu_j'G&,K@H&F%X,WDg3V)o"
    "E)Rp3bS[Z4]Xa]EJcTAiVs)bUBjfMKaUq];G6btjo)I&V&)jMbF>OLSZUG&%[Yr%K+<I&g=N)b[eGc%'gl`MU5bI&_=0N#b4UAQrdk&P_#Pj_&Jl<(Qfj/"
    "`SSCo*@GK@#CCWwd&*WHa;]dnB9t's%[V&J&g]afMCc6btwhKJ&lQrs%@7FI&RiBJ&%WGDMa$vG&t=I('l#:CY/.e&u`1$H&No0_YDg3V)-3e&YbET%uQ2"
    "PF&Q3-[Z&Jl<(xA$9S]hGc%DTWfMs/3esvYw>ZjhIIN8hA[ZFE^0,y@)q]Jphq]r#.-NX.DqosH@UoAE^0,o(taXxRqaXV'D,N[J@npYPTQpM:4V)eipmp"
    "0vCEtT*Hr$[^w<(gg=r$AHWfMq)FEtW<dr$[^w<()sYr$LHWfM<K2&c+xx4$=Eo4$_/yCM7;(s$ythXM=H:s$'*@(',[+v$GV:s$_:GDMPY^ycN:+/M[[G"
    "ea.2q>dL'S&uS0dr$OyU>v)$-V)FY`s$<(mr$y>^u$,a`s$@Z+v$[his$->$YMu8,+%%'@('5FL[d5vU%u,[dK&rU>temfh0,M3`UAg&yM&bme=Mul1L&+"
    "E-+%n2s^M1m>L&o)2L&7M3$m_)0$#*_fRg>kU#m[eGc%V,iXMs9jL&s[^*',[+v$7IjL&fiCaMxXAM&hQ1o#Z>NjMR)6LV'3*Ki$IHeaDIiEk)q`&ccKnm"
    "keIKh`%(T$'FtSM&@Z+v$)j^*'+AafMO07btC4+N&&eu6&5J>K&H/&esVeGc%A5;fMhmg*'C1Zr$P;+N&I(D7&TVyq$hcafMs5batPuGr$mZ68&=jyq$[j"
    "d+%CBNfMqM`##=_b@QNX<wQWeGc%1DNfMtV`##ealR^YpiNUWeGc%SJGDM@pVTS/d:8SyIl<(ZEqTS@g3V)^T5qSH65CcPH^Wnnl&eW)IEo*eDcN&m8xL#"
    "R>yCM/elN&:^afMipgatNkA-%@n#Ad7`4#d(^wdaWRE/VLMP/M_q%hVr@#bXHm3V)vALEtBit)bNruN&XAafMrB8btO'DO&i5vv$=;tWUT#FhrWxZ0,%>M"
    "@#_PtablL5V)Wba&cx;X)tCuD`&rpbAu]_rO&YdD`&Dk)hrDg3V)u1ShVf86Ccc@GEt%NOeW,<6V)&_X)tT*l%cD=4M#GKSp#RURP&i>yCME:3Q&nWGDMd"
    "7AQ&9=H+'o@@[vb7y/MAkgKM2H__PShGc%@WWfMxGNeaB2m,Nr>T&uF9N,%8[KtRifh0,95%9oIJL,N=(CLMm7[#ZiB6Cc_hGc%3JWfMcKkdsCA.UfIJQh"
    "rkm9tRZ/`$''dbAuh=1/%4,D/%SFe;[Z/`$'*dbAumS(3$I=31%Vba8]*$-V)PBr/%N;i/%y>^u$AKr/%@n#AdS[5#dKoxdasF#k_lniHN",
    "y[>/`;%ak_@g3V)HvhQ^jOQ/M%x:,a8C$bX2-6V)yDn,a87b%cbNbP#O1Xt#7fr`&&eu6&L3%a&Xk%U]WeGc%*KGDMlI=EbNslp]yIl<([LYEb*$-V)aMX"
    "1%RT60%y>^u$bVX1%DZ+v$I&6('EwhXM`gt1%ack1%@Z+v$iit1%->$YMf4U2%%'@('O&ACP6vU%uGO]a&463[Qnfh0,]b`UABtqc&%pe=M8a*b&s@V2%n"
    "2s^MLa7b&Bu*b&Q-(cX#%7$#D>Z9StFQbX]eGc%q.iXM6.cb&sb:,',[+v$m>cb&fiCaM;M9c&+T1o#Z>NjMe2n5pAku1U@DOea^)^,WElg&c%,cTW8x>X"
    "e%(T$'$kLc&@Z+v$Sq:,'+AafMj+>bt^($d&&eu6&k@7a&Xk%U]WeGc%R7;fMwrD,'oGV/%.2$d&E(D7&)Y_6$WQ@YMrrH3%)o53%UO)X[WeGc%O7;fM*Y"
    "J-'<42,%`>`/%,B5IjQBjfM=i;,jWCjat5/n3%/^1FkQBjfMq]r(kiwjat8B24%@n#Ad$&7#ds8#eaDRIBl$b:&c+xx4$(Ho4$I2yCMyk%5%h86YM'r.5%"
    "h(&5%@Z+v$IUW4%fwhXM*-K5%k,@(',[+v$q=K5%_:GDM5oDZZCp3/MBiOeakGWwZ34[&u9H;4%:o4qo*$-V)2>p5%#@E4%y>^u$]Hp5%@n#Ad4W7#dwE#"
    "eaT7RNqMjkHNZMnjqtm7Oq@g3V)cl^QpKKS/M^ijgrq=&bXHm3V)u>OEtBit)bifnd&XAafM5=@btjr;e&i5vv$H]-#p]'<O_XxZ0,@9T@#^NwablL5V)+"
    "Cq2h;7`)t1eZg&5sbAuwRke&cUZg&^KuN_Eg3V)7%Hhrvj6Cc%x:,aAIVeW,<6V)Z9Th`U*l%cD=4M#-s>/$mIKf&,ByCM`.,g&1ZGDM',9g&eK.-'1x3C"
    "c&3)0M/&L>dCy__PShGc%ZYWfMgkPea0EQwd5:[&u9H;4%,EdEkifh0,dGqwZ,83wd,LELMl/I#v2Y@Oh_hGc%'KWfMV'ndsPb:ejj`QX[_TUEkZ/`$'#e"
    "bAumS(3$cWdG%OyU>v@g3V)2UF/i._S[ZPP6Ef;5*UA+8q,jVBjfM,W=UfZLAbt/q:h&,[+v$1B,G%_:GDM]qNmg3<$/Mi5m)b6>ah&/dafM^_Abt48jh&"
    ",[+v$6B,G%m9rEM'ari&E)y-'1Oe=M)uxi&Faqi&;]K^>I&y-'er1w#OpPv$JZWZ5``$FM*9Gj&LB=j&,a+v[=5$@m$xIjh$(T$'GHGj&)wK,j]eGc%,aa"
    "fM)bkat<]dG%@Z+v$:h5o$->$YM))NH%%'@('Xy49SgSU[Zj14Hn;5*UA3*ACPWBjfM`.<Xn+nBbtI]uj&8S8tn]eGc%7H;fM,r*.'ixa)t_xr#Q]7:5p:"
    "p[#RHQ=T]qrH^pVDy5pcQw<(u:`k&[^w<(i:`k&LZWfMOa*0MZMnjqGQ>)k0$-V)+s/9S$XZea[o.hrCgj&c@14M#t.qY#K-$l&d1k,sXs*0Mb6+)tL=`_"
    "PShGc%:ZWfM(t^&uD@S%'JKyat1-6V)gCW_P1u1QgjiR+vDRTejirdyPl,@>vhmR(v3IEo*h2Xm&.8xL#jH+DM7Wv>vr@5V)aStwQ`E&EtGFJ%'[^w<(=l"
    "V$'3]WfM9y/0MD/dHNAjpnB;]K^>G(y-'er1w#OpPv$H]WZ5N]GDMSMQaO9N*/Mu]s)bE@A%'2cafMfyGbtC9J%'1irBP^eGc%5cafM)bkat^q$8%-EdEk"
    "VeGc%]thXM2aJI%sh7I%*)hHjVeGc%)NafMq4qatNnSI%aE0/`S0###",
    0};
static const char *const diti_spirv_text_qkv_post[] = {
    "GZ1N5jsi^PS@$K$=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>MfJh1q0`r6%/s$X$Bfbq%RXH3'6tY<R$jZK(D4TvdwGcu$/9-V)YLc&#4>)i((il"
    "<(g<Lvd-<mW-&il<(``4;ex./%#9['EMdu^vd/L:t-&il<(g9Lvdv1TA#(il<(gxY;e$BK%#9['EMg'_vd0RDt-&il<(h9LvdyDpA#'il<(nEAyd#KyA#&"
    "il<()9.yd%W4B#)il<(i`4;e&Z+&#D9-V)eLc&#@MU@,(il<(o<Lvd5n`X-,9-V)fLc&#J0e],kb5;e-(m^#C#1EM&yM8.79-V)#>l2(J0e],(ns<e1M-w"
    "$ST1EM*:s8.H9-V)70u>-J0e],<yY>e5rE8&d.2EM.SA9.X9-V)Ly&L2J0e],P$%%e%gl^#FxZx,xm0EMm^]a*LCE=-e@Lvd's'_#3)r3'8['EMe#1_#42"
    "6P';T(EM`$t;$J<Wu-/T1EM's18.yCT$':b'EMftY&#5;Rl':e'EMb*t;$LO7V./T1EM)y18.yCT$'<b'EMgwY&#6En0(^,O>Mt9$AMgeLtSQcC@-UGk<("
    "gry8TOcU@-.HUP049IUT_w]60YGk<(#CthWi,Xu.tr=31$THi1r%#AMe0_r//g(J2%V$AMbVbq/0Kk<(V+MiWp4-m1K**BM9(T(#wci&45GxC4s-V@M_8f"
    "kV(PAM(6P<`4(IgCM$I1n&,YX$5r`(BMP$,)#9l8]5x-V@M_2SkV,o3.):uTx5*OgCM)[:n&CYX$5,tp@MO/dR/1k3S/9a(BMI9$C$1k3S/D7jBMqn8%#Q"
    "oO(4%@od)*,k<(,2<KV_yE78gl]F*lGk<(Fp*.aRmd_$mik<(N_fvZyhD69h'l<(o#Pm^7&yS9%@@v6=5Fl9pyp@Mp/gj9d>b0:Lsp@MPhTQ/1k3S/Vl%5"
    "^Jy.*+rtDo*1:Jv6ZxDo*W/wJ+Q:k<(4r&PW[JND$hDl<(sNJHW]PWD$JxDo*xD[M#H0s@M_Wd20l1:c<o#gCM=,rt$l1:c<hCjBMw;q%#CE'T/Yyh^+[x"
    "Do*X,WQ#sPV@MjZfkV>K%&,SM6`=3kgCMIy%o&L9Jb,l:XU/nAXU/l:XU/=:r@MZhS[,pVR$>fx(BMulZ^%Vi2]>*'*BMfDm^%CE'T/ayh^+txDo*`BWQ#"
    "#QV@MmdfkVEy<#-Z6Ku@6tgCMRD8o&CYX$5p-gCM5[l@#CE'T/Abi%#CE'T/fUNTAyik<(mp4wZLX:WBhik<(ldpvZ>f=6CM>)0vuwDo*w[VT#`T'CM*$-"
    "*[iDIA[KUi3D8e'CMMPpRN1'yo^JI`kDHe;W7QoO(4Iv`gDLS,V)l^;Q#-yDo*'rVT#^N'CM1On*[xLyr^Ow;IFW-Mh*CE'T/uyh^+ZxDo*t(XQ#FP*BM4"
    "<Bd$pJ0`G,-*BM5@8H$CYX$5w%)BM>5`^&CYX$5$,)BMCTR>'1k3S/3p%CMLk(,ek=qy^j6X=J%s1n31k3S/GJ&CMO&E,enP5#_mRT:K(.Nn3pqmX-ysR$"
    "'2(r@M2j1u-AcxRK^+U@MqpfkVM`#<.&l<oK:)hCMxhUo&CE'T/hRTT73xDo*<[WT#>J)CMGy+-[66#s^e3y2M@QTT71Y,V)r+-5/'m&LMrCl<(3HE8%Ct"
    "Oo/lCD,ajw5MNi&gCM@5QM#xCl<(7TE8%CtOo/pCD,anENfOi&gCMDNvM#xCl<(3aE8%CtOo/tCD,aj8s&Qi&gCM@NDN#xCl<(7mE8%Kg(J2xCD,an^3@R"
    "i&gCML(jN#xCl<(DyE8%CtOo/%DD,ar+LXSi&gCMH(7O#xCl<(H.F8%oaKM:Ly5b3Dk3S/VlHO#k.YS/XrQO#<$-V)m$ZN'QJl<(,q:NU%$-V)#pym&VJl"
    "<(02s.V:g3V)0,WjUHY9HN*Ao/WxPkpAh.YS/`rQO#Rg3V)7Zo+W24b%c]xl1X*a^ja)Y/IX4:b%c_3MjX2:Qka+lg)YOo9HN1*,FYp@h%Y<m3V)EV,BYq"
    "]g=MgC9Q#ClOP#)5IYM`ICQ#uksP#%+X]>9o86BDk3S/&3KQ#%+X]><xTRBDk3S/*@^Q#f.YS/(-BQ#)hhXMfn#R#*LpQ#k.YS/)'8Q#c:GDMA^7R##A%D"
    "Me)@R#1)6YMj/IR#3e=R#b.YS/4RyQ#n(+DM;=v/bTEw29#LP6&a0`$'*TbAu$pWX_)g9atf:dR#G3hhM9S9YMnHnR#NqT%uhGvR#`^U/`dfh0,i%Rj_B7"
    "Ng`<B=T]VFXMa<Nu4^XQw<(JE:S#[^w<(IE:S#^:WfMj9#/MJYe,b>(2K`q'T$'iVVS#Kmmi1QdiS#;yxCM$EtS#UmqXM)K&T#R^`S#G3hhMjO#/MF4Mk`"
    "E@EKDa^U/`ReGc%wyxCM&Q/T#OF-FM&H8T#f5[1hRO4Cd@*O>#eA940]%7T#;A$FM.jTT#E*v/b5pFM#&bSCM/p^T#uNFM#_>940e=]T#P8n<(x.v4^C(4"
    "V):bWse[Fg(b/ZrTfShGc%U:WfM/^uDt*'4U#[^w<()-TpfReGc%pAafMIY:at&r3U#B4u(4hQa<_`HAU#$O]ngLBjfM+Tl1hEc:at*3YU#JOdeNtR.DMr"
    "G'/Df.YS/&jX8UShGc%t:WfMLP>dsi7g2iv]l1h'=IgilL5V)]1i.i$KY(t9wCV#LTbAu8q9V#*JCV#'n/hi:g3V)/mVm^ebg(b8+cM#8bSCMB0WV#oabM"
    "#F&l30._2ngo<)fk2'&Ek=p3V)b$b(klqKdamCaFl,K<KMsX%cl7C^%lq'T$'5t,W#nomi19iqV#A#yCME[AW#YmqXMJbJW#=$6W#KX(*O3[$/Mb(+Oigs"
    "=EF%R3khReGc%;#yCMGhSW#RF-FMG_]W#/6[1hsqF[na5P>#eA940G<[W#I#yCMK)yW#SF-FMKw*X#36[1hw>_toeBP>#eA940OU)X#aA$FMSBGX#Mb;X#"
    "Nt$'Pw#4K`(#2rp#bo%PQ8n<(DAw4^4R-V)/Zg1qGpTaO,>.oqW]+Nqq'T$'I(kX#Eqn/rLBjfM>$*Y#:;WfM1[Lda*N*lr+0.Nh3pF0s_]1Y#p'T$'MA8"
    "Y#CXI/rReGc%T#yCMXyCY#UF-FMXpLY#-5V(bZ'+es5U-V)9]$Hs,-@YMZ%`Y#hNKY#gA940lTTY#)Re=Me1rY#G(iY#k$-V)F5&n&5Kl<(ELtAu;j3V)E"
    "FX%uYimyP8V(CvBu]%vC(4V)YB/2Cc)+DM9HHZ#y57ngReGc%ykD^Mo$SZ#q&8Q#)%00MMBjfMbgAKMLwAat0ZFi#K2Tat/T<i#%+X]>$jy#HDk3S/-NOi"
    "#k.YS/U/BQ#]7IYM;#mi#.'D,c@$s1ObJ@pad[5IOqAj%cB6SjOcPIpafnm)P4vBHNl,2FP5Av%P;g3V)aD>EOuMj%cF[k+QdVRpaj;.CQwSj%cHnKdQe]"
    "[palNf#R:1CHNrd*@R;xnvQ;g3V)m67>Q[H&EtFx5k#[^w<(olksRSeGc%4DafMeWBatBl5k#B4u(4^)P;M5tCk#>8mqSMBjfMb;,5TbaBatF-[k#f.YS/"
    "BlX8UShGc%8=WfMhNFds,yv5UVE,5T_%ajUmL5V);q(2UOta(tUqEl#hVbAuTk;l#bFEl#BW@kUr'T$'fpPR#P/]_P$2:K`3o<lVRF;BP1Tx.M+J3LWG]_"
    "dNr'T$'hpPR#RB<@Q+H:K`639iWTXsyP3Zx.M-]k,XM;(2U*IEo*iO(k'ksRda,o^eXLM+/M0xg)Y_J't6dF,^5k3g@5`%yCM]LLm#tC$FMgbUm#u,Km#b"
    ".YS/dS,k#W=GDMy;im#o2`m#F&l30(@gm#b.YS/(9^m#hIEo*twD/(u:Sda6tnw[Q>XmgAQb<],[fs[;g3V)^K_m^F]_dNDdBu]pRmyYAv3V)SPYdW[6(,"
    "NFvyU^6;'5^r'T$'gaGn#TTtwQ>+;K`ATBq^mWTZQ5ax.MBg4R__L`dNAv3V)X`YdWV3`dNKMV3`w;*8]<j3V)q+[j_Jio(bBc_N#r++DM",
    "&k0K`y/Eo*gs#2_IRFWR:g3V)+k(2UuaefMkjBatMXEl#K2TatE'Rk#f.YS/glX8UShGc%^=WfM5gGdsQiIha#TipSQ-4EbmL5V).ySda%KY(t#J7p#5Wb"
    "AuyC.p#Wv6p#jcfBcr'T$'opPR#Y+QUSIJ;K`Yh+cc[B08S#Ke(bDoqN#d7NfML*<##/49lL^1Sp#m'c>dBy3V)&4TdaiyjXM(^pp#$=fp#dF,^564g@5+"
    "&yCM(p+q#FkhXM+p4q#*=fp#dF,^5::p@5.&yCM++Hq#/&yCM1AQq#`F-FM17Zq##4GdN^TEUgldEWe6U-V)C8^pf--@YM4Jvq#qcFq#gA940vubq#T2@Y"
    "M6V1r#nP*q#iA940woXq#KqqXM8cDr#%=9r#cmmi1&1'r#:,+DMEtFgiThGc%f=WfMt[,/Md:c/jDMJdar'T$'>LUr#KTHi1<QqN#[=16TeF<K`gM0hjtA"
    "ipSbgT%up$%p#gGjEb;g3V)urSdaL#T%umi`o#iYJ&cTO/J$n.PN_hcq,k^Cln_`M,IkkiS$'#7Eat7/6s#Dk3S/7i#s#DY*(4;$@s#20`$'WWbAuBTIs#"
    "B<es#2%]>muIl<(dOKak*IEo*HR9w#V6UdaoeF[n]Xa%u:BRs#3.xZmuIl<(gXKak(-6V)ra[snOAIDMegGt#KT=t#Dk3S/PbEt#x-;j1Pdos6N&yCMI5c"
    "t#LmCaMN;lt#t5yvf$ev5qUJTmpThGc%+>WfMZ'Ids./;RqE,(>mNNDZmYwGc%N_JCMtX,V):X=##@jS$'L'^j_vj-OrkiS$'N-^j_%>30sSeGc%Y&yCMS"
    "shu#Ci:^MgMru#Hw=JtV-#v#[^w<(nm+v#E>WfMw>b%uU3>v#L^YBuefh0,'Sqa3t.Qv#c&yCM]Sev#%Ue=MjYnv#LPev#TM5V)-CG^uu8f(t9%c-$uWbA"
    "u8vX-$SRb-$OyU>vuIl<(nC6Kr;g3V)TZkgM;Nn%ctQnMNoBB^uuIl<(ZsKHN+IEo*@;@w#M#w(b979.$YmhXM_GRv#Xdi+uU3>v#'m&LMUhGc%C>WfM:#"
    "Vdad[5IO282BcjqQeOCBO;6H8Ll0QPTu#jGaj1=.U.$]6>>#qD'T/CAWZ5IAGDM_Ds.$BvM.$Q8x#Qt1[daj;.CQtu0;['Qu`QMygT78XtwQNBjfMVO<;R"
    "^TKatAi>/$Dk3S/WDBu#N/YS/N`H/$wg3V)uqtsRN.$DML=f/$k=rEM]Mo/$Srd/$5Ue=MR=x/$Mro/$gb(Z6QJW>5O.+DMbK55TUhGc%0AWfMd^g%uRxy"
    "u#IB^EtTO/J$n.PN_R@/fbbbCo_rDdqTTeGc%RsfCMOYF0$xCl<(GJX8%CtOo/0JD,a$(AOVRENfM&jD##GYMr7ke%1$F%X,Ws'T$'>[Ofa'GOhW+dw(bO"
    "bN0$XgSCMa691$I=E0$V(yCMW6C1$mmhXM]<L1$s[4/bPhW0$.(T$'m&K1$JW_40Teqr#eRa0$cmmi1tq71$HGafMr+LatQt%1$Dk3S/k320$N/YS/$9g1"
    "$bJl<(:>nmT)-6V)M0;>ZWoEaMdh52$&x0,cUSCB[d$](Z==]da3_@[[d/&#QDTFx[jeg^[UhGc%@AWfMogOdsJjb<]qu*,W#AGHWZwGc%faJCMtX,V)VS"
    ";##DjS$'cmdj_<WTu]TeGc%lsfCMiE)3$xCl<(a@Y8%CtOo/JJD,aBycR_m2yCMspN3$*M-FMsgW3$[;[1hF7DO`7ia>#h+em0HKV3$l>C99yDGR^$_yCM"
    "pss3$m.+DMNG%,as'T$'0iG/bkYD3$rgSCM(t%4$x)(3$>8:3$^`.gMfy#J$Hmmi1wBu(3CNZI2`AWfM:.1Etu9A4$[^w<(C:=EbTeGc%%)yCM&WT4$ff7"
    "gM>AMatq-A4$oaKM:#)6b3Dk3S/[1]4$+P1V7BT$DM)jp4$&BGDMO$$5$[9y(b#`x4$N[&dMTZJn:o0'[dTeGc%f.;fM1g45$T32;eKT8;[ep)ye%gxa3y"
    "8N9fI@F##%02uenv.8fTeGc%TNeYM/4m5$_M_V]i=B:gkTnvdW/`$'GZbAu1Lu5$v*'6$x57ng<g3V)8<V^c_bu%c.O<VhXA96$KTHi1%=C6$KTHi1pDx4"
    "$jomi1)JU6$9/+DM#g>KiUhGc%rAWfM4<lyl5q7[7GiGc%lAWfM)R.)OT_u>e1'jT7o0'[dTeGc%P;IYM8li6$1k[JNd:c/jo@(b*t7(+<3H=,jvIl<(^i"
    ";HjZwGc%9bJCMtX,V)Ig:##FjS$'6Afj_`M,IkTeGc%@tfCM<CS7$#Jl<(^3t(kvIl<(`@8Ek<g3V)d_4Blt8#)b;ER7$BhSCMKnx7$r#R7$F&l307e2ng"
    "v&=$nE2MZm@p3V)r/1>mw;_daoeF[n+W$FMP5P8$K[E8$lomi1LU;8$L)yCMI2c8$R:4V)&w)8oaX2EtJ=t8$[^w<(PB&5pTeGc%UBGDM((29$ou$DMLK9"
    "9$R)yCMMQC9$ZnhXMRWL9$];B9$dF,^5]vA@5U)yCMRj_9$V)yCMQjh9$ZnhXMVpq9$aTg9$b.YS/iZp9$hIEo*c(tQ&iq_da)Tk,tFudmg31_Itikn(tB"
    "v3V)7abporBk%uF1t8$;xP5pffh0,8dbpoU<Natdb2EtZIZ:$[^w<(xX/BuTeGc%fBGDM83p:$u0%DM]Vw:$c)yCM^]);$ZnhXMcc2;$&H(;$dF,^5D-T@"
    "5f)yCM7#(J$;+yCM6#1J$ZnhXM;):J$Ve/J$b.YS/3m8J$hIEo*JDY2'N#edae_,-O,'jmgo;wIO3(5)O>j3V)-Op%uWKp%uV<Z:$L^YBuffh0,.Rp%uHs"
    "gaO%&HZv:GqJ$blL##",
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
    "GZ1N5jsi^PDmo])=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>M%W#2q0`r6%^K%8fL.TmpcSFHWs2DToc2mjUDu^^c[UB5TlUyvmPPlNqhUo;R&vm"
    "K(D4Tvdu0jo#xm0EMJo;##D9-V)^i08.yCT$'Y@^vdxC.p#8['EMnIjW-&il<(Nur;$G#nXe]q@=e.0+q#e@Lvd&o*q#(il<(jNY&#H5N9fe9Lvd@N@s#-"
    ";1EMl&=##D9-V)(j08.yCT$'$A^vdCa[s#8['EM8XkW-&il<(tC3U%iND6p]q@=ePMXt#e@LvdH4Xt#(il<(4OY&#ja$ope9LvdMIn/$xm0EMyPD##D9-V"
    ")5l08.yCT$'1C^vdP[20$8['EMF+rW-'il<(#xr;$rI/iV^q@=eZ5k0$e@LvdRtj0$(il<(>QY&#s[gIWg@UvdjGm2$-;1EM>PE##D9-V)Rl08.yCT$'NC"
    "^vdmY13$8['EMc*sW-'il<(y8d/(iBQunJLc&#`h^tnra'EMB&9t-&il<(2_0_#ls[OqSxY;eVuK9$e@LvdN]K9$(il<(:RY&#o7XLrhF_vdQeNL$xm0EM"
    "*aM##9['EM$s-[#n-3lUh<LvdTwjL$9b'EM9iFt$/9-V)Ho08.yCT$'DF^vdcv=N$8['EMXf$X-(il<(T;d/(CIc'cKLc&#9oo&csa'EMthAt-&il<(fjL"
    "#$hND6p]RM<eSfBU$e@LvdKMBU$(il<(7UY&#kj@3qkRqvdMO;h$-;1EM&WV##9['EMwi6[#iVV6Ti<LvdPbWh$<k'EM@'Pt$7ll<(Cd[a*-5&=[LLc&#$"
    "[2<[ta'EM`-Jt-&il<(T1Iw$=0='cMS+wd)'Ym$pa'EMqEu>#/9-V)-s08.+9-V).y98./9-V)/(D8.39-V)0.M8.79-V)14V8.;9-V)2:`8.@9-V)3Ai8"
    ".D9-V)4Gr8.H9-V)5M$9.L9-V)6S-9.P9-V)7Y69.T9-V)8`@9.X9-V)9fI9.]9-V):lR9.a9-V);r[9.e9-V)<xe9.i9-V)='o9.dDT$')J^vdKF;,%sj"
    "'EMJ*&@#)il<(/*A8%$PI@vRfGwdlc-h%vs'EMpjmt$/9-V)'%18.yCT$'#S^vdBmjl%8['EM7hKX--il<(@mKC+qJ8-sJ.Kvd]_Vo%:Q(EM>MKR&Bil<("
    "hOH>#B@R[#Ub;x#L%k<(6/1QTma]t$IZR$'fDu>MKG7<$e:Rl'V7q@M]<Yq%aGq;Ig>^u$G(0QTC]CN#[c(BMvHUN#bik<(SJy.MRsc%'jZYr%w^L<MvB$"
    "wZlS.X[Q0Q<MPi(BMEu4R#%t'.Tmik<(buy.MTg8L$jZYr%;_L<Ms8$wZ,#L#d=bL*WIi(BMbs3U#r/QVsdik<(6KLZQjKYl&jZYr%hwwVmS@vvZ;V8kht"
    "elboY*)BMjM'V#rNF3vdik<(vW4##xV68&a5&Y#`5&Y#.>t>MHx3;Ieik<(VT%/MwFL:$jZYr%T*7ZN)6vvZ>q+LMf+4wk<i(BMy^,k#cik<(g;f+s)KX:"
    "$g>^u$wHmvZg.2wZVi(BMDr=n#fcbsvQpR$'5MAhVr*so#Zxp@MW2-n&wpfCMb9PabHQb>MnCN;-bik<(W%Ap#UGk<(Uq/r%mW,<eKv^@MpK);eWGk<(r8"
    "DXesCl<(j]<q#mik<(ciOq#VGk<(^U3u$,u-ClO+_@MFU+BlWGk<(HVE_lsCl<(@6[s#mik<(yBns#WGk<(x#L6&7,ZqoLy^@M].XpoWGk<(_eq5psCl<("
    "V#kt#bGk<()`O9%84mqSO(_@M`>qpSXGk<(bo,6TtCl<(Z320$ZpR$'j<%hVRtj0$:$q@M7-5n&WsfCMxiFHWQ+U@MDRU5&W:+6^&JGHWlS(3$LA%,alS("
    "3$/YALVDvE8$YsR$'L[E8$<2H9os#O8$X2H9ou`7n&<Z6OqMy^@Mhr=NqXGk<(j>NkqtCl<(cN^9$ZpR$'iRAhVN_WL$6'q@M3$>n&SvfCMo1sjUR+U@M5"
    "iFt$L,V_Yt-PHWbp4N$B%.,abp4N$%]ALVvIfP$YsR$'Y1fP$n8YCcONoP$29YCcQK@n&85v5pQ+_@MaG/5pYGk<(ct5RpuCl<(]BTU$ZpR$'f[JhVJIEh"
    "$2*q@M/rGn&OyfCMfQH5TS+U@M@Lh5&QZ2<[$DYHWhA(k$H:7,ahA(k$>aFU];,t1cm'l<(J@X##x9_Li3YvvZ<i4,jU0Q<MU$2BMK$/)k2f2,j2f2,jm'"
    "l<(f;Y##rgrFm::St$;:St$>VOq%>:St$Q+q@M$>Nq%G#gCMUH$wm_x(BM10#;nMyp@M'HNq%gik<(+,Kq$eik<(9+vr$`Gk<(3ikq%x/='c2J/R&x/='c"
    "ex7U%x/='cj6Tq%+a><I;q(BM6^MTS[l(BM:+fmT^r(BM>P&/VdCjBMOt[0%aik<(8*4J%oVS$'HSAwZf%nZZax(BMhS,O%r0Iluhik<(q+IX$g>^u$sk1"
    "wZVJ2/r_r(BMAdg+skRaBMTd:T%g>^u$ayDwZyI7p#q-'r](+o(]iik<(LKIh%%-]0,rSti%@:UN#[_jl#%4q,jQv^@M=$O,j^Gk<(@(1IjyCl<(=Ujl%m"
    "ik<(wHsl%qik<(rP.6&8a$op*EAHWU3mn%*eU,aU3mn%hA.HWW@(o%_CjBM58Mo%rtDo*lGVo%[QUN#FmfCMx/bEta3jBM%/s(&rwDo*/a6[ZF9%CPswDo"
    "*7y6[ZKhXwQswDo*=47[ZM#9XRtwDo*GP7[Z^`BeWp,]0,G5OcXp9LaXx,%;[+$-O_.Gh%YrFh%Yo,]0,R7DY[+RAW[*I%;[-6e/`f6GabR6Gabo,]0,$A"
    "NlhyrLjhQg&;[/IEh`1Zl1huYl1ho,]0,yx5SgqA4QgMZ&;[1[%Ia))Tpfm(Tpfo,]0,]o[r]3,Yp].U%;[3n])bI8u4^58u4^qX,V),Kvv#V`NX$);Rl'"
    "/lD,a'9WL`u&gCMfD>+'xCl<(*WE9%);Rl'n%PEt2qd/&X;`$'1Um/&v#W5g-$-V)R8ym%HLns#y>^u$VBym%@Z+v$XH+n%$8IYM.L=n%mXpm#a85YnUs@"
    "wmV'TdaQsUQp5>N&c[L(o%jyun%CyxCM3,:o%u&iXM82Do%h4:o%:X+v$uGVo%=s3V)rt-hrAaN&c[L(o%$Zro%CyxCM;^-p%&'iXMAd6p%$g-p%a85Ynh"
    "SAwmbITdadk>>vaM'INk2wvvq-uToqF5V)s_cBu+hbEt<Vd'&[^w<(7GZ'&)SWfM[WG&u.ed/&(vBhMIy3V)ascBuQ=Z&PKpw^Po$uToFs3V)K@A_P'E'E"
    "tKU7)&[^w<(TF.)&7SWfM01T&cNJ&q$Ytjp$L/yCM1#:3&^TGDMjr0/rU+tpoxIl<(lXV/rGs3V)XP,FOSdo/M_r.,snb6hrCg3V)s)S,sEDLhMeR'&uSS"
    "V#Q^/`$'CpbAu&f3m$b$_J&hP.bb#(T$'_W/Y#>31np[eGc%<E;fMV'vG)$`^J&/.oP&S1vv$FM65/)]pm#3=2=I/6vG)BKEfM62qBuUBjfMyq@hr.w8bt"
    "UL$P&@Z+v$#^$4&aF;^M:RQ`&$)'N#:kTXRVBjfMGG>INgp=btA*%a&,[+v$fnIP&5>GDMD5Y^Pkq0Bc#aNeaGm;#QRRo#QKuCN#Q'ps6Z0DaM-Nfa&aWU"
    "N#9t's%XRSa&9`afMm4>bt<iV`&C&-%dyoJbb6+d(t&Jl<(Ffv)O^hGc%:YWfMjpBestK[>vNS>INS<WbO/$-V)&sOtnRGb*b`,fP&[yafM)n8bt^&oP&@"
    "Z+v$:6vG)pDafMrB8bta83Q&&eu6&tacN&muF#d[eGc%n);^M,QqK&$)'N#+8q,jUBjfM+Q4UfXF7bt3/NL&,[+v$V]$4&L>GDMY-s.i4)2Bcm5Hea;]^K"
    "i3Di2hFLiakd80$#+4UAQdZL@#q]i2hIhe^leBL@#+4UAQgdL@#tfi2hN5b>mlQ0$#=t's%N)gM&5U-V)QNV#m*B-FM/OPN&5OImg[y+Xn",
    "RZ6[mVsn;n]hGc%*WWfMqN$Cc8y@5ggDJwm*IEo*:i:L&x%Ap#:>yCMo-EL&#^afM]X7bt9T.M&mZ68&hLEL&@ZYN&%^afMIu6bt&6,K&mZ68&wf:H)eF<"
    "Q&oWGDM1e^^udUEEtxIl<(.2,_uQ:4V)a1p/MU%X&cbh(s$ktjp$e/yCMF=*5&'Z$FM)LmC&5A*5&5A*5&E(D7&b5o4&'PNfM[t8$#7*ACPrY>btVT9c&-"
    "=2=I`gNp$-4NfMA$8$#PVK-W5,CU]]eGc%4.<ZMExhc&X<5Z#R(D7&aVvC&Y1@YMJ@@d&aVvC&[o[8&cg')3cVvC&k*<ZMNXed&/SQZ#[o[8&,'kj0O@`["
    ")Q4f=M#Dsh&m_jh&E(D7&TLr[)_N@YMRq2e&5p)e&sU>te]eGc%b,;^MknRe&H^,k#gD;IaVBjfMP(@R^Ec@btm-Xe&R(D7&qVvC&1h;ZMZK&f&J@nk#S="
    "i7&erD;$Ipe=M1*yi&/qgi&VJ<ZM+64j&&E7T#E(D7&0Mr[)na[YM/OYj&0dGj&R(D7&[TYj&SnqXM7)Mk&:=:k&[o[8&Ph')3^.Mk&U4f=MJN-l&EsZj&"
    "Bf@])[o[8&Vh')3dS-l&Qj@YMBgRl&gfIl&jeu6&e/yi&I(D7&+(ol&ope=ML43m&Ec*m&jeu6&M0Sl&[o[8&ah')3SU3m&q@&KMv^M$'h,g_MZK]gM:sG"
    "hri[Mo*@:hhMf4$@vFj3V)VfWk_MVdeN)9a,aUrSh`^hGc%uYWfMIKK[ZB)x4bbBwdWV/`$'BsbAu)3hf&h<5g&gGjEbS:4V)EDLLMj&kyP[`b#Q:W:*Pl"
    "8i*btgn<(T_x#QUSCo*ux[@#ZPLLMT`y;R4vM]QN(4V)M]LLMpAd&u-e(h&jcfBcp95V)IM_#m#E'Et/emg&[^w<(pOQg&sYWfM5jQ[Q[I6RTlks8]SFsI"
    "-*G]@#[7Xeaa2QxvZbNkUd/y#Qd,k/V<D=mUGj3V):m`k_jhabOd;g,WZ%OhV_hGc%uYWfMO9]&u-e(h&rU>te/>Jo3tQy9]A:o,a)NMXREFv,W,IELMo>"
    "i&cNJ&q$Evjp$C1yCMtW:D&IVGDMT^B)OKs=&PyIl<(B`m)OHs3V)Dl1FO>(u/MI^@&PEiMbODg3V)I0j&PgggEtd=$H&[^w<(Q3.E&PVWfM..^&cNJ&q$"
    "Ovjp$R1yCM'>AE&SVGDM_cR;RZO+nTyIl<(V,'<RM+4V)N32FO4=^&cNJ&q$Uvjp$Z1yCM-dxE&sD6YM2j*F&`qxE&@Z+v$^LAE&q+iXM5%GF&Z6j(&Mc="
    "FXUBjfM>GF2UyP5btTElF&/fSbbt&X%u*Uv+'n0'[dofh0,K[3DPMsChi@s#$Q;m(teQ-K)u5nFT]OJ-Ef;IWuedQw<(50W,'[^w<()0W,',^WfM/[20M:"
    "4xmgUoUhM<IEo*,5c.'.(Ap#>EyCM*Ol.'S^GDM/'B-'1f8V)CgXkhIE30MAlpgi>eSrfThGc%r]WfMyNZeaB3vHjL'f&u[pUG&@E`2U0-6V)xrjnT*[m%"
    "cO:*t#;N13$H8e('&eu6&:^n('KJpEX[eGc%ID;fM9v^V)(@PF&Btf-'E(D7&kX/V)9$bfM+s5bt`1$H&mZ68&Yw/V)U5rG&KPNfMD*/$#s3='c2qx;[[e"
    "Gc%pD+DM[`D_Py95V)=FIL`X/tDto3kE'[^w<(RXoA'I`WfMD'>Cc`#B,W>CNqf<B^0,bj>D'd^5W)1Oe=MG'ID'djAD'N4YSg*XA@Z6oy+W&(T$'.>ID'"
    "/=2=I.'J4&07NfMA*K$#V6D'Y=8ut[_eGc%.5iXMJR2E'b`UN#tM#BQjag_P.Sk]#LSCo*9-g@#-J#'c8bcq#6n=N$JH2E'sdNX[9Gn&ujxaE'UXEt[`hG"
    "c%[`WfMi4m&uFOxA'1r6_Ppfh0,U#4DPX7okU]q*$QVV8wQR-K)u5nFT]j3=HRbQhxQeQw<(m,YB'[^w<(a,YB'H`WfMKY90MTllTSSLf#Q8$-V)w/ERp5"
    "GKfaU6-RTA`y&c-uSp#jnjL$4utB'^PinTVl90M[U)kUJ,TrfThGc%6`WfM$mm&uk'kE'Vba8]`hGc%^VWfM3_A[ZuCs:r$XbBPU/`$''wbAu^kI0'$.*1"
    "'H8B)t2-6V)fCa_P8.>QgO*DN#QH5W)pk>>#OpPv$C`WZ5W_rEMRvt+N])P`Pu-wyPG;dHNE%w1NAR-V)>=ULM.(y&cZ'9u#wj^9$Cr;1'l$D_uh%m&ubE"
    "b1'CbeKr2-6V)a3a_P*[m%cO:*t#h2b8$=Se0'fDKesucV'ubEb1'Np9#v_hGc%^VWfM9MR&uGI7)&6Ik;R^/`$'llbAuU/p)&g&+*&=2(RT-$-V),j+G'"
    "Lnsp$y>^u$b*,G'a85Yn,_mwm+awda#07)bi)$'c8bcq#>-&1$`rGG'y>^u$jCQG'a85Yn0kmwm*[qda'UOBc.eSIN-kk^cm;@CcGg3V)dhGIa,F;0M0/h"
    "Zd9a,$QEm3V)=KjtneggEtX[RL'[^w<(4shK'AaWfM7B)*bO,l^'=BafMuVZbtREL_'i5vv$QV'N#%b2a'8ye=MDVq_'y#bH'Y5s^MVS'`'o+r_'TI$`Y9"
    "iS$#L13lU.6j_Y`eGc%%8iXMB$R`'DUHW)-=2=IUxXm$(4NfMOXT$#_)tX[L%@6^`eGc%(sl`MVH^b'M6Pq#N4YSgas<9fJ+`m^*Jl<(OY;3_WSCo*yLyb"
    "''Srb'1[+v$E>R`'X-`EM`v=c']*5c'dyQ,a`eGc%ycGDM_dGT]cO0Bc<`keapxFq]@Yw&ux#Hc'cyQ,aqfh0,+5Zr]Tooh``e,'cu`RGX_&P@Q-(T$'y^"
    "QW)LS4bX`eGc%-8iXMHI2a'@IPq#=)d5T`eGc%nJyCMJbEa'=iafMwZTbtM$iK'-=2=IGvXm$(4NfMkSR$#Qapes08Q_u_eGc%rpl`MIM/N'2ens#p`/1r"
    "utdnp=lw=v)Jl<(6pM[vBU-V)jfnwv=Le=MRD5EOMYA/OCU-V)monwv>Oe=MU`1BPPu<,PCU-V)N6WFO.B-FM0aF^'6de1hO=t>QvoR$#=t's%Ye3^'<E^"
    "0,Who_PZqO@QtGv&u<r6]'H8B)t3-6V)L`Y[d-[m%cO:*t#eX[s#D$XM'&eu6&2MbM'(m&LM`eGc%*P;fMD]dW)/:FM'vZtM'AFiNq_eGc%BN;fMEcmW)X"
    "@7]':j;a'2y-ClXBjfMsj]Tfa_Sbt8W]I'a85YnDNnwms1wda:VTKi=#<0MBu4,jK=-$Qy'T$':nmW)-EdEk`eGc%/Q;fMB]vW):B]I'dsLg'S1vv$8Y65"
    "/Thpm#3=2=IewvW)4WEfMg4A@mYBjfMZg@@m%[^btH`Lg'@Z+v$Q,+J'cuGDMEW$h';tvW)%[Yr%e:$h'C&-%ddZ$lU&3#;n'(T$'gA-h'@Z+v$pwvW)pD"
    "afMe&^btSL[h'0a`Bl_eGc%@aGDMF4#qfJN&eNyIl<((vlqfGg3V)+.16g31pBc-kk^cIBnwm*IEo*4PMd'))Ap#4Q+DM@AjXRghGc%4aWfMh2p&uO#+*&"
    ">;DnT^/`$'rlbAu[TP*&sKc*&DjwKV-$-V)cFl*&C8,+%y>^u$wQl*&N4YSg$9s>Z7x=HW%Jl<(xICeWCg3V)#V_)X&;e(b[g'+&LYafMxP,btUHc*&Q0V"
    "_YTBjfM3*wBY+m,bt^yU+&a85YnxB(xmw=wdamf*q]x;fINs$G5^v2Kq]Ig3V)K=I6^4(T&cNJ&q$&/kp$L/yCMU^4'(*gGDM0x</`[+tpoxIl<(V-B0`M"
    "s3V)%wbFOw2N0M%x:,a_6yh`Ig3V)^U=-a51pBcAlpgi9k(xm*IEo*I#'G(x%Ap#IQyCM&@0G(NjGDM7bQEbLN&eNyIl<(e,VFbIg3V)h;rbbe#RCcb6+)"
    "t>#)xm*IEo*j9KJ())Ap#jQyCMGVTJ(ojGDM<8.#dg8@,W#Jl<(oj2$dIg3V)ryN@de#RCcV'M5TE2)xm*IEo*`UQ[([+Ap#`SyCM<rZ[(",
    "FfNfMsp_$#XI$`Y6X0'laeGc%>gGDM(.eT]^*kTSyIl<(H.$V]Kg3V)K=@r]SxB&c-uSp#/`20$XSP_(%[Yr%[0Z_(@Z+v$`<Sp%fA6YMwb<*(x6Q'(@Z+"
    "v$y$5'(_;iXM#uX*(HGj(&,[+v$.BY*(L>GDM8O5Eb0_1Bc_w0fa)[<bb3n]-NHI:ej2rfIjX:4V)Ghpej%<%MMKe6bkLq=*kbhGc%5gWfMenjesg&3OUs"
    "DcCY71hXe3$-V)N;Lc(R=a,%y>^u$NaLc(C&-%dW,DoTq$Ndj-Jl<(NB(ckY:4V)m;gbtNWb0MN5&wmZ'OxQ)IEo*5%ed(.(Ap#WTyCM3>nd()B<ZM4#$,"
    "(ubnd(E(D7&^y_+(o;iXM:ZNe(M+-k#C&-%dh^DoT,t6Qp-Jl<(oX1op-f5V)&B:3qWuVEt[t;-([^w<(gMI,(HgWfM5;wea_3+es2W6xvS%V5pat7ogbY"
    "$Rpn0>6pn0>6p+Jl<((32opME^0,(;D@vByV@v%$T$Qi*xNqD8<@nrO:3qbhGc%HgWfMwNkesi8k/V`T1'loxB9oIg3V)Ds1fjE=k%c-uSp#Vb20$(:bu("
    "%[Yr%Rqku(R(D7&.iTJ(iDiXM0vTv(htpm#C&-%d^AJoTxdX^P.Jl<(Y,Y$QZ:4V)y(jOUYu,MMfOP)t*XkesIg3V)TM2fj7&E&c-uSp#gb20$8FHw(%[Y"
    "r%s%Rw(R(D7&2b%Y)#KrXMLYK.(2fB.(@Z+v$hiUc(XNGDMJY&/V>18Bc;i8fa[n%LVtm9]Qm8e>v$7uLVMj3V)6THCulVP0MdHYEXh@I0r/IEo*LW7y(."
    "(Ap#nVyCMJqAy(soGDMN&J/Mg0-,s#Jl<(;:U0MJg3V)>JqLMf#RCcoV.t[Xl/xm*IEo*yDG#)/,Ap#yVyCMVaP#)KD<ZM,K<=(I7By(E(D7&t.q.(2cNf"
    "M+Jf$#YSI@vYjV6TbeGc%i=iXMrLF&)BQ5c%C&-%dHXLoTcQ%8f.Jl<(.1(Vf6$-V)SVb=(C>Qc%y>^u$Xwb=(@Z+v$_&l=(<;iXM41U>(YIj(&,[+v$YX"
    "U>(L>GDMQ'o+jW*LBcxp:faB3vHjYu;]QW$v8SB]DrfMj3V)ZXN*O&d1'uTW,@(<)d5Tsfh0,pNt*Ot>5rS4(B*bsbG#)cY+DMv*Y0V-(T$';K+Z)Z,KU]"
    "[BjfM>[j>ZC]nbthu.B(a85Yns51xmKo3eag.2wZpbV0MnMjW[O:2o^5-6V)UJ:Y[0[m%cO:*t#>lWh$gXIA)0oo&c6AW'uoIpB(Wk%U]LE^0,mM+C(O3j"
    "(&O3j(&fU,MiJAR6^xD9ngFW@o$.a+n%WH+n%EIs^M9*Tj_YfjO_x[Mo*[-/l_6vCir^^n<(<;hC)7ADaM@`2,jP#Z*kk<5V)ZB,D)D[no$q$e<IRy,D)'"
    "%e<I2v5D)'%e<IjU1D(o6l#d[BjfMlwC*bWCobt&IDD(rAi7&i6ZC(ru/Y#1;_Li0Z]'c;<6V)GymD)J[no$Yf^-sNs6`l^O'kUbZ.Km(+`$ZCKTjcyaP'"
    "u,n$E(luF#dsfh0,*(dIad&w_cP'SFt9ZxE([^w<(%<7E(&jWfMpW@'cNJ&q$92kp$F8yCMi'JE(=jGDM,hEWe.niBc)hW0MRZ=8oWQ$`l0IEo*;PjE).("
    "Ap#^ZyCM9jsE)8&-IMl9fE(3[_dM*AoE(8jUN#:s&N#5K'N#vq:qfbeGc%'pafM*m,bt_(`+&vq:qfZeGc%$s.gMfy#J$",
    0};
static const char *const diti_spirv_text_pixels[] = {
    "GZ1N5jsi^PfUh9$=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>MYJh1q0`r6%/s$X$Bfbq%RXH3'OK8^#75H>#426P'xm0EM[)]a*:Twl'e@Lvdma7"
    "]#)$bx#8['EMXIP&#6En0(xm0EM^/]a*<gWM(e@LvdomJ]#*-&=$8['EMYLP&#8WNi(-;1EMoD18.yCT$'+b'EM[UY&#+6BY$9b'EMVx3U%A4pf)e@Lvds"
    ".p]#,@^u$8['EM^e0_#<%g**qg0EMsP18.+9-V)dt#@$CGPG*p#[;e'^Gy#G/1EMwiV8.;9-V)xf,L)CGPG*-/B=e++`:%Wa1EM$+%9.L9-V)5X5X.CGPG"
    "*B:(@e/PwS&h:2EM(DJ9.]9-V)JJ>e3CGPG*VFfAe3u7m'xl2EM,]o9.m9-V)_;Hq8CGPG*jH0'eu:+^#>7Gc*rg'EMWcs;$BJ'D+/T1EMvY18.yCT$'2b"
    "'EM__Y&#.R=V%8_'EMQ.I>#C]_$,vs'EM[os;$J0e],e@Lvd%gl^#/[Yr%8['EMc)i>$FxZx,up'EMZcaW$H3;Y-xm0EM's18.yCT$':b'EMaeY&#0eu6&"
    "9b'EM_u%t$KO7V.xm0EM*%28.yCT$'=b'EMbhY&#1n9S&:e'EMfvKC+Mbo6/nZ'EM)j0'+3)r3'<W(EMai)w#jKx20&nbO0qZR$'1Eu>M9%p@$,K,M1n]c"
    ">M,qH&#%^d-2w%#AMlhDP10pDf2%V$AMr#7i29=Do*7-oi2-Kk<(JtEVTkpCp0cik<(sW5TS.0qMWI;5>%#qR$'&:`@MCMPIWOprs&)Dl<(WehqSe)FB-b"
    "ik<(9('HWR+7t&#qR$'+D`@MG`cIWS1At&+Dl<(s-jwZ,9wy6VGk<(IjI$[yX>Y7OpR$'+=`@MKruIWWJft&-Dl<(x0jwZ0_7;8WGk<(<3fOVIl-.2eY%f"
    ")jGk<(Edo-aT%2$%bGk<(WYg9^N1t-*BSO0>qeVl11fVl11fVl1.JZo0.fVl1F,*P9*XgCM4tZq%El8]59#q@M_(]h1El8]5Hj(BMnA,=&El8]5Q()BMn:"
    "_]%El8]5T+)BMqP5y%D7o_4gpR$'1:`@MY[`JWfI9v&4Dl<(2:jwZ>1ag<hik<(isuwZADAH=dGk<(WN-$[CVx(>pik<(Wph4^S`Pc+rwDo*^2NQ#U5'CM"
    "v-PdZ+XC&[:1x@@twDo*a;NQ#ZCw>MhRU$$[@g9A]m+BM;W[8MwFL:$TRGrAwyp@ML_IqA58Ll0Z1Q<MPi(BM@p)9MA@sL$D7o_4&jk<(`(P<MU^`;[&l2"
    "XC4>R[TOG,i4QpR$'8D`@Mb).KW$tNx&8Dl<(I=jwZTEFQDuVS$'W3bBM$nNNVU[3k1r#2u-wGk<(u]9/a$n)A&mik<(w.,wZWaBNEqik<(hAP<M_Y/r]a"
    "&&>.8THi1ZhT@Mt(ykVOoHX.l%pFF;,hCMbl&o&El8]5y:)BM(fsG$oAlCGj*jCMZmZ@#pJ0`G0hkBM3HEC#y,:sAG]8[73BlCGh@%CM8q2gZaQFA^a)^r"
    "/aik<(,^Q;[3>wdH:$aE[4H;)I%:vD[5QWEINE5X_8l$`#t`XfM2ujCM7klE%LpDf23(gCM9w'F%LpDf25(gCM;,:F%LpDf27(gCM=8MF%LpDf29(gCM@E"
    "`F%LpDf2;(gCM;qyL#xCl<(/EE8%nW/1:FRh58KTHi1+B3M#iomi1-H<M#U#4V)^g8HN)*KDM^.[M#O%$DM@;dM#C:GDM0]oM#Om#DMBHvM#ZghXMGN(N#"
    "6mtM#dmmi1,j0'#momi1<s&N#H:GDM5$GN#Pm#DMGgMN#`ghXMLmVN#A4LN#nW/1:P-Pt6KTHi1HA_N#momi1JGhN#/&a^MYJ%O#HMqN#=/QUSLBjfM_)_"
    "pS_W8atDu5O#K2TatCo,O#oomi1L:UN#aGeYMTGJO#:TOM#momi1VlHO#m0`$'eSbAulk(ZUdg8atI<eO#CW@kUReGc%7(;fMbfxO#Y'eO#c@2P#iomi1_"
    "rQO#fyZ0,JmM>#oVu+NlL5V)E>s.VijX(tY/XP#jSbAuX)OP#hXWP#Es;hVq'T$'G61K`/rBIXAEisIiomi1a3wO#:iGc%::WfMyYm=v#DWfM/Ze(bjeQB"
    "Tq'T$'E*1K`7F5*YDT-8J^h3V)=,[mTO:-DMA#DO#>A76K]aSCMgO9Q#kRjBKiomi1irQO#s(T$'KRe(b+..LZx/Eo*L`,BYH`+<M=,J$[(`w(FB]33LP("
    "+DM[]XQ#Lj>m0#r%Q#re(FMqqhQ#u&8Q#'@^Q#nW/1:BLV,EKTHi1.LpQ#nW/1:NQg>HKTHi12X+R#momi1pf>O#-hhXMqEIR#2e=R#iomi18kGR#R(+DM"
    "ALr,b1WxL#o(+DMax>W[%U]0,fg5N_%]%M#%Y.gMfy#J$Iv1.2c/=H2@2_L1X:WfMO]JdaFG$l`YQ3Qg]U<1aFDNg`^rdyPR'oLarvj1atIl<(s:n.`;B^"
    "0,+mJda:xjZ#LSCo*juN>#DnOmgSF8fbMx*EbXwGc%uZJCMtX,V)hr2##EjS$'%BRj_PUGccReGc%'#yCM(^BT#je:^M6(LT#o(QJt$YST#[^w<(a=]T#j"
    ":WfM_3KdaX8@xeVIc%cpY/>f-`ayetIl<(=ks7fShGc%h:WfM`6Kda[T;ufWR'BcbjW9g1rvs6it`:73W7w51#yCM3JQU#WQe=MDfZU#4$RU#KTHi1hv-T"
    "#Zpmi1x$cU#rI-V)Ldl1hIuV%uwLST#o9Cwddfh0,H88TfoYh.iD-3Zv.L'V#n.PN_CsGR_f#io_dVLlijiS$':+Sj_bP_LjReGc%:nfCM<-WV##Jl<([P"
    "Igif95V)k*&Ek)(PfMeq3##7(sbk9U=^lReGc%B#yCMDU7W#AKl`MI[AW#[f=kao[f_ml2d%c8^R&nG4'Emq'T$'B0IW#/WD&lReGc%C#yCMHn]W#AKl`M"
    "MtfW#`f=kas)'xning(b6wUV#FbSCMP,yW#dUUV#oTX49OdJw5J)+DMWgn7oShGc%';WfM_bo=v7dJCMtX,V)9@4##EjS$'NfSj_yj1VpReGc%NnfCMTWY"
    "X#xCl<(L8I8%nW/1:d*Ek9KTHi1])kX#KTHi1Xb;X#nW/1:i<%L:KTHi1c;/Y#momi1c5&Y#qhhXM^(MY#bHBY#KTHi1_hEX#iomi1jNKY#[)+DM4i5)*_"
    "Z6Oq,I4K`54_et*&f1qjH4ZvRugY#n.PN_21#*uet_o_1GvFujiS$'K9<atV65Z#LpDf2:ED,a9x6`voKGDM+`SZ#_S$DM9q=i#h;GDMYpHi#`V$DM;&Qi"
    "#X+6YMA,Zi#*NOi#KTHi1QoyY#oomi11Zbi#A=GDM_7wi#aY$DMAE(j#cJeYMFK1j#4m&j#KTHi1VoyY#romi1;y8j#]7IYMI^Mj#4NOi#KTHi1YoyY#ro"
    "mi1B4Uj#;%yCMHpij#d;GDMhosj#b]$DMJ%%k#g+6YMO+.k#IM#k#oomi1IAhj#K%yCMM7Ak#(6IYMR=Jk#LM#k#romi1RfHk#J%yCMPJ]k#+IeYMUPfk#"
    "OM#k#nW/1:jmX)<KTHi1Z'nk#momi1Ks/j#mjhXMYi3l#UY5k#momi1P.Lj#djhXM[uFl#ZlQk#momi1INOi#h+6YM^*Yl#eLNl#momi1V:_j#djhXM`6l"
    "l#iXal#iomi1m_jl#R++DMvKZjUr'T$'tcsl#Lj>m0`^2X#y.HZ#NlYbXMBjfMIc8m#G=WfM@Jk%cSPueY:uila5[M'Z;Pk%cM%=EZh9o(ZuIl<(P*2>ZA"
    "v3V)KM9EXxS_%uT,/m#MflBYThGc%E=WfMtsFdsD;J@[#`q%YsO5BYYwGc%b^JCMtX,V)T:;##EjS$'iaZj_;K&=]SeGc%ipfCMoKRn#xCl<(g3P8%KTHi"
    "14X4n#nW/1:/nX)<KTHi1<&mn#oomi1<wcn#p%yCMrg2o#4KeYMwm;o#@,vn#nW/1:1R],;KTHi1GEDo#nW/1:5e<e;KTHi1KQVo#momi1",
    "KKMo#w%yCMy:to#28IYM'B&p#O^io#KTHi1C_=n#romi1Up-p#%>GDMEMCp#_S$DM'ZKp#D,6YM,aTp#M+Jp#oomi1Xj$p#9khXM.mgp#^7]p#momi1b=f"
    "p#=8IYM0yyp#QW`o#iomi1eDop#OKeYM2.5q#OW`o#momi1jV3q#CKeYM4:Hq#QW`o#iomi1m]<q#4>GDMQ@[q#fi$DM3Mdq#P,6YM8Smq#qubq#iomi1v"
    "$lq#t++DMXbDWer'T$'W*uq#Lj>m08_2X#6qYn#)IoNhdy#J$EQql0+Fu(3DWve22XACM8$Er#'n/hisCl<(5OQ8%LpDf2s'<&c/kpkj4P1laiuH-ko;m%"
    "c1&QLk5V:lak0)fk2qEHNqFE*l43KakuIl<(^Mr.iBy3V)iU+BlsHm%c6T-*m8iVlap_]Cm7)FHNvtx_m>q'>muIl<(df6Ki;g3V)r2DZmu5Udat,u[n02"
    "y%P#C9xnA_g%lr'T$'9Iws#H=5Ijtq<K`$F9<o=-f+jn8m%cJ3m]o<*%mau>qtoAKbdN$U59pO%Xpo&$-V)m5R8%rJl<()H8Qp<j3V))Bt4pjH=ZvH:tt#"
    "n.PN_'#NRqft_o_&8JoqkiS$'AuEatLSBu#LpDf20HD,a.jb0spKGDMx$au#_S$DMZ1iu#^>GDM#1su#`V$DM]=$v#y,6YMbD-v#lgyu#KTHi1h5/u#nW/"
    "1:wnX)<KTHi1uy=v#oomi1us4v#'-6YMgc[v#tm+v#KTHi1n;8u#iomi1%5Zv#d&yCM:#Z-$wKeYM@)d-$P*Hv#c(Ohr;>r(bQlTu#7gSCMB&m-$YEKu#E"
    "d7gMk>'/`4W7CMaC'Q#8;CCM<>v-$DWve2%AWfMqd#,am8w-Ok&gCMEWD.$xCl<(<gW8%LpDf2tID,aq^7GPk&gCMIpi.$xCl<(AsW8%LpDf2#]$earp3`"
    "QqAs%c:x;'R-v=kat+l@Ribns[,y,^RIO<;RW/`$'`YbAuJ0I/$PfQ/$9eg8SZwGc%QfGc%2:NfMsJD##]m2]>Trd/$;wGqSvIl<(pG0,Ns'T$'G'w/$KT"
    "Hi1Fg&.$LbDFO%2DK`*%)rTS+u(O[sCZvIC20$:n+USW/`$'gYbAuR(FWUhsKatKOE0$KTHi1Iat-$Mk`bO-d[da)D]3Vn%w(b<JU.$SgSCM^ub0$`%L.$"
    "0f7gMq(LatJI;0$H4bhVNBjfM/bv0$@AWfM6p[da-itLWmyv(b=P_.$[(yCM]@01$@.+DMa4bdW#0Eo*t>^jh>l`^PZwGc%DAWfM5m[da0-qIXmyv(b@]q"
    ".$_(yCM`RL1$@.+DMfV^aX#0Eo*;<;NqC-A>QZwGc%[aJCMtX,V)Hp1##GjS$'MELatXHg1$LpDf2<JD,a9w-DZk&gCMi)-2$xCl<(a$Y8%LpDf2AJD,a="
    "EF][k&gCMAmS2$xCl<(;1Y8%KTHi1+3^1$n5r#ZDVx(b^ay1$W0Eo*C3`po$*;>ZvIl<(Y-@BYs'T$'1&v2$qQnwZLsUCMtN)3$hF+2$g(yCMp^23$c.+D"
    "M>Ehm^s'T$';wDT`H+>6_jS';[SEbmgyP[W_9KLQ^o^^ZQwMws_<GcTA@Rpu@EEM3$6)T$';KV3$VB1w@cejj0sS9HIMRpu@IQ`3$TTCo*=va>#&tw1q#+"
    "pQaOxx(bd.Z2$^:NfMFrE##x`_$,Qj-4$f=N)b`^n<(P;IN_.<6V)Z:=Eba1>^MaLV4$9ETXUZ&dGc:Ji%uox-4$e42eaffh0,=+@#,>1]4$`:NfMM0F##"
    "uFu_c`wqycTeGc%.BGDMJo,5$#P%DM,%55$EnhXM1+>5$_jt.cqYk^e3`)BebYh0,>_NWe2o3Z7muF#dTeGc%f:NfMTFF##$%[x,niX5$thvTfvIl<(W&5"
    "8]BguI-w8gpfO_&[#e#+DM]8*5gUhGc%nAWfMHV1Et.F'6$[^w<(<QGQgTeGc%9BGDMU[;6$%V%DM7iD6$6)yCM8oM6$$nhXM=uV6$%DL6$$SGrAZkY2$d"
    "mmi1+P_6$4U-V)XG@KioT'aMB6%7$gEtFdmx,ij.`;Hj7U-V)[P@KipW'aMEIA7$/DsIdp<)fk4-8Ek,66V)fCTak'uJDM^8^7$AFW6$Nu-ClWIj%u*9'6"
    "$w,sQgW/`$'WZbAuei1&mXFNat;Kn7$3%]>mTeGc%*/;fMTt*8$x5ivmkuQT]+qq]nxJ5)F=-,une;G##A$hXnK^esnTeGc%NBGDMl4Z8$&Y%DMNBc8$QB"
    "GDMnAm8$*f%DMPNu8$m/6YMUT'9$M#t8$iomi1Una8$Q)yCMSa99$$nhXMXgC9$Z589$^r&%5teP2$H)yCMSjU9$YBGDMnM`9$]7D9$bv2LrF;7/Mw&=$n"
    "Kh2t63%]>mTeGc%3HafM^FNat:Ee7$aE0/`S0###",
    0};
static const char *const diti_spirv_text_group_norm[] = {
    "GZ1N5jsi^PFm7E(=&:c%IPCo*SQ^)gKnr.oN^3t[gxi-$>BR$'4b)>MpV#2q0`r6%J,HQT8gv.`N4Tmp@CtsRQ6j%u8DZEOsf>/iN`e;RU`Co*:gH>#'il"
    "<(etr;$^>fCP]q@=eE`Cj#e@Lvd<GCj#(il<()NY&#_QF$Qe9LvdK9Ik#xm0EMwG:##D9-V)3i08.yCT$'/@^vdNLek#8['EMDyhW-&il<(;5d/((k;xZ]"
    "q@=eg%qm#e@Lvd_dpm#(il<(KNY&#)&tX[e9LvdmVvn#%#1EMBV;##D9-V)Ui08.yCT$'Q@^vdpi:o#8['EMf0jW-&il<(s5d/(dkt@mILc&#Z9*@mqa'E"
    "M;h/t-&il<(+RlB#gE(roRxY;ePMXt#e@LvdH4Xt#(il<(4OY&#ja$opf@Uvd8%c-$xm0EMijC##9['EMc%$[#V_mINg<Lvd;7'.$8_'EMxr;t$/9-V)/l"
    "08.yCT$'+C^vdJ6R/$8['EM@pqW-,9-V)vl08.+9-V)wr98./9-V)xxC8.39-V)y'M8.79-V)#.V8.;9-V)$4`8.@9-V)%:i8.D9-V)&Ar8.H9-V)'G$9."
    "L9-V)(M-9.P9-V))S69.T9-V)*Y@9.X9-V)+`I9.]9-V),fR9.a9-V)-l[9.e9-V).re9.i9-V)/xn9.m9-V)0'x9.hDT$'rC^vd]OQ:$<W(EMBcj>#(il"
    "<(a&s;$Znv-NLLc&#Q<,-Nta'EM5^Ht-&il<(&d0_#m$oOUG.KvdU)/i$:Q(EMUkYt$/9-V)du08.yCT$'`L^vd'uX1%8['EMth7X-)il<(xn`W$NmF3hS"
    "`4;e82[O%/T1EMhtk##9['EMb/L[#Q1C0ik<Lvd:>nO%;h'EMuvdt$+ll<(xj[a*aOxClNLc&#Wu-Clva'EM=&_t-&il<(1/-[$ja$opMGpvdgBJT%qd'E"
    "M,lGR&Ail<(pLH>#B@R[#Ub;x#L%k<(6/1QTma]t$IZR$'fDu>MKG7<$e:Rl'V7q@M]<Yq%:qIo8]f(BM96),#O$k<@[c(BM@_sH#jZYr%Uvtnb<,)BM-j"
    "f:MJ)3K$jZYr%t1Q<MPi(BM9]'<M]Yi&'jZYr%dvtnb>k(BMu80N#oRruOeik<(C7UdN[:1:$jZYr%63LurQ#vvZXR)OUNuaqdP*)BM/KwO#k%bUvdik<("
    "[cSvmB<Wm&jZYr%w$w@`p;vvZ$0sHaRc1BM_kMS#JKDS#JKDS#U9N)bM+k<(OWVS#eik<(xb#/MwFL:$jZYr%v)7ZN)6vvZ5v@qfe+4wk<i(BMouqV#cik"
    "<(]r_+s)KX:$g>^u$mFmvZ^3GEtUi(BM92,Z#fcbsvQpR$'WLAhV<GCj#%xp@My@+n&BpfCMNrryPHQb>M8QL;-bik<(DAhj#UGk<(wp/r%7+QUSKv^@M]"
    ",LTSWGk<(_chqSsCl<(Vxdk#mik<(O-wk#VGk<((U3u$NHR[ZO+_@M26NZZWGk<(4)jwZsCl<(,R+n#mik<(f^=n#WGk<(C#L6&YV'3_Ly^@MIg#2_WGk<"
    "(K7>O_sCl<(C>:o#bGk<(K_O9%.0f#mO+_@MJncylWGk<(Li%@msCl<(DCns#ZpR$'aA.hVH4Xt#0yp@M-d.n&MqfCMeMTmpP+U@Mic7q%&3hhMLdEHW:1"
    "u-$rZ#,a:1u-$UXALVCo5/$UsR$'JS5/$;(#YRrs>/$W(#YRt[4n&jhOSi8:St$;:St$>:St$;:St$+W]HW8&i6$mU&,a8&i6$_qMwZDf_j#PJSHW;8-7$"
    "`o(BMQ+AZmYo(BM_LMjqVf(BMbhIgrCEt>M4W@t$XGk<(oEoDttCl<(s(Q:$VGk<((m$t$CZb@Qer%U%CZb@Qo@Bq%n>^u$1<QvZDf_j#+0jwZDf_j#ycJ"
    "LV71Lf$XsR$'3sKf$._mINi5Uf$J_mINk@Gn&n>^u$y73Q^c[>:$eX%i$[t4BMIcHm$JKDS#mB%CMx2#+%lmV##+h1fNND%+%0qM*Oe2,+%LqM*OgYw;$4"
    ">fCPt)h&[Gm;#Qj&^m^QAtZQrB1i$rwDo*F`H)OBp1&lbik<(nD$0%oik<(r]I0%^pR$';YAhVx[F1%a-q@M^QRn&&&gCMjkUBcc*)BMAF7NhR.q@MmmVq"
    "%kSS$'0ffI%vSx2hS(_@M0+M2h]Gk<(2E8OhxCl<(/$nO%mik<(:qvO%_pR$'[]AhVApsP%)1q@M&^]n&F)gCMQ/:#md*)BMPy$>mpejBM-[GR%aik<(Xu"
    "'S%kik<(]6MS%s'l<(0Qm##jxlbtlf6@#n>^u$xDFm^&GWS#pHKQ#xELv^&GWS#wHKQ#uqJE[0Ra,a,S;jG1.]0,l]N$Hx.mG[2eAeaHK-bJ:.]0,2W,`P"
    "<cM^P_6$;[4wxEbsGSgVdGSgVo,]0,FLQ0V`.s.Vpk$;[62Y&ckm:NU[m:NUo,]0,D-9oTWTZmTl_$;[8E9_cT=k#L>.]0,*@[3LSUH[_j;N;$L>WfMnwf"
    "CMF7<M'xCl<(Q#V9%);Rl'mF<&cbbZ:$V@sd%sJl<(V,0XR,$-V)GD7e%9Ehj#y>^u$]R7e%@Z+v$]L.e%9JNfM&yr##HdrRTkVxKVYeGc%]PGDM<1DNh4"
    "c;HjvIl<(-=rNhHy3V)GoJqS;TY&PC'QHjH54kh,$-V)7@al%9I)8$y>^u$=Oal%DZ+v$=IWl%IQGDMII4BlbD58]uIl<(F#dBlDm3V)I2(_lG1V#QTEbZ"
    "m-lT,k,#N&c@E-7$@lq6$U)yCM&3pm%RQGDMP2IWnOMUgrvIl<(TywWnHy3V)Ts[;n12N&cbbZ:$h7Q:$sJl<(ZGtToZhGc%;QWfMkk)esb[I2UjtGnTh-"
    ">nptL5V)0j'o%h`+n%H2<0ryy'$#K)xkqlOM/rZeGc%`QGDM]J9Kr8/KEOwIl<(m_iKrFs3V)SeS/i>&f/MdIcat]NhEk,$-V)XV-p%=dZK$y>^u$(g-p%"
    "DZ+v$(a$p%('iXMCpIp%yr@p%DZ+v$*lH@(l&iXMs5Q'&04fp%DZ+v$F1^m%/nHIMvWv'&+YafM_Z+bt;]((&lQrs%7yDS#1EgB(EA;fMFiQ@(k8X)X1w/"
    "U]#:WS#bsQ@(1EEfM+D'IWTBjfMQ-%CP'a,btA$W(&2r6_PZeGc%/A;fM_EgB(d<W(&o>P*&i5vv$k6*KPrff/VtL5V)&..)&$g4n%LVK-W'1%$#@qBxQg"
    "Vb,WZeGc%oA6YM1af)&&-7p%@Z+v$MAQ'&p(iXM4s**&).BB(y/g*b,</R^L0QfMiA-$#Qapes'ngBuZeGc%gTGDMsQBatJ0SZQ/(<eacXC&u(kK&u:Y1D"
    "&L^YBu/-6V)t^QnT4%k%cZ&3l#p7ek#fne4&y>^u$24o4&LU^=@myos6v+DaMuEvC&CIxyfD/HhMdA4LM]hGc%+VWfMZ>8esyx.X[-RO)t`jlBuDj3V)+_"
    "k8]A]2'uS;P*&Ca[/VCg3V)'CSwZuv^%uB*a(&F%X,W[hGc%HSWfMVol/Mc>=)XriS3UThGc%,SWfMbkEbOjvqBY^XnIN[hGc%OSWfM'Q0esma=eW@$1EX"
    "]Q3uelfh0,D`bIa#-;_YSf1esewE/V5N<+&yUH/&(0g*bw6g/Vl[E)t6&e/&HmbAukY-,&[hd/&SFe;[[hGc%USWfM-d0esuSn>Z<)Y<[nW2[dlfh0,.rL"
    "-WU*9bbHY1eslaYEX>.9,&q<#/&(0g*b-3$FXqkE)t2e>/&DmbAuq'f,&^O>/&Y&^5^Gs3V)1]g/Vcyf/My[>/`oTCk_Cg3V)Qca/`5tx[Z#:WS#pJDO$T"
    "0`$'lobAuI@jD&QLAE&0irBP2IEo*M'.E&CAhj#%;yCM)B7E&5]afMrA5btFFAE&,[+v$,Mb-&W=GDMl#PWRVRSZQ(mEeaMM4tRV_f#QS^:BSUq1#S5<6V"
    ").aIh`*9cEM6y3F&bw*F&>2(RT[eGc%<D;fMT_aA(P3sD&^LAE&Fv's%KaaA(+/rXMamB.&Mr&.&Zf@t%%b')3]]&.&YoafMJu-bt'9#/&",
    "@Z+v$TTNA(:DafM0(-bt*L>/&sU>teZeGc%O)iXMjVZ/&mXwk#Oo0_YZeGc%<TGDM8d+5gTrm(twIl<(&jc5g-$-V)0o10&S7vV$y>^u$/*20&DZ+v$IcJ"
    "e%W)iXMr0N0&.6E0&DZ+v$H5XX#$>iXMuCj0&6Ia0&ePQ=R9KKeN;wk+jy'T$'c&V+&@Z+v$@Oj0&G)4V)aEe,W-gS&cO9$k#C;hf$EWA1&P0f#mA,o/MM"
    ",bZmA_P&l@v3V)hZe,Wm2/cOVvuToLg/INFp3V)mvEeW^``#Q`JV5p@TTtoW3c%cO9$k#N;hf$K%y1&[>:Rpq>K&uNu'3&=31np=U-V)hKMkU*chXM6)D3"
    "&p<13&<xP5pYeGc%DZafMr:#btS8=f%JGBIWSBjfM$%Y,W&^#btUEPf%p@0@dWHsfM9+CH&Q3-[Z.$-V)cBRH&JTg9$y>^u$<WRH&FZ+v$$fJe%;deYMPn"
    "2I&#W[H&TxDfjhl`,j,b_dap*'n^s8o)OxR#k_EH=X[.$-V)95kI&33AmauXZK`^__&c@E-7$oqq6$^,yCMUN/J&*WGDM'u^da6c;HjvIl<([LGeaHs3V)"
    "MsYt[dq_&c@E-7$uqq6$b,yCM[sgJ&JE6YMaypJ&e*hJ&@Z+v$c]/J&LE6YMd45K&$b2I&@Z+v$n6#K&5WGDMAAcvdG-oZQ`eGea0Hd;eO0S&u,[dK&rU>"
    "temfh0,#yu_cvc;RT3b<esYipWRM;B[ZgGRwvuL5V)ie:L&8*LJ&/YQ-N8d1$#*_fRg6ws,N]eGc%V,iXMwR7M&9@U>(DZ+v$Bb7M&G,iXM$l]M&$tSM&@"
    "Z+v$J#^M&5WGDMK[lylAhLZmvIl<(LHV#m.$-V)C2=N&[b=n#y>^u$TH=N&DZ+v$c@U>(j8$YM0_uN&YglN&S1vv$>M65/XmuN&DZ+v$ds'O&WsHIM3)DO"
    "&]WGDMjUMjqG-oZQyZHeaY]N/rV(u,Na$/hrGGu;eDg3V)_y:_lvFJDMp5FdsG-oZQ7EIea`<G)tZ(=LMfRcEtxBX)tDg3V)d1;_l#Cd%cO9$k#_>hf$de"
    "eP&%[Yr%..oP&LZ+FtWHsfM_^Gh&uq:qf@U-V)EVjtR6iqXMu@sh&K1DO&,0g*b,S6Oh9suDt>jJi&[^w<(9[7i&+ZWfM]b]&u[tnl&(wK,j@U-V)Q$ktR"
    "9x,YM('yi&c&pi&Kv's%]1DO&epe=M@k0k&>N#j&L)pi&=t's%gI_>(<j3V)elTqof`UeN^`2kqIqGbkJv3V)q_MkqAvq#Qoe+esU6Olr^cPnpCwEo*<f7"
    "OhntEes^hGc%LZWfM$OFesHkGXTWp_Li_;l,j^hGc%SWWfM^qj2h>bK/M$mV##@Z+v$SBU>(*`afMO07bt;cM`&ZW3DPCl:FOWFc)bB*j`&(,'dMF@^%l]"
    "g+&u@$s`&-MvEOnfh0,^NCxQW1XhV-R*<[#:WS#^Nh>(WRw<(wW0c&[^w<(PFAa&IYWfMtBBU]#:WS#+StI&AcNfM+:7$#>h&]Qf:]kU]eGc%l.iXM2m<b"
    "&5Lh>(bqIo8W'j`&ZW3DPTI;FO1(Oea;OctTu=#Fticw('X;`$'T_Gbt9YM$'=t's%T5Pb&4U-V)VZinT1iqXM'#%%'C's$',0g*b=cdeN:suDtHLS%'[^"
    "w<(L@A%'4]WfMf(d&ueVw('0irBPAU-V)_sinT,E-FM0Zx%'JCp+NRPTwQWnX[QN(4V)Q'IINNFx#Qi,*OUHct$R_,Y[QAU-V)m:26T-H-FMAf_''K6BKM"
    "c5^,Wx-chVKv3V)lduwQQ$eeNimU&YbCihM^FsI-7r]@#F;69SWQ^ngUV0FZ]pIOU34e&ueVw('Q3-[Zofh0,N;W6TnU6@Z/ps)bB*j`&DoafMwS>btTH'"
    "c&u07'l:dlyPXhGc%FYWfMZOw)O_q%hV[f7'lShGc%0YWfM,RfwZ#:WS#>StI&T0`$'yrbAuc.`c&*,rc&IAT)X^hGc%pYWfMG$h&cI-[+%bV>+%H%yCM("
    "8/d&lYGDMgNABYiiMQ^yIl<(-<2CY/$-V)a8Rd&haI0%y>^u$8QRd&DZ+v$=geH&0/iXMKRnd&7^ed&@Z+v$Adnd&5WGDM+-&5^0B#[QJ-l)bo3Oe&N,iX"
    "MS,be&at8;hy[#O_5cS@#ePQ=RVk,Ccp8^m^$(T$'SJte&@Z+v$Nv2e&UG-FM^aKf&San1h)F7ea4Y7$#Kv's%`iKf&.ZGDM&0ZEb1+DNhyIl<(dk0FbFj"
    "3V)del)b1Hq#Q2)lBcg_m(cM(4V)uFPUJ3ZGDM=%gyc0B#[QTLl)b*LHg&o`afMK'Abt(FQg&H.tHWYeGc%JJNfMhHL$#XKI@>v]WfM)1$3h5g`Tf%mV##"
    "DZ+v$FlJe%>^GDMZr,5g,'Q>>y>^u$/<j,'@Z+v$/6a,'B^GDM;((2hP1YjqvIl<(/J$3hFg3V)1V@OhP^t(O>Y8/i^O.FtAy3V)3P`ngEp''PE91)k6`w"
    "/iJs3V)Bbp)k@;e%c@E-7$=xq6$S%yCM$3P.'P^GDMJRP^lfD58]uIl<(LHM_lJs3V)LB1Clw6nt[#:WS#Ltf-'5WNfMwsC$#=`k[mZ(*<n^eGc%9dafM]"
    "bSbtI`0/'BZ+v$MU7-'ose=M;w_/'@%W/'`;GDMWs]mpSMUgrvIl<(g9ZnpLy3V)MRAOhAas&c@E-7$Pxq6$r1yCM6KI0''XIYM>dn0'JTc.'TxDfjV>u,"
    "jMuxda]*+)tbPLINc@GEt'Uk)tFg3V)v)s/rK(t&c@E-7$Zxq6$C+yCMA1O1'm^GDMhXfyuF+@;RwIl<(0Qd#vJs3V)cZu,jfD40Mk2wvv5ZD[vFg3V)dP"
    "ewvfh.FtHOfA'[^w<(Vl$A'0`WfMgR[[Z#:WS#oTDO$T0`$'iybAuHDGJ'Pa'K',EdEk3-6V)AHXLMOik%cqVQn#kt+n#J+cJ'&eu6&RTlJ'8S8tn_eGc%"
    "Vpl`M-U9K'e(>n#:3TJa$L00`D.AZm)Jl<(V(owmBU-V)^G3<n=Le=M83CL']38L':X+v$hyLK'JSCo*$Oi@#/P.3h^iN/r*;M$#=t's%sS@L'5U-V)sk`"
    "kq-B-FMBp)M'HXImgkUpHsww@Lr$9x,s`hGc%<aWfMl&XesXSb#QR&>Fkj=s#m`hGc%4`WfM'g%*b_/<M'_AafM-,UbtbHtM'i5vv$C`MmNTI7'P[xZ0,7"
    "(j@#7</FtlL5V)sV-]'vyBN'8UF$QulR$#0=U0MNF3$Q`eGc%a7iXM&,]]'Lnb=(y/g*b#/ZR^L0QfM3]S$#C5>uRl4aRT`eGc%^cGDMe&hpSO0SZQxcje"
    "aT-i5T$^v&u]+R`'=2(RT4-6V)WOweN9%k%cZ&3l#gFek#]Eh_'y>^u$wpq_'LU^=@d0ps6m9DaM@o>`'4Xxyfb5^,W%:uhVahGc%McWfM%Z_esU:xBPmp"
    "H9SxYaRT2$-V)tg^es3.B*bGRx]'9oafMh.ZbtEL*^'@Z+v$Wqb=(:DafM-,UbtH_F^'&eu6&n5<M'0`V&P_eGc%1M;fM<%0>(`6`K'ZqF^'$W'3_sP1'u"
    "FOxA'1r6_Ppfh0,t1o@>/6>G'IWs^M1wgvQen(rodQw<(7'PB'[^w<(_&PB'k`WfMJV90MScP8SR][[QPy3V)cm>9S[:LINX9-nToE%3q:g3V)uYQbtBfy"
    "&cnv=1V+>Z[Q,Jl<(u$40V5IEo*da,D''Nhj#_GyCM@$6D'*H-YME*@D'&26D'@Z+v$%_LC'-JEo*i([D''Nhj#iGyCMECeD'/H-YMJInD'/QeD'@Z+v$*"
    "_LC'E;GDMy01>Z2B#[QDrbeai72[Zn#oeNoMNwZ9k][Z1$-V)f^NE'0uvO%y>^u$C%OE'@Z+v$F+XE']`GDM)rET]F(-[QK0ceapxFq][X#'c@E-7$k#r6"
    "$K5yCMQ>BF';5iXMWKTF'09lB'ePQ=Rw/q#msK=N_)Jl<(Uljk__FsI-JUg@#ldqq]aU'*bZmhC'B5iXM_v=G'_Xwk#2r6_P_eGc%-HyCM",
    "a7QG'`VNfMn^U$#XKI@>YcWfM;,g[Z#:WS#)vGR%Y0`$'B%cAusC&b'ZOmc'Vba8]V:4V)XOLFb35LZQyOLn^xGlqf@v3V)RPwn^5Q,$Q2L)L`rnCS_jtC"
    "FbU:4V)[3TL`5,lyPZWO#mohqk`f_cIaYSCo*u(r@#TWbLM+LAea6_Q@mMv3V)WM$r]M*x&u@.Yf'gGjEbs95V)_3(d'L$rV#vw(9fYBjfMrEICcZL]bt("
    "O1d'R(D7&oFQG'Sg;ZMmlVd'+b[W#S=i7&w$E;$[ye=MDKRh'B:Ah'X=<ZM=Weh'YdUN#E(D7&EV:D()k[YMBp2i'Exwh'R(D7&)(3i'tmqXMJJ&j'ORki"
    "'[o[8&cq')3+Y&j'W(f=M]o^j'W<4i'Vo`D([o[8&=s')31'_j'S^@YM)5fx'a=]x'jeu6&_[Rh'I(D7&QX*y'*#f=M3ZFy',1=y'jeu6&6Jfx'[o[8&Hs"
    "')3<oFy's3&KM1('#(O7g_M45HWRq&meai[Mo*bWqXR_w<$QJj3V)o/mea[@)fN8mMte#8^XeahGc%0dWfM[4h[Z#:WS#IvGR%65NfMfEU$#(L.rf5J63h"
    "`eGc%g7<ZM>`#$(KjJ/Qk;OkUM3(rTwj;$dpgn<(v$+lUXSCo*0cx@#m9iLMd;g,WILmLVQ(4V)HxTFb.+)'u@.Yf'y>S2hs95V)qKxe'gm^Y#+8q,jYBj"
    "fM@u20igq]bt:g*f'R(D7&QIQG'-Re=M]qj%([mO%(x/%E(jeu6&A+k%(S=i7&PMb^+5BrXMT28&(W:&&(L(D7&YIQG']lafMcw]bt=yFf'+2,ej`eGc%-"
    "Q;fMW1C>(YD/b'yb1d'[WJe'p%+f'+2Gf'$W'3_;]='c@E-7$y#r6$]5yCM`=mG'4aGDM._rycXrm(t#Jl<(m^w#dKs3V)*c%-j-L;0M18,wdsgW[dGg3V"
    ")t.twdgh.Ft<d]I'[^w<(It`H'$aWfMm,dea5s-UfH;T[Z#:WS#B@JT%T0`$'B(cAuxeg&(Y0H'(Z/yQ^5-6V)dgfXeOik%cqVQn#%kns##M+'(&j_k_]R"
    "o&u%@(((`^U/`5-6V)ivfXe^;<Qg0i9Kc.gPUfjrdyP0wk^c0a'HcJB^0,t^cUfcB,]#LSCo*V2#A#Y+$og1>5wdxvj[d7IEo*Z'v'(NBhj#,T+DMpm.xd"
    "bhGc%mfWfMI3*'u8W]I'v#W5g)Jl<(nO33_%(T$',XJI'y/g*bU;#xvO0QfM0W`$#&9N9fDth_laeGc%%mafMWXfbt4E])(i5vv$;6.^fI9xkh]xZ0,bT#"
    "A#7</FtlL5V)qN3*(Pv**(5:SCllQ_$#-#cOhJ)MClaeGc%_;iXM#uX*(FCL>(<Plc*5x1,'XPyCM%9u*(NgGDMTBh(kIu[ZQvg:*bEJ'+(e;iXM*IC+(a"
    "Xwk#vq:qfaeGc%7mafM%qgbtG]U+(,[+v$A0WH'f<rEM5f&,(6[JI'1Oe=M5t,,(R`%,(p_&mUX[8uRD%%>m((T$'c:-,($0g*b[uyqo]*wDt]#F-([^w<"
    "(iSR,(IgWfMOmO0MV(VQp(UEu@=o+>@UbJI'^u1w#OpPv$^gWZ5dgGDMuwMjqWI]ZQ4Q;*bZt;-(HmafM$ngbtXnE-(DbeKraeGc%KmafM[_Sbt8W]I'&["
    "O/i_eGc%+gafMyP#btVKYf%AE`2UYeGc%Eo.gMfy#J$",
    0};
static const diti_spirv_module diti_spirv_modules[] = {
    {"gemm_cpu", diti_spirv_text_gemm_cpu, 6357u},
    {"gemm_gpu", diti_spirv_text_gemm_gpu, 5939u},
    {"gemv_gpu", diti_spirv_text_gemv_gpu, 4665u},
    {"attention_cpu", diti_spirv_text_attention_cpu, 4774u},
    {"attention_gpu", diti_spirv_text_attention_gpu, 6272u},
    {"norm", diti_spirv_text_norm, 3909u},
    {"qkv_post", diti_spirv_text_qkv_post, 2976u},
    {"expand", diti_spirv_text_expand, 5003u},
    {"elementwise", diti_spirv_text_elementwise, 3853u},
    {"pixels", diti_spirv_text_pixels, 2800u},
    {"group_norm", diti_spirv_text_group_norm, 3855u},
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
