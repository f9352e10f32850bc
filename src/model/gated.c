/* Blocks of one stream with a gated feed-forward, of transformers that language models' blocks became: norms of queries
   and keys, RMS norms in front of both sublayers and perhaps behind them (docs/models.md 3.12, 3.17, 3.22, 3.26). */
#include "model/model.h"

static void diti_gated_block_load(diti_loader *loader, diti_gated_block *block, const diti_gated_names *names,
                                  const diti_gated_kind *kind) {
    uint32_t width = kind->width, feed = kind->feed, i;
    if (names->modulation) diti_load_layer(loader, &block->modulation, 4 * width, kind->time, 1, names->modulation);
    if (names->qkv.fused)
        diti_load_fused_bare(loader, &block->qkv, &names->qkv, width, width);
    else
        diti_load_fused_linear(loader, &block->qkv, names->qkv.names, names->qkv.count, width, width, false);
    diti_load_vectors(loader, &block->norms, names->norms, 2, kind->head_dim);
    diti_load_bare(loader, &block->out, width, width, names->out);
    diti_load_bare(loader, &block->ff_gate, feed, width, names->gate);
    diti_load_bare(loader, &block->ff_in, feed, width, names->in);
    diti_load_bare(loader, &block->ff_out, width, feed, names->down);
    for (i = 0; i < 2; i++) {
        if (names->before[i]) diti_load_vector(loader, &block->before[i].weight, 1, width, names->before[i]);
        if (names->behind[i]) diti_load_vector(loader, &block->behind[i].weight, 1, width, names->behind[i]);
    }
}

static void diti_gated_block_pair(diti_gated_block *block, const diti_gated_kind *kind, diti_streams streams) {
    diti_make_attention(&block->attention, streams, &block->qkv, &block->out, kind->width, kind->head_dim);
    block->attention.norms = &block->norms;
    diti_make_feed(&block->feed, streams, &block->ff_in, &block->ff_out);
    block->feed.gate = &block->ff_gate;
    block->feed.activation = kind->activation != DITI_ACTIVATION_NONE ? kind->activation : DITI_ACTIVATION_SILU;
    if (!block->before[0].weight.rows) return;
    block->attention.rms = block->feed.rms = true;
    block->attention.eps = block->feed.eps = kind->eps;
    block->attention.norm = &block->before[0];
    block->feed.norm = &block->before[1];
}

DIT_INTERNAL void diti_gated_blocks_load(diti_loader *loader, diti_gated_block *blocks, uint32_t count,
                                         const char *list, const diti_gated_names *names, const diti_gated_kind *kind,
                                         diti_streams streams) {
    uint32_t i;
    for (i = 0; i < count; i++) {
        diti_loader_scope(loader, "%s%u.", list, (unsigned)i);
        diti_gated_block_load(loader, &blocks[i], names, kind);
        diti_gated_block_pair(&blocks[i], kind, streams);
    }
    diti_loader_scope_end(loader);
}

DIT_INTERNAL diti_tensor diti_gated_prepare(const diti_pass *p, diti_adaln *adaln, const diti_gated_block *blocks,
                                            diti_tensor active, const diti_layer *last) {
    uint32_t i, end;
    diti_axes_blocks(p->step->axes, p->model->traits.layers, &i, &end);
    for (adaln->first = i; i < end; i++) diti_adaln_add(adaln, &blocks[i].modulation);
    diti_adaln_prepare_active(p, adaln, active, 1);
    return diti_layer_f32(p->graph, diti_silu(p->graph, active, "final_silu"), last, DITI_ACTIVATION_NONE, 0,
                          "final_modulation");
}

/* Rows of a modulation, F32 [1, 4D]. */
enum { DITI_GATED_SCALE_MSA, DITI_GATED_GATE_MSA, DITI_GATED_SCALE_MLP, DITI_GATED_GATE_MLP };

/* x += tanh(gate) * RMS(sublayer(h)) * weight. */
static void diti_gated_add(const diti_pass *p, diti_tensor x, const diti_sublayer *sublayer, diti_tensor h,
                           const diti_layer *behind, diti_tensor gates, uint32_t gate) {
    diti_sublayer_add_normed(p, x, sublayer, h, &behind->weight,
                             diti_tensor_view(p->graph, gates, 0, 1, gate * p->width, p->width));
}

DIT_INTERNAL void diti_gated_block_run(diti_pass *p, const diti_gated_block *w, const diti_adaln *adaln,
                                       diti_tensor x) {
    diti_tensor gates, h;
    p->modulation.rows = diti_adaln_get(p->graph, adaln, p->index);
    gates = diti_adaln_gates(p, adaln);
    h = diti_modulate(p, x, DITI_NO_GATE, (diti_modulator)DITI_GATED_SCALE_MSA, &w->attention);
    h = diti_sublayer_attend(p, h, &w->attention, 0);
    diti_gated_add(p, x, &w->attention, h, &w->behind[0], gates, DITI_GATED_GATE_MSA);
    h = diti_modulate(p, x, DITI_NO_GATE, (diti_modulator)DITI_GATED_SCALE_MLP, &w->feed);
    h = diti_sublayer_in(p, h, &w->feed, 0);
    diti_gated_add(p, x, &w->feed, h, &w->behind[1], gates, DITI_GATED_GATE_MLP);
}

DIT_INTERNAL diti_tensor diti_gated_final(diti_pass *p, diti_tensor x, diti_tensor scales, const diti_sublayer *last) {
    diti_elementwise_desc opposite = DITI_ZERO;
    p->modulation.rows = diti_select_row(p->graph, scales, p->step->row, "final_scale");
    opposite.scale = -1;
    opposite.out_f32 = true;
    opposite.name = "opposite";
    return diti_elementwise(p->graph, diti_output(p, diti_modulate(p, x, DITI_NO_GATE, (diti_modulator)0, last), last),
                            &opposite);
}
