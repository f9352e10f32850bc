/* Attention (shaders/attention_cpu.comp, attention_gpu.comp, attention_half.comp) and what prepares queries and keys
 * for it (qkv_post.comp).
 */
#include "graph/ops_internal.h"

#define DITI_ATTENTION_MAX 1536u /* channels of a head: autoencoders have one head of all their channels */

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
    DITI_ATTENTION_ITEMS,
    DITI_ATTENTION_ITEM_COUNT,
    DITI_ATTENTION_BIAS,
    DITI_ATTENTION_BIAS_PITCH,
    DITI_ATTENTION_BIAS_ORIGIN,
    DITI_ATTENTION_LSE,
    DITI_ATTENTION_LSE_PITCH,
    DITI_ATTENTION_GUARD,
    DITI_ATTENTION_ROW_STEP,
    DITI_ATTENTION_KV_SHARE,
    DITI_ATTENTION_CAP,
    DITI_ATTENTION_PUSH_WORDS
};
enum {
    DITI_ATTENTION_PART_ITEMS = 1,
    DITI_ATTENTION_PART_BIAS = 2,
    DITI_ATTENTION_PART_LSE = 4,
    DITI_ATTENTION_PART_PACKED = 8,
    DITI_ATTENTION_PART_STRIDED = 16,
    DITI_ATTENTION_PART_CAP = 32
};

typedef struct diti_attention_shape {
    uint32_t queries, keys; /* rows of one item; packed: all query rows, and the most keys of an item */
    uint32_t heads, kv_heads, head_dim, batch; /* batch: of queries; packed: 1 */
    uint32_t items, query_rows, key_rows;
    uint32_t group; /* items whose rows lie interleaved */
    bool biased;
} diti_attention_shape;

/* Mesa's software driver ends every loop of an invocation after 65535 rounds, all loops together, without a word. */
#define DITI_ATTENTION_ROUNDS 65000u

static uint64_t diti_attention_rounds(const diti_attention_shape *shape, const diti_attention_tiles *tiles,
                                      uint32_t quads, uint32_t step) {
    uint64_t blocks = ((uint64_t)shape->keys + tiles->constants[1] - 1) / tiles->constants[1];
    return blocks * (1 + 2 * (quads / step)) + 2 * (uint64_t)tiles->constants[0] * (quads + 1);
}

/* As few quads of a head in one round as do. */
static bool diti_attention_step(const diti_attention_shape *shape, uint32_t quads, diti_attention_tiles *tiles) {
    uint32_t step = 1;
    while (step < quads && (quads % step || diti_attention_rounds(shape, tiles, quads, step) > DITI_ATTENTION_ROUNDS))
        step++;
    tiles->constants[2] = step;
    return diti_attention_rounds(shape, tiles, quads, step) <= DITI_ATTENTION_ROUNDS;
}

/* Four queries to a lane, fewer where their output does not fit into shared memory. many: keys at a time, on which the
   bytes depend: they are as many in a batch, and where devices divide heads, queries or branches. */
static bool diti_attention_tiles_cpu(const diti_device *device, uint32_t quads, bool many, diti_attention_tiles *out) {
    uint32_t lanes = device->limits.subgroup_size, each = 4;
    out->constant_count = 3;
    out->quads = (uint32_t)diti_align_up(quads, 16);
    while (each > 1 && each * lanes * out->quads * 16u > device->limits.shared_bytes) each /= 2;
    out->kernel = DITI_KERNEL_ATTENTION_CPU;
    out->group = lanes;
    out->block = lanes * each;
    out->constants[0] = each;
    out->constants[1] = many ? 32 : 16; /* wide tiles run faster and take longer to compile */
    while (out->constants[1] < lanes) out->constants[1] *= 2;
    return each * lanes * out->quads * 16u <= device->limits.shared_bytes;
}

/* Threads of a workgroup for heads of so many groups of four channels: 8 times 16 of them, or more where a thread has
   no registers for all that it would get. */
static uint32_t diti_attention_threads(const diti_device *device, uint32_t quads, uint32_t each) {
    uint32_t across = 16, most = device->portions->attention_threads;
    if (most > device->limits.narrow_invocations) most = device->limits.narrow_invocations;
    while (each && quads > across * each && 16 * across <= most) across *= 2;
    return 8 * across;
}

static bool diti_attention_tiles_gpu(const diti_device *device, uint32_t quads, diti_attention_tiles *out) {
    const uint32_t each = device->portions->quads;
    uint32_t queries = 32, keys = 32, bytes = 0;
    bool kept = false;
    out->group = diti_attention_threads(device, quads, each);
    /* a thread with the outputs of four queries for more than twice so many groups of channels would spill */
    while (each && queries > 8 && quads * queries > 2 * 32 * each * (out->group / 8)) queries /= 2;
    for (; keys >= 2; keys /= 2) { /* keys or values, weights, and a little */
        bytes = keys * (quads + 1) * 16 + queries * (keys + 1) * 4 + 512 + 4 * out->group;
        if (bytes <= device->limits.shared_bytes) break;
    }
    if (keys >= 16) kept = bytes + queries * (quads + 1) * 16 <= device->limits.shared_bytes;
    out->kernel = DITI_KERNEL_ATTENTION_GPU;
    out->block = queries;
    out->quads = quads;
    out->constants[0] = keys;
    out->constants[1] = kept;
    out->constants[2] = queries;
    out->constant_count = 3;
    return keys >= 2;
}

