/* Convolutions that keep channels apart (shaders/depthwise.comp), and attention without a softmax, whose work grows
   with the number of rows (shaders/linear_attention.comp). */
#include "graph/ops_internal.h"

#define DITI_CHANNELS_GROUP 64u /* invocations */

/* Push words of depthwise.comp. */
enum {
    DITI_DEPTHWISE_ROWS = 1,
    DITI_DEPTHWISE_COLUMNS,
    DITI_DEPTHWISE_IN,
    DITI_DEPTHWISE_IN_PITCH,
    DITI_DEPTHWISE_GATE,
    DITI_DEPTHWISE_GATE_PITCH,
    DITI_DEPTHWISE_OUT,
    DITI_DEPTHWISE_OUT_PITCH,
    DITI_DEPTHWISE_WEIGHT,
    DITI_DEPTHWISE_BIAS,
    DITI_DEPTHWISE_FIRST,
    DITI_DEPTHWISE_GATE_FIRST,
    DITI_DEPTHWISE_HEIGHT,
    DITI_DEPTHWISE_WIDTH,
    DITI_DEPTHWISE_SIZE,
    DITI_DEPTHWISE_PUSH_WORDS
};
enum { DITI_DEPTHWISE_OWN, DITI_DEPTHWISE_GROUPED, DITI_DEPTHWISE_SNAKE };

/* A weight of so many values as a tensor for a binding. */
static diti_tensor diti_channels_weight(diti_graph *graph, const diti_weight *weight, const char *name) {
    return weight ? diti_op_vector_weight(graph, weight, weight->rows * weight->columns, name) : 0;
}

/* Binds all, and emits: invocations make four columns of a row each. reach: rows of x around those of the result. */
static diti_tensor diti_channels_emit(diti_graph *graph, diti_dispatch *dispatch, const diti_tensor tensors[5],
                                      uint64_t reach) {
    const diti_tensor_info *x, *out;
    uint32_t *push = dispatch->push, quads;
    if (diti_graph_failed(graph)) return 0;
    x = diti_tensor_get(graph, tensors[0]);
    out = diti_tensor_get(graph, tensors[2]);
    if (!diti_op_writable(graph, tensors[2], x->rows, out->columns, dispatch->name)) return 0;
    quads = (out->columns + 3) / 4;
    dispatch->constants[2] = x->format;
    dispatch->constants[3] = out->format;
    dispatch->constants[4] = tensors[4] != 0;
    dispatch->constants[5] = tensors[1] != 0;
    dispatch->constants[6] =
        diti_op_vector(graph, tensors[0]) && diti_op_vector(graph, tensors[1]) && diti_op_vector(graph, tensors[2]);
    dispatch->stated = DITI_STATED(7);
    push[DITI_DEPTHWISE_ROWS] = x->rows;
    push[DITI_DEPTHWISE_COLUMNS] = out->columns;
    push[DITI_DEPTHWISE_IN_PITCH] = x->pitch;
    push[DITI_DEPTHWISE_GATE_PITCH] = tensors[1] ? diti_tensor_get(graph, tensors[1])->pitch : 0;
    push[DITI_DEPTHWISE_OUT_PITCH] = out->pitch;
    diti_op_bind(graph, dispatch, 0, tensors[0], DITI_DEPTHWISE_IN, true, false);
    diti_op_bind(graph, dispatch, 1, tensors[1], DITI_DEPTHWISE_GATE, true, false);
    diti_op_bind(graph, dispatch, 2, tensors[2], DITI_DEPTHWISE_OUT, false, true);
    diti_op_bind(graph, dispatch, 3, tensors[3], DITI_DEPTHWISE_WEIGHT, true, false);
    diti_op_bind(graph, dispatch, 4, tensors[4], DITI_DEPTHWISE_BIAS, true, false);
    diti_op_bind_rows(graph, dispatch, 0, quads, DITI_CHANNELS_GROUP, reach, reach);
    if (tensors[1]) diti_op_bind_rows(graph, dispatch, 1, quads, DITI_CHANNELS_GROUP, reach, reach);
    diti_op_bind_rows(graph, dispatch, 2, quads, DITI_CHANNELS_GROUP, 0, 0);
    diti_op_emit(graph, dispatch, ((uint64_t)x->rows * quads + DITI_CHANNELS_GROUP - 1) / DITI_CHANNELS_GROUP,
                 DITI_DEPTHWISE_PUSH_WORDS);
    return tensors[2];
}

