/* One evaluation of a transformer, or the part of it that this device computes: rows of the image and of a joint text,
   which devices of a sequence divide among them (parallel-cache-quant.md 1.1: Ulysses, Ring, and both). */
#include "model/model.h"

/* ---- rows ---- */

static void diti_stretch_begin(const diti_transformer *transformer, diti_denoise *denoise) {
    const diti_group *sequence = denoise->axes ? &denoise->axes->sequence : NULL;
    uint32_t patch = transformer->traits.patch, self = sequence ? sequence->index : 0;
    diti_stretch *stretch = &denoise->stretch;
    stretch->all = denoise->height / patch * (denoise->width / patch);
    stretch->all_text = transformer->traits.joint ? denoise->text_tokens : 0;
    stretch->first = diti_group_first(sequence, self, stretch->all);
    stretch->rows = diti_group_size(sequence, self, stretch->all);
    stretch->first_text = diti_group_first(sequence, self, stretch->all_text);
    stretch->text = diti_group_size(sequence, self, stretch->all_text);
}

DIT_INTERNAL diti_tensor diti_stretch_table(diti_graph *graph, const diti_denoise *denoise, diti_tensor table,
                                            const char *name) {
    const diti_stretch *stretch = &denoise->stretch;
    uint32_t columns = diti_graph_failed(graph) ? 0 : diti_tensor_get(graph, table)->columns;
    diti_tensor image = diti_tensor_view(graph, table, stretch->all_text + stretch->first, stretch->rows, 0, columns);
    diti_tensor both;
    if (!stretch->text) return image;
    if (stretch->first == 0 && stretch->first_text + stretch->text == stretch->all_text)
        return diti_tensor_view(graph, table, stretch->first_text, stretch->text + stretch->rows, 0, columns);
    both = diti_tensor_new(graph, DITI_F32, stretch->text + stretch->rows, columns, name);
    diti_copy(graph, diti_tensor_view(graph, table, stretch->first_text, stretch->text, 0, columns),
              diti_tensor_view(graph, both, 0, stretch->text, 0, columns), name);
    diti_copy(graph, image, diti_tensor_view(graph, both, stretch->text, stretch->rows, 0, columns), name);
    return both;
}

/* ---- attention over the rows of all devices ---- */

/* q: the first third of qkv's columns, k and v: those of kv [items * keys, 2 * heads * head_dim]. */
static diti_tensor diti_attend_keys(diti_graph *graph, const diti_attend_desc *desc, diti_tensor q, diti_tensor kv,
                                    uint32_t first_column, diti_tensor out, diti_tensor lse) {
    uint32_t width = desc->heads * desc->head_dim;
    uint32_t rows = diti_graph_failed(graph) ? 0 : diti_tensor_get(graph, kv)->rows;
    diti_attention_desc attention = DITI_ZERO;
    attention.batch = desc->items;
    attention.heads = desc->heads;
    attention.head_dim = desc->head_dim;
    attention.scale = 1.0f / sqrtf((float)desc->head_dim);
    attention.int8 = desc->int8 && !lse; /* which moves keys by their mean, and logarithms with them */
    attention.out = out;
    attention.lse = lse;
    attention.name = "attention";
    return diti_attention(graph, q, diti_tensor_view(graph, kv, 0, rows, first_column, width),
                          diti_tensor_view(graph, kv, 0, rows, first_column + width, width), &attention);
}

/* Keys and values that go round, each with scales of their own where payloads are int8: k and v, or both as one. */
typedef struct diti_ring_block {
    diti_tensor parts[2];
    uint32_t count;
} diti_ring_block;

static void diti_ring_new(diti_graph *graph, diti_tensor like, uint32_t rows, uint32_t width, diti_ring_block *out) {
    uint32_t i;
    out->count = graph->int8_payload ? 2 : 1;
    for (i = 0; i < out->count; i++)
        out->parts[i] = diti_tensor_new(graph, diti_payload_format(graph, like), rows, 2 * width / out->count,
                                        "keys and values");
}