/* A tile of keys with all that belongs to it, for threads with so many queries. */
static uint32_t diti_attention_half_bytes(uint32_t quads, uint32_t keys, uint32_t rows, uint32_t group) {
    uint32_t queries = 8 * rows, parts = group / 32;
    return 8 * (4 * quads + 1) * 2 * rows + keys * (quads + 1) * 8 + keys * (queries / 4 + 1) * 16 +
           queries * (parts + 1) * 4 + 64;
}

/* Threads have 4 or 8 queries, with the same bytes. Rounds of all loops for a tile of keys are far fewer than four for
   each key and each quad. */
static bool diti_attention_tiles_half(const diti_device *device, const diti_attention_shape *shape, uint32_t candidate,
                                      diti_attention_tiles *out) {
    const diti_portions *portions = device->portions;
    const uint32_t quads = shape->head_dim / 4, bytes = device->limits.shared_bytes;
    uint32_t keys = 32, rows = 4;
    bool many;
    if (device->rung < DITI_RUNG_HALF || !device->half_attention || shape->head_dim % 4) return false;
    if (device->is_cpu && (uint64_t)(shape->keys / keys + 1) * 4 * (keys + quads) > DITI_ATTENTION_ROUNDS) return false;
    out->group = diti_attention_threads(device, quads, portions->half_quads);
    if (portions->half_quads && quads > out->group / 8 * portions->half_quads) return false;
    while (keys >= 16 && diti_attention_half_bytes(quads, keys, rows, out->group) > bytes) keys /= 2;
    many = !device->is_cpu && quads <= out->group / 8 * portions->row_quads && shape->queries >= 512;
    if (many != (candidate == 1) && keys == 32 && quads <= out->group / 8 * 2 &&
        diti_attention_half_bytes(quads, keys, 8, out->group) <= bytes)
        rows = 8;
    out->kernel = DITI_KERNEL_ATTENTION_HALF;
    out->block = 8 * rows;
    out->quads = quads;
    out->constants[0] = keys;
    out->constants[1] = rows;
    out->constants[2] = portions->half_apart;
    out->constant_count = 3;
    return keys >= 16;
}

/* Each thread has two keys of a tile, or one where a bias takes the registers. A subgroup has as many queries as there
   are registers for their outputs and for the next tile, of which a thread of a large workgroup has less; heads wider
   than 160 spill. */
static bool diti_attention_tiles_broadcast(const diti_device *device, const diti_attention_shape *shape,
                                           diti_attention_tiles *out) {
    const uint32_t team = device->attention_team, columns = shape->biased && shape->head_dim > 96 ? 1 : 2;
    uint32_t quads = shape->head_dim / 4, rows = 0, padded, bytes;
    if (device->rung < DITI_RUNG_FP16 || !team || shape->head_dim % 4 || shape->head_dim > 160) return false;
    padded = (uint32_t)diti_align_up(quads, team / 4);
    out->group = shape->queries > 512 || shape->head_dim > 96 ? 256 : 128;
    if (out->group > device->limits.group_invocations) out->group = 128;
    for (; out->group >= 32; out->group /= 2) {
        rows = shape->head_dim <= (out->group == 256 ? 128u : 96u) ? 4 : 2;
        out->block = out->group / team * rows;
        bytes = columns * team * (padded + 1) * 16 + out->block * (padded + team / 4) * 8;
        if (bytes <= device->limits.shared_bytes) break;
    }
    out->kernel = DITI_KERNEL_ATTENTION_BROADCAST;
    out->quads = quads;
    out->constants[4] = rows;
    out->constants[5] = columns;
    out->constants[6] = team;
    out->constant_count = 7;
    return out->group >= 32;
}

static uint32_t diti_attention_choose(diti_graph *graph, const diti_attention_shape *shape, diti_element format) {
    diti_tune_case wanted = DITI_ZERO;
    if (format == DITI_I8) return 0;
    wanted.kind = DITI_TUNE_ATTENTION;
    wanted.formats[0] = wanted.formats[1] = wanted.formats[2] = format;
    wanted.rows = shape->queries;
    wanted.columns = shape->keys;
    wanted.depth = shape->heads;
    wanted.head_dim = shape->head_dim;
    return diti_tune_choose(graph, &wanted);
}

/* attention_cpu: other numbers of queries to a lane; attention_gpu: the queries kept in shared memory, or not. All with
   the same keys at a time, on which the bytes depend. */
static void diti_attention_candidate(const diti_device *device, uint32_t candidate, diti_attention_tiles *tiles) {
    uint32_t each = candidate == 1 ? 2 : 8, bytes = each * tiles->group * tiles->quads * 16u;
    if (!candidate) return;
    if (tiles->kernel != DITI_KERNEL_ATTENTION_CPU) {
        tiles->constants[1] = 0; /* kept only where there is room */
        return;
    }
    if (bytes > device->limits.shared_bytes) return;
    tiles->constants[0] = each;
    tiles->block = tiles->group * each;
}