static bool diti_depthwise_check(diti_graph *graph, diti_tensor x, diti_tensor gate, const diti_depthwise_desc *desc,
                                 const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, x), *other = diti_tensor_get(graph, gate ? gate : x);
    uint64_t area = (uint64_t)desc->height * desc->width;
    uint32_t channels = desc->weight->rows, first = desc->first > desc->gate_first ? desc->first : desc->gate_first;
    if (diti_graph_failed(graph)) return false;
    if (diti_element_is_float(info->format) && other->format == info->format && other->rows == info->rows &&
        other->columns == info->columns && area && info->rows % area == 0 && first + info->columns <= channels &&
        (!desc->bias || !desc->bias->part_count || desc->bias->rows * desc->bias->columns == channels))
        return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                    "op %s: %s [%u, %u] is no picture of %u x %u with channels of the %u of the weight", name,
                    info->name, info->rows, info->columns, desc->height, desc->width, channels);
    return false;
}

static uint32_t diti_depthwise_side(const diti_weight *weight) {
    uint32_t side = 1;
    while (side * side < weight->columns) side += 2;
    return side;
}

DIT_INTERNAL diti_tensor diti_depthwise(diti_graph *graph, diti_tensor x, const diti_depthwise_desc *desc) {
    const char *name = desc->name ? desc->name : "depthwise";
    uint32_t side = diti_depthwise_side(desc->weight), *push;
    diti_tensor tensors[5];
    diti_dispatch dispatch;
    tensors[0] = diti_guard_release(graph, x, name);
    tensors[1] = desc->gate ? diti_guard_release(graph, desc->gate, name) : 0;
    if (!diti_depthwise_check(graph, tensors[0], tensors[1], desc, name)) return 0;
    if (side * side != desc->weight->columns)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %u taps are no square of an odd number", name,
                               desc->weight->columns);
    if (!diti_op_begin(graph, &dispatch, name, DITI_KERNEL_DEPTHWISE, DITI_CHANNELS_GROUP)) return 0;
    tensors[2] =
        desc->out ? desc->out
                  : diti_tensor_new(graph, DITI_F32, diti_tensor_rows(graph, x), diti_tensor_columns(graph, x), name);
    tensors[3] = diti_channels_weight(graph, desc->weight, name);
    tensors[4] = diti_channels_weight(graph, desc->bias, name);
    push = dispatch.push;
    push[DITI_DEPTHWISE_FIRST] = desc->first;
    push[DITI_DEPTHWISE_GATE_FIRST] = desc->gate_first;
    push[DITI_DEPTHWISE_HEIGHT] = desc->height;
    push[DITI_DEPTHWISE_WIDTH] = desc->width;
    push[DITI_DEPTHWISE_SIZE] = side;
    dispatch.constants[1] = DITI_DEPTHWISE_OWN;
    dispatch.flops =
        2.0 * side * side * diti_tensor_rows(graph, x) * diti_tensor_columns(graph, x) * (desc->gate ? 2 : 1);
    return diti_channels_emit(graph, &dispatch, tensors, (uint64_t)side / 2 * (desc->width + 1));
}

DIT_INTERNAL void diti_grouped(diti_graph *graph, diti_tensor x, const diti_weight *weight, diti_tensor out,
                               const char *name) {
    uint32_t columns = diti_tensor_columns(graph, x), size = weight->columns;
    diti_tensor tensors[5] = {0, 0, 0, 0, 0};
    diti_dispatch dispatch;
    tensors[0] = diti_guard_release(graph, x, name);
    tensors[2] = out;
    tensors[3] = diti_channels_weight(graph, weight, name);
    if (diti_graph_failed(graph)) return;
    if (weight->rows != columns || columns % size || diti_tensor_columns(graph, out) != columns) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                        "op %s: %u channels are no groups of %u, as the weight's %u are", name, columns, size,
                        weight->rows);
        return;
    }
    if (!diti_op_begin(graph, &dispatch, name, DITI_KERNEL_DEPTHWISE, DITI_CHANNELS_GROUP)) return;
    dispatch.push[DITI_DEPTHWISE_HEIGHT] = dispatch.push[DITI_DEPTHWISE_WIDTH] = 1;
    dispatch.push[DITI_DEPTHWISE_SIZE] = size;
    dispatch.constants[1] = DITI_DEPTHWISE_GROUPED;
    dispatch.flops = 2.0 * size * diti_tensor_rows(graph, x) * columns;
    diti_channels_emit(graph, &dispatch, tensors, 0);
}

