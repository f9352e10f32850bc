/* Clips (shaders/frames.comp): frames between frames, channels that become frames or pixels, and back. */
#include "graph/ops_internal.h"

#define DITI_FRAMES_GROUP 64u /* invocations; each makes four columns */

/* Push words of frames.comp. */
enum {
    DITI_FRAMES_ROWS = 1,
    DITI_FRAMES_COLUMNS,
    DITI_FRAMES_IN,
    DITI_FRAMES_IN_PITCH,
    DITI_FRAMES_OUT,
    DITI_FRAMES_OUT_PITCH,
    DITI_FRAMES_MORE,
    DITI_FRAMES_MORE_PITCH,
    DITI_FRAMES_SHIFT,
    DITI_FRAMES_SHIFT_PITCH,
    DITI_FRAMES_HEIGHT,
    DITI_FRAMES_WIDTH,
    DITI_FRAMES_IN_HEIGHT,
    DITI_FRAMES_IN_WIDTH,
    DITI_FRAMES_COUNT,
    DITI_FRAMES_IN_COUNT,
    DITI_FRAMES_FIRST,
    DITI_FRAMES_TIME,
    DITI_FRAMES_SIDE,
    DITI_FRAMES_CHANNEL_STEP,
    DITI_FRAMES_TIME_STEP,
    DITI_FRAMES_LINE_STEP,
    DITI_FRAMES_PIXEL_STEP,
    DITI_FRAMES_REPEATS,
    DITI_FRAMES_MODULUS,
    DITI_FRAMES_WEIGHT,
    DITI_FRAMES_MORE_WEIGHT,
    DITI_FRAMES_PUSH_WORDS
};
enum {
    DITI_FRAMES_BLEND,
    DITI_FRAMES_SPREAD,
    DITI_FRAMES_GATHER,
    DITI_FRAMES_CONDITION,
    DITI_FRAMES_FOLD,
    DITI_FRAMES_UNFOLD,
    DITI_FRAMES_DRAW,
    DITI_FRAMES_FILL,
    DITI_FRAMES_PLACE
};

typedef struct diti_frames_op { /* a dispatch before it is bound */
    diti_dispatch dispatch;
    diti_tensor x, more, shift, out;
    uint64_t in_rows, reach; /* rows of x that DITI_FRAMES_GROUP rows of the result need, and how many around them; 0: a
                                slice binds all of x */
} diti_frames_op;

/* from and to: the clips of the source and of the result. */
static bool diti_frames_begin(diti_graph *graph, diti_frames_op *op, const char *name, uint32_t kind,
                              const diti_video *from, const diti_video *to) {
    uint32_t *push = op->dispatch.push;
    if (!diti_op_begin(graph, &op->dispatch, name, DITI_KERNEL_FRAMES, DITI_FRAMES_GROUP)) return false;
    op->x = op->more = op->shift = 0;
    op->in_rows = op->reach = 0;
    op->dispatch.constants[1] = kind;
    op->dispatch.stated = DITI_STATED(8);
    push[DITI_FRAMES_HEIGHT] = to->height;
    push[DITI_FRAMES_WIDTH] = to->width;
    push[DITI_FRAMES_COUNT] = to->frames;
    push[DITI_FRAMES_IN_HEIGHT] = from->height;
    push[DITI_FRAMES_IN_WIDTH] = from->width;
    push[DITI_FRAMES_IN_COUNT] = from->frames;
    return true;
}

static bool diti_frames_fit(diti_graph *graph, diti_tensor x, const diti_video *clip, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, x);
    if (diti_graph_failed(graph)) return false;
    if (diti_element_is_float(info->format) && info->rows == (uint64_t)clip->frames * clip->height * clip->width &&
        info->rows)
        return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s [%u, %u] is no clip of %u frames of %u x %u", name,
                    info->name, info->rows, info->columns, clip->frames, clip->height, clip->width);
    return false;
}

