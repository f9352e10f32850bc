/* LayerNorm, RMSNorm and modulation (shaders/norm.comp); GroupNorm (group_norm.comp); weighted rows (weigh.comp). */
#include "graph/ops_internal.h"

/* Push words of norm.comp. */
enum {
    DITI_NORM_PUSH_ROWS = 1,
    DITI_NORM_PUSH_COLUMNS,
    DITI_NORM_PUSH_EPS,
    DITI_NORM_PUSH_IN,
    DITI_NORM_PUSH_IN_PITCH,
    DITI_NORM_PUSH_OUT,
    DITI_NORM_PUSH_OUT_PITCH,
    DITI_NORM_PUSH_WEIGHT,
    DITI_NORM_PUSH_BIAS,
    DITI_NORM_PUSH_SCALE,
    DITI_NORM_PUSH_SCALE_PITCH,
    DITI_NORM_PUSH_SHIFT,
    DITI_NORM_PUSH_SHIFT_PITCH,
    DITI_NORM_PUSH_ROWS_PER_GROUP,
    DITI_NORM_PUSH_ITEM_ROWS,
    DITI_NORM_PUSH_TEXT_ROWS,
    DITI_NORM_PUSH_AGREED,
    DITI_NORM_PUSH_AGREED_PITCH,
    DITI_NORM_PUSH_AGREED_COUNT,
    DITI_NORM_PUSH_WORDS
};
enum {
    DITI_NORM_PART_RMS = 1,
    DITI_NORM_PART_WEIGHT = 2,
    DITI_NORM_PART_BIAS = 4,
    DITI_NORM_PART_SCALE = 8,
    DITI_NORM_PART_SHIFT = 16,
    DITI_NORM_PART_PLAIN = 32,
    DITI_NORM_PART_AGREED = 64,
    DITI_NORM_PART_MEASURE = 128,
    DITI_NORM_PART_SILU = 256,
    DITI_NORM_PART_FACTOR = 512,
    DITI_NORM_PART_RESIDUAL = 1024
};
enum {
    DITI_NORM_FLOATS,
    DITI_NORM_QUANTIZE,
    DITI_NORM_QUANTIZE_ROTATED,
    DITI_NORM_QUANTIZE_E4M3,
    DITI_NORM_QUANTIZE_ROTATED_4
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
    if (desc->item_rows) groups *= 2;
    if (diti_graph_failed(graph)) return false;
    if (!diti_element_is_float(info->format)) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s holds no floats", name, info->name);
        return false;
    }
    return diti_norm_table(graph, desc->scale, groups, info->columns, name) &&
           diti_norm_table(graph, desc->shift, groups, info->columns, name) &&
           diti_norm_table(graph, desc->residual, info->rows, info->columns, name);
}

typedef struct diti_norm_op {
    diti_tensor x, out, weight, bias;
    diti_tensor agreed; /* F32 [any, rows]: magnitudes that count with those of each row; 0: none */
    uint32_t parts;
    bool rotated; /* where magnitudes are the result */
    const diti_norm_desc *desc;
    const char *name;
} diti_norm_op;

static bool diti_norm_rotates(uint32_t mode) {
    return mode == DITI_NORM_QUANTIZE_ROTATED || mode == DITI_NORM_QUANTIZE_ROTATED_4;
}

static uint32_t diti_norm_mode(const diti_graph *graph, const diti_norm_op *op, const diti_tensor_info *out) {
    const uint32_t plain = DITI_NORM_QUANTIZE, rotated = graph->device->int4_activations ? DITI_NORM_QUANTIZE_ROTATED_4
                                                                                         : DITI_NORM_QUANTIZE_ROTATED;
    if (op->parts & DITI_NORM_PART_MEASURE) return op->rotated ? rotated : plain;
    if (out->format != DITI_I8) return DITI_NORM_FLOATS;
    if (out->e4m3) return DITI_NORM_QUANTIZE_E4M3;
    return out->rotated ? rotated : plain;
}

static diti_tensor diti_norm_shift(const diti_norm_desc *desc) { return desc->residual ? desc->residual : desc->shift; }

/* Lanes that share a row. Processors give a row to each lane; rotating takes four lanes for 256 columns, and 32 fill
   half of the shared memory that every device has. */
