/* vk: loader table, device choice and feature ladder, memory, pipelines, submission. */
#ifndef DITI_VK_H
#define DITI_VK_H
#include "base/base.h"
#include "vk/kernels.h"

/* Every Vulkan function that dit calls, fetched with get_instance_proc_addr; nothing is linked. */
/* clang-format off */
#define DITI_VK_INSTANCE_FUNCTIONS(X) \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceFeatures2) \
    X(GetPhysicalDeviceMemoryProperties2) X(GetPhysicalDeviceQueueFamilyProperties) \
    X(EnumerateDeviceExtensionProperties) X(CreateDevice) X(GetDeviceProcAddr) X(GetPhysicalDeviceImageFormatProperties)
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
    X(CmdBindPipeline) X(CmdBindDescriptorSets) X(CmdPushConstants) X(CmdDispatch) X(CmdDispatchIndirect) X(CmdPipelineBarrier) \
    X(CmdCopyBuffer) X(CmdFillBuffer) X(CmdCopyBufferToImage) X(CmdCopyImageToBuffer) X(CmdExecuteCommands) X(CmdResetQueryPool) \
    X(CmdWriteTimestamp) X(CreateQueryPool) X(DestroyQueryPool) X(GetQueryPoolResults) \
    X(CreateSemaphore) X(DestroySemaphore) X(GetSemaphoreCounterValue) X(WaitSemaphores) X(SignalSemaphore)
/* clang-format on */

/* An entry of both lists of matrix shapes; invocations belongs to the flexible ones. Newer than the least headers. */
typedef struct diti_vk_coop_property {
    VkStructureType type;
    void *next;
    uint32_t m, n, k, a, b, c, result;
    VkBool32 saturating;
    uint32_t scope, invocations;
} diti_vk_coop_property;
typedef VkResult(VKAPI_PTR *diti_vk_coop_list)(VkPhysicalDevice physical, uint32_t *count, diti_vk_coop_property *out);

typedef struct diti_vk_api {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    PFN_vkCreateInstance CreateInstance;
    PFN_vkEnumerateInstanceVersion EnumerateInstanceVersion;
    PFN_vkEnumerateInstanceExtensionProperties EnumerateInstanceExtensionProperties;
#define DITI_VK_MEMBER(name) PFN_vk##name name;
    DITI_VK_INSTANCE_FUNCTIONS(DITI_VK_MEMBER)
    DITI_VK_DEVICE_FUNCTIONS(DITI_VK_MEMBER)
#undef DITI_VK_MEMBER
    diti_vk_coop_list GetCoopProperties, GetFlexibleProperties; /* NULL: the instance knows no such thing */
} diti_vk_api;

/* The ladder (docs/architecture.md 4). Higher rungs follow; everything that asks "which rung" compares with >=. */
typedef enum diti_rung {
    DITI_RUNG_BASE,  /* F32 */
    DITI_RUNG_FP16,  /* F16 activations, F32 arithmetic */
    DITI_RUNG_HALF,  /* F16 products, packed in pairs */
    DITI_RUNG_COOP,  /* VK_KHR_cooperative_matrix */
    DITI_RUNG_COOP2, /* VK_NV_cooperative_matrix2 */
    DITI_RUNG_COUNT
} diti_rung;

/* Kinds of kernels above the base rung. Each has to prove itself on a device (job/selftest.c); without one, the next
   lower kind does its work (ladder.c). */
typedef enum diti_class {
    DITI_CLASS_COOP2,               /* products, on rung coop2 */
    DITI_CLASS_COOP,                /* products on rung coop, and all else with matrices on either rung */
    DITI_CLASS_HALF,                /* gemm_half: rung half, and what fits no matrix above it */
    DITI_CLASS_FP16,                /* all other kernels, with halves in memory */
    DITI_CLASS_COOP_CONV,           /* convolutions on matrices */
    DITI_CLASS_COOP_PAIRS,          /* both, of halves that lie in shared memory as threads hold them */
    DITI_CLASS_COOP_I8,             /* products of int8 rows on matrices */
    DITI_CLASS_COOP_FLOAT8,         /* products of F8 weights and rows of E4M3 on matrices */
    DITI_CLASS_DOT,                 /* products of int8 rows by the integer dot product */
    DITI_CLASS_PACKED_DOT,          /* products of packed weights, as blocks of int8, by the integer dot product */
    DITI_CLASS_BROADCAST,           /* gemm_broadcast, where it takes the place of gemm_half */
    DITI_CLASS_COOP2_ATTENTION,     /* attention_coop2 */
    DITI_CLASS_COOP_ATTENTION,      /* attention_coop with halves; with the one above, that is for heads above 256 */
    DITI_CLASS_HALF_ATTENTION,      /* attention_half */
    DITI_CLASS_BROADCAST_ATTENTION, /* attention_broadcast, where it takes the place of attention_half */
    DITI_CLASS_COOP_ATTENTION_I8,   /* attention_coop with int8 queries and keys */
    DITI_CLASS_DOT_ATTENTION,       /* attention with int8 queries and keys by the integer dot product */
    DITI_CLASSES                    /* none: the base rung, below which there is nothing */
} diti_class;
#define DITI_CLASS_BIT(c) (1u << (c))

/* Optional features of a device. */
enum {
    DITI_FEATURE_TIMELINE,
    DITI_FEATURE_FP16,
    DITI_FEATURE_STORAGE16,
    DITI_FEATURE_DOT,
    DITI_FEATURE_SUBGROUP_SIZE,
    DITI_FEATURE_FULL_SUBGROUPS,
    DITI_FEATURE_MIXED_DOT,    /* sums in F32 of products of pairs of halves */
    DITI_FEATURE_MAINTENANCE4, /* tells how large a buffer may be; SPIR-V 1.6, which VK_NV_cooperative_matrix2 needs,
                                  states sizes of workgroups its way */
    DITI_FEATURE_MEMORY_SCOPE, /* atomics for the whole device, where dit or an application enables the memory model */
    DITI_FEATURE_INT8,         /* from here on: of cooperative matrices */
    DITI_FEATURE_MEMORY_MODEL,
    DITI_FEATURE_COOP,
    DITI_FEATURE_COOP_FLEXIBLE,
    DITI_FEATURE_COOP_REDUCTIONS,
    DITI_FEATURE_COOP_CONVERSIONS,
    DITI_FEATURE_COOP_PER_ELEMENT,
    DITI_FEATURE_BF16,
    DITI_FEATURE_BF16_COOP,
    DITI_FEATURE_FLOAT8,
    DITI_FEATURE_FLOAT8_COOP,
    DITI_FEATURES
};
typedef struct diti_features {
    bool has[DITI_FEATURES];
} diti_features;

/* The properties that tell known faults of drivers apart (quirks.c). */
typedef struct diti_identity {
    uint32_t vendor, device; /* vendorID, deviceID */
    uint32_t driver;         /* a VkDriverId */
    uint32_t version;        /* driverVersion, in the vendor's own form */
    uint32_t type;           /* a VkPhysicalDeviceType */
    uint32_t subgroup, min_subgroup, max_subgroup;
    uint32_t group_subgroups; /* most subgroups of a workgroup */
    bool chooses_subgroup;    /* shaders of compute pipelines may state a size of subgroups */
    bool mixed_dot;           /* the dot product of bytes of mixed signs is fast */
} diti_identity;
enum { DITI_DRIVER_HONEYKRISP = 26 }; /* VK_DRIVER_ID_MESA_HONEYKRISP, which older headers lack */
enum {
    DITI_QUIRK_NO_MATRICES = 1,       /* cooperative matrices are not used, and nothing about them is asked */
    DITI_QUIRK_SMALL_TILES = 2,       /* products on matrices have small tiles */
    DITI_QUIRK_SLOW_HALF = 4,         /* no arithmetic of halves */
    DITI_QUIRK_DOUBTFUL_MATRICES = 8, /* products on matrices have to show that they take less time than others */
    DITI_QUIRK_SCATTERED_SUMS = 16    /* sums of products on matrices begin as products of zeros */
};