static bool diti_attention_input(diti_graph *graph, diti_tensor tensor, const diti_attention_shape *shape,
                                 uint32_t heads, uint32_t rows, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    uint32_t head = diti_element_is_float(info->format) ? shape->head_dim : 0;
    if (info->format == DITI_I8) head = diti_attention_int8_head(graph->device, shape->head_dim);
    if (head && info->rows == rows && info->columns == heads * head) return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                    "op %s: %s [%u, %u] is not %u rows (of %u items) of %u x %u channels", name, info->name, info->rows,
                    info->columns, rows, shape->items, heads, shape->head_dim);
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

static void diti_attention_measure(const diti_graph *graph, diti_tensor q, diti_tensor k,
                                   const diti_attention_desc *desc, diti_attention_shape *shape) {
    uint32_t query_rows = diti_tensor_get(graph, q)->rows, key_rows = diti_tensor_get(graph, k)->rows;
    shape->items = desc->batch ? desc->batch : 1;
    shape->batch = desc->packed ? 1 : shape->items;
    shape->group = desc->row_step ? desc->row_step : 1;
    shape->biased = desc->bias != 0;
    shape->heads = desc->heads;
    shape->kv_heads = desc->kv_heads ? desc->kv_heads : desc->heads;
    shape->head_dim = desc->head_dim;
    shape->queries = query_rows / shape->batch;
    shape->keys = desc->items ? key_rows : key_rows / shape->batch;
    if (desc->key_limit && desc->key_limit < shape->keys) shape->keys = desc->key_limit;
    shape->query_rows = shape->queries * shape->batch;
    shape->key_rows = desc->items ? key_rows : shape->keys * shape->batch;
}

static bool diti_attention_check(diti_graph *graph, diti_tensor q, diti_tensor k, diti_tensor v,
                                 const diti_attention_desc *desc, diti_attention_shape *shape, const char *name) {
    uint32_t before; /* bias columns for keys before the last query */
    if (diti_graph_failed(graph)) return false;
    diti_attention_measure(graph, q, k, desc, shape);
    if (desc->head_dim == 0 || desc->head_dim > DITI_ATTENTION_MAX || desc->heads == 0) {
        diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "op %s: %u heads of %u channels; 1 to %u channels work",
                        name, desc->heads, desc->head_dim, DITI_ATTENTION_MAX);
        return false;
    }
    if (desc->heads % shape->kv_heads) {
        diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "op %s: %u heads cannot share %u heads of keys and values",
                        name, desc->heads, shape->kv_heads);
        return false;
    }
    if (desc->packed && (!desc->items || (desc->bias && !desc->key_limit))) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: packed queries want items, and a bias key_limit",
                        name);
        return false;
    }
    if (desc->row_step && (desc->items || shape->batch % desc->row_step)) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                        "op %s: %u items are not interleaved in groups of %u, or are given by a table", name,
                        shape->batch, desc->row_step);
        return false;
    }
    before = desc->packed ? desc->key_limit : shape->queries;
    return diti_attention_input(graph, q, shape, shape->heads, shape->query_rows, name) &&
           diti_attention_input(graph, k, shape, shape->kv_heads, shape->key_rows, name) &&
           diti_attention_input(graph, v, shape, shape->kv_heads, shape->key_rows, name) &&
           diti_attention_table(graph, desc->items, DITI_U32, shape->items, DITI_ITEM_WORDS, name) &&
           diti_attention_table(graph, desc->bias, DITI_F32, shape->heads,
                                before + (desc->packed ? desc->key_limit : shape->keys) - 1, name) &&
           diti_attention_table(graph, desc->lse, DITI_F32, shape->query_rows, shape->heads, name);
}

/* tensor, or a copy where the kernel needs another format, or where the rows that are bound at once (with what lies
   between the columns of a view) do not fit one binding. */
static diti_tensor diti_attention_operand(diti_graph *graph, diti_tensor tensor, diti_element format, uint32_t batch,
                                          const char *name) {
    const diti_tensor_info info = *diti_tensor_get(graph, tensor);
    uint64_t row_bytes = (uint64_t)info.pitch * diti_element_size(info.format), most, bytes;
    uint64_t range = graph->device->limits.storage_range;
    uint32_t row, rows;
    diti_tensor out;
    bytes = info.rows / batch * row_bytes;
    if (info.format == format && bytes <= range) return tensor;
    most = (range - graph->device->limits.storage_alignment) / row_bytes;
    out = diti_tensor_new(graph, format, info.rows, info.columns, name);
    for (row = 0; row < info.rows && !diti_graph_failed(graph); row += rows) { /* rows of a view are bound as a whole */
        rows = info.rows - row < most ? info.rows - row : most ? (uint32_t)most : 1;
        diti_copy(graph, diti_tensor_view(graph, tensor, row, rows, 0, info.columns),
                  diti_tensor_view(graph, out, row, rows, 0, info.columns), name);
    }
    return out;
}

