/* Linear layers and convolutions: products chunk by chunk of their weights. */
#include "graph/ops_internal.h"

static bool diti_linear_operand(diti_graph *graph, diti_tensor tensor, uint32_t rows, uint32_t columns, bool f32,
                                const char *what, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, tensor);
    if (!tensor) return true;
    if (info->rows >= rows && info->columns == columns && diti_element_is_float(info->format) &&
        (!f32 || info->format == DITI_F32))
        return true;
    diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s %s [%u, %u] does not fit [%u, %u]%s", name, what,
                    info->name, info->rows, info->columns, rows, columns, f32 ? " of F32" : "");
    return false;
}

static bool diti_linear_check(diti_graph *graph, diti_tensor x, const diti_weight *weight, const diti_linear_desc *desc,
                              const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, x);
    uint32_t gates;
    if (diti_graph_failed(graph)) return false;
    if (!weight->part_count || weight->columns != info->columns || info->format == DITI_U32 ||
        (info->format == DITI_I8 && !info->e4m3 && !info->blocks &&
         (!diti_type_is_i8(weight->type) || info->rotated != diti_type_is_rotated(weight->type)))) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s [%u, %u] does not fit weight %s [%u, %u]", name,
                        info->name, info->rows, info->columns, weight->name ? weight->name : "", weight->rows,
                        weight->columns);
        return false;
    }
    if (desc->rows.of && (info->rows % desc->rows.of || !desc->rows.count || desc->rows.first >= desc->rows.of ||
                          desc->rows.count > desc->rows.of - desc->rows.first || desc->rows_per_gate % desc->rows.of)) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: %s has %u rows, not items of %u with rows %u + %u",
                        name, info->name, info->rows, desc->rows.of, desc->rows.first, desc->rows.count);
        return false;
    }
    gates = desc->rows_per_gate ? (uint32_t)(diti_align_up(info->rows, desc->rows_per_gate) / desc->rows_per_gate) : 1;
    return diti_linear_operand(graph, desc->multiply, info->rows, weight->rows, false, "multiplier", name) &&
           diti_linear_operand(graph, desc->gate, gates, weight->rows, true, "gate", name) &&
           diti_linear_operand(graph, desc->residual, info->rows, weight->rows, false, "residual", name);
}

/* Whether a weight is multiplied as it is stored, on matrices of 8-bit floats: in rows of whole 16 bytes, with many
   rows of x. */
static bool diti_linear_float8(const diti_graph *graph, const diti_weight *weight, const diti_gemm *like,
                               uint32_t first) {
    diti_gemm gemm = *like;
    uint32_t i;
    if (!graph->device->coop_float8 || first % 4 || weight->smooth || weight->factor.rows ||
        (weight->type != DIT_TYPE_F8_E4M3 && weight->type != DIT_TYPE_F8_E5M2) || diti_weight_taps(weight) > 1 ||
        weight->columns % 16 || weight->rows % 4)
        return false;
    for (i = 0; i < weight->part_count; i++)
        if (weight->parts[i].first_row % 4) return false;
    gemm.float8 = weight->type;
    gemm.columns = weight->rows;
    return diti_op_gemm_float8(graph, &gemm);
}

/* Where packed weights may be multiplied as blocks of int8: in a model's blocks, in segments that are repeated. A
   model's ends are more sensitive, and so are prompts, modulation and context, which all steps read. */
static bool diti_linear_may_round(const diti_graph *graph) {
    return diti_device_packs(graph->device) && graph->scope[0] && graph->segment_count &&
           graph->segments[graph->segment_count - 1].repeated;
}

/* Whether this one is, as is x then: in whole blocks of 32 columns and groups of four rows, where no product decodes
 * it.
 */
static bool diti_linear_blocks(const diti_graph *graph, const diti_weight *weight, const diti_gemm *like,
                               const diti_linear_desc *desc) {
    diti_gemm gemm = *like;
    uint32_t i, down, across;
    if (!diti_linear_may_round(graph) || weight->smooth || weight->factor.rows || weight->type < DIT_TYPE_Q8_0 ||
        weight->type > DIT_TYPE_I4_GROUP || diti_weight_taps(weight) > 1 || weight->columns % DITI_I8_BLOCK ||
        weight->rows % 4 || desc->first % 4 || desc->count % 4)
        return false;
    for (i = 0; i < weight->part_count; i++)
        if (weight->parts[i].first_row % 4) return false;
    gemm.columns = desc->count ? desc->count : weight->rows;
    gemm.packed = weight->type;
    if (diti_linear_decodes(graph, &gemm, weight, &desc->rows) || !diti_op_gemm_blocks(graph, &gemm)) return false;
    down = diti_op_gemm_tiles(graph, &gemm, &across);
    return !diti_op_splits_gemm(graph, &gemm, (uint64_t)down * across);
}

