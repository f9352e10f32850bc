/* One evaluation of a transformer, or the part of it that this device computes: rows of the image and of a joint text,
   which devices of a sequence divide among them (parallel-cache-quant.md 1.1: Ulysses, Ring, and both). */
#include "model/model.h"

/* ---- rows ---- */

DIT_INTERNAL uint32_t diti_transformer_strip(const diti_transformer *transformer, const diti_denoise *denoise,
                                             uint32_t patch, uint32_t patches, uint32_t *first) {
    uint32_t rows = denoise->height / transformer->traits.patch, line = denoise->width * transformer->traits.patch;
    *first = (uint32_t)((uint64_t)rows * patch / patches) * line;
    return (uint32_t)((uint64_t)rows * (patch + 1) / patches) * line - *first;
}

static void diti_stretch_begin(const diti_transformer *transformer, const diti_denoise *denoise, uint32_t number,
                               diti_stretch *stretch) {
    const diti_group *sequence = denoise->axes ? &denoise->axes->sequence : NULL;
    uint32_t area = transformer->traits.patch * transformer->traits.patch, self = sequence ? sequence->index : 0;
    uint32_t pixels = diti_transformer_strip(transformer, denoise, number, denoise->patches ? denoise->patches : 1,
                                             &stretch->patch_first);
    stretch->all = denoise->height * denoise->width / area;
    stretch->all_text = transformer->traits.joint ? denoise->text_tokens : 0;
    stretch->patch_first /= area;
    stretch->patch_rows = pixels / area;
    stretch->patch_text = number ? 0 : stretch->all_text;
    stretch->first = stretch->patch_first + diti_group_first(sequence, self, stretch->patch_rows);
    stretch->rows = diti_group_size(sequence, self, stretch->patch_rows);
    stretch->first_text = diti_group_first(sequence, self, stretch->patch_text);
    stretch->text = diti_group_size(sequence, self, stretch->patch_text);
}

DIT_INTERNAL uint32_t diti_stretch_first(const diti_denoise *denoise, uint32_t image) {
    const diti_stretch *stretch = &denoise->stretch;
    return image * stretch->patch_rows + stretch->first - stretch->patch_first;
}

DIT_INTERNAL diti_tensor diti_stretch_patchify(diti_graph *graph, const diti_denoise *denoise, uint32_t channels,
                                               uint32_t patch) {
    const diti_stretch *stretch = &denoise->stretch;
    uint32_t area = patch * patch, height = stretch->patch_rows * area / denoise->width;
    diti_tensor latent = diti_tensor_view(graph, denoise->latent, 0, denoise->batch * channels,
                                          stretch->patch_first * area, stretch->patch_rows * area);
    return diti_patchify(graph, latent, denoise->batch, channels, height, denoise->width, patch, denoise->input_scale);
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
        out->parts[i] =
            diti_tensor_new(graph, diti_payload_format(graph, like), rows, 2 * width / out->count, "keys and values");
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
        block.parts[block.count] = diti_payload(graph, diti_tensor_view(graph, kv, 0, own, block.count * width, width));
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
    const diti_group *sequence = denoise->axes ? &denoise->axes->sequence : NULL;
    uint32_t text = desc->text ? diti_group_size(sequence, i, denoise->stretch.patch_text) : 0;
    return text + diti_group_size(sequence, i, denoise->stretch.patch_rows);
}

/* A payload that has come, in that format. */
static diti_tensor diti_evaluate_open(diti_graph *graph, uint32_t exchange, diti_tensor payload, diti_element format) {
    diti_tensor_info info;
    diti_tensor out;
    diti_exchange_end(graph, exchange);
    if (diti_graph_failed(graph) || !graph->int8_payload) return payload;
    info = *diti_tensor_get(graph, payload);
    out = diti_tensor_new(graph, format, info.rows, info.columns, info.name);
    diti_payload_open(graph, payload, out);
    return out;
}

/* ---- PipeFusion: attention to all rows, of which those of other patches are one step old ---- */

/* Where they are kept: as floats [items * all rows, 2 * width] and, where that is asked for, as int8 for the next step,
   [items * all rows, width] each. */
typedef struct diti_stale_rows {
    diti_tensor floats, int8[2];
} diti_stale_rows;

