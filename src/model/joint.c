#include "model/model.h"

/* What transformers with joint attention share (docs/models.md 3.3, 3.4). */

DIT_INTERNAL void diti_joint_begin(diti_joint *joint, const diti_denoise *denoise, uint32_t width, float eps) {
    uint32_t copies = denoise->copies - denoise->first_copy;
    joint->items = copies * denoise->batch;
    joint->prompts = denoise->text_batch / denoise->copies * copies;
    joint->text = denoise->stretch.text;
    joint->image = denoise->stretch.rows;
    joint->width = width;
    joint->eps = eps;
}

DIT_INTERNAL diti_rows diti_joint_rows(const diti_joint *joint, uint32_t stream) {
    diti_rows rows;
    rows.of = joint->text + joint->image;
    rows.first = stream == DITI_JOINT_IMAGE ? joint->text : 0;
    rows.count = stream == DITI_JOINT_IMAGE ? joint->image : joint->text;
    return rows;
}

/* The first stream that has rows at hand. */
static uint32_t diti_joint_first(const diti_joint *joint) {
    return joint->text ? (uint32_t)DITI_JOINT_TEXT : (uint32_t)DITI_JOINT_IMAGE;
}

static uint32_t diti_joint_all(const diti_joint *joint) { return joint->items * (joint->text + joint->image); }

/* Rows of x that are an item's image. */
static diti_tensor diti_joint_image(diti_graph *graph, const diti_joint *joint, diti_tensor x, uint32_t item) {
    uint32_t columns = diti_graph_failed(graph) ? 0 : diti_tensor_get(graph, x)->columns;
    uint32_t first = item * (joint->text + joint->image) + joint->text;
    return diti_tensor_view(graph, x, first, joint->image, 0, columns);
}

/* ---- loading ---- */

DIT_INTERNAL void diti_load_shift_scale(diti_loader *loader, diti_joined *out, uint32_t width, const char *name,
                                        bool swapped) {
    uint32_t i;
    memset(out, 0, sizeof *out);
    out->count = 2;
    for (i = 0; i < 2; i++) {
        uint32_t half = swapped ? 1 - i : i;
        diti_load_layer_rows(loader, &out->layers[i], half * width, width, 2 * width, width, name);
    }
}

DIT_INTERNAL void diti_load_joined_pair(diti_loader *loader, diti_joined_pair *out, const char *const *text,
                                        const char *const *image, uint32_t count, uint32_t rows, uint32_t columns) {
    memset(out, 0, sizeof *out);
    if (text) diti_load_joined(loader, &out->streams[DITI_JOINT_TEXT], text, count, rows, columns, true);
    diti_load_joined(loader, &out->streams[DITI_JOINT_IMAGE], image, count, rows, columns, true);
}

DIT_INTERNAL void diti_load_pair(diti_loader *loader, diti_pair *out, uint32_t rows, uint32_t columns, const char *text,
                                 const char *image) {
    memset(out, 0, sizeof *out);
    if (text) diti_load_layer(loader, &out->streams[DITI_JOINT_TEXT], rows, columns, 1, text);
    diti_load_layer(loader, &out->streams[DITI_JOINT_IMAGE], rows, columns, 1, image);
}

/* ---- modulation ---- */

DIT_INTERNAL diti_tensor diti_joint_condition(diti_graph *graph, diti_tensor time, diti_tensor pooled) {
    uint32_t i, steps, prompts, width;
    diti_tensor all;
    if (diti_graph_failed(graph)) return 0;
    steps = diti_tensor_get(graph, time)->rows;
    width = diti_tensor_get(graph, time)->columns;
    prompts = diti_tensor_get(graph, pooled)->rows;
    all = diti_tensor_new(graph, DITI_F32, steps, prompts * width, "conditioning");
    for (i = 0; i < prompts; i++) {
        diti_add_rows(graph, time, diti_tensor_view(graph, pooled, i, 1, 0, width),
                      diti_tensor_view(graph, all, 0, steps, i * width, width), "conditioning");
    }
    return diti_silu(graph, all, "conditioning_silu");
}