static diti_tensor diti_linear_input(diti_graph *graph, diti_tensor x, const diti_weight *weight, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, x);
    if (info->e4m3 || info->blocks) x = info->floats; /* diti_linear takes them up again where it can */
    if (!diti_type_is_i8(weight->type)) return diti_op_align(graph, x, name);
    if (weight->columns > DITI_I8_MAX_COLUMNS) {
        return diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "op %s: rows of %u int8 values could overflow", name,
                               weight->columns);
    }
    if (diti_tensor_get(graph, x)->format == DITI_I8) return x;
    return diti_quantize(graph, x, diti_type_is_rotated(weight->type), "quantize");
}

DIT_INTERNAL diti_tensor diti_linear(diti_graph *graph, diti_tensor x, const diti_weight *weight,
                                     const diti_linear_desc *desc) {
    const char *name = desc->name ? desc->name : "linear";
    uint32_t all_rows = weight->rows, rows;
    const diti_weight *whole = weight;
    diti_gemm gemm = DITI_ZERO;
    weight = diti_weight_cut(graph, weight, &desc->cut);
    rows = desc->count ? desc->count : weight->rows;
    if (desc->rows.of && !desc->rows.count) {
        if (graph->shards) diti_linear_pass_on(graph, weight, desc->first, desc->first + rows);
        return desc->out;
    }
    if (!diti_linear_check(graph, x, weight, desc, name)) return 0;
    if (graph->device->observer) graph->device->observer->linear(graph->device->observer, graph, x, whole);
    gemm.x = diti_linear_input(graph, x, weight, name);
    gemm.rows = diti_tensor_get(graph, x)->rows;
    gemm.depth = weight->columns;
    gemm.bias = diti_op_vector_weight(graph, desc->unbiased ? NULL : desc->bias, all_rows, name);
    if (gemm.bias && (desc->cut.rows || desc->count))
        gemm.bias = diti_tensor_view(graph, gemm.bias, 0, 1, desc->cut.row + desc->first, rows);
    gemm.activation = (uint32_t)desc->activation;
    gemm.multiply = desc->multiply;
    gemm.gate = desc->gate;
    gemm.rows_per_gate = desc->rows_per_gate;
    gemm.residual = diti_guard_release(graph, desc->residual, name);
    if (gemm.residual) gemm.multiply = diti_guard_release(graph, gemm.multiply, name);
    gemm.name = name;
    gemm.out = desc->out;
    if (!gemm.out) {
        gemm.out = diti_tensor_new(graph, desc->out_f32 ? DITI_F32 : graph->activation, gemm.rows, rows, name);
    }
    if (!diti_op_writable(graph, gemm.out, gemm.rows, rows, name)) return 0;
    if (!diti_graph_failed(graph) && diti_linear_blocks(graph, weight, &gemm, desc)) {
        gemm.blocks = true;
        gemm.x = diti_quantize_blocks(graph, gemm.x, "quantize");
    }
    if (diti_graph_adapts(graph, whole)) {
        diti_lora_linear(graph, &gemm, weight, whole, desc);
        return gemm.out;
    }
    if (!diti_graph_failed(graph) && diti_linear_float8(graph, weight, &gemm, desc->first)) {
        gemm.float8 = weight->type;
        gemm.x = diti_tensor_get(graph, x)->e4m3 ? x : diti_quantize_e4m3(graph, gemm.x, "quantize");
    }
    if (!diti_graph_failed(graph))
        diti_linear_chunks(graph, &gemm, weight, &desc->rows, desc->first, desc->first + rows);
    return gemm.out;
}

/* --- convolutions --- */

/* Images of the result. */
static uint32_t diti_conv_images(const diti_conv_desc *desc, const diti_gemm_image *image) {
    uint64_t frames = (uint64_t)desc->batch + desc->frames_before + desc->frames_after;
    return frames < image->frames ? 0 : (uint32_t)((frames - image->frames) / image->frame_stride) + 1;
}