static void diti_attention_bind(const diti_graph *graph, diti_dispatch *dispatch, const diti_attention_desc *desc,
                                const diti_tensor *qkv, diti_tensor out, const diti_attention_shape *shape) {
    uint32_t group = shape->group, per_group = group * shape->heads * dispatch->push[DITI_ATTENTION_BLOCKS];
    diti_op_bind(graph, dispatch, 0, qkv[0], DITI_ATTENTION_Q, true, false);
    diti_op_bind(graph, dispatch, 1, qkv[1], DITI_ATTENTION_K, true, false);
    diti_op_bind(graph, dispatch, 2, qkv[2], DITI_ATTENTION_V, true, false);
    diti_op_bind(graph, dispatch, 3, out, DITI_ATTENTION_OUT, false, true);
    diti_op_bind(graph, dispatch, 4, desc->items, DITI_ATTENTION_ITEMS, true, false);
    diti_op_bind(graph, dispatch, 5, desc->bias, DITI_ATTENTION_BIAS, true, false);
    diti_op_bind(graph, dispatch, 6, desc->lse, DITI_ATTENTION_LSE, false, true);
    if (desc->packed) return;
    diti_op_bind_rows(graph, dispatch, 0, per_group, group * shape->queries, 0, 0);
    diti_op_bind_rows(graph, dispatch, 3, per_group, group * shape->queries, 0, 0);
    if (desc->lse) diti_op_bind_rows(graph, dispatch, 6, per_group, group * shape->queries, 0, 0);
    if (desc->items) return; /* any keys */
    diti_op_bind_rows(graph, dispatch, 1, per_group, group * shape->keys, 0, 0);
    diti_op_bind_rows(graph, dispatch, 2, per_group, group * shape->keys, 0, 0);
}

static bool diti_attention_is_vector(const diti_graph *graph, uint32_t head_dim, const diti_tensor *qkv,
                                     diti_tensor out) {
    return head_dim % 4 == 0 && diti_op_aligned(graph, qkv[0]) && diti_op_aligned(graph, qkv[1]) &&
           diti_op_aligned(graph, qkv[2]) && diti_op_aligned(graph, out);
}

static void diti_attention_constants(const diti_graph *graph, diti_dispatch *dispatch, const diti_attention_desc *desc,
                                     const diti_tensor *qkv, diti_tensor out, const diti_attention_tiles *tiles) {
    uint32_t *c = dispatch->constants;
    c[1] = diti_tensor_get(graph, qkv[0])->format;
    c[4] = diti_attention_is_vector(graph, desc->head_dim, qkv, out);
    c[2] = diti_tensor_get(graph, out)->format;
    c[3] = (desc->items ? (uint32_t)DITI_ATTENTION_PART_ITEMS : 0) |
           (desc->bias ? (uint32_t)DITI_ATTENTION_PART_BIAS : 0) | (desc->lse ? (uint32_t)DITI_ATTENTION_PART_LSE : 0) |
           (desc->packed ? (uint32_t)DITI_ATTENTION_PART_PACKED : 0) |
           (desc->row_step ? (uint32_t)DITI_ATTENTION_PART_STRIDED : 0) |
           (desc->cap > 0 ? (uint32_t)DITI_ATTENTION_PART_CAP : 0);
    c[5] = tiles->quads;
    memcpy(&c[6], tiles->constants, tiles->constant_count * sizeof *c);
    dispatch->stated = DITI_STATED(6 + tiles->constant_count);
}

/* Query blocks of one item; packed: at most so many of all items together. */
static uint32_t diti_attention_blocks(const diti_attention_desc *desc, const diti_attention_shape *shape,
                                      uint32_t block) {
    if (desc->packed) return shape->queries / block + shape->items;
    return (shape->queries + block - 1) / block;
}

/* 16 bytes at a time. */
static bool diti_attention_by_eight(const diti_graph *graph, diti_tensor tensor) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    uint32_t unit = 16u / diti_element_size(info->format);
    return info->first % unit == 0 && info->pitch % unit == 0;
}

static bool diti_attention_on_matrices(const diti_graph *graph, const diti_attention_desc *desc, const diti_tensor *qkv,
                                       diti_tensor out, const diti_attention_shape *shape, uint32_t candidate,
                                       diti_attention_tiles *tiles) {
    diti_element format = diti_tensor_get(graph, qkv[0])->format;
    uint32_t i;
    if (format == DITI_F32 || diti_tensor_get(graph, qkv[2])->format != DITI_F16 || desc->bias || desc->cap > 0 ||
        desc->scale <= 0)
        return false;
    for (i = 0; i < 3; i++)
        if (!diti_attention_by_eight(graph, qkv[i])) return false;
    return diti_attention_by_eight(graph, out) &&
           diti_attention_tiles_matrix(graph->device, shape->head_dim, shape->queries, shape->keys, format == DITI_I8,
                                       candidate, tiles);
}