DIT_INTERNAL diti_tensor diti_joint_modulate(diti_graph *graph, const diti_denoise *denoise, diti_tensor active,
                                             const diti_joined_pair *layers, uint32_t chunks) {
    uint32_t i, rows, columns;
    diti_tensor all;
    if (diti_graph_failed(graph)) return 0;
    rows = diti_tensor_get(graph, active)->rows;
    columns = chunks * diti_tensor_get(graph, active)->columns;
    all = diti_tensor_new(graph, DITI_F32, rows, 2 * columns, "block_modulation");
    for (i = 0; i < DITI_JOINT_STREAMS; i++) {
        const diti_joined *joined = &layers->streams[i];
        uint32_t j, column = i * columns;
        for (j = 0; j < joined->count; j++) {
            uint32_t width = joined->layers[j].weight.rows;
            diti_layer_spread(graph, denoise->axes ? &denoise->axes->tensor : NULL, active, &joined->layers[j],
                              diti_tensor_view(graph, all, 0, rows, column, width), "block_modulation");
            column += width;
        }
    }
    return all;
}

DIT_INTERNAL diti_tensor diti_joint_select(diti_graph *graph, const diti_joint *joint, const diti_denoise *denoise,
                                           diti_tensor table, const char *name) {
    uint32_t columns;
    diti_tensor row = diti_select_row(graph, table, denoise->step, name);
    if (diti_graph_failed(graph)) return 0;
    columns = diti_tensor_get(graph, table)->columns / denoise->text_batch;
    row = diti_tensor_reshape(graph, row, denoise->text_batch, columns);
    return diti_tensor_view(graph, row, denoise->text_batch - joint->prompts, joint->prompts, 0, columns);
}

/* F32 [prompts, D] of one stream. */
static diti_tensor diti_joint_chunk(diti_graph *graph, const diti_joint *joint, const diti_modulation *modulation,
                                    uint32_t stream, uint32_t chunk) {
    return diti_tensor_view(graph, modulation->rows, 0, joint->prompts,
                            (stream * modulation->chunks + chunk) * joint->width, joint->width);
}

/* F32 [1, D]: an image's. */
static diti_tensor diti_joint_item_chunk(diti_graph *graph, const diti_joint *joint, const diti_modulation *modulation,
                                         uint32_t item, uint32_t chunk) {
    return diti_tensor_view(graph, modulation->rows, item / (joint->items / joint->prompts), 1,
                            (modulation->chunks + chunk) * joint->width, joint->width);
}

/* ---- ops on the rows of both streams ---- */

DIT_INTERNAL diti_tensor diti_joint_embed(diti_graph *graph, const diti_joint *joint, const diti_denoise *denoise,
                                          diti_tensor text, const diti_layer *patch, uint32_t channels, uint32_t size,
                                          diti_tensor positions) {
    uint32_t i, columns = channels * size * size, first = denoise->text_batch - joint->prompts;
    diti_tensor patches = diti_stretch_patchify(graph, denoise, channels, size);
    diti_tensor x = diti_tensor_new(graph, DITI_F32, diti_joint_all(joint), joint->width, "residual");
    const diti_stretch *at = &denoise->stretch;
    if (positions) positions = diti_tensor_view(graph, positions, at->first, at->rows, 0, joint->width);
    for (i = 0; i < joint->items && !diti_graph_failed(graph); i++) {
        uint32_t prompt = first + i / (joint->items / joint->prompts), item = i * (joint->text + joint->image);
        uint32_t text_row = prompt * at->all_text + at->first_text,
                 row = diti_stretch_first(denoise, i % denoise->batch);
        diti_linear_desc desc = DITI_ZERO;
        if (joint->text)
            diti_add_rows(graph, diti_tensor_view(graph, text, text_row, joint->text, 0, joint->width), 0,
                          diti_tensor_view(graph, x, item, joint->text, 0, joint->width), "text_embed");
        desc.bias = &patch->bias;
        desc.residual = positions;
        desc.out = diti_joint_image(graph, joint, x, i);
        desc.name = "patch_embed";
        diti_linear(graph, diti_tensor_view(graph, patches, row, joint->image, 0, columns), &patch->weight, &desc);
    }
    return x;
}

/* The weight that stands for both where they are int8 of the same kind; else NULL. */
static const diti_weight *diti_joint_reader(const diti_weight *const readers[DITI_JOINT_STREAMS]) {
    if (!readers[0] || !readers[1] || readers[0]->type != readers[1]->type) return NULL;
    return diti_type_is_i8(readers[0]->type) ? readers[0] : NULL;
}