static diti_tensor diti_frames_emit(diti_graph *graph, diti_frames_op *op, uint32_t columns, diti_element format,
                                    diti_tensor out) {
    diti_dispatch *dispatch = &op->dispatch;
    uint32_t *push = dispatch->push, quads = (columns + 3) / 4;
    uint64_t rows = (uint64_t)push[DITI_FRAMES_COUNT] * push[DITI_FRAMES_HEIGHT] * push[DITI_FRAMES_WIDTH];
    if (diti_graph_failed(graph)) return 0;
    if (rows > UINT32_MAX / columns)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %u frames of %u x %u are too large",
                               dispatch->name, push[DITI_FRAMES_COUNT], push[DITI_FRAMES_HEIGHT],
                               push[DITI_FRAMES_WIDTH]);
    op->out = out ? out : diti_tensor_new(graph, format, (uint32_t)rows, columns, dispatch->name);
    if (!diti_op_writable(graph, op->out, (uint32_t)rows, columns, dispatch->name)) return 0;
    dispatch->constants[2] = diti_tensor_get(graph, op->x)->format;
    dispatch->constants[3] = diti_tensor_get(graph, op->out)->format;
    dispatch->constants[4] = op->more ? (uint32_t)diti_tensor_get(graph, op->more)->format : 0;
    dispatch->constants[6] = op->more != 0;
    push[DITI_FRAMES_ROWS] = (uint32_t)rows;
    push[DITI_FRAMES_COLUMNS] = columns;
    push[DITI_FRAMES_IN_PITCH] = diti_tensor_get(graph, op->x)->pitch;
    push[DITI_FRAMES_OUT_PITCH] = diti_tensor_get(graph, op->out)->pitch;
    push[DITI_FRAMES_MORE_PITCH] = op->more ? diti_tensor_get(graph, op->more)->pitch : 0;
    push[DITI_FRAMES_SHIFT_PITCH] = op->shift ? diti_tensor_get(graph, op->shift)->pitch : 0;
    diti_op_bind(graph, dispatch, 0, op->x, DITI_FRAMES_IN, true, false);
    diti_op_bind(graph, dispatch, 1, op->out, DITI_FRAMES_OUT, false, true);
    diti_op_bind(graph, dispatch, 2, op->more, DITI_FRAMES_MORE, true, false);
    diti_op_bind(graph, dispatch, 3, op->shift, DITI_FRAMES_SHIFT, true, false);
    if (op->in_rows) diti_op_bind_rows(graph, dispatch, 0, quads, op->in_rows, op->reach, op->reach);
    diti_op_bind_rows(graph, dispatch, 1, quads, DITI_FRAMES_GROUP, 0, 0);
    if (op->more && !op->shift) diti_op_bind_rows(graph, dispatch, 2, quads, DITI_FRAMES_GROUP, 0, 0);
    diti_op_emit(graph, dispatch, (rows * quads + DITI_FRAMES_GROUP - 1) / DITI_FRAMES_GROUP, DITI_FRAMES_PUSH_WORDS);
    return op->out;
}

/* more times its weight, to be added to weight times the result. */
static bool diti_frames_more(diti_graph *graph, diti_frames_op *op, const diti_video *clip, diti_tensor more,
                             uint32_t columns, float weight, float more_weight) {
    op->more = diti_guard_release(graph, more, op->dispatch.name);
    op->dispatch.push[DITI_FRAMES_WEIGHT] = diti_op_float(weight);
    op->dispatch.push[DITI_FRAMES_MORE_WEIGHT] = diti_op_float(more_weight);
    if (!more) return true;
    if (!diti_frames_fit(graph, op->more, clip, op->dispatch.name)) return false;
    if (diti_tensor_columns(graph, op->more) == columns) return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %u columns are added to %u", op->dispatch.name,
                    diti_tensor_columns(graph, op->more), columns);
    return false;
}