static uint32_t diti_norm_lanes(bool cpu, uint32_t mode, uint32_t columns) {
    uint32_t lanes = 4;
    if (!diti_norm_rotates(mode)) return cpu ? 1 : 128;
    while (!cpu && lanes < 32 && lanes * 64 < columns) lanes *= 2;
    return lanes;
}

static void diti_norm_constants(const diti_graph *graph, const diti_norm_op *op, uint32_t lanes, uint32_t mode,
                                diti_dispatch *dispatch) {
    const diti_norm_desc *desc = op->desc;
    uint32_t *c = dispatch->constants;
    c[1] = lanes;
    c[2] = diti_tensor_get(graph, op->x)->format;
    c[3] = diti_tensor_get(graph, op->out)->format;
    c[4] = op->parts | (op->agreed ? (uint32_t)DITI_NORM_PART_AGREED : 0) |
           (desc->rms ? (uint32_t)DITI_NORM_PART_RMS : 0) | (op->weight ? (uint32_t)DITI_NORM_PART_WEIGHT : 0) |
           (op->bias ? (uint32_t)DITI_NORM_PART_BIAS : 0) | (desc->scale ? (uint32_t)DITI_NORM_PART_SCALE : 0) |
           (desc->shift ? (uint32_t)DITI_NORM_PART_SHIFT : 0) | (desc->silu ? (uint32_t)DITI_NORM_PART_SILU : 0) |
           (desc->factor ? (uint32_t)DITI_NORM_PART_FACTOR : 0) |
           (desc->residual ? (uint32_t)DITI_NORM_PART_RESIDUAL | (uint32_t)DITI_NORM_PART_SHIFT : 0);
    c[5] = diti_op_vector(graph, op->x) && diti_op_vector(graph, op->weight) && diti_op_vector(graph, op->bias) &&
           diti_op_vector(graph, desc->scale) && diti_op_vector(graph, diti_norm_shift(desc));
    c[6] = mode;
    dispatch->stated = DITI_STATED(7);
}

static void diti_norm_emit(diti_graph *graph, const diti_norm_op *op) {
    const diti_norm_desc *desc = op->desc;
    bool cpu = graph->device->is_cpu;
    diti_tensor_info info = *diti_tensor_get(graph, op->x), out = *diti_tensor_get(graph, op->out);
    uint32_t subgroup = graph->device->limits.subgroup_size, mode = diti_norm_mode(graph, op, &out);
    uint32_t group = !cpu ? (diti_norm_rotates(mode) ? 32 : 128) : subgroup > 4 ? subgroup : 4;
    uint32_t lanes = diti_norm_lanes(cpu, mode, info.columns), per_group = group / lanes;
    diti_dispatch dispatch;
    if (!diti_op_begin(graph, &dispatch, op->name, DITI_KERNEL_NORM, group)) return;
    diti_norm_constants(graph, op, lanes, mode, &dispatch);
    dispatch.push[DITI_NORM_PUSH_ROWS] = info.rows;
    dispatch.push[DITI_NORM_PUSH_COLUMNS] = info.columns;
    dispatch.push[DITI_NORM_PUSH_EPS] = diti_op_float(desc->eps);
    dispatch.push[DITI_NORM_PUSH_IN_PITCH] = info.pitch;
    dispatch.push[DITI_NORM_PUSH_OUT_PITCH] = out.pitch;
    dispatch.push[DITI_NORM_PUSH_SCALE_PITCH] = desc->scale ? diti_tensor_get(graph, desc->scale)->pitch : 0;
    dispatch.push[DITI_NORM_PUSH_SHIFT_PITCH] =
        diti_norm_shift(desc) ? diti_tensor_get(graph, diti_norm_shift(desc))->pitch : 0;
    dispatch.push[DITI_NORM_PUSH_ROWS_PER_GROUP] = desc->rows_per_group;
    dispatch.push[DITI_NORM_PUSH_ITEM_ROWS] = desc->item_rows;
    dispatch.push[DITI_NORM_PUSH_TEXT_ROWS] = desc->text_rows;
    dispatch.push[DITI_NORM_PUSH_AGREED_PITCH] = op->agreed ? diti_tensor_get(graph, op->agreed)->pitch : 0;
    dispatch.push[DITI_NORM_PUSH_AGREED_COUNT] = op->agreed ? diti_tensor_get(graph, op->agreed)->rows : 0;
    diti_op_bind(graph, &dispatch, 0, op->x, DITI_NORM_PUSH_IN, true, false);
    diti_op_bind(graph, &dispatch, 1, op->out, DITI_NORM_PUSH_OUT, false, true);
    diti_op_bind(graph, &dispatch, 2, op->weight, DITI_NORM_PUSH_WEIGHT, true, false);
    diti_op_bind(graph, &dispatch, 3, op->bias, DITI_NORM_PUSH_BIAS, true, false);
    diti_op_bind(graph, &dispatch, 4, desc->scale, DITI_NORM_PUSH_SCALE, true, false);
    diti_op_bind(graph, &dispatch, 5, diti_norm_shift(desc), DITI_NORM_PUSH_SHIFT, true, false);
    diti_op_bind(graph, &dispatch, 6, op->agreed, DITI_NORM_PUSH_AGREED, true, false);
    diti_op_bind_rows(graph, &dispatch, 0, 1, per_group, 0, 0);
    diti_op_bind_rows(graph, &dispatch, 1, 1, per_group, 0, 0);
    diti_op_emit(graph, &dispatch, ((uint64_t)info.rows + per_group - 1) / per_group, DITI_NORM_PUSH_WORDS);
}