static void diti_stale_put(diti_graph *graph, diti_tensor kv, uint32_t row, uint32_t rows, uint32_t width,
                           const diti_stale_rows *kept, uint32_t to) {
    uint32_t i;
    if (!rows) return;
    diti_copy(graph, diti_tensor_view(graph, kv, row, rows, 0, 2 * width),
              diti_tensor_view(graph, kept->floats, to, rows, 0, 2 * width), "keep keys and values");
    for (i = 0; i < 2 && kept->int8[i]; i++)
        diti_quantize_to(graph, diti_tensor_view(graph, kv, row, rows, i * width, width),
                         diti_tensor_view(graph, kept->int8[i], to, rows, 0, width), "keep keys and values");
}

/* Keys and values at hand, [items * rows of members [first, first + members) of the sequence, 2 * width], to their
   places among all: in every item its text's, then its image's. */
static void diti_stale_keep(diti_graph *graph, const diti_denoise *denoise, const diti_attend_desc *desc,
                            diti_tensor kv, uint32_t first, uint32_t members, const diti_stale_rows *kept) {
    const diti_group *sequence = denoise->axes ? &denoise->axes->sequence : NULL;
    const diti_stretch *at = &denoise->stretch;
    uint32_t width = desc->heads * desc->head_dim, texts = desc->text ? at->all_text : 0, item, i, row = 0;
    for (item = 0; item < desc->items; item++) {
        for (i = first; i < first + members && !diti_graph_failed(graph); i++) {
            uint32_t text = desc->text ? diti_group_size(sequence, i, at->patch_text) : 0;
            uint32_t rows = diti_group_size(sequence, i, at->patch_rows), to = item * (texts + at->all);
            diti_stale_put(graph, kv, row, text, width, kept, to + diti_group_first(sequence, i, at->patch_text));
            to += texts + at->patch_first + diti_group_first(sequence, i, at->patch_rows);
            diti_stale_put(graph, kv, row + text, rows, width, kept, to);
            row += text + rows;
        }
    }
}

/* The members of a ring all keep what each of them has computed: 2 * its rows * heads * head_dim elements go to every
   other one. */
static void diti_stale_share(diti_graph *graph, const diti_denoise *denoise, const diti_attend_desc *desc,
                             diti_tensor kv, const diti_stale_rows *kept) {
    const diti_group *ring = &denoise->axes->ring;
    uint32_t inner = diti_group_count(&denoise->axes->ulysses), count = diti_group_count(ring), i, k;
    diti_tensor parts[DITI_MAX_DEVICES];
    uint32_t sent[DITI_MAX_DEVICES], received[DITI_MAX_DEVICES];
    diti_element format = diti_graph_failed(graph) ? DITI_F32 : diti_tensor_get(graph, kv)->format;
    diti_tensor payload = diti_payload(graph, kv);
    for (i = 0; i < count; i++) {
        uint32_t rows = 0;
        if (i == ring->index) continue;
        for (k = 0; k < inner; k++) rows += diti_attend_rows(denoise, desc, i * inner + k);
        parts[i] = diti_tensor_new(graph, diti_payload_format(graph, kv), desc->items * rows,
                                   2 * desc->heads * desc->head_dim, "keys and values");
        sent[i] = diti_exchange_begin(graph, payload, ring->devices[i], true);
        received[i] = diti_exchange_begin(graph, parts[i], ring->devices[i], false);
    }
    for (i = 0; i < count; i++) {
        if (i == ring->index) continue;
        diti_exchange_end(graph, sent[i]);
        parts[i] = diti_evaluate_open(graph, received[i], parts[i], format);
        diti_stale_keep(graph, denoise, desc, parts[i], i * inner, inner, kept);
    }
}

