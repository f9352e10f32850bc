/* Modulation that depends on the timestep alone: one layer for all blocks, whose rows are computed for all steps where
   they fit. */
#include "model/model.h"

DIT_INTERNAL void diti_adaln_add(diti_adaln *adaln, const diti_layer *layer) {
    adaln->layers[adaln->count++] = layer;
    adaln->columns += layer->weight.rows;
}

static diti_tensor diti_adaln_table(diti_graph *graph, const diti_adaln *adaln, diti_tensor active, uint32_t steps) {
    uint64_t bytes = (uint64_t)steps * adaln->items * adaln->columns * sizeof(float);
    uint32_t i, column = 0, rows = steps * adaln->items;
    diti_tensor table;
    if (bytes > DITI_MODULATION_BYTES || bytes > graph->device->limits.storage_range) return 0;
    table = diti_tensor_new(graph, DITI_F32, rows, adaln->columns, "modulation");
    for (i = 0; i < adaln->count && !diti_graph_failed(graph); i++) {
        uint32_t columns = adaln->layers[i]->weight.rows;
        diti_graph_scope(graph, "block", i);
        diti_layer_spread(graph, adaln->group, active, adaln->layers[i],
                          diti_tensor_view(graph, table, 0, rows, column, columns), "modulation");
        column += columns;
    }
    diti_graph_scope(graph, NULL, 0);
    return diti_tensor_reshape(graph, table, steps, adaln->items * adaln->columns);
}

DIT_INTERNAL void diti_adaln_prepare_active(const diti_pass *p, diti_adaln *adaln, diti_tensor active, uint32_t items) {
    diti_tensor_info info;
    if (diti_graph_failed(p->graph)) return;
    info = *diti_tensor_get(p->graph, active);
    adaln->items = items;
    adaln->group = diti_pass_tensor(p);
    adaln->active = diti_tensor_reshape(p->graph, active, info.rows / items, items * info.columns);
    adaln->table = diti_adaln_table(p->graph, adaln, active, info.rows / items);
}

DIT_INTERNAL void diti_adaln_prepare(const diti_pass *p, diti_adaln *adaln, diti_tensor c) {
    diti_adaln_prepare_active(p, adaln, diti_silu(p->graph, c, "modulation_silu"), p->step->text_batch);
}

DIT_INTERNAL void diti_adaln_select(const diti_pass *p, diti_adaln *adaln) {
    diti_graph *graph = p->graph;
    diti_tensor table = adaln->table ? adaln->table : adaln->active, row;
    uint32_t columns;
    if (p->step->same_timestep) return;
    row = diti_select_modulation(p, table);
    columns = diti_graph_failed(graph) ? 0 : diti_tensor_get(graph, row)->columns / adaln->items;
    adaln->row = diti_tensor_reshape(graph, row, adaln->items, columns);
}

/* The first column of the layer that is number `index` here. */
static uint32_t diti_adaln_column(const diti_adaln *adaln, uint32_t index) {
    uint32_t i, column = 0;
    for (i = 0; i < index; i++) column += adaln->layers[i]->weight.rows;
    return column;
}

DIT_INTERNAL diti_tensor diti_adaln_get(diti_graph *graph, const diti_adaln *adaln, uint32_t index) {
    index -= adaln->first;
    if (!adaln->table) return diti_layer_spread(graph, adaln->group, adaln->row, adaln->layers[index], 0, "modulation");
    return diti_tensor_view(graph, adaln->row, 0, adaln->items, diti_adaln_column(adaln, index),
                            adaln->layers[index]->weight.rows);
}

/* tanh(x) = 3 tanh(3 x / 3) / 3. */
DIT_INTERNAL diti_tensor diti_adaln_tanh(diti_graph *graph, diti_tensor x) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.activation = DITI_ACTIVATION_SQUASH;
    desc.scale = 3;
    desc.out_f32 = true;
    desc.name = "gates";
    x = diti_elementwise(graph, x, &desc);
    desc.activation = DITI_ACTIVATION_NONE;
    desc.scale = 1.0f / 3;
    return diti_elementwise(graph, x, &desc);
}

DIT_INTERNAL void diti_adaln_select_gates(const diti_pass *p, diti_adaln *adaln) {
    if (p->step->same_timestep) return;
    diti_adaln_select(p, adaln);
    adaln->gates = adaln->table ? diti_adaln_tanh(p->graph, adaln->row) : 0;
}

DIT_INTERNAL diti_tensor diti_adaln_gates(const diti_pass *p, const diti_adaln *adaln) {
    uint32_t index = p->index - adaln->first;
    if (!adaln->gates) return diti_adaln_tanh(p->graph, p->modulation.rows);
    return diti_tensor_view(p->graph, adaln->gates, 0, 1, diti_adaln_column(adaln, index),
                            adaln->layers[index]->weight.rows);
}

DIT_INTERNAL diti_tensor diti_adaln_last(diti_graph *graph, const diti_adaln *adaln) {
    return diti_adaln_get(graph, adaln, adaln->first + adaln->count - 1);
}

DIT_INTERNAL dit_result diti_adaln_write(diti_plan *plan, diti_tensor input, const diti_step_desc *step,
                                         const float *timesteps, uint32_t shift, dit_error *err) {
    const diti_env *env = &plan->device->env;
    uint32_t i, count = step->steps * step->text_batch;
    float *repeated = (float *)diti_alloc_array(env, count, sizeof *repeated);
    dit_result result;
    if (!repeated) return diti_fail_memory(err, "the timesteps");
    for (i = 0; i < count; i++) repeated[i] = timesteps[i / step->text_batch];
    result = diti_write_sinusoids(plan, input, repeated, count, shift, err);
    diti_free(env, repeated);
    return result;
}
