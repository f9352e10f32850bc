/* LoRAs beside linear layers: y = x W^T + s (x down^T) up^T, two thin products for each LoRA. The scales s are a table
   that the host writes before a run, a column for each row of down, so that other weights of LoRAs need no other plan.
   A sum in F32 gets the second product in place; what is activated, or stored as F16, is summed in F32 before. */
#include "graph/ops_internal.h"
#include "weights/lora.h"

#define DITI_LORA_BYTES ((uint64_t)48 << 20) /* most of the sums in F32 at a time */

/* A part of an adapter: columns [first, end) of the product get gate * (x up^T). */
typedef struct diti_lora_term {
    uint32_t first, end;
    diti_tensor x, gate; /* gate F32 [1, columns], 0: it is in x */
    const diti_weight *up;
} diti_lora_term;
typedef struct diti_lora_beside {
    diti_graph *graph;
    const diti_gemm *gemm; /* product without LoRAs */
    const diti_weight *weight;
    const diti_linear_desc *desc;
    uint32_t row; /* row of the whole weight that makes column 0 */
    diti_tensor x;
    diti_lora_term *terms;
    size_t count, capacity;
    bool dense;
} diti_lora_beside;

DIT_INTERNAL bool diti_graph_adapts(const diti_graph *graph, const diti_weight *weight) {
    size_t count = 0;
    uint32_t i;
    for (i = 0; i < graph->lora_count && !count; i++) diti_lora_find(graph->loras[i].lora, weight, &count);
    return count > 0;
}

/* The floats of int8 rows, or of some of them. */
static diti_tensor diti_lora_floats(diti_graph *graph, diti_tensor x, const char *name) {
    diti_tensor_info info = *diti_tensor_get(graph, x);
    if (diti_graph_failed(graph) || info.format != DITI_I8) return diti_op_align(graph, x, name);
    if (!info.floats)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "op %s: a LoRA wants the floats of %s", name,
                               info.name);
    return diti_op_align(graph, diti_linear_rows(graph, info.floats, (uint32_t)(info.first / info.pitch), info.rows),
                         name);
}

static diti_gemm diti_lora_gemm(const diti_lora_beside *p, diti_tensor x, const char *name) {
    diti_gemm gemm = DITI_ZERO;
    gemm.x = x;
    gemm.rows = p->gemm->rows;
    gemm.depth = diti_tensor_columns(p->graph, x);
    gemm.name = name;
    return gemm;
}

/* --- terms --- */

/* The columns of the product that a part is about; false: none. */
static bool diti_lora_overlap(const diti_lora_beside *p, const diti_adapter_part *part, uint32_t *first,
                              uint32_t *end) {
    uint32_t last = p->row + p->gemm->columns, behind = part->row + part->rows;
    *first = part->row > p->row ? part->row : p->row;
    *end = behind < last ? behind : last;
    if (*first >= *end) return false;
    *first -= p->row;
    *end -= p->row;
    return true;
}

static void diti_lora_add_term(diti_lora_beside *p, const diti_adapter_part *part, diti_tensor x, uint32_t scale) {
    diti_graph *graph = p->graph;
    diti_lora_term *term;
    diti_cut cut = DITI_ZERO;
    uint32_t first, end;
    if (!diti_lora_overlap(p, part, &first, &end)) return;
    if (!diti_grow(&graph->device->env, (void **)&p->terms, &p->capacity, p->count, sizeof *p->terms)) {
        diti_graph_fail_memory(graph, "the plan");
        return;
    }
    cut.row = p->row + first - part->row;
    cut.rows = end - first < part->rows ? end - first : 0;
    if (!part->rank) memcpy(cut.columns, p->desc->cut.columns, sizeof cut.columns);
    term = &p->terms[p->count++];
    memset(term, 0, sizeof *term);
    term->first = first;
    term->end = end;
    term->x = x;
    if (!part->rank) {
        term->gate = diti_tensor_view(graph, graph->lora_scales, 0, 1, scale + cut.row, end - first);
        p->dense = true;
    }
    term->up = diti_weight_cut(graph, &part->up, &cut);
}