/* What is kept for the attention at hand, of its items. */
static diti_stale_rows diti_stale_at(diti_graph *graph, const diti_denoise *denoise, const diti_attend_desc *desc,
                                     diti_element format) {
    uint32_t kind = desc->text || !denoise->stretch.all_text ? 0 : 1, width = desc->heads * desc->head_dim, i;
    uint32_t all = (desc->text ? denoise->stretch.all_text : 0) + denoise->stretch.all, rows = desc->items * all;
    bool int8 = denoise->stale->int8;
    diti_stale_rows at = DITI_ZERO;
    for (i = 0; i < (int8 ? 2u : 1u); i++) {
        diti_tensor *kept = (i ? denoise->stale->values : denoise->stale->kept)[kind] + denoise->block, part;
        uint32_t columns = int8 ? width : 2 * width;
        if (!*kept)
            *kept = diti_tensor_state(graph, int8 ? DITI_I8 : format, denoise->copies * denoise->batch * all, columns,
                                      "kept keys and values");
        part = diti_tensor_view(graph, *kept, denoise->first_copy * denoise->batch * all, rows, 0, columns);
        if (int8)
            at.int8[i] = part;
        else
            at.floats = part;
    }
    if (!int8) return at;
    at.floats = diti_tensor_new(graph, format, rows, 2 * width, "keys and values");
    for (i = 0; i < 2 && !diti_graph_failed(graph); i++)
        diti_dequantize(graph, at.int8[i], diti_tensor_view(graph, at.floats, 0, rows, i * width, width),
                        "kept keys and values");
    return at;
}

/* qkv: of the rows of this member of the ring. */
static diti_tensor diti_stale_attend(diti_graph *graph, const diti_denoise *denoise, const diti_attend_desc *desc,
                                     diti_tensor qkv) {
    diti_stale_rows kept;
    diti_tensor kv;
    uint32_t inner = denoise->axes ? diti_group_count(&denoise->axes->ulysses) : 1,
             width = desc->heads * desc->head_dim;
    uint32_t ring = denoise->axes ? diti_group_count(&denoise->axes->ring) : 1, place, rows;
    if (diti_graph_failed(graph)) return 0;
    rows = diti_tensor_get(graph, qkv)->rows;
    kept = diti_stale_at(graph, denoise, desc, diti_tensor_get(graph, qkv)->format);
    kv = diti_tensor_view(graph, qkv, 0, rows, width, 2 * width);
    place = ring > 1 ? denoise->axes->ring.index : 0;
    diti_stale_keep(graph, denoise, desc, kv, place * inner, inner, &kept);
    if (ring > 1) diti_stale_share(graph, denoise, desc, kv, &kept);
    return diti_attend_keys(graph, desc, diti_tensor_view(graph, qkv, 0, rows, 0, width), kept.floats, 0, desc->out, 0);
}

/* ---- and of the rows that devices divide ---- */

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
    if (denoise->stale)
        o = diti_stale_attend(graph, denoise, &local, qkv);
    else if (outer > 1)
        o = diti_ring_attend(graph, ring, &local, ring_rows, qkv);
    else
        o = diti_attend(graph, NULL, &local, qkv);
    if (inner > 1) return diti_scatter_heads(graph, &heads, o, desc->out);
    if (!desc->out || o == desc->out) return o;
    diti_copy(graph, o, desc->out, "attention");
    return desc->out;
}

DIT_INTERNAL diti_tensor diti_attend(diti_graph *graph, const diti_denoise *denoise, const diti_attend_desc *desc,
                                     diti_tensor qkv) {
    uint32_t width = desc->heads * desc->head_dim;
    uint32_t rows = diti_graph_failed(graph) ? 0 : diti_tensor_get(graph, qkv)->rows;
    if (denoise && denoise->axes && diti_group_count(&denoise->axes->sequence) > 1)
        return diti_attend_sequence(graph, denoise, desc, qkv);
    if (denoise && denoise->stale) return diti_stale_attend(graph, denoise, desc, qkv);
    return diti_attend_keys(graph, desc, diti_tensor_view(graph, qkv, 0, rows, 0, width), qkv, width, desc->out, 0);
}

/* ---- stages: devices that have some of the blocks each ---- */

DIT_INTERNAL const diti_group *diti_axes_stages(const diti_axes *axes) {
    if (!axes) return NULL;
    if (diti_group_count(&axes->pipefusion) > 1) return &axes->pipefusion;
    return diti_group_count(&axes->layers) > 1 ? &axes->layers : NULL;
}

DIT_INTERNAL void diti_axes_blocks(const diti_axes *axes, uint32_t layers, uint32_t *first, uint32_t *end) {
    const diti_group *stages = diti_axes_stages(axes);
    *first = stages ? diti_group_first(stages, stages->index, layers) : 0;
    *end = stages ? diti_group_first(stages, stages->index + 1, layers) : layers;
}

