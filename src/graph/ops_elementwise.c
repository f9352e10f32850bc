/* Ops that work on each element alone: map.comp, merge.comp, guidance.comp and solver.comp. The ops of pixels.comp move
   between planes and rows. */
#include "graph/ops_internal.h"

#define DITI_ELEMENTWISE_GROUP 64u /* invocations; each does four columns */

/* Push words that all of these kernels begin with. */
enum { DITI_SMALL_ROWS = 1, DITI_SMALL_COLUMNS, DITI_SMALL_NEXT };

/* Ops of map.comp and of pixels.comp. */
enum { DITI_OP_MAP, DITI_OP_SELECT, DITI_OP_ADVANCE, DITI_OP_CHOOSE };
enum {
    DITI_OP_PATCHIFY,
    DITI_OP_UNPATCHIFY,
    DITI_OP_PLANES_TO_ROWS,
    DITI_OP_IMAGE,
    DITI_OP_TILE,
    DITI_OP_UNPATCHIFY_PLANES,
    DITI_OP_UNPACK,
    DITI_OP_LIGHT,
    DITI_OP_GREY,
    DITI_OP_COLORS,
    DITI_OP_ENLARGE
};

static bool diti_small_begin(diti_graph *graph, diti_dispatch *dispatch, const char *name, diti_kernel kernel,
                             uint32_t op) {
    if (!diti_op_begin(graph, dispatch, name, kernel, DITI_ELEMENTWISE_GROUP)) return false;
    dispatch->constants[1] = op;
    dispatch->stated = DITI_STATED(10);
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
    dispatch->push[DITI_SMALL_ROWS] = rows;
    dispatch->push[DITI_SMALL_COLUMNS] = columns;
    diti_op_emit(graph, dispatch, (invocations + DITI_ELEMENTWISE_GROUP - 1) / DITI_ELEMENTWISE_GROUP, push_count);
}

static bool diti_small_is_float(const diti_tensor_info *info) { return diti_element_is_float(info->format); }

/* --- map.comp --- */

enum {
    DITI_MAP_X = DITI_SMALL_NEXT,
    DITI_MAP_X_PITCH,
    DITI_MAP_ADD,
    DITI_MAP_ADD_PITCH,
    DITI_MAP_ADD_ROWS,
    DITI_MAP_OUT,
    DITI_MAP_OUT_PITCH,
    DITI_MAP_SCALE,
    DITI_MAP_OFFSET,
    DITI_MAP_GUARD,
    DITI_MAP_ADD_SHARE,
    DITI_MAP_CHOSEN,
    DITI_MAP_PUSH_WORDS
};

static bool diti_elementwise_check(diti_graph *graph, const diti_tensor_info *x, const diti_tensor_info *out,
                                   const diti_tensor_info *add, const char *name) {
    if (x->rows == out->rows && x->columns == out->columns && (!add || add->columns == x->columns) &&
        diti_small_is_float(x) && diti_small_is_float(out))
        return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s [%u, %u] and %s [%u, %u] do not fit", name, x->name,
                    x->rows, x->columns, out->name, out->rows, out->columns);
    return false;
}

/* A copy takes the exponent over. F32 without one that becomes all of a new tensor of F16 may not fit: that gets an
   exponent of its own. A result that has an exponent already (diti_guard_like) is stored with it. */
static void diti_elementwise_guard(diti_graph *graph, diti_tensor x, diti_tensor out, bool copies, bool is_new,
                                   diti_dispatch *dispatch) {
    const diti_tensor_info *from = diti_tensor_get(graph, x), *to = diti_tensor_get(graph, out);
    const bool plain = from->format == DITI_F32 && !diti_tensor_get(graph, from->parent)->guard;
    diti_guard_use use = DITI_ZERO;
    if (copies && !plain && to->format == DITI_F16) {
        diti_guard_pass(graph, x, out);
        return;
    }
    if ((is_new && plain && to->format == DITI_F16) || diti_tensor_get(graph, to->parent)->guard) use.out = out;
    use.operands[0] = x;
    use.binding = 7;
    use.word = DITI_MAP_GUARD;
    diti_op_guard(graph, dispatch, &use);
}

DIT_INTERNAL diti_tensor diti_elementwise(diti_graph *graph, diti_tensor x, const diti_elementwise_desc *desc) {
    const diti_tensor_info *from = diti_tensor_get(graph, x), *to, *add;
    const char *name = desc->name ? desc->name : "elementwise";
    diti_tensor out = desc->out;
    uint32_t rows = from->rows, columns = from->columns;
    diti_dispatch dispatch;
    if (!diti_small_begin(graph, &dispatch, name, DITI_KERNEL_MAP, DITI_OP_MAP)) return 0;
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
    dispatch.push[DITI_MAP_X_PITCH] = from->pitch;
    dispatch.push[DITI_MAP_ADD_PITCH] = add ? add->pitch : 0;
    dispatch.push[DITI_MAP_ADD_ROWS] = add ? add->rows : 0;
    dispatch.push[DITI_MAP_ADD_SHARE] = desc->rows_per_add ? desc->rows_per_add : 1;
    dispatch.push[DITI_MAP_OUT_PITCH] = to->pitch;
    dispatch.push[DITI_MAP_SCALE] = diti_op_float(desc->scale != 0 ? desc->scale : 1.0f);
    dispatch.push[DITI_MAP_OFFSET] = diti_op_float(desc->offset);
    diti_op_bind(graph, &dispatch, 0, x, DITI_MAP_X, true, false);
    diti_op_bind(graph, &dispatch, 1, desc->add, DITI_MAP_ADD, true, false);
    diti_op_bind(graph, &dispatch, 2, out, DITI_MAP_OUT, false, true);
    diti_small_bind_run(graph, &dispatch, 0);
    diti_small_bind_run(graph, &dispatch, 2);
    diti_elementwise_guard(graph, x, out, !desc->activation && desc->scale == 0 && desc->offset == 0 && !desc->add,
                           !desc->out, &dispatch);
    diti_small_emit(graph, &dispatch, rows, columns, DITI_MAP_PUSH_WORDS);
    return out;
}