DIT_INTERNAL uint32_t diti_blended_frames(diti_blend_kind kind, uint32_t frames, uint32_t first) {
    switch (kind) {
    case DITI_BLEND_DOUBLE: return frames < first ? frames : first + 2 * (frames - first);
    case DITI_BLEND_LINEAR: return frames ? 2 * frames - 1 : 0;
    case DITI_BLEND_THIRDS: return (frames + 1) / 2;
    case DITI_BLEND_HALVES: return frames < first ? frames : first + (frames - first) / 2;
    }
    return 0;
}

DIT_INTERNAL diti_tensor diti_blend_frames(diti_graph *graph, diti_tensor x, const diti_blend_desc *desc) {
    const char *name = desc->name ? desc->name : "blend frames";
    bool grows = desc->kind == DITI_BLEND_DOUBLE || desc->kind == DITI_BLEND_LINEAR;
    uint32_t columns = diti_tensor_columns(graph, x);
    diti_video to = desc->clip;
    diti_frames_op op;
    to.frames = diti_blended_frames(desc->kind, desc->clip.frames, desc->first);
    op.x = diti_guard_release(graph, x, name);
    x = op.x;
    if (!diti_frames_fit(graph, x, &desc->clip, name) ||
        !diti_frames_begin(graph, &op, name, DITI_FRAMES_BLEND, &desc->clip, &to))
        return 0;
    op.x = x;
    if (!diti_frames_more(graph, &op, &to, desc->more, columns, desc->weight, desc->more_weight)) return 0;
    op.dispatch.constants[5] = (uint32_t)desc->kind;
    op.dispatch.constants[7] = desc->clamped;
    op.dispatch.push[DITI_FRAMES_FIRST] = desc->first;
    op.in_rows = to.frames == desc->clip.frames ? DITI_FRAMES_GROUP
                 : grows                        ? DITI_FRAMES_GROUP / 2
                                                : DITI_FRAMES_GROUP * 2;
    op.reach = 3ull * to.height * to.width + DITI_FRAMES_GROUP;
    return diti_frames_emit(graph, &op, columns, desc->out_f32 ? DITI_F32 : graph->activation, desc->out);
}

static void diti_frames_block(diti_frames_op *op, const diti_block_desc *desc) {
    uint32_t *push = op->dispatch.push;
    push[DITI_FRAMES_TIME] = desc->time;
    push[DITI_FRAMES_SIDE] = desc->side;
    push[DITI_FRAMES_CHANNEL_STEP] = desc->channel_step;
    push[DITI_FRAMES_TIME_STEP] = desc->time_step ? desc->time_step : 1;
    push[DITI_FRAMES_LINE_STEP] = desc->line_step ? desc->line_step : 1;
    push[DITI_FRAMES_PIXEL_STEP] = desc->pixel_step ? desc->pixel_step : 1;
    push[DITI_FRAMES_REPEATS] = desc->repeats ? desc->repeats : 1;
    push[DITI_FRAMES_MODULUS] = desc->modulus ? desc->modulus : UINT32_MAX;
    push[DITI_FRAMES_FIRST] = desc->first;
}

DIT_INTERNAL diti_tensor diti_spread_frames(diti_graph *graph, diti_tensor x, const diti_block_desc *desc) {
    const char *name = desc->name ? desc->name : "spread frames";
    uint32_t block = desc->time * desc->side * desc->side, repeats = desc->repeats ? desc->repeats : 1;
    uint32_t last = (desc->modulus && desc->modulus < desc->columns ? desc->modulus : desc->columns) - 1;
    diti_video to = desc->clip;
    diti_frames_op op;
    x = diti_guard_release(graph, x, name);
    to.height *= desc->side;
    to.width *= desc->side;
    if (!diti_frames_fit(graph, x, &desc->clip, name)) return 0;
    if (!block || !desc->columns || desc->clip.frames * desc->time <= desc->first ||
        (last * desc->channel_step + (desc->time - 1) * desc->time_step + (desc->side - 1) * desc->line_step +
         (desc->side - 1) * desc->pixel_step) /
                repeats >=
            diti_tensor_columns(graph, x))
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                               "op %s: %u channels do not make blocks of %u x %u x %u", name,
                               diti_tensor_columns(graph, x), desc->time, desc->side, desc->side);
    to.frames = desc->clip.frames * desc->time - desc->first;
    if (!diti_frames_begin(graph, &op, name, DITI_FRAMES_SPREAD, &desc->clip, &to)) return 0;
    op.x = x;
    if (!diti_frames_more(graph, &op, &to, desc->more, desc->columns, 1, 1)) return 0;
    diti_frames_block(&op, desc);
    op.dispatch.constants[7] = desc->clamped;
    op.in_rows = DITI_FRAMES_GROUP % block ? 0 : DITI_FRAMES_GROUP / block;
    op.reach = (1ull + desc->first) * desc->clip.height * desc->clip.width + DITI_FRAMES_GROUP;
    return diti_frames_emit(graph, &op, desc->columns, desc->out_f32 ? DITI_F32 : graph->activation, desc->out);
}