/* The device that has a block; UINT32_MAX: this one. */
static uint32_t diti_stage_device(const diti_denoise *denoise, uint32_t layers, uint32_t block) {
    const diti_group *stages = diti_axes_stages(denoise->axes);
    uint32_t i = 0;
    if (!stages) return UINT32_MAX;
    while (diti_group_first(stages, i + 1, layers) <= block) i++;
    return i == stages->index ? UINT32_MAX : stages->devices[i];
}

DIT_INTERNAL void diti_skip_leave(diti_graph *graph, diti_denoise *denoise, uint32_t layers, uint32_t index,
                                  diti_tensor skip) {
    uint32_t device = diti_stage_device(denoise, layers, layers - 1 - index);
    denoise->arrivals[denoise->patch % 2].skips[index] = skip;
    if (device != UINT32_MAX) diti_exchange_begin(graph, diti_payload(graph, skip), device, true);
}

DIT_INTERNAL diti_tensor diti_skip_take(diti_graph *graph, diti_denoise *denoise, uint32_t index) {
    diti_arrival *arrival = &denoise->arrivals[denoise->patch % 2];
    if (arrival->exchanges[index])
        arrival->skips[index] =
            diti_evaluate_open(graph, arrival->exchanges[index] - 1, arrival->skips[index], graph->activation);
    arrival->exchanges[index] = 0;
    return arrival->skips[index];
}

/* Receives, in the order in which the stages before send it: skips by block, then the residual stream; for every row at
   hand D elements each, F32 the stream, skips in the format of activations; as int8 payloads a byte and their row's. */
static void diti_stage_await(const diti_transformer *transformer, diti_graph *graph, diti_denoise *denoise,
                             uint32_t patch) {
    const diti_group *stages = diti_axes_stages(denoise->axes);
    const diti_model_traits *traits = &transformer->traits;
    diti_arrival *arrival = &denoise->arrivals[patch % 2];
    uint32_t items = (denoise->copies - denoise->first_copy) * denoise->batch, first, end, i, rows;
    diti_stretch stretch;
    memset(arrival, 0, sizeof *arrival);
    diti_stretch_begin(transformer, denoise, patch, &stretch);
    rows = items * (stretch.text + stretch.rows);
    diti_axes_blocks(denoise->axes, traits->layers, &first, &end);
    for (i = 0; traits->skips && i + 1 < traits->layers / 2 && i < first; i++) {
        uint32_t taker = traits->layers - 1 - i;
        if (taker < first || taker >= end) continue;
        arrival->skips[i] = diti_tensor_new(graph, graph->int8_payload ? DITI_I8 : graph->activation, rows,
                                            traits->width, "skip of an earlier stage");
        arrival->exchanges[i] =
            1 + diti_exchange_begin(graph, arrival->skips[i], diti_stage_device(denoise, traits->layers, i), false);
    }
    arrival->x = diti_tensor_new(graph, graph->int8_payload ? DITI_I8 : DITI_F32, rows, traits->width, "residual");
    arrival->exchange = diti_exchange_begin(graph, arrival->x, stages->devices[stages->index - 1], false);
}

/* The residual stream as it comes into the first block here; while it is worked on, the next patch's may come. */
static diti_tensor diti_stage_begin(const diti_transformer *transformer, diti_graph *graph, diti_denoise *denoise) {
    const diti_group *stages = diti_axes_stages(denoise->axes);
    diti_arrival *arrival = &denoise->arrivals[denoise->patch % 2];
    if (!stages || stages->index == 0) {
        memset(arrival, 0, sizeof *arrival);
        return transformer->family->embed(transformer, graph, denoise);
    }
    if (denoise->patch == 0) diti_stage_await(transformer, graph, denoise, 0);
    if (denoise->patch + 1 < denoise->patches) diti_stage_await(transformer, graph, denoise, denoise->patch + 1);
    return diti_evaluate_open(graph, arrival->exchange, arrival->x, DITI_F32);
}

/* ---- the evaluation ---- */

