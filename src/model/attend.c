/* Attention of every item to all its rows, wherever they are (docs/parallel.md 1.1): on one device; on several
   by Ulysses, by Ring, by both; with keys and values of other strips that are one step old, by PipeFusion. */
#include "model/model.h"

static uint32_t diti_attend_kv_width(const diti_attend_desc *desc) {
    return (desc->kv_heads ? desc->kv_heads : desc->heads) * desc->head_dim;
}

/* q: the first columns of qkv, k and v: those of kv [items * keys, 2 * heads of either * head_dim], of which each item
   attends those that `items` names; 0: all its own. */
static diti_tensor diti_attend_keys(diti_graph *graph, const diti_attend_desc *desc, diti_tensor items, diti_tensor q,
                                    diti_tensor kv, uint32_t first_column, diti_tensor out, diti_tensor lse) {
    uint32_t width = diti_attend_kv_width(desc);
    uint32_t rows = diti_tensor_rows(graph, kv);
    diti_attention_desc attention = DITI_ZERO;
    attention.batch = desc->items;
    attention.heads = desc->heads;
    attention.kv_heads = desc->kv_heads;
    attention.head_dim = desc->head_dim;
    attention.scale = 1.0f / sqrtf((float)desc->head_dim);
    attention.row_step = desc->row_step;
    attention.items = items;
    attention.key_limit = rows / desc->items;
    attention.int8 = desc->int8 && !lse; /* int8 moves keys by their mean, and logarithms with them */
    attention.out = out;
    attention.lse = lse;
    attention.name = "attention";
    return diti_attention(graph, q, diti_tensor_view(graph, kv, 0, rows, first_column, width),
                          diti_tensor_view(graph, kv, 0, rows, first_column + width, width), &attention);
}

/* ---- pictures that are referred to, whose keys and values were kept ---- */

/* Keys and values [items * (rows + kept), 2 * width] of qkv [items * rows, 3 * width], behind each item's the kept
   ones: of `all` heads those from `first` on. */
static diti_tensor diti_reference_kv_join(diti_graph *graph, const diti_step_desc *step, const diti_attend_desc *desc,
                                          uint32_t first, uint32_t all, diti_tensor qkv) {
    uint32_t width = desc->heads * desc->head_dim, rows = diti_tensor_rows(graph, qkv) / desc->items, i, k;
    diti_tensor kept = step->reference_kv->kept[step->block], kv;
    uint32_t prompts = step->reference_kv->items ? step->text_batch : 1;
    uint32_t lead = diti_tensor_rows(graph, kept) / prompts, each = step->branches * step->batch / prompts;
    if (diti_graph_failed(graph)) return 0;
    kv = diti_tensor_new(graph, diti_tensor_get(graph, qkv)->format, desc->items * (rows + lead), 2 * width,
                         "keys and values");
    for (i = 0; i < desc->items && !diti_graph_failed(graph); i++) {
        uint32_t row = (step->first_branch * step->batch + i) / each % prompts *
                       lead; /* the item's prompt has its rows from there on */
        diti_copy(graph, diti_tensor_view(graph, qkv, i * rows, rows, width, 2 * width),
                  diti_tensor_view(graph, kv, i * (rows + lead), rows, 0, 2 * width), "keys and values");
        for (k = 0; k < 2; k++)
            diti_copy(graph, diti_tensor_view(graph, kept, row, lead, (k * all + first) * desc->head_dim, width),
                      diti_tensor_view(graph, kv, i * (rows + lead) + rows, lead, k * width, width),
                      "keys and values of references");
    }
    return kv;
}

static void diti_reference_kv_keep(diti_graph *graph, const diti_step_desc *step, const diti_attend_desc *desc,
                                   diti_tensor qkv) {
    uint32_t width = desc->heads * desc->head_dim, rows = diti_tensor_rows(graph, qkv);
    diti_tensor *kept = &step->reference_kv->kept[step->block];
    if (diti_graph_failed(graph)) return;
    *kept =
        diti_tensor_new(graph, diti_tensor_get(graph, qkv)->format, rows, 2 * width, "keys and values of references");
    diti_copy(graph, diti_tensor_view(graph, qkv, 0, rows, width, 2 * width), *kept, "keep keys and values");
}