DIT_INTERNAL diti_tensor diti_guard_release(diti_graph *graph, diti_tensor tensor, const char *name) {
    diti_elementwise_desc copy = DITI_ZERO;
    if (diti_graph_failed(graph) || !tensor || !diti_tensor_get(graph, diti_tensor_get(graph, tensor)->parent)->guard)
        return tensor;
    copy.out_f32 = true;
    copy.name = name;
    return diti_elementwise(graph, tensor, &copy);
}

DIT_INTERNAL diti_tensor diti_guard_like(diti_graph *graph, diti_tensor tensor, diti_tensor like, const char *name) {
    diti_tensor_info info;
    diti_tensor out;
    if (diti_graph_failed(graph) || !diti_tensor_get(graph, diti_tensor_get(graph, like)->parent)->guard) return tensor;
    info = *diti_tensor_get(graph, tensor);
    out = diti_tensor_new(graph, DITI_F32, info.rows, info.columns, name);
    if (diti_graph_failed(graph)) return 0;
    diti_guard_pass(graph, like, out);
    diti_copy(graph, tensor, out, name);
    return out;
}

DIT_INTERNAL void diti_copy_gated(diti_graph *graph, diti_tensor from, diti_tensor to, const char *name) {
    const diti_tensor_info *x = diti_tensor_get(graph, from), *out = diti_tensor_get(graph, to);
    diti_dispatch dispatch;
    if (!diti_small_begin(graph, &dispatch, name, DITI_KERNEL_MAP, DITI_OP_MAP)) return;
    if (!diti_elementwise_check(graph, x, out, NULL, name)) return;
    dispatch.constants[2] = x->format;
    dispatch.constants[3] = out->format;
    dispatch.constants[6] = diti_op_vector(graph, from) && diti_op_vector(graph, to);
    dispatch.push[DITI_MAP_X_PITCH] = x->pitch;
    dispatch.push[DITI_MAP_OUT_PITCH] = out->pitch;
    dispatch.push[DITI_MAP_SCALE] = diti_op_float(1.0f);
    diti_op_bind(graph, &dispatch, 0, from, DITI_MAP_X, true, false);
    diti_op_bind(graph, &dispatch, 2, to, DITI_MAP_OUT, true, true); /* gated, it keeps what is there */
    diti_small_bind_run(graph, &dispatch, 0);
    diti_small_bind_run(graph, &dispatch, 2);
    diti_op_gate(graph, &dispatch, 7, DITI_MAP_GUARD);
    x = diti_tensor_get(graph, from);
    diti_small_emit(graph, &dispatch, x->rows, x->columns, DITI_MAP_PUSH_WORDS);
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

DIT_INTERNAL void diti_copy(diti_graph *graph, diti_tensor from, diti_tensor to, const char *name) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.out = to;
    desc.name = name;
    diti_elementwise(graph, from, &desc);
}

DIT_INTERNAL void diti_copy_chosen(diti_graph *graph, diti_tensor from, diti_tensor to, diti_tensor choices,
                                   uint32_t chosen, const char *name) {
    const diti_tensor_info *x = diti_tensor_get(graph, from), *out = diti_tensor_get(graph, to);
    uint32_t words = diti_tensor_columns(graph, choices);
    diti_dispatch dispatch;
    if (!diti_small_begin(graph, &dispatch, name, DITI_KERNEL_MAP, DITI_OP_CHOOSE)) return;
    if (!diti_elementwise_check(graph, x, out, NULL, name)) return;
    if (x->format != DITI_F32 || out->format != DITI_F32 || !words || x->rows % words) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %u rows are not F32, or not those of %u choices",
                        name, x->rows, words);
        return;
    }
    dispatch.constants[6] = diti_op_vector(graph, from) && diti_op_vector(graph, to);
    dispatch.push[DITI_MAP_X_PITCH] = x->pitch;
    dispatch.push[DITI_MAP_OUT_PITCH] = out->pitch;
    dispatch.push[DITI_MAP_SCALE] = diti_op_float(1.0f);
    dispatch.push[DITI_MAP_ADD_SHARE] = x->rows / words;
    dispatch.push[DITI_MAP_CHOSEN] = chosen;
    diti_op_bind(graph, &dispatch, 0, from, DITI_MAP_X, true, false);
    diti_op_bind(graph, &dispatch, 1, choices, DITI_MAP_ADD, true, false);
    diti_op_bind(graph, &dispatch, 2, to, DITI_MAP_OUT, true, true); /* the other rows stay */
    diti_small_bind_run(graph, &dispatch, 0);
    diti_small_bind_run(graph, &dispatch, 2);
    diti_small_emit(graph, &dispatch, x->rows, x->columns, DITI_MAP_PUSH_WORDS);
}