DIT_INTERNAL diti_tensor diti_joint_norm(diti_graph *graph, const diti_joint *joint, diti_tensor x,
                                         const diti_modulation *modulation, uint32_t first,
                                         const diti_weight *const readers[DITI_JOINT_STREAMS], const char *name) {
    uint32_t rows = 2 * joint->prompts;
    diti_tensor tables = diti_tensor_reshape(graph, modulation->rows, rows, modulation->chunks * joint->width);
    diti_norm_desc desc = DITI_ZERO;
    desc.eps = joint->eps;
    desc.shift = diti_tensor_view(graph, tables, 0, rows, first * joint->width, joint->width);
    desc.scale = diti_tensor_view(graph, tables, 0, rows, (first + 1) * joint->width, joint->width);
    desc.rows_per_group = diti_joint_all(joint) / joint->prompts;
    desc.item_rows = joint->text + joint->image;
    desc.text_rows = joint->text;
    desc.reader = diti_joint_reader(readers);
    desc.name = name;
    return diti_norm(graph, x, &desc);
}

DIT_INTERNAL diti_tensor diti_joint_norm_image(diti_graph *graph, const diti_joint *joint, diti_tensor x,
                                               const diti_modulation *modulation, uint32_t first, const char *name) {
    diti_tensor all = diti_tensor_new(graph, graph->activation, joint->items * joint->image, joint->width, name);
    uint32_t i;
    for (i = 0; i < joint->items && !diti_graph_failed(graph); i++) {
        diti_norm_desc desc = DITI_ZERO;
        desc.eps = joint->eps;
        desc.shift = diti_joint_item_chunk(graph, joint, modulation, i, first);
        desc.scale = diti_joint_item_chunk(graph, joint, modulation, i, first + 1);
        desc.out = diti_tensor_view(graph, all, i * joint->image, joint->image, 0, joint->width);
        desc.name = name;
        diti_norm(graph, diti_joint_image(graph, joint, x, i), &desc);
    }
    return all;
}

/* For a stripe, or for parts of its sum. */
static diti_tensor diti_joint_made(diti_graph *graph, const diti_joint *joint, const diti_stripe *stripe,
                                   uint32_t columns, const char *name) {
    diti_element format = diti_group_count(stripe->in) > 1 ? DITI_F32 : graph->activation;
    return diti_tensor_new(graph, format, diti_joint_all(joint), columns, name);
}

DIT_INTERNAL diti_tensor diti_joint_qkv(diti_graph *graph, const diti_joint *joint, diti_tensor h,
                                        const diti_joined_pair *layers, const diti_stripe *heads) {
    uint32_t i;
    diti_tensor qkv = diti_joint_made(graph, joint, heads, 3 * heads->count, "qkv"), own;
    for (i = diti_joint_first(joint); i < DITI_JOINT_STREAMS; i++) {
        diti_linear_desc desc = DITI_ZERO;
        desc.rows = diti_joint_rows(joint, i);
        desc.out = qkv;
        desc.name = i == DITI_JOINT_TEXT ? "text_qkv" : "qkv";
        own = diti_stripe_begin(graph, h, layers->streams[i].layers, layers->streams[i].count, heads, &desc);
        if (desc.cut.rows) desc.kinds = 3;
        diti_linear_joined(graph, own, &layers->streams[i], &desc);
    }
    return diti_stripe_end(graph, heads, qkv, DITI_ACTIVATION_NONE, 0, "qkv");
}

/* h, quantized once where both layers are int8. */
static diti_tensor diti_joint_input(diti_graph *graph, diti_tensor h, const diti_pair *layers,
                                    const diti_stripe *stripe) {
    const diti_weight *readers[DITI_JOINT_STREAMS], *reader;
    uint32_t i;
    for (i = 0; i < DITI_JOINT_STREAMS; i++) readers[i] = diti_stripe_reader(stripe, &layers->streams[i].weight);
    reader = diti_joint_reader(readers);
    if (diti_graph_failed(graph) || !reader || diti_tensor_get(graph, h)->format == DITI_I8) return h;
    return diti_quantize(graph, h, reader->type == DIT_TYPE_I8_ROW_ROTATED, "quantize");
}