DIT_INTERNAL diti_tensor diti_snake(diti_graph *graph, diti_tensor x, const diti_weight *rates,
                                    const diti_weight *filters, const char *name) {
    uint32_t rows = diti_tensor_rows(graph, x), columns = diti_tensor_columns(graph, x);
    diti_tensor tensors[5] = {0, 0, 0, 0, 0};
    diti_dispatch dispatch;
    tensors[0] = diti_guard_release(graph, x, name);
    tensors[2] = diti_tensor_new(graph, DITI_F32, rows, columns, name);
    tensors[3] = diti_op_vector_weight(graph, rates, 2 * columns, name);
    tensors[4] = diti_op_vector_weight(graph, filters, 2 * DITI_SNAKE_TAPS, name);
    if (!diti_op_begin(graph, &dispatch, name, DITI_KERNEL_DEPTHWISE, DITI_CHANNELS_GROUP)) return 0;
    dispatch.constants[1] = DITI_DEPTHWISE_SNAKE;
    dispatch.flops = 2.0 * DITI_SNAKE_TAPS * (DITI_SNAKE_TAPS / 2 + 10.0) * rows * columns;
    return diti_channels_emit(graph, &dispatch, tensors, DITI_SNAKE_TAPS / 2);
}

/* ---- attention without a softmax ---- */

#define DITI_LINEAR_PART 256u /* rows that a workgroup sums up; sums depend on the shape alone */

/* Push words of linear_attention.comp. */
enum {
    DITI_LINEAR_ROWS = 1,
    DITI_LINEAR_HEADS,
    DITI_LINEAR_PARTS,
    DITI_LINEAR_PART_ROWS,
    DITI_LINEAR_IN,
    DITI_LINEAR_IN_PITCH,
    DITI_LINEAR_OUT,
    DITI_LINEAR_OUT_PITCH,
    DITI_LINEAR_HEAD_STEP,
    DITI_LINEAR_KEYS,
    DITI_LINEAR_VALUES,
    DITI_LINEAR_SUM,
    DITI_LINEAR_SUM_PITCH,
    DITI_LINEAR_EPS,
    DITI_LINEAR_PUSH_WORDS
};
enum { DITI_LINEAR_SUM_UP, DITI_LINEAR_FOLD, DITI_LINEAR_APPLY };

/* One of the three dispatches of an item's rows x. */
static bool diti_linear_begin(diti_graph *graph, diti_dispatch *dispatch, uint32_t op, diti_tensor x, diti_tensor sums,
                              diti_tensor out, const diti_linear_attention_desc *desc) {
    uint32_t *push = dispatch->push, rows = diti_tensor_rows(graph, x);
    if (!diti_op_begin(graph, dispatch, desc->name ? desc->name : "linear_attention", DITI_KERNEL_LINEAR_ATTENTION,
                       DITI_CHANNELS_GROUP))
        return false;
    dispatch->constants[1] = op;
    dispatch->constants[2] = diti_tensor_get(graph, x)->format;
    dispatch->constants[3] = diti_tensor_get(graph, out)->format;
    dispatch->constants[4] = desc->head_dim;
    dispatch->stated = DITI_STATED(5);
    push[DITI_LINEAR_ROWS] = rows;
    push[DITI_LINEAR_HEADS] = desc->heads;
    push[DITI_LINEAR_PARTS] = (rows + DITI_LINEAR_PART - 1) / DITI_LINEAR_PART;
    push[DITI_LINEAR_PART_ROWS] = DITI_LINEAR_PART;
    push[DITI_LINEAR_IN_PITCH] = diti_tensor_get(graph, x)->pitch;
    push[DITI_LINEAR_OUT_PITCH] = diti_tensor_get(graph, out)->pitch;
    push[DITI_LINEAR_HEAD_STEP] = desc->step;
    push[DITI_LINEAR_KEYS] = desc->key_offset;
    push[DITI_LINEAR_VALUES] = desc->value_offset;
    push[DITI_LINEAR_SUM_PITCH] = sums ? diti_tensor_get(graph, sums)->pitch : 0;
    push[DITI_LINEAR_EPS] = diti_op_float(1e-15f);
    if (op != DITI_LINEAR_FOLD) diti_op_bind(graph, dispatch, 0, x, DITI_LINEAR_IN, true, false);
    diti_op_bind(graph, dispatch, 1, out, DITI_LINEAR_OUT, false, true);
    diti_op_bind(graph, dispatch, 2, sums, DITI_LINEAR_SUM, true, false);
    return true;
}