DIT_INTERNAL void diti_dequantize(diti_graph *graph, diti_tensor x, diti_tensor out, const char *name) {
    const diti_tensor_info *from = diti_tensor_get(graph, x), *to = diti_tensor_get(graph, out);
    diti_dispatch dispatch;
    if (!diti_small_begin(graph, &dispatch, name, DITI_KERNEL_MAP, DITI_OP_MAP)) return;
    if (from->rows != to->rows || from->columns != to->columns || from->format != DITI_I8 || !diti_small_is_float(to)) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s [%u, %u] and %s [%u, %u] do not fit", name,
                        from->name, from->rows, from->columns, to->name, to->rows, to->columns);
        return;
    }
    dispatch.constants[2] = from->format;
    dispatch.constants[3] = to->format;
    dispatch.constants[6] = diti_op_vector(graph, out);
    dispatch.push[DITI_MAP_X_PITCH] = from->pitch;
    dispatch.push[DITI_MAP_OUT_PITCH] = to->pitch;
    dispatch.push[DITI_MAP_SCALE] = diti_op_float(1.0f);
    diti_op_bind(graph, &dispatch, 0, x, DITI_MAP_X, true, false);
    diti_op_bind(graph, &dispatch, 2, out, DITI_MAP_OUT, false, true);
    diti_elementwise_guard(graph, x, out, true, false, &dispatch);
    diti_small_emit(graph, &dispatch, from->rows, from->columns, DITI_MAP_PUSH_WORDS);
}

DIT_INTERNAL diti_tensor diti_select_row(diti_graph *graph, diti_tensor table, diti_tensor step, const char *name) {
    const diti_tensor_info *from = diti_tensor_get(graph, table);
    diti_dispatch dispatch;
    diti_element format = from->format;
    diti_tensor out;
    if (!diti_small_begin(graph, &dispatch, name, DITI_KERNEL_MAP, DITI_OP_SELECT)) return 0;
    if (format != DITI_F32 && format != DITI_U32)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: table %s must be F32 or U32", name,
                               from->name);
    out = diti_tensor_new(graph, format, 1, from->columns, name);
    if (!out) return 0;
    from = diti_tensor_get(graph, table);
    dispatch.constants[2] = format;
    dispatch.constants[6] = diti_op_vector(graph, table);
    dispatch.push[DITI_MAP_X_PITCH] = from->pitch;
    dispatch.push[DITI_MAP_OUT_PITCH] = diti_tensor_get(graph, out)->pitch;
    dispatch.push[DITI_MAP_SCALE] = diti_op_float(1.0f);
    diti_op_bind(graph, &dispatch, 0, table, DITI_MAP_X, true, false);
    diti_op_bind(graph, &dispatch, 1, step, DITI_MAP_ADD, true, false);
    diti_op_bind(graph, &dispatch, 2, out, DITI_MAP_OUT, false, true);
    dispatch.memory_bytes = 8.0 * from->columns;
    diti_small_emit(graph, &dispatch, 1, from->columns, DITI_MAP_PUSH_WORDS);
    return out;
}

DIT_INTERNAL void diti_advance_step(diti_graph *graph, diti_tensor step) {
    diti_dispatch dispatch;
    if (!diti_small_begin(graph, &dispatch, "advance step", DITI_KERNEL_MAP, DITI_OP_ADVANCE)) return;
    diti_op_bind(graph, &dispatch, 2, step, DITI_MAP_OUT, true, true);
    diti_op_gate(graph, &dispatch, 7, DITI_MAP_GUARD);
    diti_small_emit(graph, &dispatch, 1, 1, DITI_MAP_PUSH_WORDS);
}

/* --- merge.comp --- */

enum {
    DITI_MERGE_X = DITI_SMALL_NEXT,
    DITI_MERGE_X_PITCH,
    DITI_MERGE_O,
    DITI_MERGE_O_PITCH,
    DITI_MERGE_X_LSE,
    DITI_MERGE_O_LSE,
    DITI_MERGE_LSE,
    DITI_MERGE_LSE_PITCH, /* pitch of all three logarithms */
    DITI_MERGE_HEAD_DIM,
    DITI_MERGE_PUSH_WORDS
};

DIT_INTERNAL diti_tensor diti_merge_attention(diti_graph *graph, diti_tensor o, diti_tensor o_lse, diti_tensor x,
                                              diti_tensor x_lse, uint32_t head_dim) {
    const diti_tensor_info *info = diti_tensor_get(graph, o);
    uint32_t rows = info->rows, columns = info->columns;
    diti_dispatch dispatch;
    diti_tensor lse;
    if (!diti_op_begin(graph, &dispatch, "merge attention", DITI_KERNEL_MERGE, DITI_ELEMENTWISE_GROUP)) return 0;
    dispatch.stated = DITI_STATED(1);
    if (head_dim % 4)
        return diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL,
                               "attention in parts wants heads of a multiple of 4 channels, these have %u", head_dim);
    lse = diti_tensor_new(graph, DITI_F32, rows, columns / head_dim, "log sum of exponentials");
    if (!lse) return 0;
    dispatch.push[DITI_MERGE_X_PITCH] = diti_tensor_get(graph, x)->pitch;
    dispatch.push[DITI_MERGE_LSE_PITCH] = diti_tensor_get(graph, lse)->pitch;
    dispatch.push[DITI_MERGE_HEAD_DIM] = head_dim;
    dispatch.push[DITI_MERGE_O_PITCH] = diti_tensor_get(graph, o)->pitch;
    diti_op_bind(graph, &dispatch, 0, x, DITI_MERGE_X, true, false);
    diti_op_bind(graph, &dispatch, 1, x_lse, DITI_MERGE_X_LSE, true, false);
    diti_op_bind(graph, &dispatch, 2, o, DITI_MERGE_O, true, true);
    diti_op_bind(graph, &dispatch, 3, o_lse, DITI_MERGE_O_LSE, true, false);
    diti_op_bind(graph, &dispatch, 4, lse, DITI_MERGE_LSE, false, true);
    diti_small_bind_run(graph, &dispatch, 0);
    diti_small_bind_run(graph, &dispatch, 2);
    diti_small_emit(graph, &dispatch, rows, columns, DITI_MERGE_PUSH_WORDS);
    return lse;
}

/* --- guidance.comp, solver.comp --- */