/* s (x down^T), of those rows of down whose results are wanted, and what reads it. */
static void diti_lora_add_down(diti_lora_beside *p, const diti_adapter *adapter, uint32_t scale) {
    diti_graph *graph = p->graph;
    uint32_t i, first, end, low = UINT32_MAX, high = 0;
    const diti_weight *down;
    diti_cut cut = DITI_ZERO;
    diti_gemm gemm;
    for (i = 0; i < adapter->part_count; i++) {
        const diti_adapter_part *part = &adapter->parts[i];
        if (!diti_lora_overlap(p, part, &first, &end)) continue;
        if (part->first < low) low = part->first;
        if (part->first + part->rank > high) high = part->first + part->rank;
    }
    for (i = 0; i < adapter->part_count && !adapter->down.part_count; i++)
        diti_lora_add_term(p, &adapter->parts[i], p->x, scale);
    if (!adapter->down.part_count || low >= high) return;
    memcpy(cut.columns, p->desc->cut.columns, sizeof cut.columns);
    down = diti_weight_cut(graph, &adapter->down, &cut);
    gemm = diti_lora_gemm(p, p->x, "lora_down");
    gemm.gate = diti_tensor_view(graph, graph->lora_scales, 0, 1, scale + low, high - low);
    gemm.out = diti_tensor_new(graph, graph->activation, gemm.rows, high - low, "lora_down");
    if (diti_graph_failed(graph)) return;
    diti_linear_chunks(graph, &gemm, down, &p->desc->rows, low, high);
    for (i = 0; i < adapter->part_count && !diti_graph_failed(graph); i++) {
        const diti_adapter_part *part = &adapter->parts[i];
        if (diti_lora_overlap(p, part, &first, &end))
            diti_lora_add_term(p, part, diti_tensor_view(graph, gemm.out, 0, gemm.rows, part->first - low, part->rank),
                               0);
    }
}

/* --- in place --- */

static void diti_lora_add_in_place(const diti_lora_beside *p) {
    diti_graph *graph = p->graph;
    size_t i;
    diti_linear_chunks(graph, p->gemm, p->weight, &p->desc->rows, p->desc->first, p->desc->first + p->gemm->columns);
    for (i = 0; i < p->count && !diti_graph_failed(graph); i++) {
        const diti_lora_term *term = &p->terms[i];
        uint32_t columns = term->end - term->first;
        diti_gemm gemm = diti_lora_gemm(p, term->x, "lora_up");
        gemm.multiply = diti_linear_columns(graph, p->gemm->multiply, term->first, columns);
        gemm.gate = diti_linear_columns(graph, p->gemm->gate, term->first, columns);
        gemm.rows_per_gate = p->gemm->rows_per_gate;
        gemm.out = gemm.residual = diti_linear_columns(graph, p->gemm->out, term->first, columns);
        diti_linear_chunks(graph, &gemm, term->up, &p->desc->rows, 0, columns);
    }
}

/* --- by a sum in F32 before the epilogue --- */

/* Some columns of the product, with its epilogue. */
static diti_gemm diti_lora_columns(const diti_lora_beside *p, uint32_t first, uint32_t count) {
    diti_gemm gemm = *p->gemm;
    gemm.columns = count;
    gemm.bias = diti_linear_columns(p->graph, gemm.bias, first, count);
    gemm.multiply = diti_linear_columns(p->graph, gemm.multiply, first, count);
    gemm.gate = diti_linear_columns(p->graph, gemm.gate, first, count);
    gemm.residual = diti_linear_columns(p->graph, gemm.residual, first, count);
    gemm.out = diti_linear_columns(p->graph, gemm.out, first, count);
    return gemm;
}

/* The sums' rows: for each item the parts, one behind the other, as shaders/gemm_gpu.comp adds them. */
typedef struct diti_lora_sums {
    diti_tensor tensor;
    uint32_t items, rows, pitch, parts; /* pitch: rows from part to part */
} diti_lora_sums;

