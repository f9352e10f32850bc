/* Matrix products with their epilogue (shaders/gemm_cpu.comp and gemm_gpu.comp take
   any; gemm_broadcast takes all but int8 rows and packed weights; gemm_half, gemm_coop and gemm_dot_gpu want operands
   in rows that begin where whole vectors do; int8 rows get the same sums from each kernel that takes them). */
#include "graph/ops_internal.h"

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
    DITI_GEMM_GUARD,
    DITI_GEMM_FRAMES,
    DITI_GEMM_FRAME_FORM,
    DITI_GEMM_PUSH_WORDS
};
enum { DITI_GEMM_PARTS_AT = 16, DITI_GEMM_ACTIVATION_AT = 20 }; /* bits of DITI_GEMM_BAND, for gemm_cpu alone */
enum { DITI_GEMM_PART_BIAS = 1, DITI_GEMM_PART_MULTIPLY = 2, DITI_GEMM_PART_GATE = 4, DITI_GEMM_PART_RESIDUAL = 8 };
enum {
    DITI_GEMM_I4 = 4,
    DITI_GEMM_I8_BLOCKS = 5,
    DITI_GEMM_PACKED = 32,
    DITI_GEMM_PACKED_ROUNDS = 64
}; /* formats of W beside those of tensors */
enum { DITI_GEMM_CONV = 1, DITI_GEMM_CONV_FRAMES = 2, DITI_GEMM_CONV_EDGES = 4, DITI_GEMM_CONV_ENDS = 8 };
enum { DITI_GEMM_FORM_FEW = 1, DITI_GEMM_FORM_REDUCE };
#define DITI_GEMM_FEW_ROWS 8u /* a matrix-vector product on GPUs */

typedef struct diti_gemm_tiles {
    diti_kernel kernel;
    uint32_t group, rows, columns, band;
    uint32_t constants[13], constant_count; /* from id 10 on */
} diti_gemm_tiles;

/* How the kernels with cooperative matrices work on a device. */
typedef struct diti_gemm_coop {
    diti_coop_shape shape, floats, bytes; /* shape of the fragment that is used, and of both that the module declares */
    uint32_t unit;                        /* elements in 16 bytes */
    diti_matrix_kind kind;
} diti_gemm_coop;

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

static uint32_t diti_gemm_pitch(const diti_graph *graph, diti_tensor tensor) {
    return tensor ? diti_tensor_get(graph, tensor)->pitch : 0;
}

/* Products of K values that a result is the sum of. */
static uint32_t diti_gemm_taps(const diti_gemm *gemm) {
    return gemm->image ? gemm->image->kernel * gemm->image->kernel * gemm->image->frames : 1;
}

static uint32_t diti_gemm_format(const diti_graph *graph, diti_tensor tensor) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    if (!tensor) return 0;
    return info->halved   ? (uint32_t)DITI_GEMM_I4
           : info->blocks ? (uint32_t)DITI_GEMM_I8_BLOCKS
                          : (uint32_t)info->format;
}

/* Wide tiles run faster and take longer to compile. */
static uint32_t diti_gemm_spread(const diti_graph *graph, const diti_gemm *gemm) {
    uint32_t rest = gemm->columns % 64;
    bool large = 2.0 * gemm->rows * gemm->columns * gemm->depth * diti_gemm_taps(gemm) >= 1e8;
    return large && (rest == 0 || rest > 32) && diti_gemm_format(graph, gemm->x) != DITI_I8 ? 64 : 32;
}

/* Lanes run over rows of A, or over W's where A has few; each lane owns four. */
static void diti_gemm_tiles_cpu(const diti_graph *graph, const diti_gemm *gemm, diti_gemm_tiles *out) {
    uint32_t lanes = graph->device->limits.subgroup_size, spread = diti_gemm_spread(graph, gemm);
    bool swap = gemm->rows <= 16 && !gemm->image;
    if (swap) spread = gemm->rows <= lanes ? lanes : 2 * lanes;
    out->kernel = DITI_KERNEL_GEMM_CPU;
    out->group = lanes;
    out->rows = swap ? spread : lanes * 4;
    out->columns = swap ? lanes * 4 : spread;
    out->band = 4;
    out->constants[0] = 4;
    out->constants[1] = spread;
    out->constants[2] = swap;
    out->constant_count = 3;
}