/* Each place of the row is that of the member of diti_solver_row. */
#define DITI_SOLVER_PLACE(at, name)                                                                                    \
    DITI_STATIC_ASSERT(offsetof(diti_solver_row, name) == at * sizeof(float), solver_##name);
DITI_SOLVER_ROW(DITI_SOLVER_PLACE)
#undef DITI_SOLVER_PLACE

/* Constants and push words; guidance.comp knows the first ones alone. */
enum {
    DITI_SOLVER_LEARNED = 1,
    DITI_SOLVER_GUIDED,
    DITI_SOLVER_MIXED,
    DITI_SOLVER_KEEPS_X0,
    DITI_SOLVER_NOISY,
    DITI_SOLVER_HAS_Y,
    DITI_SOLVER_KEPT,
    DITI_SOLVER_HAS_H3,
    DITI_SOLVER_HOLDS,
    DITI_SOLVER_RENOISES,
    DITI_SOLVER_CONSTANTS
};
enum {
    DITI_SOLVER_PREDICTION = DITI_SMALL_NEXT,
    DITI_SOLVER_PREDICTION_PITCH,
    DITI_SOLVER_COEFFICIENTS,
    DITI_SOLVER_CHANNELS,
    DITI_SOLVER_X,
    DITI_SOLVER_PITCH, /* pitch of all states */
    DITI_SOLVER_H1,
    DITI_SOLVER_H2,
    DITI_SOLVER_X0,
    DITI_SOLVER_NOISE,
    DITI_SOLVER_HEALTH,
    DITI_SOLVER_FRAMES,
    DITI_SOLVER_PUSH_WORDS
};

/* x, h1, h2, x0 and noise have one shape (h2 with what stands below it) and whole groups of four columns in memory. */
static bool diti_solver_fits(diti_graph *graph, diti_tensor x, diti_tensor other, uint32_t times) {
    const diti_tensor_info *a = diti_tensor_get(graph, x), *b = diti_tensor_get(graph, other);
    if (!other) return true;
    if (b->format == DITI_F32 && a->rows * times == b->rows && a->columns == b->columns && a->pitch == b->pitch &&
        diti_op_aligned(graph, other))
        return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "solver step: %s [%u, %u] does not match %s [%u, %u]", b->name,
                    b->rows, b->columns, a->name, a->rows, a->columns);
    return false;
}

DIT_INTERNAL uint32_t diti_solver_planes(const diti_solver_desc *desc) {
    return desc->keeps ? diti_solver_kept(desc) + 3u : desc->has_h3 ? 3u : desc->has_y ? 2u : 1u;
}

DIT_INTERNAL uint32_t diti_solver_kept(const diti_solver_desc *desc) { return desc->has_h3 ? 3u : 2u; }

static bool diti_solver_holds(diti_graph *graph, const diti_solver_desc *desc) {
    const diti_tensor_info *x = diti_tensor_get(graph, desc->x);
    if (!desc->frames || x->columns % desc->frames == 0) return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "solver step: %s [%u, %u] is not in %u frames", x->name, x->rows,
                    x->columns, desc->frames);
    return false;
}

static bool diti_solver_check(diti_graph *graph, diti_tensor prediction, const diti_solver_desc *desc) {
    const diti_tensor_info *x = diti_tensor_get(graph, desc->x);
    if (desc->channels == 0 || x->rows % desc->channels != 0) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "solver step: %s [%u, %u] is not in images of %u channels",
                        x->name, x->rows, x->columns, desc->channels);
        return false;
    }
    return diti_solver_holds(graph, desc) && diti_solver_fits(graph, desc->x, desc->x, 1) &&
           diti_solver_fits(graph, desc->x, desc->h1, 1) &&
           diti_solver_fits(graph, desc->x, desc->h2, diti_solver_planes(desc)) &&
           diti_solver_fits(graph, desc->x, desc->x0, 1) && diti_solver_fits(graph, desc->x, desc->noise, 1) &&
           diti_solver_fits(graph, desc->x, prediction, (desc->guided ? 2u : 1u) * (desc->learned ? 2u : 1u));
}

/* One workgroup per image writes how c and d are mixed behind the row of coefficients. */
static void diti_solver_guide(diti_graph *graph, diti_tensor prediction, const diti_solver_desc *desc) {
    const diti_tensor_info *x = diti_tensor_get(graph, desc->x);
    diti_dispatch dispatch;
    if (!diti_op_begin(graph, &dispatch, "guidance", DITI_KERNEL_GUIDANCE, DITI_ELEMENTWISE_GROUP)) return;
    dispatch.constants[DITI_SOLVER_LEARNED] = desc->learned;
    dispatch.constants[DITI_SOLVER_LEARNED + 1] = desc->token_side;
    dispatch.stated = DITI_STATED(DITI_SOLVER_LEARNED + 2);
    dispatch.push[DITI_SOLVER_CHANNELS + 1] = desc->width;
    dispatch.push[DITI_SMALL_ROWS] = x->rows;
    dispatch.push[DITI_SMALL_COLUMNS] = x->columns;
    dispatch.push[DITI_SOLVER_PREDICTION_PITCH] = diti_tensor_get(graph, prediction)->pitch;
    dispatch.push[DITI_SOLVER_CHANNELS] = desc->channels;
    diti_op_bind(graph, &dispatch, 0, prediction, DITI_SOLVER_PREDICTION, true, desc->token_side != 0);
    diti_op_bind(graph, &dispatch, 1, desc->coefficients, DITI_SOLVER_COEFFICIENTS, true, true);
    diti_op_emit(graph, &dispatch, x->rows / desc->channels, DITI_SOLVER_CHANNELS + 2);
}