static diti_tensor diti_norm_new_i8(diti_graph *graph, uint32_t rows, uint32_t columns, bool rotated,
                                    const char *name) {
    diti_tensor out = diti_tensor_new(graph, DITI_I8, rows, columns, name);
    if (rotated && columns % DITI_ROTATION_GROUP) {
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: rows of %u values cannot be rotated", name,
                               columns);
    }
    if (out) graph->tensors[out].rotated = rotated;
    return out;
}

DIT_INTERNAL diti_tensor diti_norm(diti_graph *graph, diti_tensor x, const diti_norm_desc *desc) {
    diti_norm_op op = DITI_ZERO;
    diti_tensor_info info;
    op.name = desc->name ? desc->name : "norm";
    if (!diti_norm_check(graph, x, desc, op.name)) return 0;
    x = diti_guard_release(graph, x, op.name);
    info = *diti_tensor_get(graph, x);
    op.x = x;
    op.desc = desc;
    op.weight = diti_op_vector_weight(graph, desc->weight, info.columns, op.name);
    op.bias = diti_op_vector_weight(graph, desc->bias, info.columns, op.name);
    if (desc->reader && !desc->out && diti_type_is_i8(desc->reader->type)) {
        bool rotated = diti_type_is_rotated(desc->reader->type);
        op.out = diti_norm_new_i8(graph, info.rows, info.columns, rotated, op.name);
    } else {
        diti_element format = desc->out_f32 ? DITI_F32 : graph->activation;
        op.out = desc->out;
        if (!op.out) op.out = diti_tensor_new(graph, format, info.rows, info.columns, op.name);
        if (!diti_op_writable(graph, op.out, info.rows, info.columns, op.name)) return 0;
    }
    diti_norm_emit(graph, &op);
    return op.out;
}

DIT_INTERNAL diti_tensor diti_multiply(diti_graph *graph, diti_tensor x, diti_tensor factors, diti_tensor out,
                                       const char *name) {
    diti_norm_desc desc = DITI_ZERO;
    diti_norm_op op = DITI_ZERO;
    diti_tensor_info info;
    desc.scale = factors;
    desc.factor = true;
    desc.rows_per_group = 1;
    if (!diti_norm_check(graph, x, &desc, name)) return 0;
    info = *diti_tensor_get(graph, x);
    op.x = x;
    op.name = name;
    op.desc = &desc;
    op.parts = DITI_NORM_PART_PLAIN;
    op.out = out ? out : diti_tensor_new(graph, info.format, info.rows, info.columns, name);
    if (!diti_op_writable(graph, op.out, info.rows, info.columns, name)) return 0;
    diti_guard_pass(graph, x, op.out);
    diti_norm_emit(graph, &op);
    return op.out;
}