/* Threads in 16 columns, each with 8 rows or fewer of 4 or 8 columns of results. */
static void diti_gemm_tiles_gpu(const diti_graph *graph, const diti_gemm *gemm, bool half, diti_gemm_tiles *out) {
    const diti_limits *limits = &graph->device->limits;
    uint64_t tiles = (uint64_t)diti_gemm_ceil(gemm->rows, 128) * diti_gemm_ceil(gemm->columns, 64);
    bool large = limits->group_invocations >= 256 && tiles >= 192 && diti_gemm_rows_at_once(graph, gemm) >= 256;
    const diti_portions *portions = graph->device->portions;
    bool i8 = diti_gemm_format(graph, gemm->x) == DITI_I8; /* the kernel for few rows would not sum int8 exactly */
    out->constants[3] = out->constants[4] = 4;
    if (gemm->rows <= DITI_GEMM_FEW_ROWS && gemm->rows <= portions->float_rows && !gemm->image && !i8) {
        out->kernel = DITI_KERNEL_GEMM_GPU;
        out->group = 64;
        out->rows = gemm->rows <= 1 ? 1 : gemm->rows <= 2 ? 2 : gemm->rows <= 4 ? 4 : 8;
        out->columns = 4;
        out->constants[0] = out->rows;
        out->constants[1] = 4;
        out->constants[2] = DITI_GEMM_FORM_FEW;
        out->constant_count = 5;
        out->band = 1;
        return;
    }
    if (half) {
        out->constants[3] = portions->half_unrolled;
        out->constants[4] = portions->half_step;
        out->constants[5] = graph->device->features.has[DITI_FEATURE_MIXED_DOT];
        out->constants[6] = true; /* DITI_CONSTANT_HALF */
        out->constants[7] = portions->half_scalar;
        out->constants[8] = portions->half_apart;
        if (portions->half_rows < 8 && limits->group_invocations >= 256) large = true; /* no larger than it would be */
    }
    out->constant_count = half ? 9 : 5;
    out->kernel = half ? DITI_KERNEL_GEMM_HALF : DITI_KERNEL_GEMM_GPU;
    out->group = large ? 256 : 128;
    out->constants[0] = half ? portions->half_rows : i8 && portions->half_rows < 8 ? 4 : portions->float_rows;
    if (half && graph->device->is_cpu) out->constants[0] = 2; /* a processor unrolls and compiles them all */
    out->constants[1] = !large || i8 ? 4 : half ? portions->half_columns : portions->float_columns;
    out->rows = out->group / 16 * out->constants[0];
    out->columns = 16 * out->constants[1];
    out->constants[2] = 0;
    out->band = 8;
}

/* Subgroups with 8 rows each, threads with 2 columns of them, which take few loads from shared memory; in convolutions,
   which want more registers for other things, 4 rows and 4 columns. A slice has 4 quads of K, and 8 where subgroups
   have more threads than 4 quads of their rows would occupy. */
static void diti_gemm_tiles_broadcast(const diti_graph *graph, const diti_gemm *gemm, diti_gemm_tiles *out) {
    const diti_limits *limits = &graph->device->limits;
    const bool tall = !gemm->image && graph->device->team >= 8;
    uint32_t team = graph->device->team, rows = tall ? 8 : 4, columns = tall ? 2 : 4, across = tall ? 2 : 1;
    uint32_t quads = team > 4 * rows ? team / rows : 4;
    out->kernel = DITI_KERNEL_GEMM_BROADCAST;
    out->group = 256;
    while (out->group > limits->group_invocations || out->group > columns * across * team * quads) out->group /= 2;
    out->rows = out->group / team / across * rows;
    out->columns = columns * team * across;
    out->constants[0] = rows;
    out->constants[1] = columns;
    out->constants[2] = team;
    out->constants[3] = quads;
    out->constants[4] = across;
    out->constants[5] = graph->device->software; /* such devices round products before they add them */
    out->constant_count = 6;
    out->band = 8;
}

/* Threads in 16 columns, each with 8 x 8 results or fewer. */
static void diti_gemm_tiles_dot(const diti_graph *graph, const diti_gemm *gemm, diti_gemm_tiles *out) {
    uint64_t tiles = (uint64_t)diti_gemm_ceil(gemm->rows, 128) * diti_gemm_ceil(gemm->columns, 128);
    bool large =
        graph->device->limits.group_invocations >= 256 && tiles >= 128 && diti_gemm_rows_at_once(graph, gemm) >= 256;
    out->kernel = DITI_KERNEL_GEMM_DOT_GPU;
    out->group = large ? 256 : 128;
    out->constants[0] = graph->device->portions->block_rows;
    out->constants[1] = large ? graph->device->portions->dot_columns : 4;
    out->rows = out->group / 16 * out->constants[0];
    out->columns = 16 * out->constants[1];
    out->constant_count = 2;
    out->band = 8;
}

/* Blocks of int8, by subgroups as in diti_gemm_tiles_broadcast where the device has them. */
static void diti_gemm_tiles_blocks(const diti_graph *graph, const diti_gemm *gemm, diti_gemm_tiles *out) {
    const diti_portions *portions = graph->device->portions;
    uint32_t team = graph->device->dot_team;
    if (!team || diti_gemm_rows_at_once(graph, gemm) < 256) {
        diti_gemm_tiles_dot(graph, gemm, out);
        out->constants[1] = portions->block_columns;
        out->columns = 16 * out->constants[1];
        return;
    }
    out->kernel = DITI_KERNEL_GEMM_DOT_BROADCAST;
    out->group = 128;
    out->constants[0] = team < portions->block_rows ? team : portions->block_rows; /* a thread has one row's scale */
    if (team > 16) out->constants[0] = team / 2; /* one of the two quads of a row in a slice */
    out->constants[1] = portions->block_columns;
    out->constants[2] = team;
    out->constants[3] = portions->block_teams;
    out->rows = out->group / team / out->constants[3] * out->constants[0];
    out->columns = team * out->constants[1] * out->constants[3];
    out->constant_count = 4;
    out->band = 8;
}

