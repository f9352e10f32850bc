/* dit.h - generated from src/ by `make dit.h`: edit the files there, never this one. */
/* dit.h public API -- draft (declarations only). Improve it; keep its spirit: zero-initialised descs, caller-owned errors, nothing global. */
#ifndef DIT_H
#define DIT_H
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#ifndef VULKAN_CORE_H_
#include <vulkan/vulkan_core.h>     /* types only (1.3.239 or newer): dit never references a vk* symbol */
#endif
#ifdef __cplusplus
extern "C" {
#endif
#ifndef DIT_API
#define DIT_API extern              /* or: static, __declspec(dllexport), ... */
#endif
#define DIT_VERSION 100             /* major*10000 + minor*100 + patch; the ABI is promised within one minor version */

typedef struct dit_context dit_context;  /* one device, or several that work on one picture */
typedef struct dit_model   dit_model;    /* weights; immutable once loaded, shared by jobs   */
typedef struct dit_job     dit_job;      /* one request being sampled: image_count images or a clip */

typedef enum dit_result {                /* >= 0 is not an error, as in VkResult */
    DIT_OK = 0, DIT_WORKING = 1, DIT_CANCELLED = 2,
    DIT_ERROR_INVALID_ARGUMENT = -1, DIT_ERROR_OUT_OF_HOST_MEMORY = -2,
    DIT_ERROR_OUT_OF_DEVICE_MEMORY = -3, DIT_ERROR_DEVICE_LOST = -4,
    DIT_ERROR_UNSUPPORTED_DEVICE = -5, DIT_ERROR_UNSUPPORTED_MODEL = -6,
    DIT_ERROR_BAD_FILE = -7, DIT_ERROR_IO = -8, DIT_ERROR_VULKAN = -9,
    DIT_ERROR_NOT_FINITE = -10,          /* NaN or infinity reached a latent or an image: names step and op */
    DIT_ERROR_TRANSPORT = -11            /* a peer or another rank failed                    */
} dit_result;
typedef struct dit_error { char message[504]; dit_result result; VkResult vk; } dit_error; /* caller-owned; no public struct starts with an enum, so that {0} is C++ too */

typedef enum dit_stage { DIT_STAGE_QUEUED, DIT_STAGE_ENCODE, DIT_STAGE_DENOISE, DIT_STAGE_DECODE, DIT_STAGE_DONE } dit_stage;
typedef struct dit_status {
    uint32_t step, step_count;           /* denoising steps finished / planned       */
    float    fraction;                   /* 0..1 of all GPU work, monotonic          */
    uint32_t last_slice_us, preview_id;  /* GPU time of newest finished slice; bumps per preview */
    dit_result result; dit_stage stage;
} dit_status;
typedef struct dit_counters { uint64_t dispatches, submits, recordings, allocations, pipelines, peer_bytes, streamed_bytes; } dit_counters;

/* --- hooks: zero means the default ------------------------------------------------ */
typedef struct dit_allocator { void *(*alloc)(size_t size, size_t align, void *user); void (*free)(void *p, size_t size, void *user); void *user; } dit_allocator;
typedef struct dit_logger    { void (*func)(int level, const char *message, void *user); int max_level; void *user; } dit_logger;
typedef struct dit_progress  { bool (*func)(const char *what, uint64_t done, uint64_t total, void *user); void *user; } dit_progress; /* false cancels */
typedef struct dit_worker    { bool (*run)(void (*task)(void *arg), void *arg, void *user); void *user; } dit_worker; /* lends a thread for file reads and pipeline builds; zero: the caller's thread does all */
typedef struct dit_block     { VkDeviceMemory memory; VkDeviceSize offset, size; void *mapped, *handle; } dit_block;
typedef struct dit_device_allocator {    /* e.g. three lines on top of VMA */
    VkResult (*alloc)(uint32_t device, const VkMemoryRequirements *need, VkMemoryPropertyFlags required, VkMemoryPropertyFlags preferred, dit_block *out, void *user);
    void     (*free)(uint32_t device, const dit_block *block, void *user);
    void     *user;
} dit_device_allocator;
typedef struct dit_transport {           /* other processes or machines: every rank makes the same calls, rank 0 has the result */
    uint32_t rank, rank_count;
    void *(*send)(uint32_t to, const void *data, size_t size, uint64_t tag, void *user);  /* starts; NULL: failed */
    void *(*receive)(uint32_t from, void *data, size_t size, uint64_t tag, void *user);
    int   (*poll)(void *request, void *user);                                             /* 1 done, 0 not yet, < 0 failed */
    void  *user;
} dit_transport;

/* --- devices and context ----------------------------------------------------------- */
typedef struct dit_device_info { char name[256]; uint8_t uuid[16]; uint32_t vendor, type, api_version, driver_version; VkDeviceSize memory; char rung[32]; } dit_device_info;
typedef struct dit_vulkan {              /* a device of the application's */
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;
    VkInstance instance; VkPhysicalDevice physical_device; VkDevice device;
    uint32_t api_version;                /* what the app created the instance with; 0 = 1.2 */
    const VkDeviceCreateInfo *device_info; /* what the app passed to vkCreateDevice: dit uses only what it enabled */
    VkQueue queue; uint32_t queue_family;  /* any queue with COMPUTE                     */
    VkQueue transfer_queue; uint32_t transfer_family;  /* optional                         */
    void (*lock_queue)(void *user); void (*unlock_queue)(void *user); void *lock_user; /* held around each submit only */
    VkPipelineCache pipeline_cache; const VkAllocationCallbacks *host_callbacks;
} dit_vulkan;
typedef struct dit_context_desc {
    uint32_t _zero_begin;                /* both guards must stay zero: catches uninitialised structs */
    const char *devices;                 /* dit opens them: "0", "0,1,1" (repeats allowed), part of a name, "uuid:..."; NULL: the best one */
    const dit_vulkan *vulkan; uint32_t vulkan_count;  /* or: the application's own (NULL, 0: none) */
    dit_transport transport;
    dit_allocator allocator; dit_device_allocator device_allocator; dit_logger logger; dit_worker worker; dit_progress progress;
    const void *cache; size_t cache_size;  /* blob from dit_context_save_cache: pipelines and tuned tiles */
    VkDeviceSize device_memory_limit;    /* 0: VK_EXT_memory_budget, else 80% of the heap   */
    uint32_t frames_in_flight;           /* 0: 3; recordings that may be pending on the GPU */
    uint32_t max_dispatch_us;            /* 0: 50000; longest indivisible piece of GPU work; engines set 1000 */
    const char *overrides;               /* "rung=base,storage_range=1M,..." for tests and bug hunts; NULL: none */
    bool trace;                          /* timestamps around every op                      */
    uint32_t _zero_end;
} dit_context_desc;

/* --- model -------------------------------------------------------------------------- */
typedef enum dit_type { DIT_TYPE_STORED, DIT_TYPE_F32, DIT_TYPE_F16, DIT_TYPE_BF16, DIT_TYPE_F8_E4M3, DIT_TYPE_F8_E5M2, DIT_TYPE_Q8_0, DIT_TYPE_Q4_0, DIT_TYPE_Q4_1, DIT_TYPE_Q5_0, DIT_TYPE_Q5_1,
    DIT_TYPE_Q2_K, DIT_TYPE_Q3_K, DIT_TYPE_Q4_K, DIT_TYPE_Q5_K, DIT_TYPE_Q6_K, DIT_TYPE_I8_ROW, DIT_TYPE_I8_ROW_ROTATED, DIT_TYPE_I32, DIT_TYPE_I64 } dit_type;
typedef enum dit_role { DIT_ROLE_NONE, DIT_ROLE_TRANSFORMER, DIT_ROLE_TEXT_1, DIT_ROLE_TEXT_2, DIT_ROLE_TEXT_3, DIT_ROLE_TOKENIZER_1, DIT_ROLE_TOKENIZER_2, DIT_ROLE_TOKENIZER_3,
    DIT_ROLE_VAE, DIT_ROLE_TAE, DIT_ROLE_SCHEDULER, DIT_ROLE_LORA, DIT_ROLE_CONTROL } dit_role;
typedef struct dit_source {              /* one of: path (file or folder), data+size, read_at+size */
    const char *path; const void *data; uint64_t size;
    int64_t (*read_at)(uint64_t offset, void *dst, size_t size, void *user);
    dit_result (*open)(const char *member, struct dit_source *out, void *user);  /* shards and folder members by name */
    void *user;
} dit_source;
typedef struct dit_component { dit_source source; dit_role role; float weight; } dit_component;
typedef struct dit_type_rule { const char *tensors; dit_type type; } dit_type_rule;  /* glob over tensor names; first match wins */
typedef struct dit_model_desc {
    uint32_t _zero_begin;
    dit_source source;                   /* diffusers folder, single file or GGUF: every part found in it is used */
    const dit_component *components; uint32_t component_count;  /* parts that live elsewhere, replace or add (LoRA) */
    const dit_type_rule *types; uint32_t type_count;            /* none: keep the stored types */
    VkDeviceSize weight_budget;          /* 0: all weights resident; else stream blocks through this much */
    bool release_text_encoders;          /* drop their device memory while denoising        */
    bool dry_run;                        /* headers only: answers questions, makes no jobs (context may be NULL) */
    dit_progress progress;
    uint32_t _zero_end;
} dit_model_desc;
typedef struct dit_model_info { char family[32], variant[32]; uint64_t parameters[16]; /* by dit_role */ uint32_t missing; /* bit per dit_role */
    uint32_t default_width, default_height, size_multiple, default_steps, class_count, frame_multiple; float default_guidance; } dit_model_info;

/* --- job ---------------------------------------------------------------------------- */
typedef struct dit_image { uint32_t width, height; const uint8_t *rgba; size_t row_pitch; VkImage image; VkImageLayout layout; } dit_image;
typedef struct dit_tensor { const char *name; dit_type type; uint32_t rank; uint64_t shape[5]; const void *data; } dit_tensor;
typedef struct dit_guidance { float scale;   /* 0: model default; 1: off                     */
    float distilled, rescale, skip_layer;    /* 0: model default                            */
    float first, last;                       /* fraction of steps with the unconditional branch; 0,0: all */
} dit_guidance;
typedef struct dit_adapter { const dit_model *model; float weight, first, last; dit_image image; } dit_adapter;  /* run-time LoRA, ControlNet */
typedef enum dit_rng { DIT_RNG_DEFAULT, DIT_RNG_TORCH_CPU, DIT_RNG_PHILOX } dit_rng;
typedef struct dit_target {              /* zero: dit creates a VkImage, no readback     */
    VkImage image; VkFormat format; uint32_t dst_queue_family;
    VkImageLayout final_layout; VkPipelineStageFlags dst_stage; VkAccessFlags dst_access;
} dit_target;
typedef struct dit_job_desc {
    uint32_t _zero_begin;
    const dit_model *model;
    const char *prompt, *negative_prompt;      /* UTF-8, copied                             */
    const int32_t *class_labels;               /* class-conditional models: image_count labels */
    const void *conditioning; size_t conditioning_size;  /* instead of prompts: blobs from dit_encode_prompt */
    const void *negative_conditioning; size_t negative_conditioning_size;
    const dit_tensor *inputs; uint32_t input_count;      /* by diffusers' names: "noise" [B,C,h,w] unit normal, "prompt_embeds", "pooled_prompt_embeds", "prompt_attention_mask", ... */
    uint32_t width, height, frame_count, image_count, steps;  /* 0: the model's own defaults; image i uses seed + i and equals the single run */
    const char *sampler, *schedule;            /* see dit_sampler_name; NULL: the model's own */
    dit_guidance guidance; float shift, eta; uint32_t clip_skip;
    uint64_t seed; dit_rng rng;                /* every value is a seed; none means "random" */
    const dit_image *init_image, *mask; float strength;   /* strength 0: 0.75               */
    const dit_image *references; uint32_t reference_count;
    const dit_adapter *adapters; uint32_t adapter_count;
    const char *split;                         /* several devices: "cfg2,ulysses2"; NULL: the planner chooses */
    const char *cache;                         /* caching policy; NULL: none                */
    uint32_t preview_interval;                 /* 0: no previews                            */
    dit_target target;
    dit_progress progress;                     /* of creation: pipelines may take seconds   */
    uint32_t _zero_end;
} dit_job_desc;
typedef struct dit_output { VkImage image; VkImageView view; VkFormat format; VkImageLayout layout; uint32_t width, height; VkSemaphore timeline; uint64_t value; } dit_output;
typedef enum dit_read { DIT_READ_RGBA8, DIT_READ_RGB_F32, DIT_READ_LATENT_F32 } dit_read;  /* latent: the sampler's last x [C,h,w], before scaling and shift */
typedef struct dit_memory { VkDeviceSize weights, activations, peak; size_t host; } dit_memory;  /* per device: the fullest one */

DIT_API uint32_t    dit_version(void);                     /* of the implementation; compare with DIT_VERSION */
DIT_API const char *dit_result_string(dit_result r);
DIT_API const char *dit_sampler_name(uint32_t index);      /* NULL past the end */
DIT_API const char *dit_schedule_name(uint32_t index);
DIT_API dit_result  dit_device_list(dit_device_info *out, uint32_t *count, dit_error *err);
DIT_API dit_result  dit_device_extend(PFN_vkGetInstanceProcAddr gipa, VkInstance instance, VkPhysicalDevice gpu, const VkDeviceCreateInfo *app, void *memory, size_t *size, VkDeviceCreateInfo *out, dit_error *err); /* the app's create info plus what dit can use */
DIT_API dit_result  dit_context_create(const dit_context_desc *desc, dit_context **out, dit_error *err);
DIT_API dit_result  dit_context_save_cache(dit_context *ctx, void *blob, size_t *size, dit_error *err);
DIT_API void        dit_context_destroy(dit_context *ctx);
DIT_API dit_result  dit_model_load(dit_context *ctx, const dit_model_desc *desc, dit_model **out, dit_error *err);
DIT_API void        dit_model_get_info(const dit_model *model, dit_model_info *out);
DIT_API void        dit_model_destroy(dit_model *model);
DIT_API dit_result  dit_encode_prompt(dit_context *ctx, const dit_model *model, const char *prompt, void *blob, size_t *size, dit_error *err);
DIT_API dit_result  dit_job_memory(const dit_context *ctx, const dit_job_desc *desc, dit_memory *out, dit_error *err);  /* plans only */
DIT_API dit_result  dit_job_create(dit_context *ctx, const dit_job_desc *desc, dit_job **out, dit_error *err);   /* any thread */
DIT_API dit_result  dit_job_restart(dit_job *job, const dit_job_desc *desc, dit_error *err);  /* same shapes: keeps plan, arena, recordings */
DIT_API dit_result  dit_job_record(dit_job *job, VkCommandBuffer cmd, uint32_t budget_us); /* one device: app submits; DIT_WORKING until recorded whole */
DIT_API dit_result  dit_job_step(dit_job *job, uint32_t budget_us);       /* dit submits under the queue lock; never blocks on the GPU */
DIT_API dit_result  dit_job_wait(dit_job *job, uint64_t timeout_ns);      /* steps and waits; UINT64_MAX runs to the end */
DIT_API void        dit_job_cancel(dit_job *job);                         /* any thread, signal-safe; takes effect within one slice */
DIT_API void        dit_job_status(const dit_job *job, dit_status *out, dit_error *err);   /* any thread */
DIT_API void        dit_job_get_counters(const dit_job *job, dit_counters *out);
DIT_API dit_result  dit_job_output(dit_job *job, uint32_t image, uint32_t frame, dit_output *out);  /* GPU image, no copy */
DIT_API dit_result  dit_job_preview(dit_job *job, dit_output *out);
DIT_API dit_result  dit_job_read(dit_job *job, dit_read what, uint32_t image, uint32_t frame, void *dst, size_t size, size_t row_pitch, dit_error *err);
DIT_API void        dit_job_destroy(dit_job *job);                        /* NULL is fine, as for every destroy */
DIT_API void        dit_trace_mark(dit_context *ctx, const char *name);
DIT_API uint64_t    dit_trace_begin(dit_context *ctx, const char *name);
DIT_API void        dit_trace_end(dit_context *ctx, uint64_t range);
DIT_API dit_result  dit_trace_write(dit_context *ctx, bool (*write)(const void *data, size_t size, void *user), void *user, dit_error *err); /* Chrome trace JSON */

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

/* --- small floats, bit patterns; every conversion rounds to nearest, ties to even --- */
DIT_INTERNAL float diti_half_to_float(uint16_t bits);
DIT_INTERNAL uint16_t diti_float_to_half(float value);
DIT_INTERNAL float diti_bfloat_to_float(uint16_t bits);
DIT_INTERNAL uint16_t diti_float_to_bfloat(float value);
DIT_INTERNAL float diti_e4m3_to_float(uint8_t bits); /* OCP FP8 E4M3FN: no infinities, 0x7f and 0xff are NaN */
DIT_INTERNAL float diti_e5m2_to_float(uint8_t bits); /* OCP FP8 E5M2 */
#endif

/* ======== src/base/error.c (edit it there; dit.h is generated) ======== */

static void diti_error_set(dit_error *err, dit_result result, VkResult vk, const char *format, va_list args) {
    if (!err) return;
    err->result = result;
    err->vk = vk;
    vsnprintf(err->message, sizeof err->message, format, args);
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

DIT_INTERNAL bool diti_starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

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

DIT_INTERNAL uint64_t diti_hash(const void *data, size_t size) {
    const unsigned char *bytes = (const unsigned char *)data;
    uint64_t hash = 0xcbf29ce484222325u;
    size_t i;
    for (i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
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
    char point[8]; /* the locale's decimal point, which strtod wants */
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

/* Length of the valid UTF-8 sequence at text; 0 when there is none (RFC 3629: no overlong forms, no surrogates). */
static size_t diti_json_utf8_length(const unsigned char *text, size_t size) {
    unsigned char lead = text[0], low = 0x80, high = 0xbf;
    size_t length, i;
    if (lead < 0x80) return 1;
    if (lead < 0xc2 || lead > 0xf4) return 0;
    length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (length > size) return 0;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    if (text[1] < low || text[1] > high) return 0;
    for (i = 2; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
    }
    return length;
}

static dit_result diti_json_copy_character(diti_json_parser *parser) {
    const unsigned char *text = (const unsigned char *)parser->text + parser->at;
    size_t length = diti_json_utf8_length(text, parser->size - parser->at);
    if (!length) return diti_json_fail(parser, "a string is not valid UTF-8");
    if (*text < 0x20) return diti_json_fail(parser, "control character in a string");
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

/* What separates the digits in this locale: strtod and printf obey an application's setlocale. */
static void diti_decimal_point(char *point, size_t size) {
    char text[16];
    size_t length;
    snprintf(text, sizeof text, "%.1f", 0.0);
    length = strlen(text) - 2;
    if (length >= size) length = size - 1;
    memcpy(point, text + 1, length);
    point[length] = 0;
}

static double diti_json_to_double(const char *text, const char *point) {
    char copy[DITI_JSON_MAX_NUMBER + 8];
    const char *dot = strchr(text, '.');
    if (!dot) return strtod(text, NULL);
    if (!diti_format(copy, sizeof copy, "%.*s%s%s", (int)(dot - text), text, point, dot + 1)) return 0;
    return strtod(copy, NULL);
}

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
    node->number = diti_json_to_double(node->text, parser->point);
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
    diti_decimal_point(parser.point, sizeof parser.point);
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

/* ======== src/io/io.h (edit it there; dit.h is generated) ======== */
/* io: files, safetensors, GGUF; a checkpoint is tensors by name, a package is a whole pipeline: small files by path and tensors by component. */
#ifndef DITI_IO_H
#define DITI_IO_H

/* --- files: random access to bytes from a path (mapped), from memory, or through callbacks --- */
typedef struct diti_file diti_file;
/* Opens the bytes of source (path of a file, data+size, or read_at+size). name is for messages and copied. */
DIT_INTERNAL dit_result diti_file_open(const diti_env *env, const dit_source *source, const char *name, diti_file **out, dit_error *err);
DIT_INTERNAL void diti_file_close(diti_file *file); /* NULL is fine */
DIT_INTERNAL uint64_t diti_file_size(const diti_file *file);
DIT_INTERNAL const char *diti_file_name(const diti_file *file);
/* Copies size bytes from offset; a range outside the file is DIT_ERROR_BAD_FILE, a failing callback DIT_ERROR_IO. */
DIT_INTERNAL dit_result diti_file_read(const diti_file *file, uint64_t offset, void *out, size_t size, dit_error *err);
/* The mapped or given bytes, valid while the file is open; NULL for callback sources: use diti_file_read. */
DIT_INTERNAL const void *diti_file_view(const diti_file *file, uint64_t offset, size_t size);

/* --- stored types --- */
DIT_INTERNAL const char *diti_type_name(dit_type type);          /* "Q8_0" */
DIT_INTERNAL bool diti_type_from_name(const char *name, dit_type *out); /* case-insensitive: "q8_0", "f16" */
DIT_INTERNAL uint32_t diti_type_block(dit_type type);            /* elements per block: 1, 32 or 256 */
DIT_INTERNAL uint32_t diti_type_block_bytes(dit_type type);
/* Bytes of rows x row_length elements; false when row_length is no multiple of the block or the product overflows. */
DIT_INTERNAL bool diti_type_bytes(dit_type type, uint64_t rows, uint64_t row_length, uint64_t *out);
/* Exact float values of count elements (a multiple of the block) as ggml defines them (models.md 9.2). */
DIT_INTERNAL void diti_type_to_float(dit_type type, const void *blocks, uint64_t count, float *out);

/* --- checkpoints: tensors by name, whatever the file --- */
typedef struct diti_stored_tensor {
    const char *name;
    dit_type type;
    uint32_t rank;      /* 0..5 */
    uint64_t shape[5];  /* torch order: slowest first. GGUF's dims are reversed on reading, orig_shape metadata is honoured */
    uint64_t size;      /* bytes */
    uint64_t offset;    /* in its file */
    uint32_t file;
} diti_stored_tensor;
typedef struct diti_checkpoint diti_checkpoint;
/* A safetensors file, a *.safetensors.index.json with its shards, a GGUF file (or the first of name-00001-of-0000N.gguf). */
DIT_INTERNAL dit_result diti_checkpoint_open(const diti_env *env, const dit_source *source, diti_checkpoint **out, dit_error *err);
DIT_INTERNAL void diti_checkpoint_close(diti_checkpoint *checkpoint);
DIT_INTERNAL uint32_t diti_checkpoint_count(const diti_checkpoint *checkpoint);
DIT_INTERNAL const diti_stored_tensor *diti_checkpoint_tensor(const diti_checkpoint *checkpoint, uint32_t index);
DIT_INTERNAL const diti_stored_tensor *diti_checkpoint_find(const diti_checkpoint *checkpoint, const char *name); /* hashed; NULL when absent */
/* Copies stored bytes [offset, offset+size) of a tensor. */
DIT_INTERNAL dit_result diti_checkpoint_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, uint64_t offset, void *out, size_t size, dit_error *err);
/* The whole tensor as float32, count elements; for small tables read on the host. */
DIT_INTERNAL dit_result diti_checkpoint_read_float(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor, float *out, uint64_t count, dit_error *err);
/* Text metadata: safetensors __metadata__, GGUF string values (numbers printed). NULL when absent. */
DIT_INTERNAL const char *diti_checkpoint_text(const diti_checkpoint *checkpoint, const char *key);
/* A GGUF array value: raw little-endian elements of u8/i32/u32/f32 arrays. false when absent. The view lives as long as the checkpoint. */
DIT_INTERNAL bool diti_checkpoint_array(const diti_checkpoint *checkpoint, const char *key, const void **data, uint64_t *count, uint32_t *gguf_type);
/* A GGUF string array element; NULL past the end. */
DIT_INTERNAL const char *diti_checkpoint_array_text(const diti_checkpoint *checkpoint, const char *key, uint64_t index, size_t *length);

/* --- packages: a pipeline's parts, from a diffusers folder or from one GGUF written by dit-convert ---
   In such a GGUF every small file of the folder stands under the key "dit.file.<path>" (u8 array) and every tensor is named
   "<component>.<tensor>" with component transformer, text_encoder, vae. Other single files hold one component or several
   under known prefixes (models.md 3, 9.3). */
typedef struct diti_package diti_package;
DIT_INTERNAL dit_result diti_package_open(const diti_env *env, const dit_source *source, diti_package **out, dit_error *err);
DIT_INTERNAL void diti_package_close(diti_package *package);
/* A small file by its path in the repository ("scheduler/scheduler_config.json"); *out is NULL when there is none. Freed with diti_free. A NUL is appended. */
DIT_INTERNAL dit_result diti_package_read(const diti_package *package, const char *path, char **out, size_t *size, dit_error *err);
/* The tensors of a component ("transformer", "text_encoder", "vae"; "" = the file itself) and the prefix their names carry in that
   checkpoint; DIT_OK with *out = NULL when the package has none. Owned by the package. */
DIT_INTERNAL dit_result diti_package_component(diti_package *package, const char *component, const diti_checkpoint **out, const char **prefix, dit_error *err);
#endif

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
    void *hook_mapped; /* block.mapped as the application's allocator gave it, for its free */
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
 * (q, k, v) lies in a row --- */
typedef struct diti_weight_block {
    diti_buffer buffer;
    VkDeviceSize used;
} diti_weight_block;
typedef struct diti_loader {
    diti_device *device; /* NULL: dry run, only shapes and sizes */
    const diti_env *env;
    const diti_checkpoint *checkpoint;
    const char *prefix;                                                          /* in front of every name */
    const char *(*rename)(void *user, const char *name, char *out, size_t size); /* other key namings; NULL: none */
    void *user;
    dit_error error;            /* sticky, like a graph's */
    diti_weight_block **blocks; /* owned; handed to the model by diti_loader_finish */
    size_t block_count, block_capacity;
    diti_buffer staging;
    uint64_t bytes, parameters; /* of everything loaded so far */
    uint64_t total_bytes;       /* for progress: 0 unknown */
    const dit_progress *progress;
} diti_loader;
typedef struct diti_weights { /* the memory behind a component's weights */
    diti_weight_block **blocks;
    size_t block_count;
    uint64_t bytes, parameters;
} diti_weights;
DIT_INTERNAL void diti_loader_begin(diti_loader *loader, diti_device *device, const diti_env *env,
                                    const diti_checkpoint *checkpoint, const char *prefix);
DIT_INTERNAL bool diti_loader_has(diti_loader *loader, const char *name);
/* A matrix in its stored type; shape [rows, columns...] is checked. Convolutions: rows = Cout, columns =
 * Cin*kernel*kernel, shape [Cout, Cin, k, k]. */
DIT_INTERNAL void diti_load_matrix(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   uint32_t kernel, const char *name);
/* Rows [first, first + rows) of a stored matrix whose full shape is [total_rows, columns] (fused qkv of original
 * checkpoints). */
DIT_INTERNAL void diti_load_matrix_rows(diti_loader *loader, diti_weight *out, uint32_t first, uint32_t rows,
                                        uint32_t total_rows, uint32_t columns, const char *name);
/* Any stored float type, converted to F32 on the device; rows x columns values (biases: 1 x N). Absent names are an
 * error. */
DIT_INTERNAL void diti_load_vector(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   const char *name);
/* out = a's rows, then b's: one matrix when they lie side by side in memory and have one type (q, k, v as one GEMM).
 * Same columns. */
DIT_INTERNAL void diti_weight_append(diti_loader *loader, diti_weight *out, const diti_weight *more);
DIT_INTERNAL dit_result diti_loader_finish(diti_loader *loader, diti_weights *out,
                                           dit_error *err); /* on failure frees everything */
DIT_INTERNAL void diti_weights_free(diti_device *device, const diti_env *env, diti_weights *weights);

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
   half first). coefficients: F32 [1, 12] = (x0_x, x0_m, clip, x_x, x_m, d0, d1, d2, noise, guidance, 0, 0). x, h1, h2
   (states like x) are updated in place; x0 is written to `x0` when not 0. health: U32 [1, 4] state; word 0 becomes step
   + 1 when a new latent is not finite for the first time (step read from word 1 = the step state). */
typedef struct diti_solver_desc {
    diti_tensor x, h1, h2, x0, noise, coefficients, health, step;
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

/* rows [pixels, >= 3] -> packed RGBA8 words U32 [1, pixels] in `rgba` (swap: BGRA) and planar F32 [3, pixels] in 0..1
   in `rgb` (models.md 4.1); either may be 0. Non-finite values set word 2 of health. */
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
DIT_INTERNAL dit_result diti_plan_submit(diti_plan *plan, uint32_t segment, uint32_t slice, uint64_t *value,
                                         dit_error *err); /* value of the plan's timeline when it is done */
DIT_INTERNAL void diti_plan_execute(diti_plan *plan, uint32_t segment, uint32_t slice,
                                    VkCommandBuffer commands); /* into the application's command buffer */
DIT_INTERNAL dit_result diti_plan_prepare_secondaries(diti_plan *plan,
                                                      dit_error *err); /* once, before the first diti_plan_execute */
DIT_INTERNAL VkSemaphore diti_plan_timeline(const diti_plan *plan);
DIT_INTERNAL uint64_t diti_plan_submitted(const diti_plan *plan);
DIT_INTERNAL uint32_t diti_plan_last_slice_us(const diti_plan *plan);
DIT_INTERNAL void diti_plan_counters(const diti_plan *plan, dit_counters *out);
/* Submits all slices of segments [first, first + count) once, in order, and waits: tests, encoders, one-off work. */
DIT_INTERNAL dit_result diti_plan_run(diti_plan *plan, uint32_t first, uint32_t count, dit_error *err);
#endif

/* ======== src/sample/sample.h (edit it there; dit.h is generated) ======== */
/* sample: noise, schedules, solvers, guidance. Plain arithmetic, no Vulkan. */
#ifndef DITI_SAMPLE_H
#define DITI_SAMPLE_H

/* --- noise (models.md 10) --- */
typedef struct diti_random { /* torch's CPU generator: mt19937 and its normal transform, the cached value survives between calls */
    uint32_t state[624];
    uint32_t index;
    bool has_cached;
    double cached;
} diti_random;
DIT_INTERNAL void diti_random_seed(diti_random *random, uint64_t seed);
DIT_INTERNAL void diti_random_normal(diti_random *random, float *out, size_t count); /* one torch.randn call */
DIT_INTERNAL void diti_philox_normal(uint64_t seed, uint32_t draw, float *out, size_t count); /* the draw-th torch.randn call on a CUDA device */

/* --- schedules and solvers ---
   Every solver here is linear in what it remembers, so a whole trajectory is a table of coefficients that the device replays:
     x0  = clamp(x0_x * x + x0_m * m, -clip, clip)         m = guided model output, x = latent
     x'  = x_x * x + x_m * m + d0 * x0 + d1 * x0[-1] + d2 * x0[-2] + noise * n
   x0[-1], x0[-2] are the x0 of the one and two steps before; n = fresh unit normal noise (only drawn when any step's noise is not 0). */
typedef struct diti_step {
    float timestep;  /* what the transformer is told */
    float sigma;     /* for reports */
    float input;     /* the model sees input * x (1 but for Euler on variance-preserving sigmas) */
    float x0_x, x0_m, clip; /* clip: infinity when the schedule does not clip */
    float x_x, x_m, d0, d1, d2, noise;
} diti_step;
typedef struct diti_schedule {
    diti_step *steps;
    uint32_t count;
    float initial;   /* latents = noise * initial (init_noise_sigma) */
} diti_schedule;
typedef struct diti_schedule_request {
    uint32_t steps;
    const char *sampler;  /* "euler", "dpm++2m", "ddim"; NULL: what the config's _class_name says */
    const char *schedule; /* NULL: the config's own; else one of dit_schedule_name */
    float shift;          /* 0: the config's own; flow schedules only */
    float eta;            /* DDIM */
    uint32_t image_tokens; /* sequence length, for dynamic shifting (flow_flux_dev_*) */
    const float *sigmas; uint32_t sigma_count; /* explicit sigmas as pipelines pass them (FLUX); NULL: none */
} diti_schedule_request;
/* config: the parsed scheduler_config.json (NULL: defaults of the sampler). Unknown values are refused by name. */
DIT_INTERNAL dit_result diti_schedule_make(const diti_env *env, const diti_json *config, const diti_schedule_request *request, diti_schedule *out, dit_error *err);
DIT_INTERNAL void diti_schedule_free(const diti_env *env, diti_schedule *schedule);
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