/* Queries, keys and values of those formats, without matrices; false: they do not fit. */
static bool diti_attention_on_vectors(const diti_graph *graph, const diti_tensor *qkv, diti_tensor out,
                                      const diti_attention_shape *shape, bool many, uint32_t candidate,
                                      diti_attention_tiles *tiles) {
    const diti_device *device = graph->device;
    diti_element format = diti_tensor_get(graph, qkv[0])->format;
    uint32_t quads = (shape->head_dim + 3) / 4;
    bool fits, int8 = format == DITI_I8;
    if (format == DITI_F16 && diti_attention_is_vector(graph, shape->head_dim, qkv, out) &&
        (diti_attention_tiles_broadcast(device, shape, tiles) ||
         diti_attention_tiles_half(device, shape, candidate, tiles)))
        return true;
    fits = device->is_cpu && !int8 && diti_attention_tiles_cpu(device, quads, many, tiles);
    if (!fits) { /* a processor has too little shared memory for very wide heads */
        fits = diti_attention_tiles_gpu(device, quads, tiles) &&
               (!device->is_cpu || int8 ||
                (uint64_t)(shape->keys / tiles->constants[0] + 1) * (quads + 2 * tiles->constants[0] + 16) <
                    DITI_ATTENTION_ROUNDS);
    }
    diti_attention_candidate(device, candidate, tiles);
    return fits;
}

/* The result is a mean of values, and so it is stored with their exponent. */
static void diti_attention_guard(diti_graph *graph, const diti_tensor *qkv, diti_tensor out, diti_dispatch *dispatch) {
    diti_guard_use use = DITI_ZERO;
    use.operands[0] = qkv[0];
    use.operands[1] = qkv[1];
    use.binding = 7;
    use.word = DITI_ATTENTION_GUARD;
    diti_guard_pass(graph, qkv[2], out);
    diti_op_guard(graph, dispatch, &use);
}

static void diti_attention_emit(diti_graph *graph, const diti_attention_desc *desc, const diti_tensor *qkv,
                                diti_tensor out, const diti_attention_shape *shape, const char *name) {
    diti_attention_tiles tiles = DITI_ZERO;
    diti_dispatch dispatch;
    uint32_t quads = (shape->head_dim + 3) / 4;
    double flops = 4.0 * shape->batch * shape->heads * shape->queries * (double)shape->keys * shape->head_dim;
    uint32_t candidate = diti_attention_choose(graph, shape, diti_tensor_get(graph, qkv[0])->format);
    bool matrix = diti_attention_on_matrices(graph, desc, qkv, out, shape, candidate, &tiles);
    bool many = shape->keys >= (desc->items ? 65536u : 256u); /* keys of items may be those of all of them */
    if (!matrix && diti_tensor_get(graph, qkv[0])->format == DITI_I8 &&
        (desc->bias || desc->cap > 0 || !diti_device_dots_attention(graph->device) ||
         diti_tensor_get(graph, qkv[2])->format != DITI_F16)) {
        diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_DEVICE, "op %s: int8 queries of such a shape are for no kernel",
                        name);
        return;
    }
    if (!matrix && !diti_attention_on_vectors(graph, qkv, out, shape, many, candidate, &tiles)) {
        diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_DEVICE,
                        "op %s: heads of %u channels need more than %u bytes of shared memory", name, shape->head_dim,
                        graph->device->limits.shared_bytes);
        return;
    }
    if (tiles.kernel == DITI_KERNEL_ATTENTION_CPU && !diti_attention_step(shape, quads, &tiles)) {
        diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_DEVICE,
                        "op %s: %u keys are more than software drivers can go through; ask for a smaller image", name,
                        shape->keys);
        return;
    }
    if (!diti_op_begin(graph, &dispatch, name, tiles.kernel, tiles.group)) return;
    diti_attention_constants(graph, &dispatch, desc, qkv, out, &tiles);
    dispatch.push[DITI_ATTENTION_QUERIES] = shape->queries;
    dispatch.push[DITI_ATTENTION_KEYS] = shape->keys;
    dispatch.push[DITI_ATTENTION_ITEM_COUNT] = shape->items;
    dispatch.push[DITI_ATTENTION_HEADS] = shape->heads;
    dispatch.push[DITI_ATTENTION_HEAD_DIM] = shape->head_dim;
    dispatch.push[DITI_ATTENTION_BLOCKS] = diti_attention_blocks(desc, shape, tiles.block);
    dispatch.push[DITI_ATTENTION_SCALE] = diti_op_float(desc->scale);
    dispatch.push[DITI_ATTENTION_Q_PITCH] = diti_tensor_get(graph, qkv[0])->pitch;
    dispatch.push[DITI_ATTENTION_K_PITCH] = diti_tensor_get(graph, qkv[1])->pitch;
    dispatch.push[DITI_ATTENTION_V_PITCH] = diti_tensor_get(graph, qkv[2])->pitch;
    dispatch.push[DITI_ATTENTION_OUT_PITCH] = diti_tensor_get(graph, out)->pitch;
    dispatch.push[DITI_ATTENTION_BIAS_PITCH] = desc->bias ? diti_tensor_get(graph, desc->bias)->pitch : 0;
    dispatch.push[DITI_ATTENTION_BIAS_ORIGIN] = (desc->packed ? desc->key_limit : shape->queries) - 1;
    dispatch.push[DITI_ATTENTION_ROW_STEP] = desc->row_step;
    dispatch.push[DITI_ATTENTION_KV_SHARE] = shape->heads / shape->kv_heads;
    dispatch.push[DITI_ATTENTION_CAP] = diti_op_float(desc->cap);
    dispatch.push[DITI_ATTENTION_LSE_PITCH] = desc->lse ? diti_tensor_get(graph, desc->lse)->pitch : 0;
    diti_attention_bind(graph, &dispatch, desc, qkv, out, shape);
    diti_attention_guard(graph, qkv, out, &dispatch);
    dispatch.cost_kind = DITI_COST_ATTENTION;
    dispatch.flops = flops;
    memcpy(dispatch.shape, &dispatch.push[DITI_ATTENTION_QUERIES], 4 * sizeof dispatch.shape[0]);
    dispatch.shape[4] = shape->batch;
    diti_op_emit(graph, &dispatch, (uint64_t)shape->batch * shape->heads * dispatch.push[DITI_ATTENTION_BLOCKS],
                 DITI_ATTENTION_PUSH_WORDS);
}