/* One result to a thread, four columns of a row. */
static void diti_gemm_tiles_reduce(diti_gemm_tiles *out) {
    out->kernel = DITI_KERNEL_GEMM_GPU;
    out->group = 64;
    out->rows = 1;
    out->columns = 256;
    out->band = 1;
    out->constants[0] = 8;
    out->constants[1] = 4;
    out->constants[2] = DITI_GEMM_FORM_REDUCE;
    out->constants[3] = out->constants[4] = 4;
    out->constant_count = 5;
}

/* N and every operand in the epilogue come in whole quads. */
static bool diti_gemm_is_vector(const diti_graph *graph, const diti_gemm *gemm) {
    return diti_op_vector(graph, gemm->out) && diti_op_vector(graph, gemm->bias) && diti_op_vector(graph, gemm->gate) &&
           diti_op_vector(graph, gemm->multiply) && diti_op_vector(graph, gemm->residual);
}

/* --- matrix units --- */

/* Matrices of 8-bit floats that the device has for weights of a type, or those of halves that stand for them. */
static diti_matrix_kind diti_gemm_float8(const diti_device *device, dit_type type) {
    const bool halves = device->coop_float8 == 2;
    if (type == DIT_TYPE_F8_E5M2) return halves ? DITI_MATRIX_E5M2_HALVES : DITI_MATRIX_E5M2;
    return halves ? DITI_MATRIX_E4M3_HALVES : DITI_MATRIX_E4M3;
}

static void diti_gemm_coop_choose(const diti_device *device, const diti_gemm *gemm, bool i8, diti_gemm_coop *out) {
    const diti_coop_shape *shapes = device->coop.subgroup_shape;
    bool bf16 = !shapes[DITI_COOP_F16].m;
    int type = bf16 ? DITI_COOP_BF16 : DITI_COOP_F16;
    out->kind = bf16 ? DITI_MATRIX_BRAIN : DITI_MATRIX_HALF;
    if (gemm->float8) out->kind = diti_gemm_float8(device, gemm->float8);
    if (out->kind == DITI_MATRIX_E4M3) type = DITI_COOP_E4M3;
    if (out->kind == DITI_MATRIX_E5M2) type = DITI_COOP_E4M3_E5M2;
    out->floats = shapes[type];
    out->bytes = i8 ? shapes[DITI_COOP_S8] : out->floats; /* real shapes, too */
    out->shape = i8 ? out->bytes : out->floats;
    out->unit = i8 || out->kind == DITI_MATRIX_E4M3 || out->kind == DITI_MATRIX_E5M2 ? 16 : 8;
}

/* Rows begin at multiples of `unit` elements, so that they are read 16 bytes at a time. */
static bool diti_gemm_is_wide(const diti_graph *graph, diti_tensor tensor, uint32_t unit) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    return info->first % unit == 0 && info->pitch % unit == 0;
}

/* Whether tiles may be twice as high as wide, with slices of another depth: where operands are loaded as they are, and
   where half as many tiles fill the device, each of whose cores has registers for one of these or for two of others. */
static bool diti_gemm_coop_is_tall(const diti_graph *graph, const diti_gemm *gemm, const diti_gemm_coop *coop) {
    const diti_device *device = graph->device;
    uint64_t tiles = (uint64_t)diti_gemm_ceil(gemm->rows, 128) * diti_gemm_ceil(gemm->columns, 128);
    return device->portions->tall_step && !device->small_tiles && !gemm->image && !gemm->packed && gemm->rows > 128 &&
           tiles >= 2 * (uint64_t)device->limits.cores &&
           coop->unit * device->portions->tall_step % coop->shape.k == 0 &&
           diti_gemm_format(graph, gemm->x) != DITI_F32 && diti_gemm_format(graph, gemm->weight) != DITI_F32;
}

/* Parts of 64 x 64 results for subgroups, or of 32 x 32 where those are narrow or the work is little; or what the
   device's portions say, in a tile of 128 x 128 or 64 x 64. A processor, which compiles every fragment on its own, gets
   few of them. Candidates: the other part, another number of subgroups; or the other tile. */