static diti_lora_sums diti_lora_sums_of(const diti_lora_beside *p, uint32_t parts) {
    const diti_rows *which = &p->desc->rows;
    diti_lora_sums sums;
    sums.tensor = 0;
    sums.items = which->of ? p->gemm->rows / which->of : 1;
    sums.rows = which->of ? which->count : p->gemm->rows;
    sums.pitch = (uint32_t)diti_align_up(sums.rows, 16);
    sums.parts = parts;
    return sums;
}

static void diti_lora_sums_put(const diti_lora_beside *p, const diti_lora_sums *sums, uint32_t part, diti_gemm *gemm) {
    uint32_t first = part * sums->pitch, all = sums->items * sums->parts * sums->pitch;
    gemm->out_step = sums->parts * sums->pitch;
    gemm->out = diti_linear_rows(p->graph, sums->tensor, first, p->desc->rows.of ? all - first : sums->rows);
}

static void diti_lora_sums_add(const diti_lora_beside *p, const diti_lora_sums *sums, const diti_gemm *all) {
    const diti_rows *which = &p->desc->rows;
    diti_graph *graph = p->graph;
    uint32_t item;
    for (item = 0; item < sums->items && !diti_graph_failed(graph); item++) {
        uint32_t row = which->of ? item * which->of + which->first : 0, share = all->rows_per_gate;
        diti_gemm gemm = *all;
        gemm.x = diti_linear_rows(graph, sums->tensor, item * sums->parts * sums->pitch, sums->parts * sums->pitch);
        gemm.weight = 0;
        gemm.rows = sums->rows;
        gemm.depth = gemm.parts = sums->parts;
        gemm.multiply = diti_linear_rows(graph, all->multiply, row, sums->rows);
        gemm.residual = diti_linear_rows(graph, all->residual, row, sums->rows);
        gemm.out = diti_linear_rows(graph, all->out, row, sums->rows);
        if (share && which->of) gemm.gate = diti_linear_rows(graph, all->gate, row / share, 1);
        if (which->of) gemm.rows_per_gate = 0;
        diti_op_gemm_whole(graph, &gemm);
    }
}

static bool diti_lora_covers(const diti_lora_term *term, uint32_t first) {
    return term->first <= first && first < term->end;
}

/* Columns [first, first + count), which the same terms cover. */
static void diti_lora_sum(const diti_lora_beside *p, uint32_t first, uint32_t count, diti_lora_sums sums) {
    diti_graph *graph = p->graph;
    diti_gemm all = diti_lora_columns(p, first, count), gemm = diti_lora_gemm(p, p->gemm->x, p->gemm->name);
    uint32_t part = 1, begin = p->desc->first + first;
    size_t i;
    sums.tensor = diti_op_partials(graph, sums.items * sums.parts * sums.pitch, count);
    gemm.columns = count;
    gemm.depth = p->gemm->depth;
    gemm.blocks = p->gemm->blocks;
    diti_lora_sums_put(p, &sums, 0, &gemm);
    if (diti_graph_failed(graph)) return;
    diti_linear_chunks(graph, &gemm, p->weight, &p->desc->rows, begin, begin + count);
    for (i = 0; i < p->count && !diti_graph_failed(graph); i++) {
        const diti_lora_term *term = &p->terms[i];
        if (!diti_lora_covers(term, first)) continue;
        gemm = diti_lora_gemm(p, term->x, "lora_up");
        gemm.gate = term->gate ? diti_linear_columns(graph, term->gate, first - term->first, count) : 0;
        diti_lora_sums_put(p, &sums, part++, &gemm);
        diti_linear_chunks(graph, &gemm, term->up, &p->desc->rows, first - term->first, first - term->first + count);
    }
    diti_lora_sums_add(p, &sums, &all);
}

/* How many columns from first on are covered by the same terms, and by how many. */
static uint32_t diti_lora_run(const diti_lora_beside *p, uint32_t first, uint32_t *terms) {
    uint32_t end = p->gemm->columns;
    size_t i;
    *terms = 0;
    for (i = 0; i < p->count; i++) {
        const diti_lora_term *term = &p->terms[i];
        *terms += diti_lora_covers(term, first);
        if (term->first > first && term->first < end) end = term->first;
        if (term->end > first && term->end < end) end = term->end;
    }
    return end - first;
}

