/* Residuals of blocks, kept for later steps: residual.comp, and decide.comp, which tells on the
   device whether a step may do without them. Dispatches that depend on this are recorded with a gate: an indirect
   dispatch takes as many workgroups from it as were asked for, or none. */
#include "graph/group.h"
#include "graph/ops_internal.h"

#define DITI_RESIDUAL_GROUP 64u

DIT_INTERNAL void diti_residual_do(diti_graph *graph, diti_residual_op op, diti_tensor x, const diti_tensor *slots,
                                   uint32_t count, diti_tensor row) {
    enum {
        DITI_RESIDUAL_QUADS = 1,
        DITI_RESIDUAL_X,
        DITI_RESIDUAL_ROW,
        DITI_RESIDUAL_WEIGHTS,
        DITI_RESIDUAL_SLOT,
        DITI_RESIDUAL_WORDS = DITI_RESIDUAL_SLOT + DITI_REUSE_SLOTS
    };
    static const char *const names[] = {"keep state", "keep residual", "reuse residual"};
    const diti_tensor_info *info = diti_tensor_get(graph, x);
    uint64_t quads = (uint64_t)info->rows * info->columns / 4;
    diti_dispatch dispatch;
    uint32_t i;
    if (!diti_op_begin(graph, &dispatch, names[op], DITI_KERNEL_RESIDUAL, DITI_RESIDUAL_GROUP)) return;
    if (info->format != DITI_F32 || info->columns % 4 || info->pitch != info->columns || info->first % 4) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s [%u, %u] is not F32 without gaps", dispatch.name,
                        info->name, info->rows, info->columns);
        return;
    }
    dispatch.constants[1] = (uint32_t)op;
    dispatch.constants[2] = count;
    dispatch.stated = DITI_STATED(3);
    dispatch.push[DITI_RESIDUAL_QUADS] = (uint32_t)quads;
    dispatch.push[DITI_RESIDUAL_WEIGHTS] = (uint32_t)(offsetof(diti_reuse_row, weights) / sizeof(float));
    /* validation layers take a binding that some pipeline of the module writes for one that all write */
    diti_op_bind(graph, &dispatch, 0, x, DITI_RESIDUAL_X, true, op == DITI_RESIDUAL_ADD || graph->device->validated);
    diti_op_bind(graph, &dispatch, 1, row, DITI_RESIDUAL_ROW, true, false);
    for (i = 0; i < count; i++)
        diti_op_bind(graph, &dispatch, 2 + i, slots[i], (uint8_t)(DITI_RESIDUAL_SLOT + i), op != DITI_RESIDUAL_PUT,
                     op != DITI_RESIDUAL_ADD);
    for (i = 0; i < dispatch.binding_count; i++) {
        if (i == 1) continue;
        dispatch.bindings[i].group_div = 1;
        dispatch.bindings[i].group_step = DITI_RESIDUAL_GROUP * 4u;
    }
    diti_op_emit(graph, &dispatch, (quads + DITI_RESIDUAL_GROUP - 1) / DITI_RESIDUAL_GROUP, DITI_RESIDUAL_WORDS);
}

/* --- decide.comp --- */

enum { DITI_DECIDE_SUMS, DITI_DECIDE_TOTAL, DITI_DECIDE_GATE };
enum {
    DITI_DECIDE_ROWS = 1,
    DITI_DECIDE_COLUMNS,
    DITI_DECIDE_ITEM,
    DITI_DECIDE_TEXT,
    DITI_DECIDE_X,
    DITI_DECIDE_X_PITCH,
    DITI_DECIDE_BEFORE,
    DITI_DECIDE_STATE = DITI_DECIDE_BEFORE + 2,
    DITI_DECIDE_OUT,
    DITI_DECIDE_ROW,
    DITI_DECIDE_GATES,
    DITI_DECIDE_ENTRIES,
    DITI_DECIDE_WORDS
};

static bool diti_decide_begin(diti_graph *graph, diti_dispatch *dispatch, const char *name, uint32_t op, diti_tensor x,
                              bool forecasts) {
    if (!diti_op_begin(graph, dispatch, name, DITI_KERNEL_DECIDE, DITI_RESIDUAL_GROUP)) return false;
    dispatch->constants[1] = op;
    dispatch->constants[2] = forecasts;
    dispatch->stated = DITI_STATED(3);
    dispatch->push[DITI_DECIDE_X_PITCH] = diti_tensor_get(graph, x)->pitch;
    diti_op_bind(graph, dispatch, 0, x, DITI_DECIDE_X, true, false);
    return true;
}