DIT_INTERNAL diti_tensor diti_quantize_agreed(diti_graph *graph, diti_tensor x, bool rotated, diti_tensor agreed,
                                              const char *name) {
    diti_norm_desc desc = DITI_ZERO;
    diti_norm_op op = DITI_ZERO;
    diti_tensor_info info;
    op.name = name;
    if (!diti_norm_check(graph, x, &desc, name)) return 0;
    info = *diti_tensor_get(graph, x);
    op.x = x;
    op.desc = &desc;
    op.parts = DITI_NORM_PART_PLAIN;
    op.agreed = agreed;
    op.out = diti_norm_new_i8(graph, info.rows, info.columns, rotated, name);
    if (!op.out) return 0;
    graph->tensors[op.out].floats = x;
    diti_guard_pass(graph, x, op.out); /* rows have scales anyway */
    diti_norm_emit(graph, &op);
    return op.out;
}

DIT_INTERNAL diti_tensor diti_quantize(diti_graph *graph, diti_tensor x, bool rotated, const char *name) {
    return diti_quantize_agreed(graph, x, rotated, 0, name);
}

DIT_INTERNAL diti_tensor diti_quantize_e4m3(diti_graph *graph, diti_tensor x, const char *name) {
    diti_tensor_info info = *diti_tensor_get(graph, x);
    diti_tensor out = diti_tensor_new(graph, DITI_I8, info.rows, info.columns, name);
    if (diti_graph_failed(graph)) return 0;
    graph->tensors[out].e4m3 = true;
    graph->tensors[out].floats = x;
    diti_quantize_to(graph, x, out, name);
    return out;
}

DIT_INTERNAL diti_tensor diti_quantize_measure(diti_graph *graph, diti_tensor x, bool rotated, const char *name) {
    diti_norm_desc desc = DITI_ZERO;
    diti_norm_op op = DITI_ZERO;
    uint32_t rows;
    if (!diti_norm_check(graph, x, &desc, name)) return 0;
    rows = diti_tensor_get(graph, x)->rows;
    op.name = name;
    op.x = x;
    op.desc = &desc;
    op.parts = DITI_NORM_PART_PLAIN | DITI_NORM_PART_MEASURE;
    op.rotated = rotated;
    op.out = diti_tensor_new(graph, DITI_F32, rows, 1, name);
    if (diti_graph_failed(graph)) return 0;
    diti_norm_emit(graph, &op);
    return diti_tensor_reshape(graph, op.out, 1, rows);
}

DIT_INTERNAL void diti_quantize_to(diti_graph *graph, diti_tensor x, diti_tensor out, const char *name) {
    diti_norm_desc desc = DITI_ZERO;
    diti_norm_op op = DITI_ZERO;
    if (!diti_norm_check(graph, x, &desc, name)) return;
    op.name = name;
    op.x = x;
    op.desc = &desc;
    op.parts = DITI_NORM_PART_PLAIN;
    op.out = out;
    diti_guard_pass(graph, x, out);
    diti_norm_emit(graph, &op);
}

DIT_INTERNAL diti_tensor diti_quantize_columns(diti_graph *graph, diti_tensor x, uint32_t first, uint32_t count,
                                               bool rotated, const char *name) {
    diti_tensor most = diti_quantize_measure(graph, x, rotated, "largest of rows");
    if (diti_graph_failed(graph)) return 0;
    x = diti_tensor_view(graph, x, 0, diti_tensor_get(graph, x)->rows, first, count);
    return diti_quantize_agreed(graph, x, rotated, most, name);
}

/* --- GroupNorm --- */

/* Push words of group_norm.comp. */
enum {
    DITI_GROUP_NORM_PUSH_BATCH = 1,
    DITI_GROUP_NORM_PUSH_PIXELS,
    DITI_GROUP_NORM_PUSH_COLUMNS,
    DITI_GROUP_NORM_PUSH_GROUPS,
    DITI_GROUP_NORM_PUSH_CHUNKS,
    DITI_GROUP_NORM_PUSH_CHUNK_PIXELS,
    DITI_GROUP_NORM_PUSH_PART_CHUNKS,
    DITI_GROUP_NORM_PUSH_PART_PIXELS,
    DITI_GROUP_NORM_PUSH_EPS,
    DITI_GROUP_NORM_PUSH_IN,
    DITI_GROUP_NORM_PUSH_IN_PITCH,
    DITI_GROUP_NORM_PUSH_OUT,
    DITI_GROUP_NORM_PUSH_OUT_PITCH,
    DITI_GROUP_NORM_PUSH_PARTIAL,
    DITI_GROUP_NORM_PUSH_PARTIAL_PITCH,
    DITI_GROUP_NORM_PUSH_STATS,
    DITI_GROUP_NORM_PUSH_STATS_PITCH,
    DITI_GROUP_NORM_PUSH_WEIGHT,
    DITI_GROUP_NORM_PUSH_BIAS,
    DITI_GROUP_NORM_PUSH_WORDS
};
enum { DITI_GROUP_NORM_CHUNKS, DITI_GROUP_NORM_COMBINE, DITI_GROUP_NORM_APPLY, DITI_GROUP_NORM_MOMENTS };

