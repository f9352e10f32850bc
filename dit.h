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
#endif /* DIT_IMPLEMENTATION */