/* As attention reads them: [rows, 2 * width]. */
static diti_tensor diti_ring_open(diti_graph *graph, const diti_ring_block *block, diti_element format) {
    uint32_t i, rows, width;
    diti_tensor kv;
    if (diti_graph_failed(graph) || block->count == 1) return block->parts[0];
    rows = diti_tensor_get(graph, block->parts[0])->rows;
    width = diti_tensor_get(graph, block->parts[0])->columns;
    kv = diti_tensor_new(graph, format, rows, 2 * width, "keys and values");
    for (i = 0; i < 2; i++)
        diti_payload_open(graph, block->parts[i], diti_tensor_view(graph, kv, 0, rows, i * width, width));
    return kv;
}

/* Keys and values go round: those of the member before this one come while those at hand are attended to. A member
   sends the keys and values of all but one: 2 * their rows * heads * head_dim elements each. rows: of an item with each
   member. */
static diti_tensor diti_ring_attend(diti_graph *graph, const diti_group *ring, const diti_attend_desc *desc,
                                    const uint32_t *rows, diti_tensor qkv) {
    uint32_t width = desc->heads * desc->head_dim, count = ring->count, self = ring->index, turn;
    uint32_t own = desc->items * rows[self], next = ring->devices[(self + 1) % count],
             before = ring->devices[(self + count - 1) % count];
    diti_element format = diti_graph_failed(graph) ? DITI_F32 : diti_tensor_get(graph, qkv)->format;
    diti_tensor q = diti_tensor_view(graph, qkv, 0, own, 0, width);
    diti_tensor kv = diti_tensor_new(graph, format, own, 2 * width, "keys and values"), o = 0, lse = 0;
    diti_ring_block block = DITI_ZERO, coming = DITI_ZERO;
    diti_copy(graph, diti_tensor_view(graph, qkv, 0, own, width, 2 * width), kv, "keys and values");
    block.parts[0] = kv;
    for (block.count = 0; block.count < 2 && graph->int8_payload; block.count++)
        block.parts[block.count] =
            diti_payload(graph, diti_tensor_view(graph, kv, 0, own, block.count * width, width));
    if (!block.count) block.count = 1;
    for (turn = 0; turn < count && !diti_graph_failed(graph); turn++) {
        diti_tensor part = diti_tensor_new(graph, DITI_F32, own, width, "partial attention");
        diti_tensor part_lse = diti_tensor_new(graph, DITI_F32, own, desc->heads, "log sum of exponentials");
        uint32_t begun = (uint32_t)graph->exchange_count, end, i;
        if (turn + 1 < count) {
            diti_ring_new(graph, qkv, desc->items * rows[(self + 2 * count - turn - 1) % count], width, &coming);
            for (i = 0; i < block.count; i++) {
                diti_exchange_begin(graph, block.parts[i], next, true);
                diti_exchange_begin(graph, coming.parts[i], before, false);
            }
        }
        diti_attend_keys(graph, desc, q, kv, 0, part, part_lse);
        lse = turn ? diti_merge_attention(graph, o, lse, part, part_lse, desc->head_dim) : part_lse;
        if (!turn) o = part;
        for (end = (uint32_t)graph->exchange_count; begun < end; begun++) diti_exchange_end(graph, begun);
        block = coming;
        if (turn + 1 < count) kv = diti_ring_open(graph, &block, format);
    }
    return o;
}

/* Rows of an item with member i of the sequence. */
static uint32_t diti_attend_rows(const diti_denoise *denoise, const diti_attend_desc *desc, uint32_t i) {
    const diti_group *sequence = &denoise->axes->sequence;
    uint32_t text = desc->text ? diti_group_size(sequence, i, denoise->stretch.all_text) : 0;
    return text + diti_group_size(sequence, i, denoise->stretch.all);
}

