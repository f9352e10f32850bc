/* Transformers with joint attention (docs/models.md 3.3, 3.4, 3.11): text and image have weights of their own, and a
   vector of timestep and pooled text modulates both. */
#include "model/model.h"

/* ---- loading ---- */

DIT_INTERNAL void diti_load_shift_scale(diti_loader *loader, diti_fused_linear *out, uint32_t width, const char *name,
                                        bool swapped, bool bias) {
    uint32_t i, own = swapped ? DITI_NAMES_DIFFUSERS : DITI_NAMES_ORIGINAL;
    memset(out, 0, sizeof *out);
    out->count = 2;
    for (i = 0; i < 2; i++) {
        uint32_t half = swapped ? 1 - i : i;
        loader->names = own;
        if (bias)
            diti_load_layer_rows(loader, &out->layers[i], half * width, width, 2 * width, width, name);
        else
            diti_load_bare_rows(loader, &out->layers[i], half * width, width, 2 * width, width, name);
        loader->names = 0;
        diti_loader_alias(loader, &out->layers[i].weight, 0, width, name, (1 - half) * width, 2 * width,
                          DITI_NAMES_ALL - own);
    }
}

DIT_INTERNAL diti_tensor diti_shift_scale(diti_graph *graph, diti_tensor x, const diti_fused_linear *layer) {
    diti_linear_desc desc = DITI_ZERO;
    desc.out_f32 = true;
    desc.name = "final_modulation";
    return diti_linear_fused(graph, x, layer, &desc);
}

DIT_INTERNAL void diti_load_fused_pair(diti_loader *loader, diti_fused_linear_pair *out,
                                       const diti_fused names[DITI_JOINT_STREAMS], uint32_t rows, uint32_t columns) {
    uint32_t i;
    memset(out, 0, sizeof *out);
    for (i = 0; i < DITI_JOINT_STREAMS; i++) diti_load_fused(loader, &out->streams[i], &names[i], rows, columns);
}

DIT_INTERNAL void diti_load_pair(diti_loader *loader, diti_pair *out, uint32_t rows, uint32_t columns, const char *text,
                                 const char *image) {
    memset(out, 0, sizeof *out);
    if (text) diti_load_layer(loader, &out->streams[DITI_JOINT_TEXT], rows, columns, 1, text);
    diti_load_layer(loader, &out->streams[DITI_JOINT_IMAGE], rows, columns, 1, image);
}

/* ---- modulation ---- */

DIT_INTERNAL diti_tensor diti_joint_condition(diti_graph *graph, diti_tensor time, diti_tensor pooled,
                                              uint32_t prompts) {
    uint32_t i, steps, width;
    diti_tensor all;
    if (diti_graph_failed(graph)) return 0;
    steps = diti_tensor_get(graph, time)->rows;
    width = diti_tensor_get(graph, time)->columns;
    all = diti_tensor_new(graph, DITI_F32, steps, prompts * width, "conditioning");
    for (i = 0; i < prompts; i++) {
        diti_add_rows(graph, time, pooled ? diti_tensor_view(graph, pooled, i, 1, 0, width) : 0,
                      diti_tensor_view(graph, all, 0, steps, i * width, width), "conditioning");
    }
    return diti_silu(graph, all, "conditioning_silu");
}

DIT_INTERNAL diti_tensor diti_joint_modulate(const diti_pass *p, diti_tensor active,
                                             const diti_fused_linear_pair *layers, uint32_t chunks) {
    diti_graph *graph = p->graph;
    uint32_t i, rows, columns;
    diti_tensor all;
    if (diti_graph_failed(graph)) return 0;
    rows = diti_tensor_get(graph, active)->rows;
    columns = chunks * p->width;
    all = diti_tensor_new(graph, DITI_F32, rows, 2 * columns, "block_modulation");
    for (i = 0; i < DITI_JOINT_STREAMS; i++) {
        const diti_fused_linear *fused = &layers->streams[i];
        uint32_t j, column = i * columns;
        for (j = 0; j < fused->count; j++) {
            uint32_t width = fused->layers[j].weight.rows;
            diti_layer_spread(graph, diti_pass_tensor(p), active, &fused->layers[j],
                              diti_tensor_view(graph, all, 0, rows, column, width), "block_modulation");
            column += width;
        }
    }
    return all;
}