/* q, k and v in formats that go together. */
static void diti_attention_operands(diti_graph *graph, const diti_attention_desc *desc,
                                    const diti_attention_shape *shape, diti_tensor *qkv, const char *name) {
    diti_element format = diti_tensor_get(graph, qkv[0])->format;
    diti_qkv_desc plain = DITI_ZERO;
    diti_tensor mean;
    uint32_t i;
    if (format == DITI_I8) return;
    if (diti_tensor_get(graph, qkv[1])->format != format || diti_tensor_get(graph, qkv[2])->format != format)
        format = DITI_F32;
    for (i = 0; i < 3; i++)
        qkv[i] =
            diti_attention_operand(graph, qkv[i], format, i && desc->items ? 1 : shape->batch / shape->group, name);
    if (!desc->int8 || desc->bias || desc->cap > 0 || shape->kv_heads != desc->heads || format != DITI_F16 ||
        !diti_attention_int8_head(graph->device, desc->head_dim) || diti_graph_failed(graph) ||
        !diti_attention_by_eight(graph, qkv[2]))
        return;
    plain.heads = desc->heads;
    plain.head_dim = desc->head_dim;
    mean = diti_qkv_mean(graph, qkv[1], &plain);
    qkv[0] = diti_qkv_int8(graph, qkv[0], &plain, mean, false);
    qkv[1] = diti_qkv_int8(graph, qkv[1], &plain, mean, true);
}

DIT_INTERNAL diti_tensor diti_attention(diti_graph *graph, diti_tensor q, diti_tensor k, diti_tensor v,
                                        const diti_attention_desc *desc) {
    const char *name = desc->name ? desc->name : "attention";
    diti_attention_shape shape = DITI_ZERO;
    diti_tensor qkv[3], out;
    if (!diti_attention_check(graph, q, k, v, desc, &shape, name)) return 0;
    qkv[0] = q;
    qkv[1] = k;
    qkv[2] = shape.head_dim % 2 ? diti_guard_release(graph, v, name) : v; /* the result is F32 */
    diti_attention_operands(graph, desc, &shape, qkv, name);
    out = shape.head_dim % 2 ? 0 : desc->out;
    if (!out)
        out = diti_tensor_new(graph, shape.head_dim % 2 ? DITI_F32 : graph->activation, shape.query_rows,
                              shape.heads * shape.head_dim, name);
    if (!diti_op_writable(graph, out, shape.query_rows, shape.heads * shape.head_dim, name)) return 0;
    diti_attention_emit(graph, desc, qkv, out, &shape, name);
    if (shape.head_dim % 2 &&
        (desc->out || (graph->activation != DITI_F32 && !graph->guards))) { /* odd heads begin inside a word */
        diti_elementwise_desc narrow = DITI_ZERO;
        narrow.out = desc->out;
        narrow.name = name;
        out = diti_elementwise(graph, out, &narrow);
    }
    return out;
}

/* --- qkv_post --- */

/* Push words of qkv_post.comp. */
enum {
    DITI_QKV_ROWS = 1,
    DITI_QKV_HEADS,
    DITI_QKV_HEAD_DIM,
    DITI_QKV_TOKENS,
    DITI_QKV_EPS,
    DITI_QKV_X,
    DITI_QKV_X_PITCH,
    DITI_QKV_WEIGHT,
    DITI_QKV_BIAS,
    DITI_QKV_COSINES,
    DITI_QKV_COSINES_PITCH,
    DITI_QKV_SINES,
    DITI_QKV_SINES_PITCH,
    DITI_QKV_INT8,
    DITI_QKV_INT8_PITCH,
    DITI_QKV_INT8_HEAD,
    DITI_QKV_MEAN,
    DITI_QKV_WEIGHT_HEADS,
    DITI_QKV_TEXT_ROWS,
    DITI_QKV_OTHERS,
    DITI_QKV_GUARD,
    DITI_QKV_ROW_SHARE,
    DITI_QKV_PUSH_WORDS
};
enum {
    DITI_QKV_PART_RMS = 1,
    DITI_QKV_PART_LAYER = 2,
    DITI_QKV_PART_WEIGHT = 4,
    DITI_QKV_PART_BIAS = 8,
    DITI_QKV_PART_ROTATE = 16,
    DITI_QKV_PART_HALF_SPLIT = 32,
    DITI_QKV_PART_INT8 = 64,
    DITI_QKV_PART_KEYS = 128,
    DITI_QKV_PART_MEAN = 256,
    DITI_QKV_PART_SHARED = 512,
    DITI_QKV_PART_ROTATE_FIRST = 1024,
    DITI_QKV_PART_TWO_AXES = 2048
};