/* Every row attends those that its segment names; a segment is a run of rows that attend the same. */
static diti_tensor diti_attend_segments(diti_graph *graph, const diti_attend_desc *desc, diti_tensor segments,
                                        diti_tensor qkv) {
    uint32_t width = desc->heads * desc->head_dim, rows = diti_tensor_rows(graph, qkv);
    diti_attention_desc attention = DITI_ZERO;
    attention.batch = diti_tensor_rows(graph, segments);
    attention.heads = desc->heads;
    attention.head_dim = desc->head_dim;
    attention.scale = 1.0f / sqrtf((float)desc->head_dim);
    attention.items = segments;
    attention.packed = true;
    attention.out = desc->out;
    attention.name = "causal_attention";
    return diti_attention(graph, diti_tensor_view(graph, qkv, 0, rows, 0, width),
                          diti_tensor_view(graph, qkv, 0, rows, width, width),
                          diti_tensor_view(graph, qkv, 0, rows, 2 * width, width), &attention);
}

DIT_INTERNAL dit_result diti_reference_kv_write(diti_plan *plan, const diti_step_desc *step, const diti_env *env,
                                                const uint32_t *counts, dit_error *err) {
    uint32_t items = step->branches * step->batch, inner = 1, ring = 0, rows = 0, i, item;
    uint32_t *table = (uint32_t *)diti_alloc_zero(env, (size_t)items * DITI_ITEM_WORDS * sizeof *table);
    dit_result result;
    if (!table) return diti_fail_memory(err, "the keys of items");
    if (step->axes) {
        inner = diti_ranks_count(&step->axes->ulysses);
        ring = diti_ranks_count(&step->axes->ring) > 1 ? step->axes->ring.index : 0;
    }
    for (i = 0; i < inner; i++) /* an item's rows, where they are attended with those that were kept */
        rows += diti_token_range_size(step->axes ? &step->axes->sequence : NULL, ring * inner + i, &step->token_range);
    for (item = 0; item < items; item++) {
        table[item * DITI_ITEM_WORDS + 3] = rows + counts[item / (items / step->text_batch)];
    }
    result = diti_plan_write(plan, step->reference_kv->items, table, (size_t)items * DITI_ITEM_WORDS * 4, err);
    diti_free(env, table);
    return result;
}

/* Where keys and values of references join: heads [first, first + heads at hand) of `all`. */
typedef struct diti_attend_references {
    const diti_step_desc *step; /* NULL: there are none */
    uint32_t first, all;
} diti_attend_references;

static bool diti_attend_refers(const diti_step_desc *step) {
    return step && step->reference_kv && !step->reference_kv->fills;
}

/* Every item attends its rows of qkv, and those that were kept behind them, as far as it has some. */
static diti_tensor diti_reference_kv_attend(diti_graph *graph, const diti_attend_references *references,
                                            const diti_attend_desc *desc, diti_tensor qkv, diti_tensor out,
                                            diti_tensor lse) {
    const diti_step_desc *step = references->step;
    uint32_t width = desc->heads * desc->head_dim, all = diti_tensor_rows(graph, qkv), rows = all / desc->items, i;
    diti_tensor kv = diti_reference_kv_join(graph, step, desc, references->first, references->all, qkv),
                items = step->reference_kv->items, q = diti_tensor_view(graph, qkv, 0, all, 0, width);
    uint32_t keys = diti_tensor_rows(graph, kv) / desc->items;
    diti_attend_desc one = *desc;
    if (!items) return diti_attend_keys(graph, desc, 0, q, kv, 0, out, lse);
    if (!out) out = diti_tensor_new(graph, graph->activation, all, width, "attention");
    one.items = 1;
    for (i = 0; i < desc->items && !diti_graph_failed(graph); i++)
        diti_attend_keys(graph, &one,
                         diti_tensor_view(graph, items, step->first_branch * step->batch + i, 1, 0, DITI_ITEM_WORDS),
                         diti_tensor_view(graph, q, i * rows, rows, 0, width),
                         diti_tensor_view(graph, kv, i * keys, keys, 0, 2 * width), 0,
                         diti_tensor_view(graph, out, i * rows, rows, 0, width),
                         lse ? diti_tensor_view(graph, lse, i * rows, rows, 0, desc->heads) : 0);
    return out;
}