DIT_INTERNAL void diti_solver_renoise(diti_graph *graph, const diti_solver_desc *desc) {
    const diti_tensor_info *x = diti_tensor_get(graph, desc->x);
    diti_dispatch dispatch;
    if (diti_graph_failed(graph) || !diti_solver_fits(graph, desc->x, desc->noise, 1) ||
        !diti_solver_holds(graph, desc))
        return;
    if (!diti_op_begin(graph, &dispatch, "renoise", DITI_KERNEL_SOLVER, DITI_ELEMENTWISE_GROUP)) return;
    dispatch.constants[DITI_SOLVER_NOISY] = true;
    dispatch.constants[DITI_SOLVER_RENOISES] = true;
    dispatch.stated = DITI_STATED(DITI_SOLVER_CONSTANTS);
    dispatch.push[DITI_SOLVER_FRAMES] = desc->frames;
    dispatch.push[DITI_SOLVER_CHANNELS] = desc->channels;
    dispatch.push[DITI_SOLVER_PITCH] = x->pitch;
    diti_op_bind(graph, &dispatch, 1, desc->coefficients, DITI_SOLVER_COEFFICIENTS, true, false);
    diti_op_bind(graph, &dispatch, 2, desc->x, DITI_SOLVER_X, true, true);
    diti_op_bind(graph, &dispatch, 6, desc->noise, DITI_SOLVER_NOISE, true, false);
    diti_op_bind(graph, &dispatch, 7, desc->health, DITI_SOLVER_HEALTH, true, true);
    dispatch.bindings[7].element_bytes = DITI_GUARD_CELL;
    diti_op_gate(graph, &dispatch, 7, DITI_SOLVER_HEALTH);
    x = diti_tensor_get(graph, desc->x);
    diti_small_emit(graph, &dispatch, x->rows, x->columns, DITI_SOLVER_PUSH_WORDS);
}

DIT_INTERNAL void diti_solver_step(diti_graph *graph, diti_tensor prediction, const diti_solver_desc *desc) {
    const diti_tensor_info *x = diti_tensor_get(graph, desc->x);
    bool mixed = desc->guided && desc->mixed;
    diti_dispatch dispatch;
    if (diti_graph_failed(graph) || !diti_solver_check(graph, prediction, desc)) return;
    if (mixed && desc->token_side && desc->sent) { /* the guided tokens would take the place of what is being sent */
        diti_tensor own = diti_tensor_new(graph, DITI_F32, diti_tensor_rows(graph, prediction),
                                          diti_tensor_columns(graph, prediction), "guided prediction");
        diti_copy(graph, prediction, own, "guided prediction");
        prediction = own;
        x = diti_tensor_get(graph, desc->x);
    }
    if (mixed) diti_solver_guide(graph, prediction, desc);
    if (!diti_op_begin(graph, &dispatch, "solver step", DITI_KERNEL_SOLVER, DITI_ELEMENTWISE_GROUP)) return;
    dispatch.constants[DITI_SOLVER_LEARNED] = desc->learned;
    dispatch.constants[DITI_SOLVER_GUIDED] = desc->guided;
    dispatch.constants[DITI_SOLVER_MIXED] = mixed;
    dispatch.constants[DITI_SOLVER_KEEPS_X0] = desc->x0 != 0;
    dispatch.constants[DITI_SOLVER_NOISY] = desc->noise != 0;
    dispatch.constants[DITI_SOLVER_HAS_Y] = desc->has_y;
    dispatch.constants[DITI_SOLVER_KEPT] = desc->keeps;
    dispatch.constants[DITI_SOLVER_HAS_H3] = desc->has_h3;
    dispatch.constants[DITI_SOLVER_HOLDS] = desc->frames > 0;
    dispatch.stated = DITI_STATED(DITI_SOLVER_CONSTANTS);
    dispatch.push[DITI_SOLVER_FRAMES] = desc->frames;
    dispatch.push[DITI_SOLVER_PREDICTION_PITCH] = diti_tensor_get(graph, prediction)->pitch;
    dispatch.push[DITI_SOLVER_CHANNELS] = desc->channels;
    dispatch.push[DITI_SOLVER_PITCH] = x->pitch;
    diti_op_bind(graph, &dispatch, 0, prediction, DITI_SOLVER_PREDICTION, true, false);
    diti_op_bind(graph, &dispatch, 1, desc->coefficients, DITI_SOLVER_COEFFICIENTS, true, false);
    diti_op_bind(graph, &dispatch, 2, desc->x, DITI_SOLVER_X, true, true);
    diti_op_bind(graph, &dispatch, 3, desc->h1, DITI_SOLVER_H1, true, true);
    diti_op_bind(graph, &dispatch, 4, desc->h2, DITI_SOLVER_H2, true, true);
    diti_op_bind(graph, &dispatch, 5, desc->x0, DITI_SOLVER_X0, false, true);
    diti_op_bind(graph, &dispatch, 6, desc->noise, DITI_SOLVER_NOISE, true, false);
    diti_op_bind(graph, &dispatch, 7, desc->health, DITI_SOLVER_HEALTH, true, true);
    dispatch.bindings[7].element_bytes = DITI_GUARD_CELL;
    diti_op_gate(graph, &dispatch, 7, DITI_SOLVER_HEALTH); /* the gate reads the health that binding 7 writes */
    x = diti_tensor_get(graph, desc->x);
    diti_small_emit(graph, &dispatch, x->rows, x->columns, DITI_SOLVER_PUSH_WORDS);
}

/* --- pixels.comp --- */