/* Sizes of subgroups that gemm_broadcast and attention_broadcast have tiles for. */
enum { DITI_MIN_TEAM = 4, DITI_MAX_TEAM = 32 };

/* The part of a kernel's work that one thread, subgroup or workgroup gets (portions.c). */
typedef struct diti_portions {
    /* without matrices */
    uint32_t team;                    /* threads of a subgroup in products by broadcasts; 0: there are none */
    uint32_t attention_team;          /* threads of a subgroup in attention by broadcasts; 0: there is none */
    uint32_t half_rows, half_columns; /* results of a thread in products of halves, the columns in large ones alone */
    uint32_t half_step;               /* columns of K in a slice of those products, in groups of four */
    uint32_t half_unrolled;           /* groups of half_step that are written out; the rest is a loop */
    bool half_scalar;                 /* a sum of halves has eight products one by one, not pairs of a slice */
    bool half_apart;                  /* vectors of halves are loaded one at a time (APART in shaders/common.glsl) */
    uint32_t float_rows;              /* results of a thread in products of floats */
    uint32_t float_columns, dot_columns; /* columns of those results in large products; of int8 products' */
    bool packed_dot;                    /* packed weights are multiplied as blocks of int8 by the integer dot product */
    uint32_t dot_team;                  /* threads of a subgroup in those products by broadcasts; 0: there are none */
    uint32_t block_rows, block_columns; /* results of a thread in those products; the rows in other ones of int8, too */
    uint32_t block_teams;               /* such subgroups side by side */
    uint32_t half_quads, quads; /* groups of four channels of a head that a thread has the outputs of 4 queries of,
                                   with halves and without: of more channels there are more threads; 0: any */
    uint32_t row_quads; /* groups of four channels up to which a thread in attention of halves has the outputs of 8
                           queries, where there are at least 512; 0: it never has */
    uint32_t attention_threads; /* most threads of a workgroup in attention without matrices */
    /* Kernels on matrices read the members below. */
    uint32_t part_rows, part_columns; /* results of a subgroup in products; below 64 that is all that it gets */
    uint32_t step, conv_step; /* columns of K in a slice, in units of 16 bytes: in products, in convolutions, which do
                                 without matrices where that is 0 */
    uint32_t conv_edge;       /* most rows and columns of a tile in convolutions, where a subgroup has parts below 64 */
    uint32_t tall_step; /* as step, in products whose tiles are twice as high, since these fill the device even then; 0:
                           there are none */
    bool ahead;         /* products load the first slice before the loop over slices, which then has no conditions */
    bool late;          /* the loop over slices asks at its end whether it goes on, not at its beginning */
    uint32_t queries;   /* least of a subgroup in attention */
    uint32_t channels;  /* channels of a head, most of a subgroup: more are shared by 2, 4 or 8 of them;
                           0: attention_coop.comp is not used */
    bool int8;          /* attention_coop.comp may have int8 queries and keys */
    uint32_t pair_alone, pair_two, pair_channels; /* channels of a subgroup with twice the queries, so that every matrix
                                                     of keys and values serves two products: where it has these queries
                                                     alone, where two have them, where four or eight have them */
    uint32_t pair_heads;                          /* heads up to which subgroups have twice the queries */
    uint32_t column_channels; /* as channels, where a thread has whole columns of matrices (attention_columns.comp); 0:
                                 such attention is not used */
    uint32_t column_sums, column_threads; /* channels and keys of a tile that such a thread has the sums of, and threads
                                             of a workgroup: at most */
    uint32_t turned, apart; /* channels of a subgroup up to which attention_coop.comp keeps values in shared memory
                               channel by channel, and up to which, where subgroups share queries, it sums a tile's
                               outputs apart from those before; 0: it never does */
    uint32_t unrolled;      /* queries times channels up to which all scores of a tile are written out */
    uint32_t registers;     /* registers that a thread of attention wants; 0: does not matter to the workgroup's size */
} diti_portions;

/* How a subgroup's threads hold matrices of halves, as far as kernels can use it
   (shaders/coop_layout.comp). Not 0: a thread holds the same elements of a matrix of sums and of a first operand, for
   attention_direct.comp: bits of a thread's number that choose a column and, from bit 8 on, those of an element's. */
#define DITI_LAYOUT_DIRECT 0xffffu
/* A bit: a thread has a column of a matrix of sums, for attention_columns.comp. */
#define DITI_LAYOUT_COLUMNS 0x10000u
/* A bit: a thread has pairs of neighbours in rows of a first operand, one below the other, so that
   attention_columns.comp and gemm_coop.comp load 16 bytes of it at a time. */
#define DITI_LAYOUT_PAIRS 0x20000u

/* The cooperative matrices that kernels may use: what is enabled, exists with the types that dit computes with, and is
   not known to be broken. A shape with m 0: there is none. */
typedef struct diti_coop_shape {
    uint32_t m, n, k;
} diti_coop_shape;
/* Elements of matrices; sums are F32, those of S8 S32. E4M3_E5M2: of the first operand, of the second. */
enum { DITI_COOP_F16, DITI_COOP_S8, DITI_COOP_BF16, DITI_COOP_E4M3, DITI_COOP_E4M3_E5M2, DITI_COOP_TYPES };
typedef struct diti_coop {
    uint32_t subgroup;     /* the size of subgroups in every pipeline with such matrices; 0: there are none */
    bool chooses_subgroup; /* pipelines have to state that size; false: subgroups have no other */
    const char *ban;       /* why there are no matrices although the device lists some; NULL: no reason is known */
    diti_coop_shape subgroup_shape[DITI_COOP_TYPES]; /* VK_KHR_cooperative_matrix */
    diti_coop_shape flexible[DITI_COOP_TYPES]; /* VK_NV_cooperative_matrix2: all multiples of a shape, in a subgroup */
    bool reductions, conversions, per_element; /* features of VK_NV_cooperative_matrix2 */
} diti_coop;

/* The limits that a plan must respect: the device's own limits, lowered by overrides in tests. */
typedef struct diti_limits {
    VkDeviceSize storage_range;     /* maxStorageBufferRange */
    VkDeviceSize allocation;        /* largest single VkDeviceMemory, and so the largest tensor */
    VkDeviceSize block;             /* memory that many tensors share is allocated in pieces of at most this: 1 GiB */
    VkDeviceSize band;              /* most bytes between two layers; more are computed in bands of rows */
    VkDeviceSize storage_alignment; /* minStorageBufferOffsetAlignment */
    uint32_t group_count;           /* maxComputeWorkGroupCount[0] */
    uint32_t group_invocations;     /* maxComputeWorkGroupInvocations */
    uint32_t narrow_invocations;    /* most of a workgroup whose subgroups may be the smallest that the driver has */
    uint32_t shared_bytes;          /* maxComputeSharedMemorySize */
    uint32_t subgroup_size;
    uint32_t cores;         /* multiprocessors, compute units: told by the vendor's extension, else guessed */
    bool cores_told;        /* cores is not guessed */
    uint32_t registers;     /* registers of a SIMD unit for each lane of its waves, AMD alone; 0: not told */
    float timestamp_period; /* ns per tick; 0 when the queue has no timestamps */
    uint32_t timestamp_bits;
} diti_limits;