/* ---- rings ---- */

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
    for (i = 0; i < out->count; i++) diti_guard_alike(graph, like, out->parts[i]);
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
        diti_payload_unpack(graph, block->parts[i], diti_tensor_view(graph, kv, 0, rows, i * width, width));
    return kv;
}

/* Keys and values go round: those of the member before this one come while those at hand are attended to. A member
   sends the keys and values of all but one: 2 * their rows * heads * head_dim elements each. Each member has those of
   references, and they join its own. rows: of an item with each member. */
static diti_tensor diti_ring_attend(diti_graph *graph, const diti_ranks *ring, const diti_attend_desc *desc,
                                    const uint32_t *rows, const diti_attend_references *references, diti_tensor qkv) {
    uint32_t width = desc->heads * desc->head_dim, count = ring->count, self = ring->index, turn;
    uint32_t own = desc->items * rows[self], next = ring->devices[(self + 1) % count],
             before = ring->devices[(self + count - 1) % count];
    diti_element format = diti_graph_failed(graph) ? DITI_F32 : diti_tensor_get(graph, qkv)->format;
    diti_tensor q = diti_tensor_view(graph, qkv, 0, own, 0, width);
    diti_tensor kv = diti_tensor_new(graph, format, own, 2 * width, "keys and values"), o = 0, lse = 0;
    diti_ring_block block = DITI_ZERO, coming = DITI_ZERO;
    diti_trade trades[2];
    uint32_t i;
    diti_copy(graph, diti_tensor_view(graph, qkv, 0, own, width, 2 * width), kv, "keys and values");
    block.parts[0] = kv;
    for (block.count = 0; block.count < 2 && graph->int8_payload; block.count++)
        block.parts[block.count] = diti_payload(graph, diti_tensor_view(graph, kv, 0, own, block.count * width, width));
    if (!block.count) block.count = 1;
    for (turn = 0; turn < count && !diti_graph_failed(graph); turn++) {
        diti_tensor part = diti_tensor_new(graph, DITI_F32, own, width, "partial attention");
        diti_tensor part_lse = diti_tensor_new(graph, DITI_F32, own, desc->heads, "log sum of exponentials");
        bool goes_on = turn + 1 < count;
        if (goes_on)
            diti_ring_new(graph, qkv, desc->items * rows[(self + 2 * count - turn - 1) % count], width, &coming);
        for (i = 0; i < block.count && goes_on; i++)
            trades[i] = diti_trade_begin(graph, block.parts[i], next, coming.parts[i], before);
        if (!turn && references->step)
            diti_reference_kv_attend(graph, references, desc, qkv, part, part_lse);
        else
            diti_attend_keys(graph, desc, 0, q, kv, 0, part, part_lse);
        lse = turn ? diti_merge_attention(graph, o, lse, part, part_lse, desc->head_dim) : part_lse;
        if (!turn) o = part;
        for (i = 0; i < block.count && goes_on; i++) diti_trade_end(graph, trades[i]);
        block = coming;
        if (goes_on) kv = diti_ring_open(graph, &block, format);
    }
    return o;
}

/* Every item attends those of its rows that desc->keys names. Items are attended to one by one, so that a device binds
   the keys of one at a time. */
static diti_tensor diti_attend_some(diti_graph *graph, const diti_attend_desc *desc, diti_tensor qkv) {
    uint32_t width = desc->heads * desc->head_dim, all = diti_tensor_rows(graph, qkv), rows = all / desc->items, i,
             kv_width = diti_attend_kv_width(desc);
    diti_tensor out = desc->out ? desc->out : diti_tensor_new(graph, graph->activation, all, width, "attention");
    for (i = 0; i < desc->items && !diti_graph_failed(graph); i++) {
        diti_attention_desc attention = DITI_ZERO;
        attention.batch = 1;
        attention.heads = desc->heads;
        attention.kv_heads = desc->kv_heads;
        attention.head_dim = desc->head_dim;
        attention.scale = 1.0f / sqrtf((float)desc->head_dim);
        attention.items = diti_tensor_view(graph, desc->keys, i, 1, 0, DITI_ITEM_WORDS);
        attention.int8 = desc->int8;
        attention.out = diti_tensor_view(graph, out, i * rows, rows, 0, width);
        attention.name = "attention";
        diti_attention(graph, diti_tensor_view(graph, qkv, i * rows, rows, 0, width),
                       diti_tensor_view(graph, qkv, i * rows, rows, width, kv_width),
                       diti_tensor_view(graph, qkv, i * rows, rows, width + kv_width, kv_width), &attention);
    }
    return out;
}