DIT_INTERNAL diti_tensor diti_gather_frames(diti_graph *graph, diti_tensor x, const diti_block_desc *desc) {
    const char *name = desc->name ? desc->name : "gather frames";
    uint32_t block = desc->time * desc->side * desc->side, repeats = desc->repeats ? desc->repeats : 1;
    diti_video to = desc->clip;
    diti_frames_op op;
    x = diti_guard_release(graph, x, name);
    if (!diti_frames_fit(graph, x, &desc->clip, name)) return 0;
    if (!block || (desc->clip.frames + desc->first) % desc->time || desc->clip.height % desc->side ||
        desc->clip.width % desc->side || !desc->channel_step ||
        desc->columns * repeats > diti_tensor_columns(graph, x) * desc->channel_step)
        return diti_graph_fail(
            graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %u + %u frames of %u x %u are not blocks of %u x %u x %u", name,
            desc->first, desc->clip.frames, desc->clip.height, desc->clip.width, desc->time, desc->side, desc->side);
    to.frames = (desc->clip.frames + desc->first) / desc->time;
    to.height /= desc->side;
    to.width /= desc->side;
    if (!diti_frames_begin(graph, &op, name, DITI_FRAMES_GATHER, &desc->clip, &to)) return 0;
    op.x = x;
    if (!diti_frames_more(graph, &op, &to, desc->more, desc->columns, 1, 1)) return 0;
    diti_frames_block(&op, desc);
    op.dispatch.constants[7] = desc->clamped;
    op.dispatch.constants[5] = desc->edge;
    op.in_rows = (uint64_t)DITI_FRAMES_GROUP * block;
    op.reach = (1ull + desc->first + desc->time) * desc->clip.height * desc->clip.width + DITI_FRAMES_GROUP;
    return diti_frames_emit(graph, &op, desc->columns, desc->out_f32 ? DITI_F32 : graph->activation, desc->out);
}

DIT_INTERNAL diti_tensor diti_condition_frames(diti_graph *graph, diti_tensor x, const diti_condition_desc *desc) {
    const char *name = desc->name ? desc->name : "condition frames";
    uint32_t columns = diti_tensor_columns(graph, x);
    diti_frames_op op;
    x = diti_guard_release(graph, x, name);
    if (!diti_frames_fit(graph, x, &desc->clip, name) || !diti_frames_fit(graph, desc->scale, &desc->coarse, name) ||
        !diti_frames_fit(graph, desc->shift, &desc->coarse, name))
        return 0;
    if (diti_tensor_columns(graph, desc->scale) != columns || diti_tensor_columns(graph, desc->shift) != columns ||
        diti_tensor_get(graph, desc->shift)->format != DITI_F32 || desc->first >= desc->coarse.frames ||
        desc->first >= desc->clip.frames)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %u channels are conditioned by %u", name,
                               columns, diti_tensor_columns(graph, desc->scale));
    if (!diti_frames_begin(graph, &op, name, DITI_FRAMES_CONDITION, &desc->coarse, &desc->clip)) return 0;
    op.x = x;
    op.more = desc->scale;
    op.shift = desc->shift;
    op.dispatch.constants[5] = desc->silu;
    op.dispatch.push[DITI_FRAMES_FIRST] = desc->first;
    op.in_rows = DITI_FRAMES_GROUP;
    return diti_frames_emit(graph, &op, columns, graph->activation, desc->out);
}