static void diti_lora_add_before(const diti_lora_beside *p) {
    diti_graph *graph = p->graph;
    uint32_t first, count, terms;
    for (first = 0; first < p->gemm->columns && !diti_graph_failed(graph); first += count) {
        diti_lora_sums sums;
        uint64_t most;
        count = diti_lora_run(p, first, &terms);
        sums = diti_lora_sums_of(p, 1 + terms);
        if (!terms) {
            diti_gemm gemm = diti_lora_columns(p, first, count);
            uint32_t begin = p->desc->first + first;
            diti_linear_chunks(graph, &gemm, p->weight, &p->desc->rows, begin, begin + count);
            continue;
        }
        most = DITI_LORA_BYTES / sizeof(float) / ((uint64_t)sums.items * sums.parts * sums.pitch) / 64 * 64;
        if (most < 64) most = 64;
        if (count > most) count = (uint32_t)most;
        diti_lora_sum(p, first, count, sums);
    }
}

/* --- vectors: biases, weights of norms, tables --- */

/* vector + values, of which there may be fewer, as one row. */
static diti_tensor diti_lora_add_values(diti_graph *graph, diti_tensor vector, diti_tensor values) {
    uint32_t count = diti_tensor_columns(graph, values), all = diti_tensor_columns(graph, vector);
    diti_tensor out = diti_tensor_new(graph, DITI_F32, 1, all, "lora_vector");
    diti_elementwise_desc desc = DITI_ZERO;
    if (diti_graph_failed(graph)) return 0;
    desc.add = values;
    desc.out = diti_linear_columns(graph, out, 0, count);
    desc.name = "lora_vector";
    diti_elementwise(graph, diti_linear_columns(graph, vector, 0, count), &desc);
    if (count < all)
        diti_copy(graph, diti_linear_columns(graph, vector, count, all - count),
                  diti_linear_columns(graph, out, count, all - count), "lora_vector");
    return out;
}

DIT_INTERNAL diti_tensor diti_lora_vector(diti_graph *graph, const diti_weight *weight, diti_tensor vector) {
    uint32_t i, rows = weight->rows, columns = weight->columns;
    for (i = 0; i < graph->lora_count && !diti_graph_failed(graph); i++) {
        const diti_lora_use *use = &graph->loras[i];
        size_t count = 0;
        const diti_adapter *adapter = diti_lora_find(use->lora, weight, &count);
        if (!count || !adapter->values) continue;
        vector = diti_tensor_reshape(graph, vector, 1, rows * columns);
        vector = diti_lora_add_values(
            graph, vector,
            diti_tensor_view(graph, graph->lora_scales, 0, 1, use->column + adapter->scale, adapter->values));
        vector = diti_tensor_reshape(graph, vector, rows, columns);
    }
    return vector;
}

DIT_INTERNAL void diti_lora_linear(diti_graph *graph, const diti_gemm *gemm, const diti_weight *weight,
                                   const diti_weight *whole, const diti_linear_desc *desc) {
    diti_lora_beside p = DITI_ZERO;
    diti_gemm all = *gemm;
    uint32_t i;
    all.columns = desc->count ? desc->count : weight->rows;
    p.graph = graph;
    p.gemm = &all;
    p.weight = weight;
    p.desc = desc;
    p.row = desc->cut.row + desc->first;
    p.x = diti_lora_floats(graph, gemm->x, gemm->name);
    for (i = 0; i < graph->lora_count; i++) {
        const diti_lora_use *use = &graph->loras[i];
        size_t count = 0, k;
        const diti_adapter *adapters = diti_lora_find(use->lora, whole, &count);
        for (k = 0; k < count && !diti_graph_failed(graph); k++)
            diti_lora_add_down(&p, &adapters[k], use->column + adapters[k].scale);
    }
    if (!diti_graph_failed(graph) && !p.dense && !all.activation && diti_tensor_get(graph, all.out)->format == DITI_F32)
        diti_lora_add_in_place(&p);
    else if (!diti_graph_failed(graph))
        diti_lora_add_before(&p);
    diti_free(&graph->device->env, p.terms);
}