/* Every kernel uses this one interface, so one layout serves all pipelines: */
#define DITI_MAX_BINDINGS 8u   /* storage buffers 0..7 of set 0 */
#define DITI_PUSH_WORDS 32u    /* 128 bytes; word 0 is always the first workgroup of this slice on x */
#define DITI_MAX_CONSTANTS 24u /* specialization constants with ids 0..23, all uint32 */
/* Constants 0 to COUNT - 1, a bit for each. A constant that is not stated has the value that the module gives it. */
#define DITI_STATED(COUNT) ((1u << (COUNT)) - 1u)

#define DITI_CONSTANT_FORMAT 1u /* format of the operands, in modules with matrices */
#define DITI_FORMAT_I8 3u       /* one of those: int8 */
#define DITI_CONSTANT_TEAM 12u  /* size of the subgroups of gemm_broadcast and attention_broadcast */
#define DITI_CONSTANT_HALF 16u  /* whether gemm_gpu's module is gemm_half, see diti_spirv_variant */
#define DITI_CONSTANT_KIND 21u  /* a diti_matrix_kind: what float16 of matrices becomes */
#define DITI_CONSTANT_LOOP 22u  /* bits for gemm_coop's loop over slices: */
#define DITI_LOOP_AHEAD 1u      /* the loop has no conditions */
#define DITI_LOOP_SCATTERED 2u  /* DITI_QUIRK_SCATTERED_SUMS */
#define DITI_LOOP_LATE 4u       /* the loop asks at its end whether it goes on */
#define DITI_LOOP_PAIRED 8u     /* DITI_LAYOUT_PAIRS */
/* Every pipeline gets two more: */
#define DITI_CONSTANT_THREADS DITI_MAX_CONSTANTS       /* the workgroup's size again, to size arrays by */
#define DITI_CONSTANT_ROUNDS (DITI_MAX_CONSTANTS + 1u) /* whether modules that compute with F16 may say how */

/* Elements that stand in matrices in place of float16, in gemm_coop. */
typedef enum diti_matrix_kind {
    DITI_MATRIX_HALF,
    DITI_MATRIX_BRAIN, /* bfloat16 */
    DITI_MATRIX_E4M3,  /* both operands are rows of bytes */
    DITI_MATRIX_E5M2,  /* the second operand is; the first one is E4M3 */
    /* those two once more, whose bytes become halves when they are loaded: what other devices have for tests */
    DITI_MATRIX_E4M3_HALVES,
    DITI_MATRIX_E5M2_HALVES
} diti_matrix_kind;

typedef struct diti_pipeline {
    diti_kernel kernel;
    uint32_t constants[DITI_MAX_CONSTANTS];
    uint32_t stated; /* bit i: constants[i] is; the others are 0 */
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
    const void *next;             /* chain of the VkMemoryAllocateInfo, where the memory is not a hook's */
    uint32_t memory_type;         /* index of its type, likewise */
    VkDeviceSize charged, pinned; /* counted in memory_used, in host_used */
    void *hook_mapped;            /* block.mapped as the application's allocator gave it, for its free */
} diti_buffer;

/* --- traces: what happened when, for dit_trace_write. One for a context; every device points to it, NULL: none is
   kept. Times are nanoseconds since the trace began. --- */
typedef enum diti_trace_track { /* rows of the picture that a viewer draws; those from GPU on belong to a device */
                                DITI_TRACK_APPLICATION,
                                DITI_TRACK_LOAD,
                                DITI_TRACK_PLAN,
                                DITI_TRACK_RECORD,
                                DITI_TRACK_SUBMIT,
                                DITI_TRACK_WAIT,
                                DITI_TRACK_COPY, /* between host and device */
                                DITI_TRACK_PEER, /* between devices */
                                DITI_TRACK_GPU,
                                DITI_TRACK_GPU_APPLICATION, /* slices that ranges of the application enclose */
                                DITI_TRACKS
} diti_trace_track;
typedef enum diti_trace_kind {
    DITI_TRACE_SPAN,    /* name or text, and bytes where there are any */
    DITI_TRACE_MARK,    /* text, at begin_ns */
    DITI_TRACE_RANGE,   /* text: a range of the application on a device; busy_ns of slices, their number */
    DITI_TRACE_SLICE,   /* a command buffer: how many dispatches, and what was predicted */
    DITI_TRACE_PRODUCT, /* dispatches: by what their shape means */
    DITI_TRACE_CONVOLUTION,
    DITI_TRACE_ATTENTION,
    DITI_TRACE_MEMORY
} diti_trace_kind;
typedef struct diti_trace_event {
    const char *name; /* static text; NULL: text is the name */
    uint64_t begin_ns, end_ns;
    double flops, bytes;                /* work of this part of the dispatch */
    uint64_t busy_ns;                   /* ranges; slices: what was predicted */
    uint32_t shape[5];                  /* M, N, K, kernel; queries, keys, heads, head_dim, batch; rows, columns */
    uint32_t count;                     /* number of dispatches or slices */
    uint32_t plan, step;                /* number of the plan in the context; times its segment has run */
    uint32_t slice;                     /* in its segment */
    uint32_t first, groups, all_groups; /* workgroups of this part, and of the whole dispatch */
    uint8_t kind, lane, row, device;
    char segment[16];
    char text[64]; /* the application's name; the tensor that a dispatch is about; a longer one is cut */
} diti_trace_event;
#define DITI_TRACE_CHUNK 512u
#define DITI_TRACE_EVENTS 262144u /* most that are kept */
typedef struct diti_trace_chunk {
    struct diti_trace_chunk *next;
    uint32_t count;
    diti_trace_event events[DITI_TRACE_CHUNK];
} diti_trace_chunk;
typedef struct diti_trace_range {   /* a range of the application, until its end and that of the slices in it */
    uint64_t id;                    /* 0: free */
    uint64_t begin_ns, first, last; /* submissions inside are first to last, once it is closed */
    uint64_t finished, device_begin_ns, device_end_ns, busy_ns;
    uint32_t slices; /* slices whose times are known */
    uint8_t row, device;
    bool open;
    char text[64];
} diti_trace_range;
#define DITI_TRACE_RANGES 64u
#define DITI_TRACE_ROWS 64u /* things of one lane that may go on at once: each has a row of its own */
typedef struct diti_trace {
    diti_env env;
    bool light;        /* the application's marks and ranges, and copies */
    uint32_t limit;    /* most events */
    uint64_t start_us; /* diti_clock_us at the start */
    int lock;          /* guards all that follows; no hook is called under it */
    uint64_t last_ns;  /* the clock may be set back, the trace's stands still then */
    diti_trace_chunk *first, *last;
    uint32_t count; /* events in the chunks */
    uint64_t dropped;
    uint64_t rows[DITI_TRACKS]; /* a bit for each row in use now */
    diti_trace_range ranges[DITI_TRACE_RANGES];
    uint64_t range_count, submitted; /* ranges and submissions so far */
    uint32_t plans;
} diti_trace;
typedef struct diti_trace_clock { /* how a device's timestamps relate to the trace's time */
    uint64_t ticks, ns;           /* one moment by both clocks */
    uint64_t accuracy_ns;         /* the moment may lie as much before or after */
} diti_trace_clock;