static void diti_gemm_coop_fragments(const diti_device *device, const diti_gemm *gemm, const diti_gemm_coop *coop,
                                     bool tall, uint32_t candidate, uint32_t across[2], uint32_t fragments[2]) {
    const uint32_t lanes = device->coop.subgroup;
    uint64_t tiles = (uint64_t)diti_gemm_ceil(gemm->rows, 128) * diti_gemm_ceil(gemm->columns, 128);
    uint32_t part = lanes >= 32 && tiles >= 64 && !device->small_tiles ? 64 : 32,
             count = part == 64 || tiles < 64 ? 2 : 4;
    if (candidate == 1) part = part == 64 || lanes < 32 ? 32 : 64;
    if (candidate == 2 && !tall) count = count == 4 ? 2 : 4;
    if (device->portions->part_rows < 64 && !device->is_cpu) {
        uint32_t edge = (tiles >= 64 && !device->small_tiles) != (candidate == 1) ? 128 : 64;
        if (gemm->image && edge > device->portions->conv_edge) edge = device->portions->conv_edge;
        fragments[0] = diti_gemm_ceil(device->portions->part_rows, coop->shape.m);
        fragments[1] = diti_gemm_ceil(device->portions->part_columns, coop->shape.n);
        across[0] = edge / device->portions->part_rows;
        across[1] = edge / device->portions->part_columns;
        while (across[0] > 1 && across[0] * across[1] * lanes > device->limits.group_invocations) across[0] /= 2;
        return;
    }
    if (device->is_cpu) part = 0;
    while (count > 1 && count * count * lanes > device->limits.group_invocations) count /= 2;
    across[0] = tall && candidate == 0 && 8 * lanes <= device->limits.group_invocations ? 4 : count;
    across[1] = device->is_cpu ? 1 : count;
    fragments[0] = part > coop->shape.m ? part / coop->shape.m : 1;
    fragments[1] = part > coop->shape.n ? part / coop->shape.n : device->is_cpu ? 2 : 1;
}

/* Bytes of shared memory, as gemm_coop.comp declares it. */
static uint64_t diti_gemm_coop_shared(const diti_device *device, const diti_gemm_coop *coop,
                                      const diti_gemm_tiles *tiles, uint32_t step, uint32_t columns) {
    uint64_t slices = (uint64_t)(tiles->rows + tiles->columns) * (step / coop->unit + 1) * 16;
    uint64_t row_bands =
        (uint64_t)tiles->group / device->coop.subgroup * coop->shape.m * (columns * coop->shape.n / 4 + 1) * 16;
    return slices > row_bands ? slices : row_bands;
}

/* units: of 16 bytes in a row of a slice. */
static bool diti_gemm_loads_evenly(const diti_gemm_tiles *tiles, uint32_t units) {
    return tiles->rows * units % tiles->group == 0 && tiles->columns * units % tiles->group == 0;
}

static bool diti_gemm_tiles_coop(const diti_graph *graph, const diti_gemm *gemm, bool i8, uint32_t candidate,
                                 diti_gemm_tiles *out) {
    const diti_device *device = graph->device;
    const diti_portions *portions = device->portions;
    uint32_t across[2], fragments[2], units, step, i;
    diti_gemm_coop coop = DITI_ZERO;
    bool tall, paired;
    diti_gemm_coop_choose(device, gemm, i8, &coop);
    paired = !i8 && coop.kind == DITI_MATRIX_HALF && diti_gemm_format(graph, gemm->x) == DITI_F16 &&
             diti_class_is_used(device, DITI_CLASS_COOP_PAIRS);
    if (!coop.shape.m || !diti_gemm_is_vector(graph, gemm) || (!i8 && gemm->depth % coop.unit) ||
        (gemm->image && (i8 || gemm->float8)))
        return false;
    if (!gemm->float8 && (!diti_gemm_is_wide(graph, gemm->x, coop.unit) ||
                          !(gemm->packed || diti_gemm_is_wide(graph, gemm->weight, coop.unit))))
        return false;
    if (gemm->float8 && (gemm->depth % 16 || coop.shape.k % coop.unit)) return false;
    if (graph->guards && gemm->depth % coop.unit && diti_gemm_format(graph, gemm->x) == DITI_F32)
        return false; /* values behind a row would be taken for a result */
    tall = diti_gemm_coop_is_tall(graph, gemm, &coop);
    diti_gemm_coop_fragments(device, gemm, &coop, tall, candidate, across, fragments);
    out->kernel = DITI_KERNEL_GEMM_COOP;
    out->group = device->coop.subgroup * across[0] * across[1];
    out->rows = across[0] * fragments[0] * coop.shape.m;
    out->columns = across[1] * fragments[1] * coop.shape.n;
    out->band = 8;
    /* every thread loads as many units of a slice as every other one */
    units = gemm->image ? portions->conv_step : portions->step;
    if (tall && across[0] > across[1] && diti_gemm_loads_evenly(out, portions->tall_step) &&
        (gemm->depth % (portions->tall_step * coop.unit) == 0 || gemm->depth % (units * coop.unit) != 0))
        units = portions->tall_step;                             /* unless it alone leaves something over */
    if (portions->part_rows < 64 && out->rows <= 64) units /= 2; /* the few threads of a small tile load all of it */
    while (units * coop.unit < coop.shape.k) units *= 2;
    for (i = 0; i < 8 && !diti_gemm_loads_evenly(out, units); i++) units *= 2;
    step = units * coop.unit;
    out->constants[0] = device->coop.subgroup;
    memcpy(out->constants + 1, &coop.floats, sizeof coop.floats);
    out->constants[4] = fragments[0];
    out->constants[5] = fragments[1];
    out->constants[6] = across[0];
    out->constants[7] = step;
    memcpy(out->constants + 8, &coop.bytes, sizeof coop.bytes);
    out->constants[11] = coop.kind;
    out->constants[12] = (portions->ahead ? DITI_LOOP_AHEAD : 0u) |
                         (device->scattered_sums ? DITI_LOOP_SCATTERED : 0u) | (portions->late ? DITI_LOOP_LATE : 0u) |
                         (paired ? DITI_LOOP_PAIRED : 0u);
    out->constant_count = 13;
    return i < 8 && out->group <= device->limits.group_invocations &&
           diti_gemm_coop_shared(device, &coop, out, step, fragments[1]) <= device->limits.shared_bytes &&
           diti_gemm_rows_at_once(graph, gemm) >= 2 * out->rows;
}