DIT_INTERNAL diti_tensor diti_joint_layer(diti_graph *graph, const diti_joint *joint, diti_tensor h,
                                          const diti_pair *layers, const diti_stripe *stripe,
                                          diti_activation activation, const char *name) {
    uint32_t i;
    diti_tensor out = diti_joint_made(graph, joint, stripe, stripe->count, name), own;
    h = diti_joint_input(graph, h, layers, stripe);
    for (i = diti_joint_first(joint); i < DITI_JOINT_STREAMS; i++) {
        diti_linear_desc desc = DITI_ZERO;
        desc.bias = &layers->streams[i].bias;
        desc.activation = activation;
        desc.rows = diti_joint_rows(joint, i);
        desc.out = out;
        desc.name = name;
        own = diti_stripe_begin(graph, h, &layers->streams[i], 1, stripe, &desc);
        diti_linear(graph, own, &layers->streams[i].weight, &desc);
    }
    return diti_stripe_end(graph, stripe, out, activation, 0, name);
}

DIT_INTERNAL void diti_joint_add(diti_graph *graph, const diti_joint *joint, const diti_denoise *denoise, diti_tensor x,
                                 diti_tensor h, const diti_pair *layers, const diti_stripe *stripe,
                                 const diti_modulation *modulation, uint32_t chunk, const char *name) {
    const diti_weight *readers[DITI_JOINT_STREAMS], *reader;
    uint32_t i, written = 0;
    for (i = 0; i < DITI_JOINT_STREAMS; i++) readers[i] = &layers->streams[i].weight;
    reader = diti_joint_reader(readers);
    if (reader) h = diti_stripe_input(graph, denoise, h, reader);
    for (i = diti_joint_first(joint); i < DITI_JOINT_STREAMS; i++) {
        diti_linear_desc desc = DITI_ZERO;
        if (!layers->streams[i].weight.part_count) continue;
        desc.gate = diti_joint_chunk(graph, joint, modulation, i, chunk);
        desc.rows_per_gate = diti_joint_all(joint) / joint->prompts;
        desc.rows = diti_joint_rows(joint, i);
        desc.out = x;
        desc.name = name;
        diti_stripe_add(graph, denoise, h, &layers->streams[i], stripe, 1, &desc);
        written++;
    }
    if (written + diti_joint_first(joint) == DITI_JOINT_STREAMS) diti_stripe_sum(graph, denoise, x);
    for (i = 0; i < joint->items && written + diti_joint_first(joint) < DITI_JOINT_STREAMS; i++)
        diti_stripe_sum(graph, denoise, diti_joint_image(graph, joint, x, i));
}

DIT_INTERNAL void diti_joint_add_image(diti_graph *graph, const diti_joint *joint, const diti_denoise *denoise,
                                       diti_tensor x, diti_tensor h, const diti_layer *layer, const diti_stripe *stripe,
                                       const diti_modulation *modulation, uint32_t chunk, const char *name) {
    uint32_t i;
    h = diti_stripe_input(graph, denoise, h, &layer->weight);
    for (i = 0; i < joint->items && !diti_graph_failed(graph); i++) {
        diti_layer_add(graph, denoise, diti_joint_image(graph, joint, x, i),
                       diti_tensor_view(graph, h, i * joint->image, joint->image, 0, stripe->count), layer, stripe,
                       diti_joint_item_chunk(graph, joint, modulation, i, chunk), 0, name);
    }
}

DIT_INTERNAL diti_tensor diti_joint_attention(diti_graph *graph, const diti_joint *joint, const diti_denoise *denoise,
                                              diti_tensor qkv, const diti_heads *heads, diti_tensor out) {
    uint32_t width = heads->count * heads->dim, text = heads->text ? joint->text : 0, rows = text + joint->image;
    diti_attend_desc desc = DITI_ZERO;
    diti_qkv_desc post = DITI_ZERO;
    if (heads->weights || heads->cosines) {
        post.heads = 2 * heads->count;
        post.head_dim = heads->dim;
        post.norm = heads->weights ? DITI_QKV_RMS : DITI_QKV_NO_NORM;
        post.eps = 1e-6f;
        post.weight = heads->weights;
        post.kinds = 2;
        post.text_rows = heads->apart ? text : 0;
        post.others = heads->apart;
        post.cosines = heads->cosines;
        post.sines = heads->sines;
        post.tokens = rows;
        post.name = "qkv_post";
        diti_qkv_post(graph, diti_tensor_view(graph, qkv, 0, joint->items * rows, 0, 2 * width), &post);
    }
    desc.items = joint->items;
    desc.heads = heads->count;
    desc.head_dim = heads->dim;
    desc.text = heads->text;
    desc.int8 = heads->int8;
    desc.out = out;
    return diti_attend(graph, denoise, &desc, qkv);
}