/* Something that the host does. Costs a comparison where there is no trace or the trace leaves that lane out. */
typedef struct diti_trace_scope {
    diti_trace *trace; /* NULL: nothing to record */
    const char *name;
    uint64_t begin_ns;
    uint8_t lane, row;
} diti_trace_scope;

/* How long a device takes for what: guessed, remembered by the cache blob, or measured (graph/calibrate.c). */
typedef struct diti_speed {
    float launch_us;       /* a dispatch that computes nothing, with its barrier */
    float us_per_gflop;    /* 10^9 operations of products that fill the device, on the rung in use */
    float us_per_gigabyte; /* 10^9 bytes of memory that an op reads or writes */
} diti_speed;

#define DITI_MAX_DEVICES 16u /* most devices of a context */

/* How two devices can have memory in common (peer.c). */
typedef enum diti_memory_sharing {
    DITI_SHARING_FD,       /* one driver's opaque file descriptor */
    DITI_SHARING_DMA_BUF,  /* the system's */
    DITI_SHARING_HOST,     /* pages of the host */
    DITI_SHARING_TIMELINE, /* no memory: timelines, by one driver's opaque file descriptor */
    DITI_SHARINGS,
    DITI_SHARING_GROUP = DITI_SHARINGS /* another member's memory in a device group: needs no extension */
} diti_memory_sharing;

typedef struct diti_tuned { /* an entry of the cache blob, in its layout */
    uint64_t shapes;        /* hash of a class of shapes, with rung and kernel */
    uint32_t choice, reserved;
} diti_tuned;
#define DITI_TUNE_CANDIDATES 3u
#define DITI_TUNED_MAX 4096u
#define DITI_TUNED_MOST 0x3ffffu /* largest choice: a coop_layout, of 18 bits */

/* Modules that fold.c specializes; the override `fold` is one of these numbers. */
typedef enum diti_folding {
    DITI_FOLDING_NONE,
    DITI_FOLDING_ALL,
    DITI_FOLDING_WITHOUT_PRODUCTS /* all but matrix products and attention */
} diti_folding;

typedef struct diti_device {
    diti_env env;
    diti_vk_api vk;
    void *library; /* handle of dlopen, when dit opened the loader */
    bool owns_instance, owns_device;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t queue_family;
    uint64_t families;      /* queue families of the application's device: a bit for each that has queues */
    VkQueue transfer_queue; /* for copies beside computing; NULL: none */
    uint32_t transfer_family;
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    void *lock_user;
    const VkAllocationCallbacks *callbacks;
    dit_device_allocator allocator;
    dit_device_info info;
    diti_limits limits;
    const diti_portions *portions;
    VkPhysicalDeviceMemoryProperties memory;
    VkDeviceSize heap;                 /* bytes of the largest device local heap */
    uint32_t ordinal;                  /* number of this device in its context, for the allocator hook */
    bool has_peers;                    /* the context has more devices */
    bool shares_instance;              /* the instance is the first device's */
    bool joined;                       /* the VkDevice is another member's of the device group (group.c) */
    uint32_t group_index, group_count; /* 0: in no group of several, or groups are off */
    VkPhysicalDevice group[DITI_MAX_DEVICES];
    struct diti_device *first; /* first of the context's devices; NULL: this one */
    uint8_t driver_uuid[16];
    bool shares[DITI_SHARINGS]; /* ways to have memory in common with another device that are enabled */
    bool exports;               /* the extension by which memory leaves the device (DITI_EXPORT) is enabled */
    bool unified;               /* every heap is device local: host buffers count against memory_limit too */
    bool maps_device_memory;    /* DITI_MEMORY_DEVICE buffers may be mapped; the override mapped=0 forbids it */
    bool is_cpu;                /* a software driver: gets its own tile choices */
    bool software;              /* a software driver, whatever an override makes of is_cpu */
    bool has_dot;               /* shaderIntegerDotProduct is enabled */
    bool dot;                   /* the integer dot product is used, after overrides and the self-test */
    bool packed_dot;            /* packed weights may be multiplied as blocks of int8 by it (diti_device_packs) */
    bool packed_dot_forced;     /* an override: on every rung */
    bool unguarded;             /* test override: nothing is done again because fp16 overflowed */
    bool has_fp16;              /* shaderFloat16 and 16-bit storage are enabled */
    bool rounds_halves;         /* modules may say how F16 is rounded (shaderRoundingModeRTEFloat16) */
    bool keeps_infinity;        /* modules may say that sums overflow (shaderSignedZeroInfNanPreserveFloat16 and 32) */
    diti_folding folding;       /* modules that are specialized before the driver gets them */
    uint32_t team;              /* threads of a subgroup in gemm_broadcast, after the self-test; 0: it is not used */
    uint32_t attention_team;    /* threads of a subgroup in attention_broadcast */
    uint32_t dot_team;          /* threads of a subgroup in gemm_dot_broadcast */
    bool states_team;           /* pipelines of them state that size: other subgroups may have another one */
    bool broadcasts;            /* threads of compute shaders can read what another one of their subgroup has */
    bool int4_activations;      /* rotated activations have the values -7 to 7: an override */
    bool decodes;               /* products of few rows decode packed weights themselves, unless overridden */
    bool half_products;         /* gemm_half is used where no matrix fits, after the self-test */
    bool coop_convolutions;     /* convolutions use matrices, after the self-test */
    bool coop_pairs;            /* products and convolutions may use DITI_LAYOUT_PAIRS, after the self-test */
    bool small_tiles;           /* products on matrices have small tiles: a quirk */
    bool scattered_sums;        /* sums of products on matrices begin as products of zeros: a quirk */
    bool doubts_matrices;       /* matrices are left unless products on them take less time: a quirk */
    uint32_t coop_float8;       /* override, after the self-test: 1: products of F8 weights are on such matrices, 2: on
                                   those of halves; 0: such weights are expanded */
    bool coop_i8;               /* products of int8 rows use coop, after overrides and the self-test */
    uint32_t coop_attention; /* matrices in attention: 2: in registers (attention_coop2.comp), 1: through shared memory
                                (attention_coop.comp), 0: without such matrices */
    bool coop_attention_khr; /* attention_coop.comp proved itself: for heads that 2 does not take, too */
    bool khr_is_faster[2]; /* attention_coop.comp took less time than attention_coop2.comp: with narrow heads, with wide
                              ones (diti_attention_is_wide) */
    uint32_t coop_layout;  /* how matrices lie in threads: DITI_LAYOUT_…; 0: otherwise, or nobody has looked */
    bool coop_attention_i8; /* attention_coop.comp may have queries and keys of int8 */
    bool half_attention;    /* without matrices, attention_half.comp, after the self-test */
    bool dot_attention;     /* int8 queries and keys by the integer dot product, after the self-test */
    bool unverified;        /* override: also what has never run on any driver that dit was tested with */
    uint32_t api_version;   /* version of Vulkan that both the device and its instance have */
    diti_features features; /* enabled */
    diti_coop coop;
    bool has_memory_budget, has_portability_subset;
    bool validated; /* a validation layer watches: what it cannot see to be right is ordered by barriers */
    diti_rung rung; /* the rung in use, after overrides and the self-test */
    uint32_t max_slice_us;
    bool slices_by_budget;     /* the application set no max_slice_us: dit_job_record takes its budget in its place */
    uint32_t frames_in_flight; /* calls of dit_job_record whose commands may be pending */
    bool stamps_frames;        /* timestamps in the application's commands can be believed */
    VkDeviceSize memory_limit, memory_used; /* bytes of dit's own allocations; used only under the lock */
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout pipeline_layout;
    VkPipelineCache pipeline_cache;
    bool owns_pipeline_cache;
    diti_pipeline **pipelines;
    size_t pipeline_count, pipeline_capacity;
    diti_tuned *tuned; /* under the lock */
    size_t tuned_count, tuned_capacity;
    uint32_t dropped;   /* DITI_CLASS_BIT of classes that the device does without, named in info.rung */
    uint64_t proof_key; /* key of device, driver, build and overrides, for diti_proof_find */
    bool tune;          /* measure what is not known */
    uint32_t candidate; /* test override: 1 + the candidate that all ops take; 0: none */
    uint64_t pipelines_compiled, allocations; /* counters */
    int lock;                                 /* spin lock: pipelines, memory accounting, the staging slot */
    int queue_lock;                           /* spin lock around the queue when the application gave no lock_queue */
    diti_buffer staging;                      /* a slot: whoever copies takes it out and puts it back */
    VkDeviceSize staging_slot, staging_bytes; /* bytes of that slot; most of a buffer of streams and of loading */
    VkDeviceSize host_budget, host_used; /* test override, 0: none; bytes of buffers for the host, under the lock */
    int stages;                          /* atomic: device memory was not mapped, so that the slot is needed */
    int lost;                            /* latched: nothing is submitted any more */
    int stalled, asked;                  /* keep.c's; atomic */
    bool instance_stays, device_stays;   /* another one that has the same instance, or VkDevice, keeps */
    VkSemaphore answers[2];              /* semaphores of the queue and the transfer queue */
    struct diti_kept *kept, *kept_last;  /* a list, under the lock */
    uint64_t patience_us;                /* a device that finishes nothing for so long is lost */
    uint32_t fail_submit_after;          /* test override: the n-th submit reports device lost; 0: never */
    uint32_t fail_pipeline_after, pipelines_tried; /* test override: the n-th pipeline fails */
    char fail_pipeline[48];                        /* test override: pipelines of this module fail */
    uint64_t submits, transfer_submits;            /* submissions to both queues; to transfer_queue */
    diti_speed speed;                              /* a careful guess until it is calibrated */
    bool calibrated;           /* diti_device_measure has found speed, now or when the cache blob was made */
    diti_rung calibrated_rung; /* rung on which speed was measured */
    diti_speed feigned;        /* test override: slices are said to take so long, whatever they take; all 0: none */
    diti_trace *trace;         /* the context's; NULL: none */
    diti_trace_clock clock;
    const struct diti_observer *observer; /* sees what linear layers read; NULL: nobody does */
    struct diti_wanted *wanted; /* this is a copy of a device, which runs nothing: the pipelines that its self-tests
                                   want; NULL: a device */
} diti_device;