DIT_INTERNAL bool diti_op_gemm_float8(const diti_graph *graph, const diti_gemm *gemm) {
    diti_gemm_tiles tiles = DITI_ZERO;
    return gemm->rows > DITI_GEMM_FEW_ROWS && diti_gemm_tiles_coop(graph, gemm, false, 0, &tiles);
}

DIT_INTERNAL bool diti_op_gemm_blocks(const diti_graph *graph, const diti_gemm *gemm) {
    return gemm->rows > DITI_GEMM_FEW_ROWS && diti_gemm_is_vector(graph, gemm);
}

static void diti_gemm_choose_tiles(const diti_graph *graph, const diti_gemm *gemm, diti_gemm_tiles *out) {
    const diti_device *device = graph->device;
    bool i8 = diti_gemm_format(graph, gemm->x) == DITI_I8 && !gemm->float8, vector = diti_gemm_is_vector(graph, gemm);
    bool few = gemm->rows <= DITI_GEMM_FEW_ROWS && !gemm->image;
    bool f32 = diti_gemm_format(graph, gemm->x) == DITI_F32, floats = f32 && graph->activation == DITI_F32;
    bool may_not_fit = floats || (f32 && (graph->guards || gemm->image));
    bool half = !i8 && !may_not_fit && diti_class_is_used(device, DITI_CLASS_HALF);
    if (gemm->parts > 1) {
        diti_gemm_tiles_reduce(out);
        return;
    }
    if (gemm->float8) { /* no other kernel knows these bytes */
        diti_gemm_tiles_coop(graph, gemm, false, 0, out);
        return;
    }
    if (gemm->blocks) {
        diti_gemm_tiles_blocks(graph, gemm, out);
        return;
    }
    if ((i8 ? device->coop_i8 : device->rung >= DITI_RUNG_COOP && !few && !floats) &&
        (!gemm->image || device->coop_convolutions) && diti_gemm_tiles_coop(graph, gemm, i8, 0, out))
        return;
    if (i8 && device->dot && vector)
        diti_gemm_tiles_dot(graph, gemm, out);
    else if (half && !few && device->team && diti_gemm_rows_at_once(graph, gemm) >= 256)
        diti_gemm_tiles_broadcast(graph, gemm, out);
    else if (graph->device->is_cpu && !(half && vector && !few))
        diti_gemm_tiles_cpu(graph, gemm, out);
    else
        diti_gemm_tiles_gpu(graph, gemm, half && vector, out);
}

/* --- candidates beside the usual tiles --- */

/* The other number of columns; twice the rows. */
static void diti_gemm_candidate_cpu(const diti_graph *graph, const diti_gemm *gemm, uint32_t candidate,
                                    diti_gemm_tiles *out) {
    uint32_t lane_tile = candidate == 2 ? 8 : 4, spread = candidate == 1 && out->columns == 32 ? 64 : 32;
    uint32_t bytes = out->group * lane_tile * spread * 4 * (diti_gemm_format(graph, gemm->x) == DITI_I8 ? 2 : 1);
    if (bytes > graph->device->limits.shared_bytes) return;
    out->rows = out->group * lane_tile;
    out->columns = spread;
    out->constants[0] = lane_tile;
    out->constants[1] = spread;
}

static bool diti_gemm_may_group(const diti_graph *graph, const diti_gemm *gemm, uint32_t group) {
    return group == 128 ||
           (group <= graph->device->limits.group_invocations && diti_gemm_rows_at_once(graph, gemm) >= 256);
}

/* The other size of workgroup; other rows of a thread. */
static void diti_gemm_candidate_gpu(const diti_graph *graph, const diti_gemm *gemm, uint32_t candidate,
                                    diti_gemm_tiles *out) {
    uint32_t group = out->group == 128 ? 256 : 128;
    if (candidate == 2)
        out->constants[0] = out->constants[0] == 4 ? 8 : 4;
    else if (diti_gemm_may_group(graph, gemm, group))
        out->group = group;
    out->rows = out->group / 16 * out->constants[0];
}