DIT_INTERNAL diti_tensor diti_fold_frames(diti_graph *graph, diti_tensor x, const diti_video *clip, bool back) {
    const char *name = back ? "unfold frames" : "fold frames";
    uint32_t columns = diti_tensor_columns(graph, x);
    diti_element format = diti_graph_failed(graph) ? DITI_F32 : diti_tensor_get(graph, x)->format;
    diti_frames_op op;
    x = diti_guard_release(graph, x, name);
    if (!diti_frames_fit(graph, x, clip, name) ||
        !diti_frames_begin(graph, &op, name, back ? DITI_FRAMES_UNFOLD : DITI_FRAMES_FOLD, clip, clip))
        return 0;
    op.x = x;
    return diti_frames_emit(graph, &op, columns, format, 0);
}

DIT_INTERNAL diti_tensor diti_draw(diti_graph *graph, diti_tensor moments, diti_tensor noise, float scale,
                                   const char *name) {
    diti_video video = {1, 1, 0};
    uint32_t columns = diti_tensor_columns(graph, moments) / 2;
    diti_frames_op op;
    moments = diti_guard_release(graph, moments, name);
    video.width = diti_tensor_rows(graph, moments);
    if (!diti_frames_begin(graph, &op, name, DITI_FRAMES_DRAW, &video, &video)) return 0;
    op.x = moments;
    if (!diti_frames_more(graph, &op, &video, noise, columns, scale, 0)) return 0;
    op.in_rows = DITI_FRAMES_GROUP;
    return diti_frames_emit(graph, &op, columns, DITI_F32, 0);
}

DIT_INTERNAL void diti_fill_zeros(diti_graph *graph, diti_tensor x) {
    diti_video video = {1, 1, 0};
    diti_frames_op op;
    video.width = diti_tensor_rows(graph, x);
    if (!diti_frames_begin(graph, &op, "zeros", DITI_FRAMES_FILL, &video, &video)) return;
    diti_frames_emit(graph, &op, diti_tensor_columns(graph, x), DITI_F32, x);
}

static diti_tensor diti_place_view(diti_graph *graph, diti_tensor x, const diti_video *clip, uint32_t first,
                                   uint32_t frames) {
    uint32_t area = clip->height * clip->width;
    return diti_tensor_view(graph, x, first * area, frames * area, 0, diti_tensor_columns(graph, x));
}