static void diti_decide_bind_places(diti_graph *graph, diti_dispatch *dispatch, const diti_tensor places[2],
                                    diti_tensor state) {
    uint32_t i;
    for (i = 0; i < 2; i++)
        diti_op_bind(graph, dispatch, 1 + i, places[i], (uint8_t)(DITI_DECIDE_BEFORE + i), true, false);
    diti_op_bind(graph, dispatch, 3, state, DITI_DECIDE_STATE, true, false);
}

/* F32 [rows of the image, 2]. */
static diti_tensor diti_decide_sums(diti_graph *graph, const diti_decide_desc *desc, bool forecasts) {
    uint32_t rows = desc->items * desc->image;
    diti_tensor out = diti_tensor_new(graph, DITI_F32, rows, 2, "changes of rows");
    diti_dispatch dispatch;
    if (!diti_decide_begin(graph, &dispatch, "measure change", DITI_DECIDE_SUMS, desc->change, forecasts)) return 0;
    dispatch.push[DITI_DECIDE_ROWS] = desc->image;
    dispatch.push[DITI_DECIDE_COLUMNS] = diti_tensor_columns(graph, desc->change);
    dispatch.push[DITI_DECIDE_ITEM] = desc->text + desc->image;
    dispatch.push[DITI_DECIDE_TEXT] = desc->text;
    diti_decide_bind_places(graph, &dispatch, desc->changes, desc->state);
    diti_op_bind(graph, &dispatch, 4, out, DITI_DECIDE_OUT, false, true);
    diti_op_emit(graph, &dispatch, rows, DITI_DECIDE_WORDS);
    return out;
}

/* F32 [1, 4]: both sums of either branch, and four more where sums of an output are kept. sums 0: nothing is here. */
static diti_tensor diti_decide_total(diti_graph *graph, const diti_decide_desc *desc, diti_tensor sums) {
    bool forecasts = desc->sums[0] != 0;
    diti_tensor out = diti_tensor_new(graph, DITI_F32, 1, forecasts ? 8 : 4, "change");
    diti_dispatch dispatch;
    if (!diti_decide_begin(graph, &dispatch, "add changes", DITI_DECIDE_TOTAL, sums ? sums : desc->state, forecasts))
        return 0;
    dispatch.push[DITI_DECIDE_ROWS] = sums ? desc->items * desc->image / desc->branches : 0;
    dispatch.push[DITI_DECIDE_ITEM] = desc->branches;
    dispatch.push[DITI_DECIDE_TEXT] = desc->first_branch;
    if (forecasts) diti_decide_bind_places(graph, &dispatch, desc->sums, desc->state);
    diti_op_bind(graph, &dispatch, 4, out, DITI_DECIDE_OUT, false, true);
    diti_op_emit(graph, &dispatch, 1, DITI_DECIDE_WORDS);
    return out;
}

DIT_INTERNAL diti_tensor diti_decide_measure(diti_graph *graph, const diti_decide_desc *desc) {
    return diti_decide_total(graph, desc, diti_decide_sums(graph, desc, true));
}

DIT_INTERNAL void diti_decide(diti_graph *graph, const diti_decide_desc *desc) {
    bool forecasts = desc->sums[0] != 0;
    diti_tensor total = diti_decide_total(graph, desc, desc->change ? diti_decide_sums(graph, desc, forecasts) : 0);
    diti_dispatch dispatch;
    if (diti_ranks_count(desc->group) > 1)
        total = diti_all_gather(graph, desc->group, total, 1, desc->group->count, "changes");
    if (!diti_decide_begin(graph, &dispatch, "decide", DITI_DECIDE_GATE, total, forecasts)) return;
    dispatch.push[DITI_DECIDE_ROWS] = diti_tensor_rows(graph, total);
    dispatch.push[DITI_DECIDE_COLUMNS] =
        diti_tensor_columns(graph, desc->state) - DITI_REUSE_STATE - (forecasts ? DITI_FORECAST_STATE : 0);
    dispatch.push[DITI_DECIDE_ENTRIES] = DITI_GATE_ENTRIES;
    diti_op_bind(graph, &dispatch, 3, desc->state, DITI_DECIDE_STATE, true, desc->next == desc->state);
    diti_op_bind(graph, &dispatch, 4, desc->next, DITI_DECIDE_OUT, false, true);
    diti_op_bind(graph, &dispatch, 5, desc->row, DITI_DECIDE_ROW, true, false);
    diti_op_bind(graph, &dispatch, 6, desc->gate, DITI_DECIDE_GATES, false, true);
    diti_op_emit(graph, &dispatch, 1, DITI_DECIDE_WORDS);
}