static bool diti_conv_check(diti_graph *graph, diti_tensor x, const diti_weight *weight, const diti_conv_desc *desc,
                            const diti_gemm_image *image, const char *name) {
    const diti_tensor_info *info = diti_tensor_get(graph, x);
    uint64_t rows = (uint64_t)desc->batch * ((uint64_t)desc->above + desc->height + desc->below) * desc->width;
    uint32_t taps = weight->kernel ? diti_weight_taps(weight) : 0, images = diti_conv_images(desc, image);
    if (diti_graph_failed(graph)) return false;
    if (info->rows != rows || !diti_element_is_float(info->format) || diti_type_is_i8(weight->type) ||
        !weight->part_count || !taps || weight->columns % taps || info->columns != weight->columns / taps ||
        !image->out_height || !image->out_width || !images || image->frames > 255 || image->frame_stride > 255 ||
        desc->frames_before >= image->frames || desc->frames_after >= image->frames ||
        (uint64_t)images * image->out_height * image->out_width > UINT32_MAX) {
        diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT,
                        "op %s: %s [%u, %u] as %u images of %u x %u does not fit weight %s [%u, %u] with kernel %u "
                        "over %u frames",
                        name, info->name, info->rows, info->columns, desc->batch, desc->height, desc->width,
                        weight->name ? weight->name : "", weight->rows, weight->columns, weight->kernel, image->frames);
        return false;
    }
    return diti_linear_operand(graph, desc->residual, images * image->out_height * image->out_width, weight->rows,
                               false, "residual", name);
}

static uint32_t diti_conv_out(uint32_t size, const diti_conv_desc *desc, uint32_t kernel) {
    uint64_t padded = (uint64_t)size + desc->pad_before + desc->pad_after;
    return padded < kernel ? 0 : (uint32_t)((padded - kernel) / (desc->stride ? desc->stride : 1)) + 1;
}

DIT_INTERNAL diti_tensor diti_conv(diti_graph *graph, diti_tensor x, const diti_weight *weight,
                                   const diti_conv_desc *desc) {
    const char *name = desc->name ? desc->name : "convolution";
    diti_gemm_image image = DITI_ZERO;
    diti_rows all = DITI_ZERO;
    diti_gemm gemm = DITI_ZERO;
    image.kernel = weight->kernel ? weight->kernel : 1;
    image.stride = desc->stride ? desc->stride : 1;
    image.pad = desc->pad_before;
    image.upsample = desc->upsample;
    image.frames = weight->frames ? weight->frames : 1;
    image.frame_stride = desc->frame_stride ? desc->frame_stride : 1;
    image.in_frames = desc->batch;
    image.frames_before = desc->frames_before;
    image.edges = desc->edges;
    image.ends = desc->ends;
    image.above = desc->above;
    image.outside = desc->above + desc->below;
    image.height = (desc->height + image.outside) << image.upsample;
    image.width = desc->width << image.upsample;
    image.out_height = diti_conv_out(desc->height << image.upsample, desc, image.kernel);
    image.out_width = diti_conv_out(image.width, desc, image.kernel);
    if (!diti_conv_check(graph, x, weight, desc, &image, name)) return 0;
    gemm.x = diti_op_align(graph, x, name);
    gemm.rows = diti_conv_images(desc, &image) * image.out_height * image.out_width;
    gemm.depth = weight->columns / diti_weight_taps(weight);
    gemm.bias = diti_op_vector_weight(graph, desc->bias, weight->rows, name);
    gemm.activation = (uint32_t)desc->activation;
    gemm.residual = diti_guard_release(graph, desc->residual, name);
    gemm.name = name;
    if (image.kernel > 1 || image.stride > 1 || image.upsample || image.pad || desc->pad_after || image.outside ||
        image.frames > 1 || image.frame_stride > 1)
        gemm.image = &image;
    gemm.out = desc->out;
    if (!gemm.out)
        gemm.out = diti_tensor_new(graph, desc->out_f32 ? DITI_F32 : graph->activation, gemm.rows, weight->rows, name);
    if (!diti_op_writable(graph, gemm.out, gemm.rows, weight->rows, name)) return 0;
    diti_linear_chunks(graph, &gemm, weight, &all, 0, weight->rows);
    return gemm.out;
}

/* --- layers side by side --- */

DIT_INTERNAL const diti_weight *diti_fused_linear_reader(const diti_fused_linear *fused) {
    const diti_weight *first = &fused->layers[0].weight;
    uint32_t i;
    for (i = 1; i < fused->count; i++) {
        if (fused->layers[i].weight.type != first->type) return NULL;
    }
    return diti_type_is_i8(first->type) ? first : NULL;
}

