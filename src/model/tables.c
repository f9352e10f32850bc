/* Blocks that modulate by a table of their own plus what the timestep says of all blocks: PixArt's, and what Open-Sora
   and Latte made of it (docs/models.md 3.2, 3.6, 3.7). */
#include "model/model.h"

/* Queries of the cross attention read the residual stream itself; keys and values are projected with the text. */
DIT_INTERNAL void diti_table_block_pair(diti_table_block *block, uint32_t width, uint32_t head_dim, float eps) {
    diti_make_attention(&block->attention, DITI_STREAMS_ONE, &block->qkv, &block->out, width, head_dim);
    block->attention.eps = eps;
    if (block->text_out.weight.part_count)
        diti_make_text_attention(&block->cross, &block->attention, &block->text_q, &block->text_out, width, head_dim);
    if (!block->ff_out.weight.part_count) return;
    diti_make_feed(&block->feed, DITI_STREAMS_ONE, &block->ff_in, &block->ff_out);
    block->feed.eps = eps;
}

DIT_INTERNAL void diti_table_block_load(diti_loader *loader, diti_table_block *block, uint32_t width, uint32_t head_dim,
                                        float eps, bool text) {
    static const diti_fused qkv = {"attn1.qkv", {"attn1.to_q", "attn1.to_k", "attn1.to_v"}, 3};
    static const diti_fused kv = {"attn2.kv", {"attn2.to_k", "attn2.to_v", NULL}, 2};
    diti_load_fused(loader, &block->qkv, &qkv, width, width);
    diti_load_layer(loader, &block->out, width, width, 1, "attn1.to_out.0");
    if (text) {
        diti_load_layer(loader, &block->text_q, width, width, 1, "attn2.to_q");
        diti_load_fused(loader, &block->text_kv, &kv, width, width);
        diti_load_layer(loader, &block->text_out, width, width, 1, "attn2.to_out.0");
    }
    diti_load_layer(loader, &block->ff_in, 4 * width, width, 1, "ff.net.0.proj");
    diti_load_layer(loader, &block->ff_out, width, 4 * width, 1, "ff.net.2");
    diti_table_block_pair(block, width, head_dim, eps);
}

DIT_INTERNAL diti_tensor diti_table_rows(const diti_pass *p, diti_tensor time, const diti_layer *layer,
                                         const diti_weight *final_table) {
    diti_graph *graph = p->graph;
    uint32_t i, steps = diti_tensor_rows(graph, time), width = p->width;
    diti_tensor all = diti_tensor_new(graph, DITI_F32, steps, 8 * width, "modulation");
    diti_tensor active = diti_silu(graph, time, "modulation_silu"), final_rows;
    final_rows = diti_tensor_weight(graph, final_table, 0);
    diti_layer_spread(graph, diti_pass_tensor(p), active, layer, diti_tensor_view(graph, all, 0, steps, 0, 6 * width),
                      "modulation");
    for (i = 0; i < 2; i++) { /* from the embedding itself, neither activated nor projected */
        diti_add_rows(graph, time, diti_tensor_view(graph, final_rows, i, 1, 0, width),
                      diti_tensor_view(graph, all, 0, steps, (6 + i) * width, width), "final_modulation");
    }
    return all;
}

DIT_INTERNAL diti_tensor diti_table_text(const diti_pass *p, const diti_layer *in, const diti_layer *out) {
    diti_tensor y = diti_layer_run(p->graph, p->step->text, in, DITI_ACTIVATION_GELU_TANH, "caption_in");
    return diti_layer_run(p->graph, y, out, DITI_ACTIVATION_NONE, "caption_out");
}

DIT_INTERNAL void diti_table_modulate(diti_pass *p, const diti_weight *table, diti_tensor rows, uint32_t first) {
    uint32_t columns = table->rows * p->width, groups = diti_tensor_rows(p->graph, rows);
    diti_tensor own = diti_tensor_reshape(p->graph, diti_tensor_weight(p->graph, table, 0), 1, columns);
    p->modulation.rows = diti_add_rows(p->graph, diti_tensor_view(p->graph, rows, 0, groups, first * p->width, columns),
                                       own, 0, "block_modulation");
}

DIT_INTERNAL void diti_table_finish(const diti_pass *p, diti_tensor x, const diti_table_block *w, diti_tensor text) {
    if (w->cross.columns) {
        diti_tensor h = diti_sublayer_in(p, x, &w->cross, 0);
        if (w->cross.heads) w->cross.heads(p, h, 0);
        diti_sublayer_add(p, x, DITI_NO_GATE, &w->cross, diti_attend_text(p, &w->cross, h, text));
    }
    diti_sublayer_feed(p, x, DITI_SHIFT_MLP, DITI_SCALE_MLP, DITI_GATE_MLP, &w->feed);
}