typedef struct diti_group_norm_plan {
    diti_tensor x, out, partial, stats, weight, bias;
    uint32_t batch, pixels, columns, groups, parts; /* parts: of an image */
    uint32_t chunks, chunk_pixels;                  /* chunks: of an image */
    uint32_t part_chunks, part_pixels;
    float eps;
    bool silu;
    const char *name;
} diti_group_norm_plan;

static void diti_group_norm_bind(diti_graph *graph, const diti_group_norm_plan *plan, uint32_t stage, uint32_t group,
                                 diti_dispatch *dispatch) {
    uint32_t quads = (plan->columns + 3) / 4; /* `quads` workgroups do `group` rows */
    bool chunks = stage == DITI_GROUP_NORM_CHUNKS, apply = stage == DITI_GROUP_NORM_APPLY;
    if (chunks || apply) diti_op_bind(graph, dispatch, 0, plan->x, DITI_GROUP_NORM_PUSH_IN, true, false);
    if (apply) diti_op_bind(graph, dispatch, 1, plan->out, DITI_GROUP_NORM_PUSH_OUT, false, true);
    if (!apply) diti_op_bind(graph, dispatch, 2, plan->partial, DITI_GROUP_NORM_PUSH_PARTIAL, !chunks, chunks);
    if (!chunks) diti_op_bind(graph, dispatch, 3, plan->stats, DITI_GROUP_NORM_PUSH_STATS, apply, !apply);
    if (apply) {
        diti_op_bind(graph, dispatch, 4, plan->weight, DITI_GROUP_NORM_PUSH_WEIGHT, true, false);
        diti_op_bind(graph, dispatch, 5, plan->bias, DITI_GROUP_NORM_PUSH_BIAS, true, false);
        diti_op_bind_rows(graph, dispatch, 0, quads, group, 0, 0);
        diti_op_bind_rows(graph, dispatch, 1, quads, group, 0, 0);
    }
    if (chunks) /* the last part of an item may be short, so later items lie earlier */
        diti_op_bind_rows(graph, dispatch, 0, plan->part_chunks, plan->part_pixels,
                          (uint64_t)plan->batch * plan->part_pixels, 0);
}

static void diti_group_norm_stage(diti_graph *graph, const diti_group_norm_plan *plan, uint32_t stage, uint32_t group,
                                  uint64_t groups) {
    diti_tensor written = stage == DITI_GROUP_NORM_APPLY ? plan->out : plan->x;
    diti_dispatch dispatch;
    uint32_t *push = dispatch.push;
    if (!diti_op_begin(graph, &dispatch, plan->name, DITI_KERNEL_GROUP_NORM, group)) return;
    dispatch.constants[1] = stage;
    dispatch.constants[2] = diti_tensor_get(graph, plan->x)->format;
    dispatch.constants[3] = diti_tensor_get(graph, written)->format;
    dispatch.constants[4] = stage == DITI_GROUP_NORM_APPLY && plan->silu ? DITI_ACTIVATION_SILU : DITI_ACTIVATION_NONE;
    dispatch.constants[5] = diti_op_vector(graph, plan->x) && diti_op_vector(graph, written);
    dispatch.stated = DITI_STATED(6);
    push[DITI_GROUP_NORM_PUSH_BATCH] = plan->batch;
    push[DITI_GROUP_NORM_PUSH_PIXELS] = plan->pixels;
    push[DITI_GROUP_NORM_PUSH_COLUMNS] = plan->columns;
    push[DITI_GROUP_NORM_PUSH_GROUPS] = plan->groups;
    push[DITI_GROUP_NORM_PUSH_CHUNKS] = plan->chunks;
    push[DITI_GROUP_NORM_PUSH_CHUNK_PIXELS] = plan->chunk_pixels;
    push[DITI_GROUP_NORM_PUSH_PART_CHUNKS] = plan->part_chunks;
    push[DITI_GROUP_NORM_PUSH_PART_PIXELS] = plan->part_pixels;
    push[DITI_GROUP_NORM_PUSH_EPS] = diti_op_float(plan->eps);
    push[DITI_GROUP_NORM_PUSH_IN_PITCH] = diti_tensor_get(graph, plan->x)->pitch;
    push[DITI_GROUP_NORM_PUSH_OUT_PITCH] = diti_tensor_get(graph, plan->out)->pitch;
    push[DITI_GROUP_NORM_PUSH_PARTIAL_PITCH] = diti_tensor_get(graph, plan->partial)->pitch;
    push[DITI_GROUP_NORM_PUSH_STATS_PITCH] = diti_tensor_get(graph, plan->stats)->pitch;
    diti_group_norm_bind(graph, plan, stage, group, &dispatch);
    diti_op_emit(graph, &dispatch, groups, DITI_GROUP_NORM_PUSH_WORDS);
}