#define DITI_QUEUE_FAMILIES 64u /* more than any device has */
/* Their number. */
DIT_INTERNAL uint32_t diti_queue_families(const diti_vk_api *vk, VkPhysicalDevice physical,
                                          VkQueueFamilyProperties out[DITI_QUEUE_FAMILIES]);

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
typedef struct diti_feature_node { /* every structure of features: a header and a row of bits */
    VkStructureType type;
    void *next;
    VkBool32 bits[8];
} diti_feature_node;
typedef struct diti_feature_chain {
    diti_feature_node nodes[DITI_FEATURES];
    const char *extensions[DITI_FEATURES];
    uint32_t count, extension_count;
} diti_feature_chain;
DIT_INTERNAL dit_result diti_features_supported(const diti_env *env, const diti_vk_api *vk, VkPhysicalDevice physical,
                                                diti_features *out, dit_error *err);
/* Leaves out what no hardware has proved yet, but where overrides ask for it: unverified=1, float8=1. */
DIT_INTERNAL void diti_features_proved(diti_features *f, const char *overrides);
DIT_INTERNAL void diti_features_enabled(const VkDeviceCreateInfo *info, diti_features *out);
DIT_INTERNAL dit_result diti_device_cores(const diti_device *device, diti_limits *out, dit_error *err);
DIT_INTERNAL void diti_features_useful(diti_features *features); /* drops what is of no use without what is missing */
/* The structures and extensions that switch wanted on; chain must stay where it is. */
DIT_INTERNAL void diti_features_chain(const diti_features *wanted, diti_feature_chain *chain);
/* Sets the bits of wanted that stand in a structure of that type; false when none does. structure: NULL only asks. */
DIT_INTERNAL bool diti_features_set(const diti_features *wanted, VkStructureType type, void *structure);
DIT_INTERNAL void diti_features_get(const VkBaseInStructure *structure, diti_features *out); /* adds to out */
DIT_INTERNAL bool diti_feature_is_in(uint32_t feature, VkStructureType type);
/* The size of the index-th structure that has bits of dit's; 0: there is no such structure. */
DIT_INTERNAL size_t diti_feature_structure_size(uint32_t index, VkStructureType *type);
/* The quirks of wanted that a device has, from the table alone; why: of the first one, or NULL. */
DIT_INTERNAL uint32_t diti_quirks(const diti_identity *id, uint32_t wanted, const char **why);
/* Finds the portions of such a device; or those of line `wanted` of the table, where there is such a line. */
DIT_INTERNAL const diti_portions *diti_portions_of(const diti_identity *id, uint64_t wanted);
DIT_INTERNAL void diti_identify(const diti_vk_api *vk, VkPhysicalDevice physical, diti_identity *out);
/* Asks the driver for its matrices: only for a device that is being opened, since some drivers crash. quirks: the table
   counts. */
DIT_INTERNAL dit_result diti_coop_find(const diti_env *env, const diti_vk_api *vk, VkPhysicalDevice physical,
                                       const diti_features *features, bool quirks, diti_coop *out, dit_error *err);
/* Leaves matrices out, or takes other subgroups for them, as overrides say. */
DIT_INTERNAL void diti_coop_override(const diti_vk_api *vk, VkPhysicalDevice physical, const char *overrides,
                                     diti_coop *coop);
DIT_INTERNAL diti_rung diti_rung_highest(const diti_features *features, const diti_coop *coop, uint32_t quirks);
typedef struct diti_candidate { /* a physical device, seen from dit */
    VkPhysicalDevice physical;
    dit_device_info info;
    uint32_t queue_family; /* the first with COMPUTE */
    uint8_t driver_uuid[16];
    char reason[160]; /* why dit cannot use the device; empty: dit can */
} diti_candidate;
/* All physical devices in Vulkan's order; freed with diti_free. */
DIT_INTERNAL dit_result diti_candidates_list(const diti_env *env, const diti_vk_api *vk, VkInstance instance,
                                             diti_candidate **out, uint32_t *count, dit_error *err);
DIT_INTERNAL dit_result diti_candidate_fill(const diti_env *env, const diti_vk_api *vk, VkPhysicalDevice physical,
                                            diti_candidate *out, dit_error *err);
/* The candidate that choice names; NULL with an error that lists what there is. */
DIT_INTERNAL const diti_candidate *diti_candidate_choose(const diti_candidate *list, uint32_t count, const char *choice,
                                                         dit_error *err);