/* Rows of an item with member i of the sequence. */
static uint32_t diti_attend_rows(const diti_step_desc *step, const diti_attend_desc *desc, uint32_t i) {
    const diti_ranks *sequence = step->axes ? &step->axes->sequence : NULL;
    uint32_t text = desc->text ? diti_ranks_size(sequence, i, step->token_range.strip_text) : 0;
    return text + diti_token_range_size(sequence, i, &step->token_range);
}

/* ---- PipeFusion: attention to all rows, of which those of other strips are one step old ---- */

/* Where they are kept: as floats [items * all rows, 2 * width] and, where that is asked for, as int8 for the next step,
   [items * all rows, width] each. */
typedef struct diti_kept_kv_rows {
    diti_tensor floats, int8[2];
} diti_kept_kv_rows;

static void diti_kept_kv_put(diti_graph *graph, diti_tensor kv, uint32_t row, uint32_t rows, uint32_t width,
                             const diti_kept_kv_rows *kept, uint32_t to) {
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
static void diti_kept_kv_keep(diti_graph *graph, const diti_step_desc *step, const diti_attend_desc *desc,
                              diti_tensor kv, uint32_t first, uint32_t members, const diti_kept_kv_rows *kept) {
    const diti_ranks *sequence = step->axes ? &step->axes->sequence : NULL;
    const diti_token_range *at = &step->token_range;
    uint32_t width = desc->heads * desc->head_dim, texts = desc->text ? at->all_text : 0, item, i, row = 0;
    for (item = 0; item < desc->items; item++) {
        for (i = first; i < first + members && !diti_graph_failed(graph); i++) {
            uint32_t text = desc->text ? diti_ranks_size(sequence, i, at->strip_text) : 0;
            uint32_t rows = diti_token_range_size(sequence, i, at), to = item * (texts + at->all);
            diti_kept_kv_put(graph, kv, row, text, width, kept, to + diti_ranks_first(sequence, i, at->strip_text));
            to += texts + at->strip_first + diti_token_range_before(sequence, i, at);
            diti_kept_kv_put(graph, kv, row + text, rows, width, kept, to);
            row += text + rows;
        }
    }
}

/* The members of a ring all keep what each of them has computed: 2 * its rows * heads * head_dim elements go to every
   other one. */
static void diti_kept_kv_share(diti_graph *graph, const diti_step_desc *step, const diti_attend_desc *desc,
                               diti_tensor kv, const diti_kept_kv_rows *kept) {
    const diti_ranks *ring = &step->axes->ring;
    uint32_t inner = diti_ranks_count(&step->axes->ulysses), count = diti_ranks_count(ring), i, k;
    diti_tensor parts[DITI_MAX_DEVICES];
    diti_trade trades[DITI_MAX_DEVICES];
    diti_element format = diti_graph_failed(graph) ? DITI_F32 : diti_tensor_get(graph, kv)->format;
    diti_tensor payload = diti_payload(graph, kv);
    for (i = 0; i < count; i++) {
        uint32_t rows = 0;
        if (i == ring->index) continue;
        for (k = 0; k < inner; k++) rows += diti_attend_rows(step, desc, i * inner + k);
        parts[i] = diti_tensor_new(graph, diti_payload_format(graph, kv), desc->items * rows,
                                   2 * desc->heads * desc->head_dim, "keys and values");
        diti_guard_alike(graph, kv, parts[i]);
        trades[i] = diti_trade_begin(graph, payload, ring->devices[i], parts[i], ring->devices[i]);
    }
    for (i = 0; i < count; i++) {
        if (i == ring->index) continue;
        parts[i] = diti_trade_take(graph, trades[i], parts[i], format);
        diti_kept_kv_keep(graph, step, desc, parts[i], i * inner, inner, kept);
    }
}

/* The kept rows that the attention at hand reads, of its items. */
static diti_kept_kv_rows diti_kept_kv_rows_make(diti_graph *graph, const diti_step_desc *step,
                                                const diti_attend_desc *desc, diti_element format) {
    uint32_t kind = desc->text || !step->token_range.all_text ? 0 : 1, width = desc->heads * desc->head_dim, i;
    uint32_t all = (desc->text ? step->token_range.all_text : 0) + step->token_range.all, rows = desc->items * all;
    bool int8 = step->kept_kv->int8;
    diti_kept_kv_rows at = DITI_ZERO;
    for (i = 0; i < (int8 ? 2u : 1u); i++) {
        diti_tensor *kept = (i ? step->kept_kv->values : step->kept_kv->kept)[kind] + step->block, part;
        uint32_t columns = int8 ? width : 2 * width;
        if (!*kept)
            *kept = diti_tensor_state(graph, int8 ? DITI_I8 : format, step->branches * step->batch * all, columns,
                                      "kept keys and values");
        part = diti_tensor_view(graph, *kept, step->first_branch * step->batch * all, rows, 0, columns);
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
static diti_tensor diti_kept_kv_attend(diti_graph *graph, const diti_step_desc *step, const diti_attend_desc *desc,
                                       diti_tensor qkv) {
    diti_kept_kv_rows kept;
    diti_tensor kv;
    uint32_t inner = step->axes ? diti_ranks_count(&step->axes->ulysses) : 1, width = desc->heads * desc->head_dim;
    uint32_t ring = step->axes ? diti_ranks_count(&step->axes->ring) : 1, place, rows;
    if (diti_graph_failed(graph)) return 0;
    rows = diti_tensor_get(graph, qkv)->rows;
    kept = diti_kept_kv_rows_make(graph, step, desc, diti_tensor_get(graph, qkv)->format);
    kv = diti_tensor_view(graph, qkv, 0, rows, width, 2 * width);
    place = ring > 1 ? step->axes->ring.index : 0;
    diti_kept_kv_keep(graph, step, desc, kv, place * inner, inner, &kept);
    if (ring > 1) diti_kept_kv_share(graph, step, desc, kv, &kept);
    return diti_attend_keys(graph, desc, 0, diti_tensor_view(graph, qkv, 0, rows, 0, width), kept.floats, 0, desc->out,
                            0);
}

/* ---- and of the rows that devices divide ---- */

/* How Ulysses, the inner one of two groups, exchanges the heads of this attention. */
static void diti_attend_heads(const diti_step_desc *step, const diti_attend_desc *desc, uint32_t *rows,
                              uint32_t *ring_rows, diti_exchange_heads *heads) {
    const diti_ranks *ulysses = &step->axes->ulysses, *ring = &step->axes->ring;
    uint32_t inner = diti_ranks_count(ulysses), outer = diti_ranks_count(ring), i;
    memset(ring_rows, 0, DITI_MAX_DEVICES * sizeof *ring_rows);
    for (i = 0; i < inner * outer; i++) {
        uint32_t count = diti_attend_rows(step, desc, i);
        ring_rows[i / inner] += count;
        if (i / inner == ring->index) rows[i % inner] = count;
    }
    heads->group = ulysses;
    heads->rows = rows;
    heads->items = desc->items;
    heads->heads = desc->heads;
    heads->head_dim = desc->head_dim;
}

/* Every item attends all its rows, which are here, and kept references. */
static diti_tensor diti_attend_all(diti_graph *graph, const diti_attend_desc *desc,
                                   const diti_attend_references *references, diti_tensor qkv) {
    uint32_t width = desc->heads * desc->head_dim, rows = diti_tensor_rows(graph, qkv);
    if (desc->keys) return diti_attend_some(graph, desc, qkv);
    if (references->step) return diti_reference_kv_attend(graph, references, desc, qkv, desc->out, 0);
    return diti_attend_keys(graph, desc, 0, diti_tensor_view(graph, qkv, 0, rows, 0, width), qkv, width, desc->out, 0);
}

/* flow: heads that have been on their way since they were there; NULL: they are in qkv. */
static diti_tensor diti_attend_sequence(diti_graph *graph, const diti_step_desc *step, const diti_attend_desc *desc,
                                        diti_tensor qkv, diti_heads_flow *flow) {
    const diti_ranks *ulysses = &step->axes->ulysses, *ring = &step->axes->ring;
    uint32_t inner = diti_ranks_count(ulysses), outer = diti_ranks_count(ring);
    uint32_t rows[DITI_MAX_DEVICES], ring_rows[DITI_MAX_DEVICES];
    diti_exchange_heads heads;
    diti_attend_desc local = *desc;
    diti_attend_references references = DITI_ZERO;
    diti_tensor o;
    if (diti_attend_refers(step)) references.step = step;
    references.all = desc->heads;
    diti_attend_heads(step, desc, rows, ring_rows, &heads);
    if (inner > 1) {
        qkv = flow ? diti_heads_flow_end(graph, &heads, flow) : diti_gather_heads(graph, &heads, qkv, 3);
        local.heads = diti_ranks_size(ulysses, ulysses->index, desc->heads);
        references.first = diti_ranks_first(ulysses, ulysses->index, desc->heads);
        local.out = 0;
    }
    if (step->kept_kv)
        o = diti_kept_kv_attend(graph, step, &local, qkv);
    else if (outer > 1)
        o = diti_ring_attend(graph, ring, &local, ring_rows, &references, qkv);
    else
        o = diti_attend_all(graph, &local, &references, qkv);
    if (inner > 1) return diti_scatter_heads(graph, &heads, o, desc->out);
    if (!desc->out || o == desc->out) return o;
    diti_copy(graph, o, desc->out, "attention");
    return desc->out;
}

DIT_INTERNAL bool diti_attend_flows(const diti_step_desc *step) {
    return step->axes && diti_ranks_count(&step->axes->ulysses) > 1 && diti_ranks_count(&step->axes->tensor_in) == 1;
}

DIT_INTERNAL void diti_attend_begin(diti_graph *graph, const diti_step_desc *step, const diti_attend_desc *desc,
                                    diti_tensor qkv, diti_heads_flow *flow) {
    uint32_t rows[DITI_MAX_DEVICES], ring_rows[DITI_MAX_DEVICES];
    diti_exchange_heads heads;
    diti_attend_heads(step, desc, rows, ring_rows, &heads);
    diti_heads_flow_begin(graph, &heads, qkv, 3, flow);
}

DIT_INTERNAL void diti_attend_send(diti_graph *graph, const diti_step_desc *step, const diti_attend_desc *desc,
                                   diti_heads_flow *flow, uint32_t kind) {
    uint32_t rows[DITI_MAX_DEVICES], ring_rows[DITI_MAX_DEVICES];
    diti_exchange_heads heads;
    diti_attend_heads(step, desc, rows, ring_rows, &heads);
    diti_heads_flow_send(graph, &heads, flow, kind);
}

DIT_INTERNAL diti_tensor diti_attend_end(diti_graph *graph, const diti_step_desc *step, const diti_attend_desc *desc,
                                         diti_heads_flow *flow) {
    return diti_attend_sequence(graph, step, desc, 0, flow);
}

DIT_INTERNAL diti_tensor diti_attend(diti_graph *graph, const diti_step_desc *step, const diti_attend_desc *desc,
                                     diti_tensor qkv) {
    diti_attend_references references = DITI_ZERO;
    if (step->axes && diti_ranks_count(&step->axes->sequence) > 1)
        return diti_attend_sequence(graph, step, desc, qkv, NULL);
    if (step->kept_kv) return diti_kept_kv_attend(graph, step, desc, qkv);
    if (step->reference_kv && step->reference_kv->fills) diti_reference_kv_keep(graph, step, desc, qkv);
    if (step->reference_kv && step->reference_kv->fills && step->reference_kv->segments)
        return diti_attend_segments(graph, desc, step->reference_kv->segments, qkv);
    if (diti_attend_refers(step)) references.step = step;
    references.all = desc->heads;
    return diti_attend_all(graph, desc, &references, qkv);
}