static bool diti_group_norm_begin(diti_graph *graph, diti_tensor x, const diti_group_norm_desc *desc,
                                  diti_group_norm_plan *plan) {
    diti_tensor_info info;
    if (diti_graph_failed(graph)) return false;
    memset(plan, 0, sizeof *plan);
    info = *diti_tensor_get(graph, x);
    plan->name = desc->name ? desc->name : "group norm";
    plan->batch = desc->batch ? desc->batch : 1;
    if (info.rows % plan->batch || !desc->groups || info.columns % desc->groups ||
        !diti_element_is_float(info.format)) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s [%u, %u] is not %u images in %u groups",
                        plan->name, info.name, info.rows, info.columns, plan->batch, desc->groups);
        return false;
    }
    plan->x = x; /* an exponent changes nothing: the norm of a multiple is the same */
    plan->pixels = info.rows / plan->batch;
    plan->parts = desc->moments ? 0 : desc->parts; /* x may be more than these were taken of */
    if (plan->parts && plan->pixels % plan->parts) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %u pixels are not %u parts of equal size",
                        plan->name, plan->pixels, plan->parts);
        return false;
    }
    plan->columns = info.columns;
    plan->groups = desc->groups;
    plan->eps = desc->eps;
    plan->silu = desc->silu;
    return true;
}

static uint32_t diti_group_norm_lanes(const diti_graph *graph) {
    return graph->device->is_cpu ? graph->device->limits.subgroup_size : 32;
}

/* Divides x into chunks: without a given number of parts every chunk is one. */
static void diti_group_norm_chunks(diti_graph *graph, diti_group_norm_plan *plan) {
    plan->chunk_pixels = graph->device->is_cpu ? 64 : 256;
    plan->part_pixels = plan->parts ? plan->pixels / plan->parts : plan->chunk_pixels;
    plan->part_chunks = (plan->part_pixels + plan->chunk_pixels - 1) / plan->chunk_pixels;
    if (!plan->parts) plan->parts = (plan->pixels + plan->part_pixels - 1) / plan->part_pixels;
    plan->chunks = plan->parts * plan->part_chunks;
    plan->partial =
        diti_tensor_new(graph, DITI_F32, plan->batch * plan->chunks, DITI_GROUP_MOMENTS * plan->groups, plan->name);
    diti_group_norm_stage(graph, plan, DITI_GROUP_NORM_CHUNKS, diti_group_norm_lanes(graph),
                          (uint64_t)plan->batch * plan->chunks);
}

DIT_INTERNAL diti_tensor diti_group_moments(diti_graph *graph, diti_tensor x, const diti_group_norm_desc *desc) {
    diti_group_norm_plan plan;
    uint32_t lanes = diti_group_norm_lanes(graph), rows;
    if (!diti_group_norm_begin(graph, x, desc, &plan)) return 0;
    diti_group_norm_chunks(graph, &plan);
    rows = plan.batch * plan.parts;
    plan.stats = diti_tensor_new(graph, DITI_F32, rows, DITI_GROUP_MOMENTS * plan.groups, plan.name);
    diti_group_norm_stage(graph, &plan, DITI_GROUP_NORM_MOMENTS, lanes,
                          ((uint64_t)rows * plan.groups + lanes - 1) / lanes);
    return plan.stats;
}