/* This step's rows of a table [steps, prompts * columns]: those of the prompts that the pass evaluates. */
static diti_tensor diti_joint_select(const diti_pass *p, bool shared, diti_tensor table, const char *name) {
    uint32_t prompts = p->step->text_batch, columns;
    diti_tensor row = diti_select_row(p->graph, table, p->step->row, name);
    if (diti_graph_failed(p->graph) || shared) return row;
    columns = diti_tensor_get(p->graph, table)->columns / prompts;
    row = diti_tensor_reshape(p->graph, row, prompts, columns);
    return diti_tensor_view(p->graph, row, prompts - p->prompts, p->prompts, 0, columns);
}

DIT_INTERNAL void diti_joint_prepare(const diti_pass *p, diti_joint_modulation *state, uint64_t columns,
                                     diti_joint_make *make) {
    uint32_t steps = p->step->steps, prompts = state->shared ? 1 : p->step->text_batch, rows = steps * prompts;
    uint32_t i, end, layers = p->model->traits.layers;
    uint32_t width = diti_tensor_columns(p->graph, state->active) / prompts;
    diti_tensor active = diti_tensor_reshape(p->graph, state->active, rows, width), table;
    state->kept = rows * columns * sizeof(float) <= DITI_MODULATION_BYTES;
    if (!state->kept) return;
    for (diti_axes_blocks(p->step->axes, layers, &i, &end); i <= end; i++) {
        uint32_t index = i < end ? i : layers;
        if (index == layers && p->model->outlets) break; /* a control net has no last norm */
        diti_graph_scope(p->graph, index < layers ? "block" : NULL, index);
        table = make(p, active, index);
        columns = diti_graph_failed(p->graph) ? 0 : diti_tensor_get(p->graph, table)->columns;
        state->all[index] = diti_tensor_reshape(p->graph, table, steps, prompts * (uint32_t)columns);
    }
}

DIT_INTERNAL void diti_joint_begin(const diti_pass *p, diti_joint_modulation *state) {
    uint32_t i, end;
    if (p->step->same_timestep) return;
    if (!state->kept) state->step_active = diti_joint_select(p, state->shared, state->active, "select_conditioning");
    for (diti_axes_blocks(p->step->axes, p->model->traits.layers, &i, &end); i < end && state->kept; i++)
        state->step[i] = diti_joint_select(p, state->shared, state->all[i], "select_modulation");
}

DIT_INTERNAL diti_tensor diti_joint_modulation_rows(const diti_pass *p, const diti_joint_modulation *state,
                                                    uint32_t index, diti_joint_make *make) {
    if (!state->kept) return make(p, state->step_active, index);
    if (index == p->model->traits.layers)
        return diti_joint_select(p, state->shared, state->all[index], "select_modulation");
    return state->step[index];
}

/* ---- texts of unequal length ---- */

/* Devices and patches that divide rows attend all of them: texts fill their places (diti_job_unsplit). */
static bool diti_text_order_divided(const diti_step_desc *step) {
    return step->axes && (diti_ranks_count(&step->axes->sequence) > 1 || diti_ranks_count(&step->axes->pipefusion) > 1);
}

DIT_INTERNAL uint32_t diti_text_order_length(const diti_step_desc *step, uint32_t prompt, uint32_t unit) {
    uint32_t length = step->text_lengths ? step->text_lengths[prompt] : step->text_tokens;
    length = (length + unit - 1) / unit * unit;
    return length < step->text_tokens ? length : step->text_tokens;
}

DIT_INTERNAL void diti_text_order_prepare(const diti_pass *p, diti_text_order *out) {
    const diti_step_desc *step = p->step;
    uint32_t prompts = step->text_batch;
    out->items = diti_tensor_input(p->graph, DITI_U32, prompts, DITI_ITEM_WORDS, "text_items");
    out->order = diti_tensor_input(p->graph, DITI_U32, 1, prompts * step->text_tokens, "text_order");
    if ((prompts > 1 || step->axes ||
         diti_text_order_length(step, 0, p->model->traits.text_unit) < step->text_tokens) &&
        !diti_text_order_divided(step)) /* the other prompt may be elsewhere */
        out->keys = diti_tensor_input(p->graph, DITI_U32, step->branches * step->batch, DITI_ITEM_WORDS, "keys");
}