DIT_INTERNAL void diti_memory_find(diti_device *device); /* heaps and types */
DIT_INTERNAL void diti_memory_init(diti_device *device, VkDeviceSize limit);
/* diti_limits.allocation of a device that states these limits. buffer: maxBufferSize, 0: unknown. */
DIT_INTERNAL VkDeviceSize diti_memory_largest(VkDeviceSize allocation, VkDeviceSize buffer, VkDeviceSize heap);
/* The bytes that dit may allocate of so many free ones. */
DIT_INTERNAL VkDeviceSize diti_memory_share(VkDeviceSize available);
DIT_INTERNAL void diti_staging_free(diti_device *device);
DIT_INTERNAL dit_result diti_layouts_create(diti_device *device, dit_error *err);
DIT_INTERNAL dit_result diti_cache_load(diti_device *device, const void *blob, size_t size, dit_error *err);
DIT_INTERNAL void diti_pipelines_free(diti_device *device);
/* false: never measured. The choice may be any number that a cache blob held. */
DIT_INTERNAL bool diti_tuned_find(diti_device *device, uint64_t shapes, uint32_t *choice);
/* In place of an earlier one; false: there is no memory for it. Entries beyond the room are left out. */
DIT_INTERNAL bool diti_tuned_put(diti_device *device, uint64_t shapes, uint32_t choice);
DIT_INTERNAL void diti_tuned_add(diti_device *device, uint64_t shapes, uint32_t choice); /* an earlier one stays */
/* DIT_ERROR_DEVICE_LOST once the device is lost: calls that need not ask the driver ask here. */
DIT_INTERNAL dit_result diti_device_check(diti_device *device, dit_error *err);
/* result, with the device in the error that was just made. */
DIT_INTERNAL dit_result diti_device_blame(const diti_device *device, dit_result result, dit_error *err);
/* Fills err for a failed Vulkan call and latches device loss. */
DIT_INTERNAL dit_result diti_device_fail(diti_device *device, VkResult vr, const char *call, dit_error *err);
DIT_INTERNAL void diti_queue_idle(diti_device *device);
/* Before semaphores are destroyed that submissions have waited for: Mesa's software drivers touch those once more after
   the submissions have signalled theirs, when the host may already go on. On other drivers nothing. */
DIT_INTERNAL void diti_queue_rest(diti_device *device);
DIT_INTERNAL void diti_queue_lock(diti_device *device);
DIT_INTERNAL void diti_queue_unlock(diti_device *device);

/* --- what a slow device may still use (keep.c). These destroy an object, or keep it for later while the device does
   not answer; VK_NULL_HANDLE is fine. --- */
#define DITI_KEPT_OBJECTS(X)                                                                                           \
    X(Buffer)                                                                                                          \
    X(Image)                                                                                                           \
    X(ImageView)                                                                                                       \
    X(Pipeline)                                                                                                        \
    X(PipelineLayout)                                                                                                  \
    X(PipelineCache)                                                                                                   \
    X(DescriptorSetLayout)                                                                                             \
    X(DescriptorPool)                                                                                                  \
    X(CommandPool)                                                                                                     \
    X(QueryPool)                                                                                                       \
    X(Semaphore)
typedef struct diti_kept diti_kept;
#define DITI_KEPT_DECLARATION(name) DIT_INTERNAL void diti_destroy_##name(diti_device *device, Vk##name object);
DITI_KEPT_OBJECTS(DITI_KEPT_DECLARATION)
#undef DITI_KEPT_DECLARATION
DIT_INTERNAL void diti_destroy_memory(diti_device *device, VkDeviceMemory memory); /* freeing unmaps */
DIT_INTERNAL void diti_destroy_block(diti_device *device, const dit_block *block); /* for the application's allocator */
DIT_INTERNAL void diti_destroy_pages(diti_device *a, diti_device *b, void *pages); /* for the host's, used by both */
DIT_INTERNAL void diti_keep_begin(diti_device *device);                            /* the device is given up */
DIT_INTERNAL bool diti_device_keeps(diti_device *device); /* false: the device never was given up, or has answered */
/* Before the device is destroyed, when all else is. true: it does not answer and must stay, its instance and its
   driver, too. */
DIT_INTERNAL bool diti_keep_end(diti_device *device);

/* --- atomics (C99 has none) --- */
DIT_INTERNAL int diti_atomic_load(const int *value);
DIT_INTERNAL void diti_atomic_store(int *value, int to);
DIT_INTERNAL void diti_lock(int *lock);
DIT_INTERNAL void diti_unlock(int *lock);

/* --- devices --- */
/* Which of a context's devices is meant. */
typedef struct diti_device_place {
    uint32_t ordinal, count;
    uint32_t dropped;         /* DITI_CLASS_BIT of classes that it is opened without: they lost the device before */
    const diti_device *first; /* device whose instance others use where both are dit's own; NULL: this one */
} diti_device_place;
/* Opens the device that desc names (index, part of the name, "uuid:..."; NULL: the best) or wraps the application's.
   place: of several. */
DIT_INTERNAL dit_result diti_device_open(const dit_context_desc *desc, const diti_env *env, diti_device **out,
                                         dit_error *err);
DIT_INTERNAL dit_result diti_device_open_beside(const dit_context_desc *desc, const diti_env *env,
                                                const diti_device_place *place, diti_device **out, dit_error *err);
DIT_INTERNAL void diti_device_close(diti_device *device);
DIT_INTERNAL const char *diti_rung_name(diti_rung rung);

/* --- classes of kernels --- */
DIT_INTERNAL const char *diti_class_name(diti_class which); /* "coop_attention" */
/* Packed weights are multiplied as blocks of int8: where products have no matrices, and activations are F16 anyway. */
DIT_INTERNAL bool diti_device_packs(const diti_device *device);
/* int8 queries and keys go by the integer dot product: where attention_coop.comp is not used. */
DIT_INTERNAL bool diti_device_dots_attention(const diti_device *device);
DIT_INTERNAL bool diti_class_is_used(const diti_device *device, diti_class which);
/* From now on the device does without it. Plans that exist keep what they have. */
DIT_INTERNAL void diti_class_drop(diti_device *device, diti_class which);
/* Names the rung in use in device->info, and the classes that the device does without (of DITI_CLASS_BIT). */
DIT_INTERNAL void diti_class_describe(diti_device *device, uint32_t dropped);
typedef enum diti_proof { DITI_PROOF_UNKNOWN, DITI_PROOF_GOOD, DITI_PROOF_BAD } diti_proof;
/* The result that is known of a class (DITI_CLASSES: the base rung) on this device with this driver; kept in the cache
 * blob. */
DIT_INTERNAL uint64_t diti_proof_key(const diti_device *device, diti_class which);
DIT_INTERNAL diti_proof diti_proof_find(diti_device *device, diti_class which);
DIT_INTERNAL bool diti_proof_put(diti_device *device, diti_class which, diti_proof proof); /* false: no memory */
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
/* DITI_MEMORY_DEVICE that the transfer queue writes, too. */
DIT_INTERNAL dit_result diti_buffer_create_shared(diti_device *device, VkDeviceSize size, const char *what,
                                                  diti_buffer *out, dit_error *err);
/* Memory of the host whose size cannot be chosen, DITI_MEMORY_UPLOAD or READBACK: refused where it is more than the
   budget of its heap leaves. instead: for the message, what needs less. */