/* The layer that has row *row of all, which becomes its own. */
static const diti_layer *diti_fused_linear_at(const diti_fused_linear *fused, uint32_t *row) {
    uint32_t i = 0;
    while (i + 1 < fused->count && *row >= fused->layers[i].weight.rows) *row -= fused->layers[i++].weight.rows;
    return &fused->layers[i];
}

/* Some rows of each of several equal stretches: heads of q, of k, of v. */
static diti_tensor diti_linear_kinds(diti_graph *graph, diti_tensor x, const diti_fused_linear *fused,
                                     const diti_linear_desc *desc, uint32_t token_range) {
    diti_linear_desc one = *desc;
    uint32_t i, own = desc->cut.rows ? desc->cut.rows : token_range, rows = diti_tensor_get(graph, x)->rows;
    if (!one.out)
        one.out = diti_tensor_new(graph, one.out_f32 ? DITI_F32 : graph->activation, rows, desc->kinds * own, one.name);
    for (i = 0; i < desc->kinds && !diti_graph_failed(graph); i++) {
        uint32_t row = i * token_range + desc->cut.row;
        const diti_layer *layer = diti_fused_linear_at(fused, &row);
        diti_linear_desc part = one;
        part.bias = &layer->bias;
        part.cut.row = row;
        part.cut.rows = own;
        part.out = diti_tensor_view(graph, one.out, 0, rows, i * own, own);
        diti_linear(graph, x, &layer->weight, &part);
    }
    return one.out;
}

/* One of several equal stretches, or of its cut: queries, keys or values. */
static diti_tensor diti_linear_kind(diti_graph *graph, diti_tensor x, const diti_fused_linear *fused,
                                    const diti_linear_desc *desc, uint32_t stretch) {
    diti_linear_desc one = *desc;
    uint32_t row = (desc->kind - 1) * stretch + desc->cut.row;
    const diti_layer *layer = diti_fused_linear_at(fused, &row);
    one.bias = &layer->bias;
    if (desc->cut.rows) {
        one.cut.row = row;
    } else if (layer->weight.rows != stretch) {
        one.first = row;
        one.count = stretch;
    }
    return diti_linear(graph, x, &layer->weight, &one);
}

static bool diti_fused_linear_float8(const diti_graph *graph, const diti_fused_linear *fused, diti_tensor x) {
    diti_gemm gemm = DITI_ZERO;
    uint32_t i;
    if (fused->count < 2 || !diti_element_is_float(diti_tensor_get(graph, x)->format)) return false;
    gemm.rows = diti_tensor_get(graph, x)->rows;
    gemm.depth = diti_tensor_get(graph, x)->columns;
    for (i = 0; i < fused->count; i++)
        if (!diti_linear_float8(graph, &fused->layers[i].weight, &gemm, 0)) return false;
    return true;
}

DIT_INTERNAL diti_tensor diti_linear_fused(diti_graph *graph, diti_tensor x, const diti_fused_linear *fused,
                                           const diti_linear_desc *desc) {
    diti_linear_desc one = *desc;
    uint32_t i, total = 0, column = 0;
    const diti_weight *reader = fused->count > 1 ? diti_fused_linear_reader(fused) : NULL;
    uint32_t rows = diti_tensor_rows(graph, x);
    bool none = desc->rows.of && !desc->rows.count;
    if (diti_graph_failed(graph)) return 0;
    if (reader && !none && diti_tensor_get(graph, x)->format != DITI_I8)
        x = diti_quantize(graph, x, diti_type_is_rotated(reader->type), "quantize");
    if (!none && diti_fused_linear_float8(graph, fused, x))
        x = diti_quantize_e4m3(graph, x, "quantize"); /* once for all */
    for (i = 0; i < fused->count; i++) total += fused->layers[i].weight.rows;
    if (desc->kind) return diti_linear_kind(graph, x, fused, desc, total / desc->kinds);
    if (desc->kinds) return diti_linear_kinds(graph, x, fused, desc, total / desc->kinds);
    if (!one.out) one.out = diti_tensor_new(graph, one.out_f32 ? DITI_F32 : graph->activation, rows, total, one.name);
    for (i = 0; i < fused->count; i++) {
        const diti_layer *layer = &fused->layers[i];
        diti_linear_desc part = one;
        part.bias = &layer->bias;
        if (fused->count > 1) part.out = diti_tensor_view(graph, one.out, 0, rows, column, layer->weight.rows);
        diti_linear(graph, x, &layer->weight, &part);
        column += layer->weight.rows;
    }
    return one.out;
}