DIT_INTERNAL diti_tensor diti_text_order_rows(const diti_pass *p, const diti_text_order *order, diti_tensor table) {
    return diti_gather_tensor(p->graph, table, order->order, "text_order");
}

DIT_INTERNAL diti_tensor diti_text_order_embed(const diti_pass *p, const diti_text_order *order,
                                               const diti_layer *layer, uint32_t columns) {
    uint32_t texts = diti_tensor_rows(p->graph, p->step->text);
    diti_tensor all = diti_tensor_new(p->graph, DITI_F32, texts + 1, p->width, "context");
    diti_fill_zeros(p->graph, diti_tensor_view(p->graph, all, texts, 1, 0, p->width));
    diti_layer_f32(p->graph, diti_text_columns(p, columns), layer, DITI_ACTIVATION_NONE,
                   diti_tensor_view(p->graph, all, 0, texts, 0, p->width), "context");
    return diti_text_order_rows(p, order, all);
}

DIT_INTERNAL diti_tensor diti_text_order_keys(const diti_pass *p, const diti_text_order *order) {
    if (!order->keys || p->step->kept_kv) return 0;
    return diti_tensor_view(p->graph, order->keys, p->step->first_branch * p->step->batch, p->items, 0,
                            DITI_ITEM_WORDS);
}

DIT_INTERNAL diti_tensor diti_text_order_table(const diti_pass *p, diti_tensor table, uint32_t stream, uint32_t items) {
    uint32_t prompts = p->step->text_batch, columns = diti_tensor_columns(p->graph, table), i;
    uint32_t rows = diti_tensor_rows(p->graph, table) / prompts, skip = stream ? p->text : 0;
    uint32_t own = p->text + p->image - skip;
    diti_tensor all = 0;
    if (items) all = diti_tensor_new(p->graph, DITI_F32, items * own, columns, "rotation");
    for (i = 0; i < (items ? items : 1) && !diti_graph_failed(p->graph); i++) {
        uint32_t prompt = items ? prompts - p->prompts + i / (items / p->prompts) : 0;
        diti_tensor here =
            diti_token_range_table(p, diti_tensor_view(p->graph, table, prompt * rows, rows, 0, columns), "rotation");
        here = diti_tensor_view(p->graph, here, skip, own, 0, columns);
        if (!items) return here;
        diti_copy(p->graph, here, diti_tensor_view(p->graph, all, i * own, own, 0, columns), "rotation");
    }
    return all;
}

DIT_INTERNAL void diti_rotation_begin_order(const diti_pass *p, diti_rotation *rotation, uint32_t stream) {
    rotation->table_items = p->step->text_batch > 1 ? p->items : 0;
    rotation->here_cosines = diti_text_order_table(p, rotation->cosines, stream, rotation->table_items);
    rotation->here_sines = diti_text_order_table(p, rotation->sines, stream, rotation->table_items);
}

DIT_INTERNAL void diti_rotation_begin_both(const diti_pass *p, diti_rotation rotations[DITI_JOINT_STREAMS]) {
    rotations[DITI_JOINT_IMAGE] = rotations[DITI_JOINT_TEXT];
    diti_rotation_begin_order(p, &rotations[DITI_JOINT_TEXT], DITI_JOINT_TEXT);
    diti_rotation_begin_order(p, &rotations[DITI_JOINT_IMAGE], DITI_JOINT_IMAGE);
}

DIT_INTERNAL diti_tensor diti_rotation_rows_of(const diti_pass *p, diti_tensor table, uint32_t prompts, uint32_t first,
                                               uint32_t count) {
    uint32_t i, columns = diti_tensor_columns(p->graph, table);
    uint32_t rows = diti_tensor_rows(p->graph, table) / p->step->text_batch;
    diti_tensor all;
    if (prompts == 1) return diti_tensor_view(p->graph, table, first, count, 0, columns);
    all = diti_tensor_new(p->graph, DITI_F32, prompts * count, columns, "angles");
    for (i = 0; i < prompts && !diti_graph_failed(p->graph); i++)
        diti_copy(p->graph, diti_tensor_view(p->graph, table, i * rows + first, count, 0, columns),
                  diti_tensor_view(p->graph, all, i * count, count, 0, columns), "angles");
    return all;
}