DIT_INTERNAL dit_result diti_buffer_create_pinned(diti_device *device, VkDeviceSize size, diti_memory_kind kind,
                                                  const char *what, const char *instead, diti_buffer *out,
                                                  dit_error *err);
/* Memory for anything else (images): fills all of out (zeroed) but buffer and size; the caller binds it. */
#if defined(_WIN32)
#define DITI_EXPORT "VK_KHR_external_memory_win32"
#else
#define DITI_EXPORT "VK_KHR_external_memory_fd"
#endif
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

/* The bytes that VK_EXT_memory_budget leaves for uploads; UINT64_MAX: nobody knows. */
DIT_INTERNAL VkDeviceSize diti_memory_host_room(diti_device *device);
/* The best memory type of those in bits; false when none is left. */
DIT_INTERNAL bool diti_memory_type(const diti_device *device, uint32_t bits, diti_memory_kind kind, uint32_t *out);

DIT_INTERNAL const char *diti_share_extension(uint32_t share); /* the one that this sharing needs */

/* --- device groups (group.c) --- */
#define DITI_GROUP_COMMANDS 8u /* in one submission */
/* Looks for a group of several devices; fills group_index, group_count and group. */
DIT_INTERNAL void diti_device_group_find(diti_device *device);
/* Uses the VkDevice of a member of the same group; false: it is in none, or another one. */
DIT_INTERNAL bool diti_device_group_join(diti_device *device, diti_device *leader);
/* Makes the pNext of VkMemoryAllocateInfo, so that memory is on this device alone. */
DIT_INTERNAL const void *diti_device_group_mask(const diti_device *device, VkMemoryAllocateFlagsInfo *info,
                                                const void *next);
/* vkQueueSubmit to this device alone. */
DIT_INTERNAL VkResult diti_device_group_submit(const diti_device *device, VkQueue queue, const VkSubmitInfo *info);
DIT_INTERNAL bool diti_device_group_reaches(const diti_device *from,
                                            const diti_device *to); /* copies may write there */
/* To all members the buffer is memory that lies on home. */
DIT_INTERNAL dit_result diti_device_group_bind(diti_device *device, const diti_buffer *buffer, const diti_device *home,
                                               VkDeviceMemory memory, dit_error *err);

/* --- memory in common (peer.c): for copies, and never on the host --- */
typedef struct diti_shared {
    diti_buffer buffers[2]; /* on either device; only buffer and size are of use */
    void *pages;            /* DITI_SHARING_HOST: what was allocated */
} diti_shared;
/* Whether both drivers say so, the first device being the one that exports. */
DIT_INTERNAL bool diti_share_possible(const diti_device *a, const diti_device *b, diti_memory_sharing share);
DIT_INTERNAL dit_result diti_shared_create(diti_device *a, diti_device *b, diti_memory_sharing share, VkDeviceSize size,
                                           diti_shared *out, dit_error *err);
/* Timelines that one device signals and another one waits for. */
DIT_INTERNAL bool diti_timeline_shareable(const diti_device *signals, const diti_device *waits);
/* out: the same timeline on either device. */
DIT_INTERNAL dit_result diti_timeline_create_shared(diti_device *signals, diti_device *waits, VkSemaphore out[2],
                                                    dit_error *err);
DIT_INTERNAL void diti_shared_destroy(diti_device *a, diti_device *b, diti_shared *shared);

/* --- staging: a ring of pinned buffers. Room, put what was written there, submit; a copy is over when the ring's
   timeline reaches the value that put returned. The memory that the copies write must not be in use. --- */
#define DITI_STAGE_BUFFERS 3u
#define DITI_STAGING_MIN ((uint64_t)256 << 10) /* bytes of a staging buffer for which it pays to submit a copy */
typedef struct diti_stage_buffer {
    diti_buffer buffer;
    VkCommandBuffer commands;
    uint64_t value; /* value of the timeline when the buffer's copies are over */
    VkDeviceSize used;
    bool open; /* not submitted yet */
    diti_trace_scope scope;
} diti_stage_buffer;
typedef struct diti_stage {
    diti_device *device;
    VkQueue queue;      /* the transfer queue; NULL: the device's queue */
    VkDeviceSize bytes; /* bytes of each buffer */
    VkCommandPool pool;
    VkSemaphore timeline;
    uint64_t submitted, finished;
    uint32_t current;
    diti_stage_buffer buffers[DITI_STAGE_BUFFERS];
} diti_stage;
/* Bytes of each buffer of a ring: usual, or what VK_EXT_memory_budget leaves of their heap, but no less than least. */
DIT_INTERNAL VkDeviceSize diti_stage_bytes(diti_device *device, VkDeviceSize least, VkDeviceSize usual);
DIT_INTERNAL dit_result diti_stage_create(diti_device *device, VkDeviceSize bytes, VkQueue queue, diti_stage **out,
                                          dit_error *err);
DIT_INTERNAL void diti_stage_destroy(diti_stage *stage); /* waits; NULL is fine */
/* Where to write size bytes, at most those of a buffer. Without wait DIT_WORKING while all buffers are being copied. */
DIT_INTERNAL dit_result diti_stage_room(diti_stage *stage, VkDeviceSize size, bool wait, void **out, dit_error *err);
DIT_INTERNAL uint64_t diti_stage_put(diti_stage *stage, VkBuffer target, VkDeviceSize offset, VkDeviceSize size);
DIT_INTERNAL dit_result diti_stage_submit(diti_stage *stage, dit_error *err);
/* Submits what value needs. Without wait DIT_WORKING while it is not reached. */
DIT_INTERNAL dit_result diti_stage_wait(diti_stage *stage, uint64_t value, bool wait, dit_error *err);
/* Whether the copies of value were lost with a submission that failed. Ask at once: the next submission has the value,
   too. */
DIT_INTERNAL bool diti_stage_lost(const diti_stage *stage, uint64_t value);

/* --- pipelines: created on first use, shared by everything on the device --- */
/* stated: bit i: constants[i] is. Values of the others make no difference. */
DIT_INTERNAL dit_result diti_pipeline_get(diti_device *device, diti_kernel kernel, const uint32_t *constants,
                                          uint32_t stated, VkPipeline *out, dit_error *err);
DIT_INTERNAL bool diti_pipeline_exists(diti_device *device, diti_kernel kernel, const uint32_t *constants,
                                       uint32_t stated);
/* A key to look for; its pipeline is none yet. */
DIT_INTERNAL diti_pipeline diti_pipeline_key(diti_kernel kernel, const uint32_t *constants, uint32_t stated);
DIT_INTERNAL uint64_t diti_pipelines_compiled(diti_device *device); /* number of pipelines so far */
DIT_INTERNAL dit_result diti_cache_save(diti_device *device, void *blob, size_t *size, dit_error *err);

/* --- submission --- */
/* Submits command buffers under the queue lock and then signals timeline, when set, with value. Latches device loss. */
DIT_INTERNAL dit_result diti_submit(diti_device *device, const VkCommandBuffer *commands, uint32_t count,
                                    VkSemaphore timeline, uint64_t value, dit_error *err);