/* Sums of int8 are exact, whatever the tiles. */
static void diti_gemm_candidate_dot(const diti_graph *graph, const diti_gemm *gemm, uint32_t candidate,
                                    diti_gemm_tiles *out) {
    uint32_t group = candidate == 2 || out->group == 128 ? 256 : 128;
    if (!diti_gemm_may_group(graph, gemm, group)) return;
    out->group = group;
    out->rows = group / 16 * out->constants[0];
    out->columns = candidate == 2 || group == 128 ? 64 : 128;
    out->constants[1] = out->columns / 16;
}

static void diti_gemm_candidate_coop(const diti_graph *graph, const diti_gemm *gemm, uint32_t candidate,
                                     diti_gemm_tiles *out) {
    diti_gemm_tiles other = DITI_ZERO;
    bool i8 = diti_gemm_format(graph, gemm->x) == DITI_I8;
    if (diti_gemm_tiles_coop(graph, gemm, i8, candidate, &other)) *out = other;
}

static void diti_gemm_tune(diti_graph *graph, const diti_gemm *gemm, diti_gemm_tiles *tiles) {
    diti_tune_case wanted = DITI_ZERO;
    uint32_t candidate;
    bool cpu = tiles->kernel == DITI_KERNEL_GEMM_CPU, gpu = tiles->kernel == DITI_KERNEL_GEMM_GPU;
    if (gemm->parts > 1 || ((cpu || gpu) && tiles->constants[2])) return; /* other forms, for few rows */
    if (gemm->packed || gemm->float8 || gemm->blocks) return;             /* measuring takes plain operands */
    if (tiles->kernel == DITI_KERNEL_GEMM_BROADCAST) return;              /* the kernel has one tile */
    wanted.kind = DITI_TUNE_GEMM;
    wanted.kernel = tiles->kernel;
    wanted.formats[0] = diti_tensor_get(graph, gemm->x)->format;
    wanted.formats[1] = diti_tensor_get(graph, gemm->weight)->format;
    wanted.formats[2] = diti_tensor_get(graph, gemm->out)->format;
    wanted.rows = gemm->rows;
    wanted.columns = gemm->columns;
    wanted.depth = gemm->depth;
    if (gemm->image) wanted.image = *gemm->image;
    candidate = diti_tune_choose(graph, &wanted);
    if (!candidate) return;
    if (cpu)
        diti_gemm_candidate_cpu(graph, gemm, candidate, tiles);
    else if (tiles->kernel == DITI_KERNEL_GEMM_DOT_GPU)
        diti_gemm_candidate_dot(graph, gemm, candidate, tiles);
    else if (tiles->kernel == DITI_KERNEL_GEMM_COOP)
        diti_gemm_candidate_coop(graph, gemm, candidate, tiles);
    else
        diti_gemm_candidate_gpu(graph, gemm, candidate, tiles);
}

static uint32_t diti_gemm_parts(const diti_gemm *gemm) {
    return (gemm->bias ? (uint32_t)DITI_GEMM_PART_BIAS : 0) | (gemm->multiply ? (uint32_t)DITI_GEMM_PART_MULTIPLY : 0) |
           (gemm->gate ? (uint32_t)DITI_GEMM_PART_GATE : 0) | (gemm->residual ? (uint32_t)DITI_GEMM_PART_RESIDUAL : 0);
}

static void diti_gemm_constants(const diti_graph *graph, const diti_gemm *gemm, const diti_gemm_tiles *tiles,
                                diti_dispatch *dispatch) {
    uint32_t *c = dispatch->constants;
    c[1] = diti_gemm_format(graph, gemm->x);
    c[2] = diti_gemm_format(graph, gemm->weight);
    if (gemm->packed) c[2] = DITI_GEMM_PACKED | (uint32_t)gemm->packed;
    if (gemm->packed && graph->activation == DITI_F16) c[2] |= DITI_GEMM_PACKED_ROUNDS;
    c[3] = diti_gemm_format(graph, gemm->out);
    c[4] = diti_gemm_format(graph, gemm->residual) | diti_gemm_format(graph, gemm->multiply) << 1;
    if (tiles->kernel != DITI_KERNEL_GEMM_CPU) {
        c[5] = diti_gemm_parts(gemm);
        c[6] = gemm->activation;
    }
    c[7] = diti_gemm_is_vector(graph, gemm);
    c[8] = gemm->depth % 4 != 0 && c[1] != DITI_I8; /* int8 rows end in zeros */
    if (tiles->kernel == DITI_KERNEL_GEMM_COOP)
        c[8] = gemm->depth % tiles->constants[7] != 0; /* slices do not divide K */
    if (tiles->kernel == DITI_KERNEL_GEMM_BROADCAST) c[8] = gemm->depth % (4 * tiles->constants[3]) != 0;
    c[9] = gemm->image ? (uint32_t)DITI_GEMM_CONV : 0;
    if (gemm->image && (gemm->image->frames > 1 || gemm->image->frame_stride > 1)) c[9] |= DITI_GEMM_CONV_FRAMES;
    if (gemm->image && gemm->image->edges) c[9] |= DITI_GEMM_CONV_EDGES;
    if (gemm->image && gemm->image->ends) c[9] |= DITI_GEMM_CONV_ENDS;
    memcpy(c + 10, tiles->constants, sizeof tiles->constants);
    dispatch->stated = DITI_STATED(10 + tiles->constant_count);
}