/* Row k of a place: a row of the text, or, behind its last one and in front of it, the filler. */
static uint32_t diti_text_order_row(const diti_step_desc *step, uint32_t prompt, uint32_t k, uint32_t unit,
                                    uint32_t filler) {
    uint32_t texts = step->text_tokens, pad = texts - diti_text_order_length(step, prompt, unit);
    uint32_t length = step->text_lengths ? step->text_lengths[prompt] : texts;
    uint32_t first = step->text_firsts ? step->text_firsts[prompt] : prompt * texts;
    if (k < pad) return filler;
    return k - pad < length ? first + k - pad : filler;
}

DIT_INTERNAL dit_result diti_text_order_write(diti_plan *plan, const diti_step_desc *step, const diti_text_order *order,
                                              const diti_env *env, uint32_t unit, uint32_t image, dit_error *err) {
    uint32_t prompts = step->text_batch, texts = step->text_tokens, items = step->branches * step->batch;
    uint32_t filler = plan->tensors[step->text].rows, i, k;
    size_t text_words = (size_t)prompts * DITI_ITEM_WORDS, order_words = (size_t)prompts * texts;
    size_t key_words = (size_t)items * DITI_ITEM_WORDS;
    uint32_t *rows, *places, *keys;
    dit_result result;
    rows = (uint32_t *)diti_alloc_zero(env, (text_words + order_words + key_words) * sizeof *rows);
    if (!rows) return diti_fail_memory(err, "the text's rows");
    places = rows + text_words;
    keys = places + order_words;
    for (i = 0; i < prompts; i++) {
        uint32_t length = diti_text_order_length(step, i, unit);
        rows[i * DITI_ITEM_WORDS + 2] = (i + 1) * texts - length;
        rows[i * DITI_ITEM_WORDS + 3] = length;
        for (k = 0; k < texts; k++) places[i * texts + k] = diti_text_order_row(step, i, k, unit, filler);
    }
    for (i = 0; i < items; i++) {
        uint32_t pad = texts - diti_text_order_length(step, i / (items / prompts), unit);
        keys[i * DITI_ITEM_WORDS + 2] = pad;
        keys[i * DITI_ITEM_WORDS + 3] = texts - pad + image;
    }
    result = diti_plan_write(plan, order->items, rows, text_words * sizeof *rows, err);
    if (result >= 0) result = diti_plan_write(plan, order->order, places, order_words * sizeof *rows, err);
    if (result >= 0 && order->keys) result = diti_plan_write(plan, order->keys, keys, key_words * sizeof *keys, err);
    diti_free(env, rows);
    return result;
}

DIT_INTERNAL dit_result diti_write_places(const diti_transformer *transformer, diti_plan *plan,
                                          const diti_step_desc *step, diti_tensor cosines, diti_tensor sines,
                                          uint32_t prompts, diti_place_rows *place, dit_error *err) {
    const diti_env *env = &transformer->component.env;
    size_t count = (size_t)plan->tensors[cosines].rows * plan->tensors[cosines].columns;
    float *table = (float *)diti_alloc_array(env, 2 * count, sizeof *table);
    uint32_t i;
    dit_result result;
    if (!table) return diti_fail_memory(err, "the rotation of positions");
    for (i = 0; i < prompts; i++) place(transformer, step, i, table, table + count);
    result = diti_plan_write(plan, cosines, table, count * sizeof *table, err);
    if (result >= 0) result = diti_plan_write(plan, sines, table + count, count * sizeof *table, err);
    diti_free(env, table);
    return result;
}

/* ---- FLUX's blocks, which HunyuanVideo has, too ---- */

/* Both matrices of a gated feed-forward, which original files have apart. */
static void diti_double_block_load_gated(diti_loader *loader, diti_double_block *block, uint32_t stream,
                                         uint32_t width) {
    static const char *const names[DITI_JOINT_STREAMS][3] = {
        {"ff_context.net.0.proj", "ff_context.up", "ff_context.gate"}, {"ff.net.0.proj", "ff.up", "ff.gate"}};
    diti_layer *layers[2] = {&block->ff_in.streams[stream], &block->ff_gate.streams[stream]};
    uint32_t i, rows = 4 * width;
    for (i = 0; i < 2; i++) {
        if (!loader->rename) {
            diti_load_layer_rows(loader, layers[i], i * rows, rows, 2 * rows, width, names[stream][0]);
            diti_loader_alias(loader, &layers[i]->weight, 0, rows, names[stream][1 + i], 0, rows, DITI_NAMES_ALL);
            continue;
        }
        diti_load_layer(loader, layers[i], rows, width, 1, names[stream][1 + i]);
        diti_loader_alias(loader, &layers[i]->weight, 0, rows, names[stream][0], i * rows, 2 * rows, DITI_NAMES_ALL);
    }
}