static bool diti_qkv_check(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, x);
    uint32_t tokens = desc->tokens ? desc->tokens : info->rows, unit = desc->cosines && desc->half_split ? 4 : 2;
    if (diti_graph_failed(graph)) return false;
    if (!diti_op_writable(graph, x, info->rows, desc->heads * desc->head_dim, name)) return false;
    if (desc->rows_per_entry) tokens /= desc->rows_per_entry;
    if ((desc->two_axes && (!desc->half_split || (desc->head_dim % 8 && (info->format != DITI_F32 || desc->weight ||
                                                                         info->pitch == info->columns)))) ||
        (desc->rotate_first && desc->norm != DITI_QKV_RMS)) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: heads of %u channels are not rotated like that",
                        name, desc->head_dim);
        return false;
    }
    if (desc->head_dim == 0 || desc->head_dim % unit) {
        diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "op %s: heads of %u channels; a multiple of %u is needed",
                        name, desc->head_dim, unit);
        return false;
    }
    return diti_attention_table(graph, desc->cosines, DITI_F32, tokens, desc->head_dim / 2, name) &&
           diti_attention_table(graph, desc->sines, DITI_F32, tokens, desc->head_dim / 2, name);
}

static uint32_t diti_qkv_parts(const diti_qkv_desc *desc) {
    return (desc->norm == DITI_QKV_RMS ? (uint32_t)DITI_QKV_PART_RMS : 0) |
           (desc->norm == DITI_QKV_LAYER ? (uint32_t)DITI_QKV_PART_LAYER : 0) |
           (desc->weight && desc->weight->part_count ? (uint32_t)DITI_QKV_PART_WEIGHT : 0) |
           (desc->bias && desc->bias->part_count ? (uint32_t)DITI_QKV_PART_BIAS : 0) |
           (desc->cosines ? (uint32_t)DITI_QKV_PART_ROTATE : 0) |
           (desc->half_split ? (uint32_t)DITI_QKV_PART_HALF_SPLIT : 0) |
           (desc->rows_per_entry ? (uint32_t)DITI_QKV_PART_SHARED : 0) |
           (desc->rotate_first && desc->cosines ? (uint32_t)DITI_QKV_PART_ROTATE_FIRST : 0) |
           (desc->two_axes ? (uint32_t)DITI_QKV_PART_TWO_AXES : 0);
}