#define DITI_MAX_WAITS (4 * DITI_MAX_DEVICES)
typedef struct diti_submission {
    VkQueue queue; /* NULL: the device's */
    const VkCommandBuffer *commands;
    uint32_t count, wait_count;
    VkSemaphore signal; /* a timeline; VK_NULL_HANDLE: none */
    uint64_t signal_value;
    VkSemaphore waits[DITI_MAX_WAITS]; /* timelines; what signals them was submitted before */
    uint64_t wait_values[DITI_MAX_WAITS];
} diti_submission;
DIT_INTERNAL void diti_submission_wait(diti_submission *submission, VkSemaphore timeline, uint64_t value);
DIT_INTERNAL dit_result diti_submit_after(diti_device *device, const diti_submission *submission, dit_error *err);
typedef struct diti_timeline {
    VkSemaphore semaphore;
    uint64_t submitted; /* newest value of the timeline, when all that was submitted has run */
} diti_timeline;
DIT_INTERNAL dit_result diti_timeline_create(diti_device *device, VkSemaphore *out, dit_error *err);
DIT_INTERNAL VkResult diti_timeline_counter(diti_device *device, VkSemaphore timeline, uint64_t *out);
DIT_INTERNAL dit_result diti_timeline_value(diti_device *device, VkSemaphore timeline, uint64_t *out, dit_error *err);
/* Fails if the device has finished nothing for long: it counts as lost. */
DIT_INTERNAL dit_result diti_device_stalled(diti_device *device, dit_error *err);
/* DIT_WORKING when the time ran out. UINT64_MAX: until it comes, or the device counts as stalled. */
DIT_INTERNAL dit_result diti_timeline_wait(diti_device *device, VkSemaphore timeline, uint64_t value,
                                           uint64_t timeout_ns, dit_error *err);
/* Records and runs one command buffer now, and waits: for set-up work only. */
typedef void (*diti_record_function)(diti_device *device, VkCommandBuffer commands, void *user);
DIT_INTERNAL dit_result diti_run_now(diti_device *device, diti_record_function record, void *user, dit_error *err);

/* --- traces --- */
/* light: only what the application marks, and copies. limit: of events. */
DIT_INTERNAL dit_result diti_trace_create(const diti_env *env, bool light, uint32_t limit, diti_trace **out,
                                          dit_error *err);
DIT_INTERNAL void diti_trace_destroy(diti_trace *trace); /* NULL is fine */
/* Gives device the trace, after comparing its clock with the host's. */
DIT_INTERNAL dit_result diti_trace_attach(diti_trace *trace, diti_device *device, dit_error *err);
DIT_INTERNAL uint64_t diti_trace_now(diti_trace *trace);
/* A timestamp of device in the trace's time. Counters of few bits go round: the turn is the one nearest to now_ns. */
DIT_INTERNAL uint64_t diti_trace_device_ns(const diti_device *device, uint64_t ticks, uint64_t now_ns);
DIT_INTERNAL void diti_trace_add(diti_trace *trace, const diti_trace_event *event);
DIT_INTERNAL void diti_trace_drop(diti_trace *trace, uint64_t events); /* could not be had: counts them */
/* Takes all events out of the trace, for diti_trace_free_chunks. */
DIT_INTERNAL diti_trace_chunk *diti_trace_take(diti_trace *trace, uint64_t *dropped);
DIT_INTERNAL void diti_trace_free_chunks(diti_trace *trace, diti_trace_chunk *chunks);
DIT_INTERNAL diti_trace_scope diti_trace_open(diti_trace *trace, diti_trace_track lane, const char *name);
DIT_INTERNAL void diti_trace_close(const diti_trace_scope *scope, double bytes);
/* Closes a scope that was opened without a name. */
DIT_INTERNAL void diti_trace_close_as(const diti_trace_scope *scope, const char *text, double bytes);
/* The application's. */
DIT_INTERNAL void diti_trace_mark(diti_trace *trace, const char *text);
DIT_INTERNAL uint64_t diti_trace_begin(diti_trace *trace, const char *text);
DIT_INTERNAL void diti_trace_end(diti_trace *trace, uint64_t range);
/* Submissions to a device, numbered from 1 on, so that a range knows which ones it encloses; each must finish.
   begin_ns = end_ns = 0: its times are lost. */
DIT_INTERNAL uint64_t diti_trace_submitted(diti_trace *trace);
DIT_INTERNAL void diti_trace_finished(diti_trace *trace, uint64_t submission, uint8_t device, uint64_t begin_ns,
                                      uint64_t end_ns);

/* --- embedded SPIR-V (vk/spirv.inc, generated by make shaders) --- */
/* For messages, the override fail_pipeline and records; code tells kernels by diti_kernel alone. */
DIT_INTERNAL const char *diti_kernel_name(diti_kernel kernel);
/* One embedded module: packed bytes as base85 text (spirv.c), in pieces that every compiler accepts; NULL ends them. */
typedef struct diti_spirv_module {
    const char *name;
    const char *const *pieces;
    uint32_t word_count, byte_count; /* bytes: of the words as LEB128 */
} diti_spirv_module;
/* One module for each diti_kernel; defined at the end of spirv.inc, which stands last in dit.h. */
DIT_INTERNAL const diti_spirv_module *diti_spirv_table(void);
DIT_INTERNAL uint64_t diti_spirv_hash(void); /* hash of all modules */
/* Makes every float16 in matrices of a decoded module another type. */
DIT_INTERNAL dit_result diti_spirv_elements(const diti_env *env, diti_matrix_kind kind, uint32_t **words, size_t *count,
                                            dit_error *err);
DIT_INTERNAL void diti_spirv_no_dot(uint32_t *words, size_t *count);   /* for devices without the integer dot product */
DIT_INTERNAL void diti_spirv_no_mixed(uint32_t *words, size_t *count); /* without DITI_FEATURE_MIXED_DOT */
DIT_INTERNAL void diti_spirv_no_rounding(uint32_t *words,
                                         size_t *count); /* for those that cannot be told how to round */
/* SignedZeroInfNanPreserve for floats of 16 and 32 bits, for a kernel that computes with halves: without it compilers
   may take it that no sum overflows. */
DIT_INTERNAL dit_result diti_spirv_keep_infinity(const diti_env *env, uint32_t **words, size_t *count, dit_error *err);
/* For pipelines that multiply no int8: matrices of bytes and of integers, which a device may lack and such a pipeline
   only declares, become matrices of halves and of floats. */
DIT_INTERNAL void diti_spirv_no_bytes(uint32_t *words, size_t *count);
DIT_INTERNAL bool diti_spirv_is_coop(const uint32_t *words, size_t count); /* declares CooperativeMatrixKHR */
/* Makes constants of a decoded module's specialization constants, and leaves out the code that no other value could
   reach (fold.c). Constants that are not given have their own values if whole is true, and stay what they are if it is
   false. *folded stays false where there is something unexpected in the module: its words are as they were. */
DIT_INTERNAL dit_result diti_spirv_fold(const diti_env *env, const VkSpecializationInfo *given, bool whole,
                                        uint32_t **words, size_t *count, bool *folded, dit_error *err);
/* Gives one specialization constant its value, and leaves out the code that it does not reach. */
DIT_INTERNAL dit_result diti_spirv_settle(const diti_env *env, diti_kernel kernel, uint32_t id, uint32_t value,
                                          uint32_t **words, size_t *count, dit_error *err);
/* Leaves out what other kernels have in the module of this one. */
DIT_INTERNAL dit_result diti_spirv_variant(const diti_env *env, diti_kernel kernel, uint32_t **words, size_t *count,
                                           dit_error *err);
/* Decodes a kernel's module; words is freed with diti_free. */
DIT_INTERNAL dit_result diti_spirv_decode(const diti_env *env, diti_kernel kernel, uint32_t **words, size_t *count,
                                          dit_error *err);
#endif