/* Some frames, which are bound as a whole. */
static void diti_place_some(diti_graph *graph, diti_tensor all, const diti_place_desc *desc, uint32_t first,
                            uint32_t frames) {
    uint32_t columns = diti_tensor_columns(graph, all);
    diti_tensor x = diti_place_view(graph, all, &desc->from, desc->first + first, frames);
    diti_tensor out = diti_place_view(graph, desc->out, &desc->to, first, frames), other = 0;
    diti_video from = desc->from, part = desc->part;
    diti_frames_op op;
    uint32_t *push = op.dispatch.push;
    uint64_t invocations = (uint64_t)frames * part.height * part.width * ((columns + 3) / 4);
    part.frames = frames;
    if (desc->other) other = diti_place_view(graph, desc->other, &desc->other_size, desc->first + first, frames);
    if (!diti_frames_begin(graph, &op, "place", DITI_FRAMES_PLACE, &from, &part)) return;
    op.dispatch.constants[2] = diti_tensor_get(graph, x)->format;
    op.dispatch.constants[3] = diti_tensor_get(graph, out)->format;
    op.dispatch.constants[4] = other ? (uint32_t)diti_tensor_get(graph, other)->format : 0;
    op.dispatch.constants[5] = desc->right ? 2 : 1;
    op.dispatch.constants[6] = other != 0;
    push[DITI_FRAMES_ROWS] = frames * part.height * part.width;
    push[DITI_FRAMES_COLUMNS] = columns;
    push[DITI_FRAMES_IN_PITCH] = diti_tensor_get(graph, x)->pitch;
    push[DITI_FRAMES_OUT_PITCH] = diti_tensor_get(graph, out)->pitch;
    push[DITI_FRAMES_MORE_PITCH] = other ? diti_tensor_get(graph, other)->pitch : 0;
    push[DITI_FRAMES_IN_COUNT] = desc->from_y * desc->from.width + desc->from_x;
    push[DITI_FRAMES_FIRST] = 0;
    push[DITI_FRAMES_SIDE] = desc->to.height;
    push[DITI_FRAMES_TIME] = desc->to.width;
    push[DITI_FRAMES_CHANNEL_STEP] = desc->y;
    push[DITI_FRAMES_TIME_STEP] = desc->x;
    push[DITI_FRAMES_LINE_STEP] = desc->other_size.height;
    push[DITI_FRAMES_PIXEL_STEP] = desc->other_size.width;
    push[DITI_FRAMES_REPEATS] = desc->other_y;
    push[DITI_FRAMES_MODULUS] = desc->other_x;
    diti_op_bind(graph, &op.dispatch, 0, x, DITI_FRAMES_IN, true, false);
    diti_op_bind(graph, &op.dispatch, 1, out, DITI_FRAMES_OUT, false, true);
    diti_op_bind(graph, &op.dispatch, 2, other, DITI_FRAMES_MORE, true, false);
    diti_op_emit(graph, &op.dispatch, (invocations + DITI_FRAMES_GROUP - 1) / DITI_FRAMES_GROUP,
                 DITI_FRAMES_PUSH_WORDS);
}

DIT_INTERNAL void diti_place_frames(diti_graph *graph, diti_tensor x, const diti_place_desc *desc) {
    const diti_video *to = &desc->to, *from = &desc->from, *part = &desc->part;
    uint64_t frame = (uint64_t)to->height * to->width, source = (uint64_t)from->height * from->width;
    uint32_t first, most;
    if (!diti_graph_failed(graph) && !desc->other && diti_tensor_get(graph, desc->out)->format == DITI_F16)
        diti_guard_pass(graph, x, desc->out); /* elements move as they are */
    else
        x = diti_guard_release(graph, x, "place");
    if (!diti_frames_fit(graph, x, from, "place") || !diti_frames_fit(graph, desc->out, to, "place") ||
        (desc->other && !diti_frames_fit(graph, desc->other, &desc->other_size, "place")))
        return;
    if (desc->first + part->frames > from->frames || part->frames > to->frames ||
        desc->from_y + part->height > from->height || desc->from_x + part->width > from->width ||
        desc->y + part->height > to->height || desc->x + part->width > to->width ||
        (desc->other && (desc->other_y + part->height > desc->other_size.height ||
                         desc->other_x + part->width > desc->other_size.width ||
                         desc->first + part->frames > desc->other_size.frames))) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op place: %u frames of %u x %u do not fit %u of %u x %u",
                        part->frames, part->height, part->width, to->frames, to->height, to->width);
        return;
    }
    frame *= (uint64_t)diti_tensor_get(graph, desc->out)->pitch * sizeof(float);
    source *= (uint64_t)diti_tensor_get(graph, x)->pitch * sizeof(float);
    if (frame < source) frame = source;
    most = frame < graph->device->limits.storage_range ? (uint32_t)(graph->device->limits.storage_range / frame) : 1;
    if (most > 1) most--; /* bindings begin at aligned offsets */
    for (first = 0; first < part->frames && !diti_graph_failed(graph); first += most)
        diti_place_some(graph, x, desc, first, part->frames - first < most ? part->frames - first : most);
}