/* Push words of pixels.comp; a tile's bottom and right stand in those of rgb. */
enum {
    DITI_PIXELS_ROWS = 1,
    DITI_PIXELS_COLUMNS,
    DITI_PIXELS_X,
    DITI_PIXELS_X_PITCH,
    DITI_PIXELS_OUT,
    DITI_PIXELS_OUT_PITCH,
    DITI_PIXELS_FACTOR,
    DITI_PIXELS_BATCH,
    DITI_PIXELS_CHANNELS,
    DITI_PIXELS_GRID_HEIGHT,
    DITI_PIXELS_GRID_WIDTH,
    DITI_PIXELS_PATCH,
    DITI_PIXELS_TOKEN_CHANNELS,
    DITI_PIXELS_SCALE,
    DITI_PIXELS_SHIFT,
    DITI_PIXELS_RGB,
    DITI_PIXELS_RGB_PITCH,
    DITI_PIXELS_HEALTH,
    DITI_PIXELS_GRID_FRAMES,
    DITI_PIXELS_PATCH_FRAMES,
    DITI_PIXELS_HEIGHT,
    DITI_PIXELS_WIDTH,
    DITI_PIXELS_PUSH_WORDS
};

static void diti_pixels_push(diti_dispatch *dispatch, const diti_tensor_info *from, const diti_tensor_info *to,
                             uint32_t batch, uint32_t channels, uint32_t grid_height, uint32_t grid_width,
                             uint32_t patch, uint32_t token_channels) {
    dispatch->constants[2] = from->format;
    dispatch->constants[3] = to->format;
    dispatch->push[DITI_PIXELS_X_PITCH] = from->pitch;
    dispatch->push[DITI_PIXELS_OUT_PITCH] = to->pitch;
    dispatch->push[DITI_PIXELS_BATCH] = batch;
    dispatch->push[DITI_PIXELS_CHANNELS] = channels;
    dispatch->push[DITI_PIXELS_GRID_HEIGHT] = grid_height;
    dispatch->push[DITI_PIXELS_GRID_WIDTH] = grid_width;
    dispatch->push[DITI_PIXELS_PATCH] = patch;
    dispatch->push[DITI_PIXELS_TOKEN_CHANNELS] = token_channels;
    dispatch->push[DITI_PIXELS_SCALE] = diti_op_float(1.0f);
}

static void diti_pixels_emit(diti_graph *graph, diti_dispatch *dispatch, diti_tensor from, diti_tensor to) {
    diti_op_bind(graph, dispatch, 0, from, DITI_PIXELS_X, true, false);
    diti_op_bind(graph, dispatch, 2, to, DITI_PIXELS_OUT, false, true);
    diti_small_emit(graph, dispatch, diti_tensor_get(graph, to)->rows, diti_tensor_get(graph, to)->columns,
                    DITI_PIXELS_PUSH_WORDS);
}

static bool diti_pixels_fit(diti_graph *graph, const diti_tensor_info *tensor, uint64_t rows, uint64_t columns,
                            const char *name) {
    if (tensor->rows == rows && tensor->columns == columns) return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s is [%u, %u], wanted is [%llu, %llu]", name,
                    tensor->name, tensor->rows, tensor->columns, (unsigned long long)rows, (unsigned long long)columns);
    return false;
}

/* The tokens of a batch item along each axis. */
static void diti_patches_grid(const diti_patches *patches, uint32_t *frames, uint32_t *height, uint32_t *width) {
    uint32_t deep = patches->patch_frames ? patches->patch_frames : 1, patch = patches->patch;
    *frames = ((patches->frames ? patches->frames : 1) + deep - 1) / deep;
    *height = (patches->height + patch - 1) / patch;
    *width = (patches->width + patch - 1) / patch;
}

DIT_INTERNAL uint32_t diti_patches_tokens(const diti_patches *patches) {
    uint32_t frames, height, width;
    diti_patches_grid(patches, &frames, &height, &width);
    return frames * height * width;
}

/* Elements of a batch item's plane, and of a patch's. */
static uint64_t diti_patches_plane(const diti_patches *patches) {
    return (uint64_t)(patches->frames ? patches->frames : 1) * patches->height * patches->width;
}

static uint32_t diti_patches_volume(const diti_patches *patches) {
    return (patches->patch_frames ? patches->patch_frames : 1) * patches->patch * patches->patch;
}

static void diti_patches_push(diti_dispatch *dispatch, const diti_patches *patches, const diti_tensor_info *from,
                              const diti_tensor_info *to, uint32_t token_channels) {
    uint32_t frames, height, width;
    diti_patches_grid(patches, &frames, &height, &width);
    diti_pixels_push(dispatch, from, to, patches->batch, patches->channels, height, width, patches->patch,
                     token_channels);
    dispatch->push[DITI_PIXELS_GRID_FRAMES] = frames;
    dispatch->push[DITI_PIXELS_PATCH_FRAMES] = patches->patch_frames ? patches->patch_frames : 1;
    dispatch->push[DITI_PIXELS_HEIGHT] = patches->height;
    dispatch->push[DITI_PIXELS_WIDTH] = patches->width;
}

/* Zeros that stand for what lies beyond a latent are those of lines and columns, not of frames. */
static bool diti_patches_check(diti_graph *graph, const diti_patches *patches, const char *name) {
    uint32_t frames = patches->frames ? patches->frames : 1;
    if (!patches->patch_frames || frames % patches->patch_frames == 0) return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %u latent frames are not patches of %u", name, frames,
                    patches->patch_frames);
    return false;
}