static diti_tensor diti_evaluate_pixels(const diti_transformer *transformer, diti_graph *graph,
                                        const diti_denoise *denoise, uint32_t items, diti_tensor x) {
    const diti_model_traits *traits = &transformer->traits;
    uint32_t channels = denoise->variance ? traits->out_channels : traits->latent_channels;
    uint32_t height = denoise->stretch.patch_rows * traits->patch * traits->patch / denoise->width;
    return traits->planar ? diti_unpatchify_planes(graph, x, items, channels, height, denoise->width, traits->patch)
                          : diti_unpatchify(graph, x, items, channels, traits->out_channels, height, denoise->width,
                                            traits->patch);
}

static void diti_transformer_begin(const diti_transformer *transformer, diti_graph *graph, diti_denoise *denoise) {
    diti_stretch_begin(transformer, denoise, denoise->patch, &denoise->stretch);
    denoise->again = denoise->patch > 0;
    transformer->family->begin(transformer, graph, denoise);
}

DIT_INTERNAL diti_tensor diti_transformer_patch(const diti_transformer *transformer, diti_graph *graph,
                                                diti_denoise *denoise) {
    const diti_family *family = transformer->family;
    const diti_group *stages = diti_axes_stages(denoise->axes);
    uint32_t items = (denoise->copies - denoise->first_copy) * denoise->batch, i, end;
    diti_tensor x;
    if (diti_graph_failed(graph) || !denoise->family) return 0;
    diti_transformer_begin(transformer, graph, denoise);
    x = diti_stage_begin(transformer, graph, denoise);
    for (diti_axes_blocks(denoise->axes, transformer->traits.layers, &i, &end); i < end && !diti_graph_failed(graph);
         i++) {
        denoise->block = i;
        if (!(i < 64 && denoise->skipped >> i & 1)) x = family->block(transformer, graph, denoise, i, x);
    }
    diti_graph_scope(graph, NULL, 0);
    if (stages && stages->index + 1 < stages->count) {
        diti_exchange_begin(graph, diti_payload(graph, x), stages->devices[stages->index + 1], true);
        return 0;
    }
    x = family->final(transformer, graph, denoise, x);
    if (denoise->axes)
        x = diti_all_gather(graph, &denoise->axes->sequence, x, items, denoise->stretch.patch_rows, "rows");
    return diti_evaluate_pixels(transformer, graph, denoise, items, x);
}

/* Patch by patch; 0 on stages before the last one. */
static diti_tensor diti_evaluate_patches(const diti_transformer *transformer, diti_graph *graph,
                                         diti_denoise *denoise) {
    diti_tensor whole = 0;
    denoise->patch = 0;
    if (denoise->patches < 2) return diti_transformer_patch(transformer, graph, denoise);
    for (; denoise->patch < denoise->patches && !diti_graph_failed(graph); denoise->patch++) {
        uint32_t area = transformer->traits.patch * transformer->traits.patch, rows;
        diti_tensor strip = diti_transformer_patch(transformer, graph, denoise);
        if (!strip) continue;
        rows = diti_tensor_get(graph, strip)->rows;
        if (!whole) whole = diti_tensor_new(graph, DITI_F32, rows, denoise->height * denoise->width, "prediction");
        diti_copy(graph, strip,
                  diti_tensor_view(graph, whole, 0, rows, denoise->stretch.patch_first * area,
                                   denoise->stretch.patch_rows * area),
                  "prediction");
    }
    denoise->patch = 0;
    return whole;
}

/* The last stage's prediction goes to all others. */
DIT_INTERNAL diti_tensor diti_transformer_step(const diti_transformer *transformer, diti_graph *graph,
                                               diti_denoise *denoise) {
    const diti_group *stages = diti_axes_stages(denoise->axes);
    const diti_model_traits *traits = &transformer->traits;
    uint32_t channels = denoise->variance ? traits->out_channels : traits->latent_channels, i;
    diti_tensor x = diti_evaluate_patches(transformer, graph, denoise);
    if (!stages || diti_graph_failed(graph)) return x;
    if (stages->index + 1 == stages->count) {
        for (i = 0; i + 1 < stages->count; i++) diti_exchange_begin(graph, x, stages->devices[i], true);
        return x;
    }
    x = diti_tensor_new(graph, DITI_F32, (denoise->copies - denoise->first_copy) * denoise->batch * channels,
                        denoise->height * denoise->width, "prediction");
    diti_exchange_end(graph, diti_exchange_begin(graph, x, stages->devices[stages->count - 1], false));
    return x;
}