/* An item's rows. */
static void diti_linear_item(diti_graph *graph, diti_tensor x, diti_tensor out,
                             const diti_linear_attention_desc *desc) {
    uint32_t rows = diti_tensor_rows(graph, x), parts = (rows + DITI_LINEAR_PART - 1) / DITI_LINEAR_PART,
             dim = desc->head_dim;
    uint32_t entries = dim * (dim + 4), quads = desc->heads * dim / 4;
    diti_tensor sums = diti_tensor_new(graph, DITI_F32, parts * desc->heads, entries, "sums of parts"), folded = sums;
    diti_dispatch dispatch;
    if (diti_graph_failed(graph) || !diti_linear_begin(graph, &dispatch, DITI_LINEAR_SUM_UP, x, 0, sums, desc)) return;
    diti_op_bind_rows(graph, &dispatch, 0, desc->heads, DITI_LINEAR_PART, 0, 0);
    diti_op_bind_rows(graph, &dispatch, 1, 1, 1, 0, 0);
    dispatch.flops = 2.0 * rows * desc->heads * entries;
    diti_op_emit(graph, &dispatch, (uint64_t)parts * desc->heads, DITI_LINEAR_PUSH_WORDS);
    if (parts > 1) {
        folded = diti_tensor_new(graph, DITI_F32, desc->heads, entries, "sums");
        if (diti_graph_failed(graph) || !diti_linear_begin(graph, &dispatch, DITI_LINEAR_FOLD, x, sums, folded, desc))
            return;
        diti_op_emit(graph, &dispatch,
                     ((uint64_t)desc->heads * (entries / 4) + DITI_CHANNELS_GROUP - 1) / DITI_CHANNELS_GROUP,
                     DITI_LINEAR_PUSH_WORDS);
    }
    if (!diti_linear_begin(graph, &dispatch, DITI_LINEAR_APPLY, x, folded, out, desc)) return;
    diti_op_bind_rows(graph, &dispatch, 0, quads, DITI_CHANNELS_GROUP, 0, 0);
    diti_op_bind_rows(graph, &dispatch, 1, quads, DITI_CHANNELS_GROUP, 0, 0);
    dispatch.flops = 2.0 * rows * desc->heads * entries;
    diti_op_emit(graph, &dispatch, ((uint64_t)rows * quads + DITI_CHANNELS_GROUP - 1) / DITI_CHANNELS_GROUP,
                 DITI_LINEAR_PUSH_WORDS);
}

DIT_INTERNAL diti_tensor diti_linear_attention(diti_graph *graph, diti_tensor x,
                                               const diti_linear_attention_desc *desc) {
    const char *name = desc->name ? desc->name : "linear_attention";
    uint32_t rows = diti_tensor_rows(graph, x), columns = diti_tensor_columns(graph, x), items = desc->items, i, own;
    uint64_t last = (uint64_t)(desc->heads - 1) * desc->step + desc->head_dim +
                    (desc->key_offset > desc->value_offset ? desc->key_offset : desc->value_offset);
    diti_tensor out;
    if (diti_graph_failed(graph)) return 0;
    if (!items || rows % items || !desc->heads || !desc->head_dim || desc->head_dim % 4 || desc->step % 4 ||
        desc->key_offset % 4 || desc->value_offset % 4 || last > columns)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                               "op %s: %u columns of %u rows hold no %u heads of %u for %u items", name, columns, rows,
                               desc->heads, desc->head_dim, items);
    x = diti_op_align(graph, diti_guard_release(graph, x, name), name);
    out = diti_tensor_new(graph, DITI_F32, rows, desc->heads * desc->head_dim, name);
    own = rows / items;
    for (i = 0; i < items && !diti_graph_failed(graph); i++)
        diti_linear_item(graph, diti_tensor_view(graph, x, i * own, own, 0, columns),
                         diti_tensor_view(graph, out, i * own, own, 0, desc->heads * desc->head_dim), desc);
    return out;
}