/* parts: what to do with the result: nothing more (in place), to int8 in out, or its mean in `mean`. */
static void diti_qkv_emit(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc, uint32_t parts, diti_tensor out,
                          diti_tensor mean, const char *name) {
    bool cpu = graph->device->is_cpu, in_place = !(parts & (DITI_QKV_PART_INT8 | DITI_QKV_PART_MEAN));
    uint32_t group = cpu ? graph->device->limits.subgroup_size : 128, lanes = cpu ? 1 : 32, rows;
    uint32_t kinds = desc->kinds ? desc->kinds : 1, first;
    diti_tensor weight, bias;
    diti_guard_use use = DITI_ZERO;
    diti_dispatch dispatch;
    if (!diti_qkv_check(graph, x, desc, name)) return;
    weight = diti_op_vector_weight(graph, desc->weight, desc->head_dim * kinds * (desc->others ? 2 : 1), name);
    first = (desc->others && !desc->text_rows ? kinds : 0) + (desc->kind ? desc->kind - 1 : 0);
    if (weight && first)
        weight = diti_tensor_view(graph, weight, 0, 1, desc->head_dim * first,
                                  diti_tensor_columns(graph, weight) - desc->head_dim * first);
    bias = diti_op_vector_weight(graph, desc->bias, desc->head_dim, name);
    if (!diti_op_begin(graph, &dispatch, name, DITI_KERNEL_QKV_POST, group)) return;
    rows = diti_tensor_get(graph, x)->rows;
    dispatch.constants[1] = lanes;
    dispatch.constants[2] = diti_tensor_get(graph, x)->format;
    dispatch.constants[3] = parts | diti_qkv_parts(desc);
    dispatch.stated = DITI_STATED(4);
    dispatch.push[DITI_QKV_ROWS] = rows;
    dispatch.push[DITI_QKV_HEADS] = desc->heads;
    dispatch.push[DITI_QKV_HEAD_DIM] = desc->head_dim;
    dispatch.push[DITI_QKV_TOKENS] = desc->tokens ? desc->tokens : rows;
    dispatch.push[DITI_QKV_EPS] = diti_op_float(desc->eps);
    dispatch.push[DITI_QKV_X_PITCH] = diti_tensor_get(graph, x)->pitch;
    dispatch.push[DITI_QKV_COSINES_PITCH] = desc->cosines ? diti_tensor_get(graph, desc->cosines)->pitch : 0;
    dispatch.push[DITI_QKV_SINES_PITCH] = desc->sines ? diti_tensor_get(graph, desc->sines)->pitch : 0;
    dispatch.push[DITI_QKV_INT8_PITCH] = out ? diti_tensor_get(graph, out)->pitch : 0;
    dispatch.push[DITI_QKV_INT8_HEAD] = out ? diti_tensor_get(graph, out)->columns / desc->heads : 0;
    dispatch.push[DITI_QKV_WEIGHT_HEADS] = desc->kind ? desc->heads : desc->heads / kinds;
    dispatch.push[DITI_QKV_TEXT_ROWS] = desc->text_rows;
    dispatch.push[DITI_QKV_OTHERS] = kinds;
    dispatch.push[DITI_QKV_ROW_SHARE] = desc->rows_per_entry;
    diti_op_bind(graph, &dispatch, 0, x, DITI_QKV_X, true, in_place);
    diti_op_bind(graph, &dispatch, 1, weight, DITI_QKV_WEIGHT, true, false);
    diti_op_bind(graph, &dispatch, 2, bias, DITI_QKV_BIAS, true, false);
    diti_op_bind(graph, &dispatch, 3, desc->cosines, DITI_QKV_COSINES, true, false);
    diti_op_bind(graph, &dispatch, 4, desc->sines, DITI_QKV_SINES, true, false);
    diti_op_bind(graph, &dispatch, 5, out, DITI_QKV_INT8, false, true);
    /* validation layers take a binding that some pipeline of the module writes for one that all write */
    diti_op_bind(graph, &dispatch, 6, mean, DITI_QKV_MEAN, !(parts & DITI_QKV_PART_MEAN),
                 (parts & DITI_QKV_PART_MEAN) != 0 || graph->device->validated);
    use.out = in_place ? x : 0;
    use.operands[0] = x;
    use.binding = 7;
    use.word = DITI_QKV_GUARD;
    diti_op_guard(graph, &dispatch, &use);
    if (parts & DITI_QKV_PART_MEAN) {
        diti_op_emit(graph, &dispatch, desc->heads, DITI_QKV_PUSH_WORDS);
        return;
    }
    if (rows > 1) { /* heads workgroups do group / lanes rows */
        diti_op_bind_rows(graph, &dispatch, 0, desc->heads, group / lanes, 0, 0);
        if (out) diti_op_bind_rows(graph, &dispatch, 5, desc->heads, group / lanes, 0, 0);
    }
    diti_op_emit(graph, &dispatch, ((uint64_t)rows * desc->heads + group / lanes - 1) / (group / lanes),
                 DITI_QKV_PUSH_WORDS);
}

DIT_INTERNAL void diti_qk_norm_rope(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc) {
    diti_qkv_emit(graph, x, desc, 0, 0, 0, desc->name ? desc->name : "qkv");
}

DIT_INTERNAL void diti_turn_heads(diti_graph *graph, diti_tensor qkv, uint32_t heads, uint32_t head_dim,
                                  diti_tensor cosines, diti_tensor sines, const char *name) {
    diti_qkv_desc desc = DITI_ZERO;
    uint32_t rows;
    if (diti_graph_failed(graph)) return;
    rows = 3 * heads * diti_tensor_rows(graph, qkv); /* each head becomes a row of its own */
    desc.heads = 1;
    desc.head_dim = 2 * diti_tensor_columns(graph, cosines);
    desc.half_split = true;
    desc.cosines = cosines;
    desc.sines = sines;
    desc.rows_per_entry = heads;
    desc.tokens = heads * diti_tensor_rows(graph, cosines);
    desc.name = name;
    qkv = diti_tensor_reshape(graph, qkv, rows, head_dim);
    diti_qk_norm_rope(graph, diti_tensor_view(graph, qkv, 0, rows, 0, desc.head_dim), &desc);
}

DIT_INTERNAL diti_tensor diti_qkv_mean(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc) {
    const char *name = desc->name ? desc->name : "mean_key";
    diti_tensor mean = diti_tensor_new(graph, DITI_F32, 1, desc->heads * desc->head_dim, name);
    diti_qkv_emit(graph, x, desc, DITI_QKV_PART_MEAN, 0, mean, name);
    return mean;
}

DIT_INTERNAL diti_tensor diti_qkv_int8(diti_graph *graph, diti_tensor x, const diti_qkv_desc *desc, diti_tensor mean,
                                       bool keys) {
    const char *name = desc->name ? desc->name : keys ? "int8_keys" : "int8_queries";
    uint32_t head = diti_attention_int8_head(graph->device, desc->head_dim), rows;
    diti_tensor out;
    if (diti_graph_failed(graph)) return 0;
    rows = diti_tensor_get(graph, x)->rows;
    if (!head)
        return diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_DEVICE, "op %s: %s multiplies no int8", name,
                               graph->device->info.name);
    out = diti_tensor_new(graph, DITI_I8, rows, desc->heads * head, name);
    diti_qkv_emit(graph, x, desc, DITI_QKV_PART_INT8 | (keys ? (uint32_t)DITI_QKV_PART_KEYS : 0), out, mean, name);
    return out;
}