static void diti_gemm_push(const diti_graph *graph, const diti_gemm *gemm, const diti_gemm_tiles *tiles,
                           uint32_t *push) {
    uint64_t row_bytes;
    push[DITI_GEMM_ROWS] = gemm->rows;
    push[DITI_GEMM_COLUMNS] = gemm->columns;
    push[DITI_GEMM_DEPTH] = gemm->depth;
    push[DITI_GEMM_A_PITCH] = diti_gemm_pitch(graph, gemm->x);
    push[DITI_GEMM_W_PITCH] = diti_gemm_pitch(graph, gemm->weight);
    if (gemm->packed && diti_weight_bytes(gemm->packed, 1, push[DITI_GEMM_W_PITCH], &row_bytes))
        push[DITI_GEMM_W_PITCH] = (uint32_t)row_bytes;
    push[DITI_GEMM_OUT_PITCH] = diti_gemm_pitch(graph, gemm->out);
    push[DITI_GEMM_MULTIPLY_PITCH] = diti_gemm_pitch(graph, gemm->multiply);
    push[DITI_GEMM_GATE_PITCH] = diti_gemm_pitch(graph, gemm->gate);
    push[DITI_GEMM_ROWS_PER_GATE] = gemm->rows_per_gate;
    push[DITI_GEMM_RESIDUAL_PITCH] = diti_gemm_pitch(graph, gemm->residual);
    push[DITI_GEMM_TILES_M] = diti_gemm_ceil(gemm->rows, tiles->rows);
    push[DITI_GEMM_TILES_N] = diti_gemm_ceil(gemm->columns, tiles->columns);
    push[DITI_GEMM_BAND] = tiles->band;
    if (tiles->kernel == DITI_KERNEL_GEMM_CPU)
        push[DITI_GEMM_BAND] |= diti_gemm_parts(gemm) << DITI_GEMM_PARTS_AT | (uint32_t)gemm->activation
                                                                                  << DITI_GEMM_ACTIVATION_AT;
    if (!gemm->image) return;
    push[DITI_GEMM_HEIGHT] = gemm->image->height;
    push[DITI_GEMM_WIDTH] = gemm->image->width;
    push[DITI_GEMM_OUT_HEIGHT] = gemm->image->out_height;
    push[DITI_GEMM_OUT_WIDTH] = gemm->image->out_width;
    push[DITI_GEMM_KERNEL] = gemm->image->kernel;
    push[DITI_GEMM_STRIDE] = gemm->image->stride;
    push[DITI_GEMM_PAD] = gemm->image->pad | (gemm->image->pad - (gemm->image->above << gemm->image->upsample)) << 16;
    push[DITI_GEMM_UPSAMPLE] = gemm->image->upsample;
    push[DITI_GEMM_FRAMES] = gemm->image->in_frames;
    push[DITI_GEMM_FRAME_FORM] =
        gemm->image->frames | gemm->image->frame_stride << 8 | gemm->image->frames_before << 16;
}

/* The rows of x that output rows need: as many, or those of the image around the same place, where input and output
   pixels stand in a whole ratio; else a slice binds all of x. */
static void diti_gemm_bind_x(const diti_graph *graph, const diti_gemm *gemm, diti_dispatch *dispatch, uint32_t div,
                             uint64_t rows) {
    const diti_gemm_image *image = gemm->image;
    uint64_t in, out, margin, lines, frame;
    if (gemm->parts > 1) return; /* a row of every part */
    if (!image) {
        diti_op_bind_rows(graph, dispatch, 0, div, rows, 0, 0);
        return;
    }
    lines = (image->height >> image->upsample) - (image->in_frames > 1 ? 0 : image->outside);
    in = lines * (image->width >> image->upsample) * image->frame_stride;
    out = (uint64_t)image->out_height * image->out_width;
    if (rows * in % out) return;
    margin = (4 + (uint64_t)image->outside) * (image->width >> image->upsample) + 4;
    frame = lines * (image->width >> image->upsample);
    /* By this count neighbours in a frame lie frame_stride rows of x apart, by their taps one: the last of a frame is
       almost frame_stride - 1 frames too far on. */
    diti_op_bind_rows(graph, dispatch, 0, div, rows * in / out,
                      margin + (image->frames_before + image->frame_stride - 1) * frame,
                      margin + (image->frames - 1) * frame);
}