DIT_INTERNAL diti_tensor diti_patchify(diti_graph *graph, diti_tensor latent, const diti_patches *patches,
                                       diti_tensor input) {
    const diti_tensor_info *from = diti_tensor_get(graph, latent);
    diti_dispatch dispatch;
    diti_tensor out;
    if (!diti_small_begin(graph, &dispatch, "patchify", DITI_KERNEL_PIXELS, DITI_OP_PATCHIFY)) return 0;
    if (!diti_pixels_fit(graph, from, (uint64_t)patches->batch * patches->channels, diti_patches_plane(patches),
                         "patchify") ||
        !diti_patches_check(graph, patches, "patchify"))
        return 0;
    out = diti_tensor_new(graph, graph->activation, patches->batch * diti_patches_tokens(patches),
                          patches->channels * diti_patches_volume(patches), "patches");
    if (!out) return 0;
    diti_patches_push(&dispatch, patches, diti_tensor_get(graph, latent), diti_tensor_get(graph, out),
                      patches->channels_last ? patches->channels : 0);
    dispatch.constants[4] = input != 0;
    diti_op_bind(graph, &dispatch, 1, input, DITI_PIXELS_FACTOR, true, false);
    diti_pixels_emit(graph, &dispatch, latent, out);
    return out;
}

static diti_tensor diti_unpatchify_as(diti_graph *graph, uint32_t op, diti_tensor tokens, const diti_patches *patches,
                                      uint32_t out_channels) {
    const diti_tensor_info *from;
    uint32_t plane = (uint32_t)diti_patches_plane(patches);
    diti_dispatch dispatch;
    diti_tensor out;
    tokens = diti_guard_release(graph, tokens, "unpatchify");
    from = diti_tensor_get(graph, tokens);
    if (!diti_small_begin(graph, &dispatch, "unpatchify", DITI_KERNEL_PIXELS, op)) return 0;
    if (!diti_pixels_fit(graph, from, (uint64_t)patches->batch * diti_patches_tokens(patches),
                         (uint64_t)diti_patches_volume(patches) * out_channels, "unpatchify") ||
        !diti_patches_check(graph, patches, "unpatchify"))
        return 0;
    out = diti_tensor_new(graph, DITI_F32, patches->batch * patches->channels, plane > 1 ? plane : 2, "prediction");
    if (plane == 1) out = diti_tensor_view(graph, out, 0, patches->batch * patches->channels, 0, 1);
    if (!out) return 0; /* four elements are written at a time, which rows of one have no room for */
    diti_patches_push(&dispatch, patches, diti_tensor_get(graph, tokens), diti_tensor_get(graph, out), out_channels);
    diti_pixels_emit(graph, &dispatch, tokens, out);
    return out;
}

DIT_INTERNAL diti_tensor diti_unpatchify(diti_graph *graph, diti_tensor tokens, const diti_patches *patches,
                                         uint32_t out_channels) {
    return diti_unpatchify_as(graph, DITI_OP_UNPATCHIFY, tokens, patches, out_channels);
}

DIT_INTERNAL diti_tensor diti_unpatchify_planes(diti_graph *graph, diti_tensor tokens, const diti_patches *patches) {
    return diti_unpatchify_as(graph, DITI_OP_UNPATCHIFY_PLANES, tokens, patches, patches->channels);
}

DIT_INTERNAL diti_tensor diti_planar_to_rows(diti_graph *graph, diti_tensor planar, uint32_t batch, uint32_t channels,
                                             float scale, float shift) {
    uint32_t area = diti_tensor_get(graph, planar)->columns;
    diti_dispatch dispatch;
    diti_tensor out;
    if (!diti_small_begin(graph, &dispatch, "planes to rows", DITI_KERNEL_PIXELS, DITI_OP_PLANES_TO_ROWS)) return 0;
    if (!diti_pixels_fit(graph, diti_tensor_get(graph, planar), (uint64_t)batch * channels, area, "planes to rows"))
        return 0;
    out = diti_tensor_new(graph, graph->activation, batch * area, channels, "rows");
    if (!out) return 0;
    diti_pixels_push(&dispatch, diti_tensor_get(graph, planar), diti_tensor_get(graph, out), batch, channels, 1, area,
                     1, 0);
    dispatch.push[DITI_PIXELS_SCALE] = diti_op_float(scale);
    dispatch.push[DITI_PIXELS_SHIFT] = diti_op_float(shift);
    diti_pixels_emit(graph, &dispatch, planar, out);
    return out;
}

/* The rows of a rectangle, from its first pixel to its last. */
static diti_tensor diti_tile_view(diti_graph *graph, diti_tensor tensor, const diti_tile *tile, uint32_t y, uint32_t x,
                                  uint32_t width) {
    uint32_t columns = diti_tensor_get(graph, tensor)->columns;
    return diti_tensor_view(graph, tensor, y * width + x, (tile->height - 1) * width + tile->width, 0, columns);
}

DIT_INTERNAL void diti_move_tile(diti_graph *graph, diti_tensor from, diti_tensor out, const diti_tile *tile) {
    uint32_t columns = diti_tensor_get(graph, from)->columns;
    diti_dispatch dispatch;
    from = diti_guard_release(graph, from, "tile");
    if (!diti_small_begin(graph, &dispatch, "tile", DITI_KERNEL_PIXELS, DITI_OP_TILE)) return;
    from = diti_tile_view(graph, from, tile, tile->from_y, tile->from_x, tile->from_width);
    out = diti_tile_view(graph, out, tile, tile->out_y, tile->out_x, tile->out_width);
    if (diti_graph_failed(graph)) return;
    diti_pixels_push(&dispatch, diti_tensor_get(graph, from), diti_tensor_get(graph, out), tile->from_width,
                     tile->out_width, tile->height, tile->width, tile->top, tile->left);
    dispatch.push[DITI_PIXELS_RGB] = tile->bottom;
    dispatch.push[DITI_PIXELS_RGB_PITCH] = tile->right;
    diti_op_bind(graph, &dispatch, 0, from, DITI_PIXELS_X, true, false);
    diti_op_bind(graph, &dispatch, 2, out, DITI_PIXELS_OUT, tile->top || tile->left, true);
    diti_small_emit(graph, &dispatch, tile->height * tile->width, columns, DITI_PIXELS_PUSH_WORDS);
}