static void diti_double_block_load(diti_loader *loader, diti_double_block *block, uint32_t index, uint32_t width,
                                   uint32_t head_dim, uint32_t has) {
    static const char *const norms[] = {"attn.norm_added_q.weight", "attn.norm_added_k.weight", "attn.norm_q.weight",
                                        "attn.norm_k.weight"};
    static const diti_fused qkv[DITI_JOINT_STREAMS] = {
        {"attn.added_qkv", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}, 3},
        {"attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}, 3}};
    static const diti_fused modulation[DITI_JOINT_STREAMS] = {
        {"norm1_context.linear", {"norm1_context.linear", NULL, NULL}, 1},
        {"norm1.linear", {"norm1.linear", NULL, NULL}, 1}};
    uint32_t i;
    diti_loader_scope(loader, "transformer_blocks.%u.", (unsigned)index);
    if (has & DITI_STREAM_MODULATED) diti_load_fused_pair(loader, &block->modulation, modulation, 6 * width, width);
    diti_load_fused_pair(loader, &block->qkv, qkv, width, width);
    diti_load_vectors(loader, &block->norms, norms, 4, head_dim);
    diti_load_pair(loader, &block->out, width, width, "attn.to_add_out", "attn.to_out.0");
    for (i = 0; i < DITI_JOINT_STREAMS && has & DITI_STREAM_GATED; i++)
        diti_double_block_load_gated(loader, block, i, width);
    if (!(has & DITI_STREAM_GATED))
        diti_load_pair(loader, &block->ff_in, 4 * width, width, "ff_context.net.0.proj", "ff.net.0.proj");
    diti_load_pair(loader, &block->ff_out, width, 4 * width, "ff_context.net.2", "ff.net.2");
    diti_loader_scope_end(loader);
    diti_make_attention(&block->attention, DITI_STREAMS_TWO, block->qkv.streams, block->out.streams, width, head_dim);
    block->attention.norms = &block->norms;
    diti_make_feed(&block->feed, DITI_STREAMS_TWO, block->ff_in.streams, block->ff_out.streams);
    if (has & DITI_STREAM_GATED) {
        block->feed.gate = block->ff_gate.streams;
        block->feed.activation = DITI_ACTIVATION_SILU;
    }
}

/* Attention and feed-forward read one norm, and stand side by side in what the last layer reads. */
static void diti_single_block_pair(diti_single_block *block, uint32_t width, uint32_t head_dim, bool gated) {
    diti_make_attention(&block->attention, DITI_STREAMS_ONE, &block->qkv, &block->out, width, head_dim);
    block->attention.norms = &block->norms;
    diti_make_feed(&block->feed, DITI_STREAMS_ONE, &block->ff_in, &block->out);
    if (gated) {
        block->feed.gate = &block->ff_gate;
        block->feed.activation = DITI_ACTIVATION_SILU;
    }
    block->attention.beside = &block->feed;
    block->attention.norm_name = "norm";
    block->attention.out_name = "out";
}

/* Rows of q, k, v and the feed-forward's first layers by the names of files that have them in one matrix, or in four,
   and of q, k and v in one, as XLabs' adapters of FLUX.1 have them. */
static void diti_single_block_alias(diti_loader *loader, const diti_single_block *block, uint32_t width, bool gated) {
    static const char *const qkv[] = {"attn.to_q", "attn.to_k", "attn.to_v"};
    const diti_layer *feed[2] = {&block->ff_in, &block->ff_gate};
    uint32_t i, rows = 4 * width, feeds = gated ? 2 : 1;
    for (i = 0; i < 3; i++) {
        bool joined = block->qkv.count == 1;
        const diti_weight *weight = &block->qkv.layers[joined ? 0 : i].weight;
        uint32_t row = joined ? i * width : 0;
        diti_loader_alias(loader, weight, row, width, "qkv", i * width, 3 * width, DITI_NAMES_ALL);
        if (loader->rename)
            diti_loader_alias(loader, weight, row, width, qkv[i], 0, width, DITI_NAMES_ALL);
        else
            diti_loader_alias(loader, weight, row, width, "qkv_mlp", i * width, 3 * width + feeds * rows,
                              DITI_NAMES_ALL);
    }
    for (i = 0; i < feeds; i++) {
        if (loader->rename)
            diti_loader_alias(loader, &feed[i]->weight, 0, rows, "proj_mlp", i * rows, feeds * rows, DITI_NAMES_ALL);
        else
            diti_loader_alias(loader, &feed[i]->weight, 0, rows, "qkv_mlp", 3 * width + i * rows,
                              3 * width + feeds * rows, DITI_NAMES_ALL);
    }
}

/* Original files have q, k, v and the feed-forward's first layers in one matrix. */
static void diti_single_block_load(diti_loader *loader, diti_single_block *block, uint32_t index, uint32_t width,
                                   uint32_t head_dim, uint32_t has) {
    static const char *const norms[] = {"attn.norm_q.weight", "attn.norm_k.weight"};
    static const char *const qkv[] = {"attn.to_q", "attn.to_k", "attn.to_v"};
    bool gated = (has & DITI_STREAM_GATED) != 0;
    diti_layer *feed[2] = {&block->ff_in, &block->ff_gate};
    uint32_t i, rows = 4 * width, feeds = gated ? 2 : 1, first = loader->rename ? 3 * width : 0;
    diti_loader_scope(loader, "single_transformer_blocks.%u.", (unsigned)index);
    if (has & DITI_STREAM_MODULATED) diti_load_layer(loader, &block->modulation, 3 * width, width, 1, "norm.linear");
    if (loader->rename) {
        memset(&block->qkv, 0, sizeof block->qkv);
        block->qkv.count = 1;
        diti_load_layer_rows(loader, &block->qkv.layers[0], 0, first, first + feeds * rows, width, "qkv_mlp");
    } else {
        diti_load_fused_linear(loader, &block->qkv, qkv, 3, width, width, true);
    }
    if (!loader->rename && !gated) diti_load_layer(loader, &block->ff_in, rows, width, 1, "proj_mlp");
    for (i = 0; i < feeds && (loader->rename || gated); i++)
        diti_load_layer_rows(loader, feed[i], first + i * rows, rows, first + feeds * rows, width,
                             loader->rename ? "qkv_mlp" : "proj_mlp");
    diti_single_block_alias(loader, block, width, gated);
    diti_load_vectors(loader, &block->norms, norms, 2, head_dim);
    diti_load_layer(loader, &block->out, width, 5 * width, 1, "proj_out");
    diti_loader_scope_end(loader);
    diti_single_block_pair(block, width, head_dim, gated);
}

DIT_INTERNAL bool diti_stream_blocks_make(diti_transformer *transformer, diti_loader *loader, diti_stream_blocks *out,
                                          uint32_t doubles, uint32_t singles) {
    diti_component *component = &transformer->component;
    out->doubles = (diti_double_block *)diti_component_array(component, loader, doubles, sizeof *out->doubles);
    out->singles = (diti_single_block *)diti_component_array(component, loader, singles, sizeof *out->singles);
    out->double_count = doubles;
    out->single_count = singles;
    transformer->stream_blocks = out;
    transformer->traits.layers = doubles + singles;
    transformer->traits.single_layers = singles;
    return out->doubles && out->singles;
}

DIT_INTERNAL void diti_stream_blocks_load(diti_loader *loader, diti_stream_blocks *blocks, uint32_t width,
                                          uint32_t head_dim, uint32_t has) {
    uint32_t i;
    for (i = 0; i < blocks->double_count; i++)
        diti_double_block_load(loader, &blocks->doubles[i], i, width, head_dim, has);
    for (i = 0; i < blocks->single_count; i++)
        diti_single_block_load(loader, &blocks->singles[i], i, width, head_dim, has);
}

DIT_INTERNAL void diti_stream_final_load(diti_loader *loader, diti_stream_blocks *blocks, uint32_t width,
                                         uint32_t columns, uint32_t has) {
    if (has & DITI_STREAM_MODULATED)
        diti_load_shift_scale(loader, &blocks->final_modulation, width, "norm_out.linear", loader->rename == NULL,
                              true);
    diti_load_layer(loader, &blocks->proj_out, columns, width, 1, "proj_out");
    diti_make_output(&blocks->last, DITI_STREAMS_IMAGE, &blocks->proj_out);
}

/* F32 [rows, 12D] of double blocks, [rows, 3D] of single ones, of the last norm [rows, 2D]. */
static diti_tensor diti_stream_modulation(const diti_pass *p, diti_tensor active, uint32_t index) {
    const diti_stream_blocks *blocks = p->model->stream_blocks;
    if (index < blocks->double_count) return diti_joint_modulate(p, active, &blocks->doubles[index].modulation, 6);
    if (index < p->model->traits.layers)
        return diti_layer_spread(p->graph, diti_pass_tensor(p), active,
                                 &blocks->singles[index - blocks->double_count].modulation, 0, "block_modulation");
    return diti_shift_scale(p->graph, active, &blocks->final_modulation);
}

DIT_INTERNAL void diti_stream_prepare(const diti_pass *p, diti_joint_modulation *state) {
    const diti_stream_blocks *blocks = p->model->stream_blocks;
    uint64_t vectors = 12 * blocks->double_count + 3 * blocks->single_count + 2;
    diti_joint_prepare(p, state, vectors * p->width, diti_stream_modulation);
}

DIT_INTERNAL void diti_stream_modulate(diti_pass *p, const diti_joint_modulation *state, uint32_t index) {
    p->modulation.rows = diti_joint_modulation_rows(p, state, index, diti_stream_modulation);
}

DIT_INTERNAL dit_result diti_write_image_rotations(diti_plan *plan, const diti_step_desc *step, const uint32_t axes[3],
                                                   diti_tensor cosines, diti_tensor sines, dit_error *err) {
    const diti_env *env = &plan->device->env;
    uint32_t half = plan->tensors[cosines].columns, tokens = plan->tensors[cosines].rows, columns = step->width / 2;
    uint32_t texts = step->text_tokens, token;
    size_t count = (size_t)tokens * half;
    float *values = (float *)diti_alloc_array(env, count, 2 * sizeof *values);
    dit_result result;
    if (!values) return diti_fail_memory(err, "the rotations");
    for (token = 0; token < tokens; token++) {
        int32_t position[3] = {0, 0, 0};
        uint32_t y = 0, x = 0;
        if (token >= texts && token < texts + step->lead) {
            position[0] = (int32_t)(1 + diti_reference_position(step, 2, token - texts, &y, &x));
        } else if (token >= texts) {
            y = (token - texts - step->lead) / columns;
            x = (token - texts - step->lead) % columns;
        }
        position[1] = (int32_t)y;
        position[2] = (int32_t)x;
        diti_rotate_axes(axes, 3, 10000, position, values + (size_t)token * half,
                         values + count + (size_t)token * half);
    }
    result = diti_plan_write(plan, cosines, values, count * sizeof *values, err);
    if (result >= 0) result = diti_plan_write(plan, sines, values + count, count * sizeof *values, err);
    diti_free(env, values);
    return result;
}

/* DoubleStreamBlock.forward and SingleStreamBlock.forward, docs/models.md 3.4 steps 4 and 5. */
DIT_INTERNAL void diti_stream_block_run(diti_pass *p, diti_tensor x) {
    const diti_stream_blocks *blocks = p->model->stream_blocks;
    if (p->index < blocks->double_count) {
        const diti_double_block *w = &blocks->doubles[p->index];
        p->modulation.chunks = 6;
        diti_block_run(p, x, &w->attention, &w->feed);
    } else {
        const diti_single_block *w = &blocks->singles[p->index - blocks->double_count];
        p->modulation.chunks = 3;
        diti_parallel_block_run(p, x, &w->attention, &w->feed);
    }
}

DIT_INTERNAL diti_tensor diti_stream_final(diti_pass *p, diti_tensor x) {
    const diti_sublayer *last = &p->model->stream_blocks->last;
    return diti_output_modulated(p, x, last);
}