static diti_tensor diti_attend_sequence(diti_graph *graph, const diti_denoise *denoise, const diti_attend_desc *desc,
                                        diti_tensor qkv) {
    const diti_group *ulysses = &denoise->axes->ulysses, *ring = &denoise->axes->ring;
    uint32_t inner = diti_group_count(ulysses), outer = diti_group_count(ring), i;
    uint32_t rows[DITI_MAX_DEVICES], ring_rows[DITI_MAX_DEVICES] = DITI_ZERO;
    diti_exchange_heads heads = DITI_ZERO;
    diti_attend_desc local = *desc;
    diti_tensor o;
    for (i = 0; i < inner * outer; i++) {
        uint32_t count = diti_attend_rows(denoise, desc, i);
        ring_rows[i / inner] += count;
        if (i / inner == ring->index) rows[i % inner] = count;
    }
    heads.group = ulysses;
    heads.rows = rows;
    heads.items = desc->items;
    heads.heads = desc->heads;
    heads.head_dim = desc->head_dim;
    if (inner > 1) {
        qkv = diti_gather_heads(graph, &heads, qkv, 3);
        local.heads = diti_group_size(ulysses, ulysses->index, desc->heads);
        local.out = 0;
    }
    if (outer > 1)
        o = diti_ring_attend(graph, ring, &local, ring_rows, qkv);
    else
        o = diti_attend(graph, NULL, &local, qkv);
    if (inner > 1) return diti_scatter_heads(graph, &heads, o, desc->out);
    if (desc->out) diti_copy(graph, o, desc->out, "attention");
    return desc->out ? desc->out : o;
}

DIT_INTERNAL diti_tensor diti_attend(diti_graph *graph, const diti_denoise *denoise, const diti_attend_desc *desc,
                                     diti_tensor qkv) {
    uint32_t width = desc->heads * desc->head_dim;
    uint32_t rows = diti_graph_failed(graph) ? 0 : diti_tensor_get(graph, qkv)->rows;
    if (denoise && denoise->axes && diti_group_count(&denoise->axes->sequence) > 1)
        return diti_attend_sequence(graph, denoise, desc, qkv);
    return diti_attend_keys(graph, desc, diti_tensor_view(graph, qkv, 0, rows, 0, width), qkv, width, desc->out, 0);
}

/* ---- the evaluation ---- */

/* What an evaluation starts with: rows, and what depends on the timestep. */
static void diti_transformer_begin(const diti_transformer *transformer, diti_graph *graph, diti_denoise *denoise) {
    diti_stretch_begin(transformer, denoise);
    transformer->family->begin(transformer, graph, denoise);
}

DIT_INTERNAL diti_tensor diti_transformer_step(const diti_transformer *transformer, diti_graph *graph,
                                               diti_denoise *denoise) {
    const diti_family *family = transformer->family;
    const diti_model_traits *traits = &transformer->traits;
    uint32_t items = (denoise->copies - denoise->first_copy) * denoise->batch, i;
    uint32_t channels = denoise->variance ? traits->out_channels : traits->latent_channels;
    diti_tensor x;
    if (diti_graph_failed(graph) || !denoise->family) return 0;
    diti_transformer_begin(transformer, graph, denoise);
    x = family->embed(transformer, graph, denoise);
    for (i = 0; i < traits->layers && !diti_graph_failed(graph); i++)
        if (!(i < 64 && denoise->skipped >> i & 1)) x = family->block(transformer, graph, denoise, i, x);
    diti_graph_scope(graph, NULL, 0);
    x = family->final(transformer, graph, denoise, x);
    if (denoise->axes) x = diti_all_gather(graph, &denoise->axes->sequence, x, items, denoise->stretch.all, "rows");
    return traits->planar ? diti_unpatchify_planes(graph, x, items, channels, denoise->height, denoise->width,
                                                   traits->patch)
                          : diti_unpatchify(graph, x, items, channels, traits->out_channels, denoise->height,
                                            denoise->width, traits->patch);
}