DIT_INTERNAL diti_tensor diti_image_in(diti_graph *graph, diti_tensor rgba, uint32_t colors, bool swap) {
    uint32_t pixels = diti_tensor_columns(graph, rgba);
    diti_dispatch dispatch;
    diti_tensor out;
    if (!diti_small_begin(graph, &dispatch, "pixels", DITI_KERNEL_PIXELS, DITI_OP_UNPACK)) return 0;
    out = diti_tensor_new(graph, DITI_F32, pixels, colors, "pixels");
    if (!out) return 0;
    diti_pixels_push(&dispatch, diti_tensor_get(graph, rgba), diti_tensor_get(graph, out), 1, colors, 1, 1, 1, 0);
    dispatch.constants[2] = DITI_F32; /* words are no floats, but as long */
    dispatch.constants[7] = swap;
    diti_pixels_emit(graph, &dispatch, rgba, out);
    return out;
}

DIT_INTERNAL void diti_image_out(diti_graph *graph, diti_tensor rows, diti_tensor rgba, diti_tensor rgb, bool swap,
                                 diti_tensor health) {
    const diti_tensor_info *from;
    uint32_t pixels;
    diti_dispatch dispatch;
    rows = diti_guard_release(graph, rows, "image");
    from = diti_tensor_get(graph, rows);
    pixels = from->rows;
    if (!diti_small_begin(graph, &dispatch, "image", DITI_KERNEL_PIXELS, DITI_OP_IMAGE)) return;
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
    dispatch.push[DITI_PIXELS_X_PITCH] = from->pitch;
    dispatch.push[DITI_PIXELS_CHANNELS] = from->columns;
    dispatch.push[DITI_PIXELS_RGB_PITCH] = rgb ? diti_tensor_get(graph, rgb)->pitch : 0;
    diti_op_bind(graph, &dispatch, 0, rows, DITI_PIXELS_X, true, false);
    diti_op_bind_rows(graph, &dispatch, 0, 1, DITI_ELEMENTWISE_GROUP * 4u, 0, 0);
    diti_op_bind(graph, &dispatch, 2, rgba, DITI_PIXELS_OUT, false, true);
    diti_small_bind_run(graph, &dispatch, 2);
    diti_op_bind(graph, &dispatch, 3, rgb, DITI_PIXELS_RGB, false, true);
    diti_op_bind(graph, &dispatch, 4, health, DITI_PIXELS_HEALTH, true, true);
    diti_small_emit(graph, &dispatch, 1, pixels, DITI_PIXELS_PUSH_WORDS);
}

DIT_INTERNAL void diti_texels_out(diti_graph *graph, diti_tensor rgb, diti_tensor texels, bool grey) {
    diti_dispatch dispatch;
    const char *name = grey ? "greys" : "linear light";
    if (!diti_small_begin(graph, &dispatch, name, DITI_KERNEL_PIXELS, grey ? DITI_OP_GREY : DITI_OP_LIGHT)) return;
    diti_pixels_push(&dispatch, diti_tensor_get(graph, rgb), diti_tensor_get(graph, texels), 1, 3, 1, 1, 1, 0);
    dispatch.constants[3] = DITI_F32; /* words are no floats, but as long */
    diti_pixels_emit(graph, &dispatch, rgb, texels);
}

DIT_INTERNAL diti_tensor diti_latent_colors(diti_graph *graph, diti_tensor planes, uint32_t height, uint32_t width,
                                            uint32_t patch, diti_tensor table) {
    const diti_tensor_info *factors = diti_tensor_get(graph, table);
    uint32_t channels = factors->rows - 1;
    diti_dispatch dispatch;
    diti_tensor out;
    if (!diti_small_begin(graph, &dispatch, "colors", DITI_KERNEL_PIXELS, DITI_OP_COLORS)) return 0;
    if (!diti_pixels_fit(graph, diti_tensor_get(graph, planes), (uint64_t)channels * patch * patch,
                         (uint64_t)height * width, "colors"))
        return 0;
    out = diti_tensor_new(graph, DITI_F32, height * width * patch * patch, 3, "colors");
    if (!out) return 0;
    diti_pixels_push(&dispatch, diti_tensor_get(graph, planes), diti_tensor_get(graph, out), 1, channels, height, width,
                     patch, factors->pitch);
    diti_op_bind(graph, &dispatch, 1, table, DITI_PIXELS_FACTOR, true, false);
    diti_pixels_emit(graph, &dispatch, planes, out);
    return out;
}

DIT_INTERNAL void diti_enlarge_out(diti_graph *graph, diti_tensor rows, uint32_t height, uint32_t width,
                                   uint32_t factor, diti_tensor rgba, bool swap) {
    uint64_t pixels = (uint64_t)height * width * factor * factor;
    diti_dispatch dispatch;
    if (!diti_small_begin(graph, &dispatch, "enlarge", DITI_KERNEL_PIXELS, DITI_OP_ENLARGE)) return;
    if (!diti_pixels_fit(graph, diti_tensor_get(graph, rows), (uint64_t)height * width, 3, "enlarge") ||
        !diti_pixels_fit(graph, diti_tensor_get(graph, rgba), 1, pixels, "enlarge"))
        return;
    diti_pixels_push(&dispatch, diti_tensor_get(graph, rows), diti_tensor_get(graph, rgba), 1, 3, height, width, factor,
                     0);
    dispatch.constants[3] = DITI_F32; /* words are no floats, but as long */
    dispatch.constants[5] = true;
    dispatch.constants[7] = swap;
    diti_pixels_emit(graph, &dispatch, rows, rgba);
}