DIT_INTERNAL diti_tensor diti_group_norm(diti_graph *graph, diti_tensor x, const diti_group_norm_desc *desc) {
    const uint32_t group = 64;
    uint64_t invocations;
    diti_group_norm_plan plan;
    if (!diti_group_norm_begin(graph, x, desc, &plan)) return 0;
    plan.weight = diti_op_vector_weight(graph, desc->weight, plan.columns, plan.name);
    plan.bias = diti_op_vector_weight(graph, desc->bias, plan.columns, plan.name);
    if (!plan.weight || !plan.bias)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: weight or bias is missing", plan.name);
    if (desc->moments) { /* moments of parts that are one chunk each */
        plan.partial = desc->moments;
        plan.chunks = diti_tensor_get(graph, desc->moments)->rows / plan.batch;
        plan.part_chunks = 1;
    } else {
        diti_group_norm_chunks(graph, &plan);
    }
    plan.stats = diti_tensor_new(graph, DITI_F32, plan.batch, DITI_GROUP_MOMENTS * plan.groups, plan.name);
    diti_group_norm_stage(graph, &plan, DITI_GROUP_NORM_COMBINE, diti_group_norm_lanes(graph),
                          (uint64_t)plan.batch * plan.groups);
    plan.out = desc->out;
    if (!plan.out)
        plan.out = diti_tensor_new(graph, graph->activation, plan.batch * plan.pixels, plan.columns, plan.name);
    if (!diti_op_writable(graph, plan.out, plan.batch * plan.pixels, plan.columns, plan.name)) return 0;
    invocations = (uint64_t)plan.batch * plan.pixels * ((plan.columns + 3) / 4);
    diti_group_norm_stage(graph, &plan, DITI_GROUP_NORM_APPLY, group, (invocations + group - 1) / group);
    return plan.out;
}

/* --- weigh.comp --- */

enum {
    DITI_WEIGH_COLUMNS = 1,
    DITI_WEIGH_TABLE,
    DITI_WEIGH_X,
    DITI_WEIGH_X_PITCH,
    DITI_WEIGH_SUMS,
    DITI_WEIGH_PUSH_WORDS
};

static void diti_weigh_stage(diti_graph *graph, diti_tensor x, diti_tensor table, diti_tensor sums, bool is_sums,
                             const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, x);
    diti_dispatch dispatch;
    uint32_t group = graph->device->is_cpu ? graph->device->limits.subgroup_size : 64;
    if (!diti_op_begin(graph, &dispatch, name, DITI_KERNEL_WEIGH, group)) return;
    dispatch.constants[1] = is_sums;
    dispatch.stated = DITI_STATED(2);
    dispatch.push[DITI_WEIGH_COLUMNS] = info->columns;
    dispatch.push[DITI_WEIGH_X_PITCH] = info->pitch;
    diti_op_bind(graph, &dispatch, 0, table, DITI_WEIGH_TABLE, true, false);
    diti_op_bind(graph, &dispatch, 1, x, DITI_WEIGH_X, true, !is_sums);
    diti_op_bind(graph, &dispatch, 2, sums, DITI_WEIGH_SUMS, !is_sums, is_sums);
    diti_op_bind_rows(graph, &dispatch, 1, 1, 1, 0, 0);
    dispatch.memory_bytes = (is_sums ? 4.0 : 8.0) * info->rows * info->columns;
    diti_op_emit(graph, &dispatch, info->rows, DITI_WEIGH_PUSH_WORDS);
}

DIT_INTERNAL void diti_weigh_rows(diti_graph *graph, diti_tensor x, diti_tensor table, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, x), *given = diti_tensor_get(graph, table);
    diti_tensor sums;
    if (diti_graph_failed(graph)) return;
    if (info->format != DITI_F32 || given->format != DITI_U32 || given->rows != info->rows || given->columns != 4) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %u weights for %u rows of %s", name, given->rows,
                        info->rows, info->name);
        return;
    }
    sums = diti_tensor_new(graph, DITI_F32, 1, 2 * info->rows, name);
    diti_weigh_stage(graph, x, table, sums, true, name);
    diti_weigh_stage(graph, x, table, sums, false, name);
}