static void diti_gemm_bind(const diti_graph *graph, const diti_gemm *gemm, const diti_gemm_tiles *tiles,
                           diti_dispatch *dispatch) {
    uint32_t div = tiles->band * dispatch->push[DITI_GEMM_TILES_N];
    uint64_t rows = (uint64_t)tiles->band * tiles->rows;
    diti_op_bind(graph, dispatch, 0, gemm->x, DITI_GEMM_A, true, false);
    diti_op_bind(graph, dispatch, 1, gemm->weight, DITI_GEMM_W, true, false);
    if (gemm->packed) { /* words of packed bytes, not elements */
        const diti_tensor_info *weight = diti_tensor_get(graph, gemm->weight);
        dispatch->memory_bytes +=
            (double)weight->bytes * weight->columns / weight->pitch - 4.0 * weight->rows * weight->columns;
        dispatch->bindings[1].element_bytes = 4;
        dispatch->bindings[1].group_step = 0;
    }
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

static void diti_gemm_guard(diti_graph *graph, const diti_gemm *gemm, const diti_gemm_tiles *tiles,
                            diti_dispatch *dispatch) {
    diti_guard_use use = DITI_ZERO;
    use.narrows = tiles->kernel == DITI_KERNEL_GEMM_COOP;
    use.out = gemm->out;
    use.operands[0] = gemm->x;
    use.operands[1] = gemm->multiply;
    use.binding = 7;
    use.word = DITI_GEMM_GUARD;
    diti_op_guard(graph, dispatch, &use);
}

DIT_INTERNAL uint32_t diti_op_gemm_tiles(const diti_graph *graph, const diti_gemm *gemm, uint32_t *across) {
    diti_gemm_tiles tiles = DITI_ZERO;
    diti_gemm_choose_tiles(graph, gemm, &tiles);
    if (!tiles.rows) return *across = 0;
    *across = diti_gemm_ceil(gemm->columns, tiles.columns);
    return diti_gemm_ceil(gemm->rows, tiles.rows);
}

DIT_INTERNAL bool diti_op_gemm_decodes(const diti_graph *graph, const diti_gemm *gemm) {
    diti_gemm_tiles tiles = DITI_ZERO;
    diti_gemm_choose_tiles(graph, gemm, &tiles);
    return tiles.rows && diti_gemm_ceil(gemm->rows, tiles.rows) == 1 && tiles.kernel != DITI_KERNEL_GEMM_BROADCAST;
}

DIT_INTERNAL void diti_op_gemm_whole(diti_graph *graph, const diti_gemm *gemm) {
    diti_gemm_tiles tiles = DITI_ZERO;
    diti_dispatch dispatch;
    uint32_t taps = diti_gemm_taps(gemm);
    if (diti_graph_failed(graph) || !diti_op_writable(graph, gemm->out, gemm->rows, gemm->columns, gemm->name)) return;
    diti_gemm_choose_tiles(graph, gemm, &tiles);
    diti_gemm_tune(graph, gemm, &tiles);
    if (!tiles.rows) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: no kernel has tiles for 8-bit floats [%u, %u]",
                        gemm->name, gemm->rows, gemm->columns);
        return;
    }
    while (tiles.band > 1 && (uint64_t)tiles.band * tiles.rows * 2 > diti_gemm_rows_at_once(graph, gemm))
        tiles.band /= 2;
    if (!diti_op_begin(graph, &dispatch, gemm->name, tiles.kernel, tiles.group)) return;
    diti_gemm_constants(graph, gemm, &tiles, &dispatch);
    diti_gemm_push(graph, gemm, &tiles, dispatch.push);
    diti_gemm_bind(graph, gemm, &tiles, &dispatch);
    diti_gemm_guard(graph, gemm, &tiles, &dispatch);
    dispatch.cost_kind = gemm->image ? DITI_COST_CONV : DITI_COST_GEMM;
    if (gemm->parts > 1) dispatch.cost_kind = DITI_COST_MEMORY;
    dispatch.flops = gemm->parts > 1 ? 0 : 2.0 * gemm->rows * gemm->columns * gemm->depth * taps;
    dispatch.padded_flops = gemm->parts > 1 ? 0
                                            : 2.0 * dispatch.push[DITI_GEMM_TILES_M] * tiles.rows *
                                                  dispatch.push[DITI_GEMM_TILES_N] * tiles.columns * gemm->depth * taps;
    memcpy(dispatch.shape, &dispatch.push[DITI_GEMM_ROWS], 3 * sizeof dispatch.shape[0]);
    dispatch.shape[3] = gemm->image ? gemm->image->kernel : 0;
    diti_op_emit(graph, &dispatch, (uint64_t)dispatch.push[DITI_GEMM_TILES_M] * dispatch.push[DITI_GEMM_TILES_N],
                 DITI_GEMM_PUSH_WORDS);
}
