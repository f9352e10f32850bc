/* Sublayers: attention and feed-forward, each of them two layers with heads or an activation between. A family fixes
   the pairs when it loads; the ops here know from a pair which columns this device computes (tensor.c), whether the
   norm before it may write int8, and which rows it is about. */
#include "model/model.h"

DIT_INTERNAL diti_token_grid diti_transformer_grid(const diti_transformer *transformer, const diti_step_desc *step) {
    const diti_model_traits *traits = &transformer->traits;
    uint32_t deep = traits->patch_frames ? traits->patch_frames : 1, pad = traits->pads_patches ? traits->patch - 1 : 0;
    diti_token_grid grid;
    grid.frames = (step->frames ? step->frames : 1) / deep;
    grid.rows = (step->height + pad) / traits->patch;
    grid.columns = (step->width + pad) / traits->patch;
    return grid;
}

DIT_INTERNAL uint32_t diti_sound_tokens(const diti_model_traits *traits, uint32_t pictures, float fps) {
    double rate = fps > 0 ? (double)fps : (double)traits->default_fps, count;
    if (!(traits->sound_rate > 0)) return 0;
    count = rint((double)pictures / rate * (double)traits->sound_rate); /* halves to even, as Python rounds */
    return (count > 1 ? (uint32_t)count : 1) * (traits->sound_sides ? traits->sound_sides : 1);
}

DIT_INTERNAL uint32_t diti_sound_frames(const diti_model_traits *traits, uint32_t pictures, float fps, uint32_t plane) {
    return (diti_sound_tokens(traits, pictures, fps) + plane - 1) / plane;
}

DIT_INTERNAL diti_pass diti_pass_make(const diti_transformer *transformer, diti_graph *graph, diti_step_desc *step) {
    diti_pass p = DITI_ZERO;
    uint32_t branches = step->branches - step->first_branch;
    diti_token_grid grid;
    p.model = transformer;
    p.graph = graph;
    p.step = step;
    p.width = transformer->traits.width;
    p.items = branches * step->batch;
    p.prompts = step->text_batch / step->branches * branches;
    p.text = step->token_range.text;
    p.image = step->token_range.rows;
    p.latent = step->latent;
    p.channels = transformer->traits.latent_channels;
    grid = diti_transformer_grid(transformer, step);
    p.positions = grid.rows * grid.columns;
    return p;
}

DIT_INTERNAL const diti_ranks *diti_pass_tensor(const diti_pass *p) {
    return p->step->axes ? &p->step->axes->tensor : NULL;
}

DIT_INTERNAL void diti_pass_enter(diti_pass *p, uint32_t index) {
    const diti_model_traits *traits = &p->model->traits;
    uint32_t others = traits->layers - traits->single_layers;
    p->index = index;
    if (index < others)
        diti_graph_scope(p->graph, "block", index);
    else
        diti_graph_scope(p->graph, "single block", index - others);
}

DIT_INTERNAL diti_tensor diti_pass_last(const diti_pass *p, diti_tensor all) {
    uint32_t prompts = p->step->text_batch, rows, columns;
    if (diti_graph_failed(p->graph) || prompts == p->prompts) return all;
    rows = diti_tensor_get(p->graph, all)->rows / prompts;
    columns = diti_tensor_get(p->graph, all)->columns;
    return diti_tensor_view(p->graph, all, (prompts - p->prompts) * rows, p->prompts * rows, 0, columns);
}

DIT_INTERNAL diti_tensor diti_select_modulation(const diti_pass *p, diti_tensor table) {
    return diti_select_row(p->graph, table, p->step->row, "select_modulation");
}

DIT_INTERNAL diti_tensor diti_text_columns(const diti_pass *p, uint32_t columns) {
    diti_tensor text = p->step->text;
    return diti_tensor_view(p->graph, text, 0, diti_tensor_rows(p->graph, text), 0, columns);
}

/* Whether other devices have some of the rows. */
static bool diti_pass_divides(const diti_pass *p) {
    return p->step->axes && diti_ranks_count(&p->step->axes->sequence) > 1;
}

/* ---- pairs of layers, fixed when a model is loaded ---- */

static void diti_sublayer_begin(diti_sublayer *sublayer, diti_streams streams, const diti_layer *out) {
    uint32_t i, count = streams == DITI_STREAMS_TWO ? DITI_JOINT_STREAMS : 1;
    memset(sublayer, 0, sizeof *sublayer);
    sublayer->streams = streams;
    sublayer->out = out;
    sublayer->eps = 1e-6f;
    for (i = out ? count : 0; i-- > 0;) /* the image's first */
        sublayer->readers[sublayer->reader_count++] = &out[i].weight;
}

DIT_INTERNAL void diti_make_attention(diti_sublayer *sublayer, diti_streams streams, const diti_fused_linear *qkv,
                                      const diti_layer *out, uint32_t width, uint32_t head_dim) {
    diti_sublayer_begin(sublayer, streams, out);
    sublayer->qkv = qkv;
    sublayer->columns = width;
    sublayer->head_dim = head_dim;
    sublayer->norm_name = "norm1";
    sublayer->in_name = "qkv";
    sublayer->out_name = "attention_out";
}

DIT_INTERNAL void diti_make_feed(diti_sublayer *sublayer, diti_streams streams, const diti_layer *in,
                                 const diti_layer *out) {
    diti_sublayer_begin(sublayer, streams, out);
    sublayer->in = in;
    sublayer->columns = in[streams == DITI_STREAMS_TWO ? DITI_JOINT_IMAGE : 0].weight.rows;
    sublayer->activation = DITI_ACTIVATION_GELU_TANH;
    sublayer->norm_name = "norm2";
    sublayer->in_name = "ff_in";
    sublayer->out_name = "ff_out";
}

DIT_INTERNAL void diti_make_output(diti_sublayer *sublayer, diti_streams streams, const diti_layer *in) {
    diti_sublayer_begin(sublayer, streams, NULL);
    sublayer->in = in;
    sublayer->norm_name = "norm_out";
    sublayer->in_name = "proj_out";
}

DIT_INTERNAL void diti_sublayers_share_heads(diti_sublayer *a, diti_sublayer *b) {
    uint32_t i, count = b->reader_count;
    for (i = 0; i < count; i++) a->readers[a->reader_count++] = b->readers[i];
    memcpy(b->readers, a->readers, sizeof b->readers);
    b->reader_count = a->reader_count;
}

DIT_INTERNAL void diti_make_text_attention(diti_sublayer *cross, diti_sublayer *beside, const diti_layer *q,
                                           const diti_layer *out, uint32_t width, uint32_t head_dim) {
    diti_make_attention(cross, DITI_STREAMS_ONE, NULL, out, width, head_dim);
    cross->in = q;
    cross->norm_name = "norm_text";
    cross->in_name = "text_q";
    cross->out_name = "text_out";
    diti_sublayers_share_heads(beside, cross);
}

/* ---- rows of an item, and what modulates them ---- */

DIT_INTERNAL diti_rows diti_pass_rows(const diti_pass *p, uint32_t stream) {
    diti_rows rows;
    rows.of = p->text + p->image;
    rows.first = stream == DITI_JOINT_IMAGE ? p->text : 0;
    rows.count = stream == DITI_JOINT_IMAGE ? p->image : p->text;
    return rows;
}

/* The first stream that has rows at hand, or whose weights go to devices that have some. */
static uint32_t diti_pass_first(const diti_pass *p) {
    return p->text || p->graph->shards ? (uint32_t)DITI_JOINT_TEXT : (uint32_t)DITI_JOINT_IMAGE;
}

static uint32_t diti_pass_all(const diti_pass *p) { return p->items * (p->text + p->image); }

/* Rows of x that are an item's image. */
static diti_tensor diti_pass_image(const diti_pass *p, diti_tensor x, uint32_t item) {
    uint32_t columns = diti_graph_failed(p->graph) ? 0 : diti_tensor_get(p->graph, x)->columns;
    return diti_tensor_view(p->graph, x, item * (p->text + p->image) + p->text, p->image, 0, columns);
}

static uint32_t diti_modulation_groups(const diti_pass *p) {
    return diti_graph_failed(p->graph) ? 0 : diti_tensor_get(p->graph, p->modulation.rows)->rows;
}

/* Rows of the residual stream that share a row of the modulation, a prompt's or a frame's; 0: all do. */
static uint32_t diti_modulation_share(const diti_pass *p) {
    uint32_t groups = diti_modulation_groups(p);
    return groups <= 1 ? 0 : diti_pass_all(p) / groups;
}

/* A stream's, F32 [groups, D]. */
static diti_tensor diti_modulation_rows(const diti_pass *p, uint32_t stream, diti_modulator which) {
    const diti_modulation *m = &p->modulation;
    if (which == DITI_NO_GATE) return 0;
    return diti_tensor_view(p->graph, m->rows, 0, diti_modulation_groups(p),
                            (stream * m->chunks + (uint32_t)which) * p->width, p->width);
}

/* Both streams', F32 [2 * groups, D]: a prompt's text row, then its image row. */
static diti_tensor diti_modulation_both(const diti_pass *p, diti_modulator which) {
    const diti_modulation *m = &p->modulation;
    uint32_t rows = 2 * diti_modulation_groups(p);
    diti_tensor tables = diti_tensor_reshape(p->graph, m->rows, rows, m->chunks * p->width);
    return diti_tensor_view(p->graph, tables, 0, rows, (uint32_t)which * p->width, p->width);
}

/* An item's image, F32 [1, D]. Where text has no modulation, the image's stands alone. */
static diti_tensor diti_modulation_item(const diti_pass *p, uint32_t item, diti_modulator which) {
    const diti_modulation *m = &p->modulation;
    uint32_t stream = m->chunks ? (uint32_t)DITI_JOINT_IMAGE : 0, groups = diti_modulation_groups(p);
    if (which == DITI_NO_GATE) return 0;
    return diti_tensor_view(p->graph, m->rows, groups > 1 ? item / (p->items / p->prompts) : 0, 1,
                            (stream * m->chunks + (uint32_t)which) * p->width, p->width);
}

/* ---- the norm before a sublayer ---- */

/* One of some layers, if it is int8 and all others are of its type. */
static bool diti_reader_agrees(const diti_layer *layers, uint32_t count, const diti_weight **reader) {
    uint32_t i;
    for (i = 0; i < count; i++) {
        if (!*reader) *reader = &layers[i].weight;
        if (layers[i].weight.type != (*reader)->type || !diti_type_is_i8((*reader)->type)) return false;
    }
    return true;
}

static bool diti_layers_adapted(const diti_pass *p, const diti_layer *layers, uint32_t count) {
    uint32_t i;
    for (i = 0; i < count; i++)
        if (diti_graph_adapts(p->graph, &layers[i].weight)) return true;
    return false;
}

/* The int8 weight that stands for all first layers of a sublayer: they alone read the norm before it, which then writes
   int8. NULL where they are of other types, where LoRAs read it too, or where each device quantizes its own columns
   later. */
static const diti_weight *diti_sublayer_reader(const diti_pass *p, const diti_sublayer *sublayer) {
    const diti_weight *reader = NULL;
    uint32_t i, streams = sublayer->streams == DITI_STREAMS_TWO ? DITI_JOINT_STREAMS : 1;
    if (sublayer->axis == DITI_ATTEND_TEMPORAL && diti_pass_divides(p)) return NULL; /* rows are exchanged before */
    if (sublayer->columns && p->step->axes && diti_ranks_count(&p->step->axes->tensor_in) > 1) return NULL;
    for (; sublayer; sublayer = sublayer->beside) {
        for (i = 0; i < streams; i++) {
            const diti_layer *layers = sublayer->qkv ? sublayer->qkv[i].layers : &sublayer->in[i];
            uint32_t count = sublayer->qkv ? sublayer->qkv[i].count : 1;
            if (!diti_reader_agrees(layers, count, &reader) || diti_layers_adapted(p, layers, count)) return NULL;
            if (!sublayer->gate) continue;
            if (!diti_reader_agrees(&sublayer->gate[i], 1, &reader) || diti_layers_adapted(p, &sublayer->gate[i], 1))
                return NULL;
        }
    }
    return reader;
}

/* The rows of an item that have a modulation of their own: in front of the image's tokens, or behind the text. */
static diti_rows diti_modulation_lead(const diti_pass *p, const diti_sublayer *sublayer) {
    diti_rows rows = diti_pass_rows(p, DITI_JOINT_IMAGE);
    rows.count = 0;
    if (p->modulation.lead && sublayer->streams == DITI_STREAMS_TWO) rows.count = diti_token_range_lead(p->step);
    if (p->modulation.lead && sublayer->streams == DITI_STREAMS_SHARED)
        rows.first -= rows.count = diti_token_range_behind(p->step);
    return rows;
}

static diti_tensor diti_modulation_lead_rows(const diti_pass *p, diti_modulator which) {
    return diti_tensor_view(p->graph, p->modulation.lead, 0, 1, (uint32_t)which * p->width, p->width);
}

DIT_INTERNAL diti_tensor diti_sublayer_norm(const diti_pass *p, diti_tensor x, diti_norm_desc *desc,
                                            const diti_sublayer *sublayer) {
    desc->eps = sublayer->eps;
    desc->rms = sublayer->rms;
    desc->weight = sublayer->norm ? &sublayer->norm->weight : desc->weight;
    desc->bias = sublayer->norm ? &sublayer->norm->bias : desc->bias;
    desc->reader = diti_modulation_lead(p, sublayer).count ? NULL : diti_sublayer_reader(p, sublayer);
    desc->name = sublayer->norm_name;
    return diti_norm(p->graph, x, desc);
}

/* Such rows of all items again, with their own shift and scale. */
static void diti_modulate_lead(const diti_pass *p, diti_tensor x, diti_modulator shift, diti_modulator scale,
                               const diti_sublayer *sublayer, diti_tensor h) {
    diti_rows lead = diti_modulation_lead(p, sublayer);
    uint32_t i;
    for (i = 0; i < p->items && lead.count && !diti_graph_failed(p->graph); i++) {
        uint32_t row = i * lead.of + lead.first;
        diti_norm_desc desc = DITI_ZERO;
        desc.shift = diti_modulation_lead_rows(p, shift);
        desc.scale = diti_modulation_lead_rows(p, scale);
        desc.out = diti_tensor_view(p->graph, h, row, lead.count, 0, p->width);
        diti_sublayer_norm(p, diti_tensor_view(p->graph, x, row, lead.count, 0, p->width), &desc, sublayer);
    }
}

/* The image's rows alone, one item's behind the other's: [items * image, D]. */
static diti_tensor diti_modulate_image(const diti_pass *p, diti_tensor x, diti_modulator shift, diti_modulator scale,
                                       const diti_sublayer *sublayer) {
    diti_tensor all =
        diti_tensor_new(p->graph, p->graph->activation, p->items * p->image, p->width, sublayer->norm_name);
    uint32_t i;
    for (i = 0; i < p->items && !diti_graph_failed(p->graph); i++) {
        diti_norm_desc desc = DITI_ZERO;
        desc.shift = diti_modulation_item(p, i, shift);
        desc.scale = diti_modulation_item(p, i, scale);
        desc.out = diti_tensor_view(p->graph, all, i * p->image, p->image, 0, p->width);
        diti_sublayer_norm(p, diti_pass_image(p, x, i), &desc, sublayer);
    }
    return all;
}

DIT_INTERNAL diti_tensor diti_modulate(const diti_pass *p, diti_tensor x, diti_modulator shift, diti_modulator scale,
                                       const diti_sublayer *sublayer) {
    diti_norm_desc desc = DITI_ZERO;
    diti_tensor all;
    if (sublayer->streams == DITI_STREAMS_IMAGE) return diti_modulate_image(p, x, shift, scale, sublayer);
    if (sublayer->streams == DITI_STREAMS_TWO || sublayer->streams == DITI_STREAMS_SHARED) {
        desc.shift = diti_modulation_both(p, shift);
        desc.scale = diti_modulation_both(p, scale);
        desc.rows_per_group = diti_pass_all(p) / (diti_modulation_groups(p) ? diti_modulation_groups(p) : 1);
        desc.item_rows = p->text + p->image;
        desc.text_rows = p->text;
    } else {
        desc.shift = diti_modulation_rows(p, 0, shift);
        desc.scale = diti_modulation_rows(p, 0, scale);
        desc.rows_per_group = diti_modulation_share(p);
    }
    all = diti_sublayer_norm(p, x, &desc, sublayer);
    diti_modulate_lead(p, x, shift, scale, sublayer, all);
    return all;
}

/* ---- the first layer ---- */

DIT_INTERNAL diti_tensor diti_sublayer_fused(const diti_pass *p, diti_tensor x, const diti_fused_linear *fused,
                                             uint32_t kinds, const diti_sublayer *sublayer, const char *name) {
    diti_column_shard column_shard = diti_column_shard_of(p, sublayer);
    diti_linear_desc desc = DITI_ZERO;
    desc.name = name;
    x = diti_column_shard_begin(p->graph, x, fused->layers, fused->count, &column_shard, &desc);
    if (desc.cut.rows) desc.kinds = kinds;
    x = diti_linear_fused(p->graph, x, fused, &desc);
    return diti_column_shard_end(p->graph, &column_shard, x, DITI_ACTIVATION_NONE, 0, name);
}

/* Queries, keys or values (kind, counted from 1 on) alone. */
static void diti_sublayer_kind(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer, uint32_t kind,
                               diti_tensor out) {
    diti_column_shard column_shard = diti_column_shard_of(p, sublayer);
    diti_linear_desc desc = DITI_ZERO;
    desc.name = sublayer->in_name;
    h = diti_column_shard_begin(p->graph, h, sublayer->qkv->layers, sublayer->qkv->count, &column_shard, &desc);
    desc.kinds = 3;
    desc.kind = kind;
    desc.out = out;
    diti_linear_fused(p->graph, h, sublayer->qkv, &desc);
}

/* One layer of two whose results are multiplied: the one without activation, or, where that is there, the other one. */
static diti_tensor diti_sublayer_gated(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer,
                                       uint32_t stream, diti_tensor multiply, diti_tensor out) {
    diti_column_shard column_shard = diti_column_shard_of(p, sublayer);
    const diti_layer *layer = multiply ? &sublayer->gate[stream] : &sublayer->in[stream];
    bool whole = diti_ranks_count(column_shard.in) == 1;
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.activation = multiply ? sublayer->activation : DITI_ACTIVATION_NONE;
    desc.multiply = whole ? multiply : 0;
    desc.out = out;
    if (sublayer->streams == DITI_STREAMS_TWO) desc.rows = diti_pass_rows(p, stream);
    desc.name = multiply ? "ff_gate" : sublayer->in_name;
    h = diti_column_shard_begin(p->graph, h, layer, 1, &column_shard, &desc);
    return diti_linear(p->graph, h, &layer->weight, &desc);
}

/* activation(gate(h)) * in(h), of each stream with its weights. Where devices divide the columns that both read, the
   sums are there before the activation. */
static diti_tensor diti_sublayer_in_gated(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer,
                                          diti_tensor out) {
    diti_column_shard column_shard = diti_column_shard_of(p, sublayer);
    bool two = sublayer->streams == DITI_STREAMS_TWO, whole = diti_ranks_count(column_shard.in) == 1;
    diti_element format = whole ? p->graph->activation : DITI_F32;
    uint32_t rows = diti_tensor_rows(p->graph, h), i, end = two ? (uint32_t)DITI_JOINT_STREAMS : 1;
    diti_tensor up = diti_tensor_new(p->graph, format, rows, column_shard.count, sublayer->in_name), gate = out;
    if (!gate || !whole) gate = diti_tensor_new(p->graph, format, rows, column_shard.count, "ff_gate");
    for (i = two ? diti_pass_first(p) : 0; i < end; i++) diti_sublayer_gated(p, h, sublayer, i, 0, up);
    for (i = two ? diti_pass_first(p) : 0; i < end; i++) diti_sublayer_gated(p, h, sublayer, i, up, gate);
    if (whole) return gate;
    diti_all_reduce(p->graph, column_shard.in, up, sublayer->in_name);
    gate = diti_column_shard_end(p->graph, &column_shard, gate, sublayer->activation, 0, "ff_gate");
    return diti_multiply(p->graph, gate, up, out, sublayer->in_name);
}

static diti_tensor diti_sublayer_in_one(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer,
                                        diti_tensor out) {
    diti_column_shard column_shard = diti_column_shard_of(p, sublayer);
    diti_linear_desc desc = DITI_ZERO;
    if (sublayer->qkv) return diti_sublayer_fused(p, h, sublayer->qkv, 3, sublayer, sublayer->in_name);
    desc.bias = &sublayer->in->bias;
    desc.activation = sublayer->activation;
    desc.out = diti_ranks_count(column_shard.in) == 1 ? out : 0;
    desc.name = sublayer->in_name;
    h = diti_column_shard_begin(p->graph, h, sublayer->in, 1, &column_shard, &desc);
    h = diti_linear(p->graph, h, &sublayer->in->weight, &desc);
    return diti_column_shard_end(p->graph, &column_shard, h, sublayer->activation, out, sublayer->in_name);
}

/* Text and image have weights of their own, and write to their rows of one tensor. */
static diti_tensor diti_sublayer_in_two(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer, uint32_t kind,
                                        diti_tensor out) {
    diti_column_shard column_shard = diti_column_shard_of(p, sublayer);
    diti_element format =
        diti_ranks_count(column_shard.in) > 1 ? DITI_F32 : p->graph->activation; /* parts of a sum are F32 */
    uint32_t i, columns = sublayer->qkv ? 3 * column_shard.count : column_shard.count;
    diti_tensor all = out ? out : diti_tensor_new(p->graph, format, diti_pass_all(p), columns, sublayer->in_name), own;
    for (i = diti_pass_first(p); i < DITI_JOINT_STREAMS; i++) {
        const diti_fused_linear *qkv = sublayer->qkv ? &sublayer->qkv[i] : NULL;
        const diti_layer *layer = qkv ? NULL : &sublayer->in[i];
        diti_linear_desc desc = DITI_ZERO;
        desc.rows = diti_pass_rows(p, i);
        desc.out = all;
        desc.name = qkv && i == DITI_JOINT_TEXT ? "text_qkv" : sublayer->in_name;
        if (qkv) {
            own = diti_column_shard_begin(p->graph, h, qkv->layers, qkv->count, &column_shard, &desc);
            if (desc.cut.rows || kind) desc.kinds = 3;
            desc.kind = kind;
            diti_linear_fused(p->graph, own, qkv, &desc);
        } else {
            desc.bias = &layer->bias;
            desc.activation = sublayer->activation;
            own = diti_column_shard_begin(p->graph, h, layer, 1, &column_shard, &desc);
            diti_linear(p->graph, own, &layer->weight, &desc);
        }
    }
    return diti_column_shard_end(p->graph, &column_shard, all, sublayer->activation, 0, sublayer->in_name);
}

DIT_INTERNAL diti_tensor diti_sublayer_in(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer,
                                          diti_tensor out) {
    if (sublayer->gate) return diti_sublayer_in_gated(p, h, sublayer, out);
    if (sublayer->streams == DITI_STREAMS_TWO) return diti_sublayer_in_two(p, h, sublayer, 0, 0);
    return diti_sublayer_in_one(p, h, sublayer, out);
}

/* ---- heads ---- */

static uint32_t diti_sublayer_rows(const diti_pass *p, const diti_sublayer *sublayer) {
    return p->items * (p->image + (sublayer->streams == DITI_STREAMS_IMAGE ? 0 : p->text));
}

/* Item by item, each with tables of its own. */
static void diti_sublayer_post_items(const diti_pass *p, diti_tensor x, const diti_qkv_desc *all) {
    uint32_t i, columns = diti_tensor_columns(p->graph, x);
    for (i = 0; i < p->table_items && !diti_graph_failed(p->graph); i++) {
        diti_qkv_desc post = *all;
        post.cosines = diti_tensor_view(p->graph, all->cosines, i * all->tokens, all->tokens, 0,
                                        diti_tensor_columns(p->graph, all->cosines));
        post.sines = diti_tensor_view(p->graph, all->sines, i * all->tokens, all->tokens, 0,
                                      diti_tensor_columns(p->graph, all->sines));
        diti_qk_norm_rope(p->graph, diti_tensor_view(p->graph, x, i * all->tokens, all->tokens, 0, columns), &post);
    }
}

/* Norm of each head, and rotation, in place; x: of q and k, or of one of them (kind, counted from 1 on). */
static void diti_sublayer_post(const diti_pass *p, diti_tensor x, uint32_t kind, const diti_sublayer *sublayer) {
    uint32_t text = sublayer->streams == DITI_STREAMS_IMAGE ? 0 : p->text, rows = diti_sublayer_rows(p, sublayer),
             width;
    diti_qkv_desc post = DITI_ZERO;
    if (!sublayer->norms && !sublayer->head_norms[0] && !p->cosines) return;
    width = diti_tensor_columns(p->graph, x);
    if (sublayer->head_norms[0] && !kind) {
        diti_sublayer_post(p, diti_tensor_view(p->graph, x, 0, rows, 0, width / 2), 1, sublayer);
        diti_sublayer_post(p, diti_tensor_view(p->graph, x, 0, rows, width / 2, width / 2), 2, sublayer);
        return;
    }
    post.heads = width / sublayer->head_dim;
    post.head_dim = sublayer->head_dim;
    post.norm = sublayer->norms ? DITI_QKV_RMS : DITI_QKV_NO_NORM;
    post.eps = sublayer->norm_eps > 0 ? sublayer->norm_eps : 1e-6f;
    post.weight = sublayer->norms;
    post.kinds = 2;
    post.kind = kind;
    post.text_rows = sublayer->streams == DITI_STREAMS_TWO ? text : 0;
    post.others = sublayer->streams == DITI_STREAMS_TWO;
    post.cosines = p->cosines;
    post.sines = p->sines;
    post.half_split = sublayer->half_split;
    post.two_axes = sublayer->two_axes;
    post.rotate_first = sublayer->rotate_first;
    post.tokens = sublayer->axis == DITI_ATTEND_SPATIAL ? p->positions : text + p->image;
    if (p->table_items && !post.others) post.tokens *= p->table_items;
    post.rows_per_entry = sublayer->axis == DITI_ATTEND_TEMPORAL && p->cosines ? p->positions : 0;
    post.name = "qkv_post";
    if (sublayer->head_norms[0]) {
        post.norm = DITI_QKV_LAYER;
        post.weight = &sublayer->head_norms[kind - 1]->weight;
        post.bias = &sublayer->head_norms[kind - 1]->bias;
        post.kinds = post.kind = 0;
    }
    if (p->table_items && post.others)
        diti_sublayer_post_items(p, x, &post);
    else
        diti_qk_norm_rope(p->graph, x, &post);
}

/* Columns of some kinds of qkv. */
static diti_tensor diti_sublayer_kinds(const diti_pass *p, diti_tensor qkv, const diti_sublayer *sublayer,
                                       uint32_t first, uint32_t kinds) {
    uint32_t width = diti_column_shard_of(p, sublayer).count;
    return diti_tensor_view(p->graph, qkv, 0, diti_sublayer_rows(p, sublayer), first * width, kinds * width);
}

/* Values, then keys, then queries, each sent to other devices while what comes behind it is made. */
static diti_tensor diti_sublayer_flow(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer,
                                      const diti_attend_desc *desc) {
    uint32_t width = diti_column_shard_of(p, sublayer).count, kind;
    diti_tensor qkv =
        diti_tensor_new(p->graph, p->graph->activation, diti_sublayer_rows(p, sublayer), 3 * width, sublayer->in_name);
    const diti_weight *reader = sublayer->streams == DITI_STREAMS_TWO ? NULL : diti_fused_linear_reader(sublayer->qkv);
    diti_heads_flow flow;
    if (reader && !diti_graph_failed(p->graph) && diti_tensor_get(p->graph, h)->format != DITI_I8)
        h = diti_quantize(p->graph, h, diti_type_is_rotated(reader->type), "quantize"); /* once for all */
    diti_attend_begin(p->graph, p->step, desc, qkv, &flow);
    for (kind = 3; kind-- > 0 && !diti_graph_failed(p->graph);) {
        diti_tensor part = diti_sublayer_kinds(p, qkv, sublayer, kind, 1);
        if (sublayer->streams == DITI_STREAMS_TWO)
            diti_sublayer_in_two(p, h, sublayer, kind + 1, part);
        else
            diti_sublayer_kind(p, h, sublayer, kind + 1, part);
        if (kind < 2 && sublayer->heads) sublayer->heads(p, part, kind);
        if (kind < 2 && !sublayer->heads) diti_sublayer_post(p, part, kind + 1, sublayer);
        diti_attend_send(p->graph, p->step, desc, &flow, kind);
    }
    return diti_attend_end(p->graph, p->step, desc, &flow);
}

/* [items * rows of each member, columns] seen with all positions of a frame in one row, whose rows the members have and
   whose columns they exchange as Ulysses does heads. */
static void diti_sublayer_turn(const diti_pass *p, uint32_t columns, uint32_t *frames, diti_exchange_heads *turn) {
    const diti_ranks *sequence = &p->step->axes->sequence;
    uint32_t i;
    for (i = 0; i < sequence->count; i++)
        frames[i] = diti_token_range_size(sequence, i, &p->step->token_range) / p->positions;
    turn->group = sequence;
    turn->rows = frames;
    turn->items = p->items;
    turn->heads = p->positions;
    turn->head_dim = columns;
}

/* Attention by turns where devices have some frames each (docs/parallel.md 1.1): within frames it needs no others.
   Within positions every device gets some positions of all frames before it, and gives their results back behind it. */
static diti_tensor diti_sublayer_attend_divided(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer,
                                                diti_tensor out) {
    const diti_ranks *sequence = &p->step->axes->sequence;
    diti_graph *graph = p->graph;
    uint32_t frames[DITI_MAX_DEVICES], width, all = p->step->token_range.all / p->positions, own = p->image;
    diti_axes axes = *p->step->axes;
    diti_step_desc step = *p->step;
    diti_pass here = *p;
    diti_exchange_heads turn;
    diti_tensor o;
    memset(&axes.sequence, 0, sizeof axes.sequence);
    axes.ulysses = axes.ring = axes.sequence;
    step.axes = &axes;
    here.step = &step;
    if (sublayer->axis == DITI_ATTEND_TEMPORAL) {
        here.positions = diti_ranks_size(sequence, sequence->index, p->positions);
        here.image = all * here.positions;
        width = diti_tensor_columns(graph, h);
        diti_sublayer_turn(p, width, frames, &turn);
        h = diti_tensor_reshape(graph, h, p->items * own / p->positions, p->positions * width);
        h = diti_tensor_reshape(graph, diti_gather_heads(graph, &turn, h, 1), p->items * here.image, width);
    }
    step.token_range.all = here.image;
    o = diti_sublayer_attend(&here, h, sublayer, sublayer->axis == DITI_ATTEND_TEMPORAL ? 0 : out);
    if (sublayer->axis != DITI_ATTEND_TEMPORAL || diti_graph_failed(graph)) return o;
    width = diti_tensor_columns(graph, o);
    diti_sublayer_turn(p, width, frames, &turn);
    o = diti_tensor_reshape(graph, o, p->items * all, here.positions * width);
    o = diti_tensor_reshape(graph, diti_scatter_heads(graph, &turn, o, 0), p->items * own, width);
    if (!out) return o;
    diti_copy(graph, o, out, "attention");
    return out;
}

/* ---- bands: some rows after the other where a tensor between two layers would be very large ---- */

/* Rows whose tensor of so many columns is no larger than a band may be (diti_limits.band), in whole units; all of them:
 * no bands. Every row stays as it is, whatever the bands. */
static uint32_t diti_pass_band(const diti_pass *p, uint32_t columns, uint32_t rows, uint32_t unit) {
    uint64_t row = (uint64_t)columns * diti_element_size(p->graph->activation), most = p->graph->device->limits.band,
             units, bands;
    if (rows * row <= most) return rows;
    bands = (rows * row + most - 1) / most;
    units = (rows / unit + bands - 1) / bands;
    if (!units) units = 1;
    return (uint32_t)(units * unit < rows ? units * unit : rows);
}

/* A pass on `count` rows alone, from `first` on, as if they were one item's. */
static diti_pass diti_pass_rows_alone(const diti_pass *p, uint32_t first, uint32_t count) {
    uint32_t share = diti_modulation_share(p);
    diti_pass here = *p;
    if (count == diti_pass_all(p)) return here;
    here.items = here.prompts = 1;
    here.text = 0;
    here.image = count;
    if (share)
        here.modulation.rows = diti_tensor_view(p->graph, p->modulation.rows, first / share, count / share, 0,
                                                diti_tensor_columns(p->graph, p->modulation.rows));
    return here;
}

DIT_INTERNAL void diti_norm_behind(diti_graph *graph, diti_tensor x, diti_tensor h, const diti_weight *weight,
                                   float eps, diti_tensor gate) {
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = true;
    desc.weight = weight;
    desc.eps = eps;
    desc.scale = gate;
    desc.factor = true;
    desc.residual = desc.out = x;
    desc.name = "norm_behind";
    diti_norm(graph, h, &desc);
}

DIT_INTERNAL void diti_sublayer_add_normed(const diti_pass *p, diti_tensor x, const diti_sublayer *sublayer,
                                           diti_tensor h, const diti_weight *weight, diti_tensor gate) {
    bool image = sublayer->streams == DITI_STREAMS_IMAGE;
    uint32_t i;
    h = diti_sublayer_out(p, sublayer, h);
    if (!image) diti_norm_behind(p->graph, x, h, weight, sublayer->eps, gate);
    for (i = 0; i < p->items && image; i++)
        diti_norm_behind(
            p->graph, diti_tensor_view(p->graph, x, i * (p->text + p->image) + p->text, p->image, 0, p->width),
            diti_tensor_view(p->graph, h, i * p->image, p->image, 0, p->width), weight, sublayer->eps, gate);
}

DIT_INTERNAL void diti_sublayer_feed(const diti_pass *p, diti_tensor x, diti_modulator shift, diti_modulator scale,
                                     diti_modulator gate, const diti_sublayer *feed) {
    uint32_t rows = diti_pass_all(p), share = diti_modulation_share(p), first, count,
             band = diti_pass_band(p, feed->columns, rows, share ? share : 1);
    for (first = 0; first < rows && !diti_graph_failed(p->graph); first += count) {
        diti_pass here;
        diti_tensor part = x, h;
        count = rows - first < band ? rows - first : band;
        here = diti_pass_rows_alone(p, first, count);
        if (count < rows) part = diti_tensor_view(p->graph, x, first, count, 0, p->width);
        h = diti_modulate(&here, part, shift, scale, feed);
        diti_sublayer_add(&here, part, gate, feed, diti_sublayer_in(&here, h, feed, 0));
    }
}

/* Attention within frames, or of whole items, some of them after the other: out or a new tensor. */
static diti_tensor diti_sublayer_attend_rows(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer,
                                             diti_tensor out, uint32_t band) {
    uint32_t rows = diti_pass_all(p), width = diti_column_shard_of(p, sublayer).count, first, count;
    bool items = sublayer->axis == DITI_ATTEND_ALL;
    if (!out) out = diti_tensor_new(p->graph, p->graph->activation, rows, width, "attention");
    for (first = 0; first < rows && !diti_graph_failed(p->graph); first += count) {
        diti_step_desc step = *p->step;
        diti_pass here = *p;
        count = rows - first < band ? rows - first : band;
        here.items = items ? count / (p->text + p->image) : 1;
        if (!items) here.image = step.token_range.all = count;
        here.step = &step;
        if (p->keys)
            here.keys = diti_tensor_view(p->graph, p->keys, first / (p->text + p->image), here.items, 0,
                                         diti_tensor_columns(p->graph, p->keys));
        if (p->table_items) {
            here.table_items = here.items;
            here.cosines =
                diti_tensor_view(p->graph, p->cosines, first, count, 0, diti_tensor_columns(p->graph, p->cosines));
            here.sines = diti_tensor_view(p->graph, p->sines, first, count, 0, diti_tensor_columns(p->graph, p->sines));
        }
        diti_sublayer_attend(&here, diti_tensor_view(p->graph, h, first, count, 0, diti_tensor_columns(p->graph, h)),
                             sublayer, diti_tensor_view(p->graph, out, first, count, 0, width));
    }
    return out;
}

/* Attention within positions, some of them after the other, which are copied out and back. */
static diti_tensor diti_sublayer_attend_places(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer,
                                               uint32_t band) {
    diti_graph *graph = p->graph;
    uint32_t frames = p->items * p->image / p->positions, own = diti_tensor_columns(graph, h),
             width = diti_column_shard_of(p, sublayer).count, first, count;
    diti_tensor out = diti_tensor_new(graph, graph->activation, p->items * p->image, width, "attention");
    diti_tensor from = diti_tensor_reshape(graph, h, frames, p->positions * own),
                to = diti_tensor_reshape(graph, out, frames, p->positions * width);
    for (first = 0; first < p->positions && !diti_graph_failed(graph); first += count) {
        diti_step_desc step = *p->step;
        diti_pass here = *p;
        diti_tensor part, o;
        count = p->positions - first < band ? p->positions - first : band;
        part = diti_tensor_new(graph, diti_tensor_get(graph, h)->format, frames, count * own, "some positions");
        diti_copy(graph, diti_tensor_view(graph, from, 0, frames, first * own, count * own), part, "some positions");
        here.positions = count;
        here.image = step.token_range.all = p->image / p->positions * count;
        here.step = &step;
        o = diti_sublayer_attend(&here, diti_tensor_reshape(graph, part, frames * count, own), sublayer, 0);
        diti_copy(graph, diti_tensor_reshape(graph, o, frames, count * width),
                  diti_tensor_view(graph, to, 0, frames, first * width, count * width), "some positions");
    }
    return out;
}

/* Whether the queries, keys and values of all rows would be too large for one tensor; then *out is made in bands. Not
   where devices divide rows, and exchange them within. */
static bool diti_sublayer_attends_in_bands(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer,
                                           diti_tensor *out) {
    uint32_t rows = diti_pass_all(p), band, unit = p->text + p->image;
    if (diti_graph_failed(p->graph) || diti_pass_divides(p) || p->step->kept_kv ||
        (p->step->reference_kv && p->step->reference_kv->fills) || sublayer->streams == DITI_STREAMS_IMAGE)
        return false;
    if (sublayer->axis == DITI_ATTEND_SPATIAL) unit = p->positions;
    if (sublayer->axis == DITI_ATTEND_TEMPORAL) {
        if (*out || diti_tensor_get(p->graph, h)->format == DITI_I8) return false;
        unit = rows / p->positions;
    }
    band = diti_pass_band(p, 3 * sublayer->columns, rows, unit);
    if (band >= rows) return false;
    *out = sublayer->axis == DITI_ATTEND_TEMPORAL ? diti_sublayer_attend_places(p, h, sublayer, band / unit)
                                                  : diti_sublayer_attend_rows(p, h, sublayer, *out, band);
    return true;
}

DIT_INTERNAL diti_tensor diti_sublayer_attend(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer,
                                              diti_tensor out) {
    diti_attend_desc desc = DITI_ZERO;
    diti_tensor qkv;
    uint32_t kind;
    if (diti_sublayer_attends_in_bands(p, h, sublayer, &out)) return out;
    if (sublayer->axis != DITI_ATTEND_ALL && diti_pass_divides(p) && p->step->token_range.unit == p->positions)
        return diti_sublayer_attend_divided(p, h, sublayer, out);
    if (sublayer->axis != DITI_ATTEND_ALL && (p->image != p->step->token_range.all || p->step->kept_kv))
        return diti_graph_fail(p->graph, DIT_ERROR_INVALID_ARGUMENT,
                               "attention within frames and within positions by turns goes without pipefusion");
    if (p->keys && (p->image != p->step->token_range.all || p->step->kept_kv))
        return diti_graph_fail(p->graph, DIT_ERROR_INVALID_ARGUMENT,
                               "attention that leaves padding of the text out wants all rows on one device: no "
                               "ulysses, ring or pipefusion");
    desc.items = p->items;
    desc.keys = p->keys;
    if (sublayer->axis == DITI_ATTEND_SPATIAL) desc.items *= p->image / p->positions;
    if (sublayer->axis == DITI_ATTEND_TEMPORAL) desc.items *= desc.row_step = p->positions;
    desc.heads = diti_column_shard_of(p, sublayer).count / sublayer->head_dim;
    desc.head_dim = sublayer->head_dim;
    desc.text = p->model->traits.joint && sublayer->streams != DITI_STREAMS_IMAGE;
    desc.int8 = p->model->int8_attention;
    desc.out = out;
    if (diti_attend_flows(p->step)) return diti_sublayer_flow(p, h, sublayer, &desc);
    qkv = diti_sublayer_in(p, h, sublayer, 0);
    if (sublayer->two_axes && sublayer->head_dim % 8) /* the kernel rotates such heads in F32 alone */
        qkv = diti_add_rows(p->graph, qkv, 0, 0, "qkv_f32");
    for (kind = 0; kind < 2 && sublayer->heads; kind++)
        sublayer->heads(p, diti_sublayer_kinds(p, qkv, sublayer, kind, 1), kind);
    if (!sublayer->heads) diti_sublayer_post(p, diti_sublayer_kinds(p, qkv, sublayer, 0, 2), 0, sublayer);
    return diti_attend(p->graph, p->step, &desc, qkv);
}

/* Pictures that share a prompt are queries of one attention. */
DIT_INTERNAL diti_tensor diti_attend_text(const diti_pass *p, const diti_sublayer *cross, diti_tensor q,
                                          diti_tensor text) {
    const diti_step_desc *step = p->step;
    uint32_t rows = diti_tensor_rows(p->graph, text), width = diti_column_shard_of(p, cross).count;
    diti_attention_desc desc = DITI_ZERO;
    desc.batch = p->prompts;
    desc.heads = width / cross->head_dim;
    desc.head_dim = cross->head_dim;
    desc.scale = 1.0f / sqrtf((float)cross->head_dim);
    desc.items = diti_pass_last(p, step->text_items);
    desc.key_limit = step->text_tokens;
    desc.name = "text_attention";
    return diti_attention(p->graph, q, diti_tensor_view(p->graph, text, 0, rows, 0, width),
                          diti_tensor_view(p->graph, text, 0, rows, width, width), &desc);
}

DIT_INTERNAL diti_tensor diti_sublayer_beside(const diti_pass *p, const diti_sublayer *sublayer,
                                              diti_tensor parts[DITI_BESIDE]) {
    uint32_t i, rows = diti_pass_all(p), columns[DITI_BESIDE];
    diti_tensor both;
    columns[0] = diti_column_shard_of(p, sublayer).count;
    columns[1] = diti_column_shard_of(p, sublayer->beside).count;
    both = diti_tensor_new(p->graph, p->graph->activation, rows, columns[0] + columns[1], "attention_and_ff");
    for (i = 0; i < DITI_BESIDE; i++)
        parts[i] = diti_tensor_view(p->graph, both, 0, rows, i ? columns[0] : 0, columns[i]);
    return both;
}

/* ---- the second layer ---- */

static void diti_sublayer_add_one(const diti_pass *p, diti_tensor x, diti_modulator gate, const diti_sublayer *sublayer,
                                  diti_tensor h) {
    diti_linear_desc desc = DITI_ZERO;
    desc.gate = diti_modulation_rows(p, 0, gate);
    desc.rows_per_gate = desc.gate ? diti_modulation_share(p) : 0;
    desc.out = x;
    desc.name = sublayer->out_name;
    diti_column_shard_add(p, h, sublayer->out, sublayer, &desc);
    diti_column_shard_sum(p, x);
}

/* Rows with a modulation of their own, with their gate. */
static void diti_sublayer_add_lead(const diti_pass *p, diti_tensor x, diti_modulator gate,
                                   const diti_sublayer *sublayer, diti_tensor h, const diti_layer *out,
                                   diti_rows lead) {
    diti_linear_desc desc = DITI_ZERO;
    desc.gate = diti_modulation_lead_rows(p, gate);
    desc.rows = lead;
    desc.out = x;
    desc.name = sublayer->out_name;
    diti_column_shard_add(p, h, out, sublayer, &desc);
}

static void diti_sublayer_add_two(const diti_pass *p, diti_tensor x, diti_modulator gate, const diti_sublayer *sublayer,
                                  diti_tensor h) {
    const diti_weight *reader = NULL;
    uint32_t i, written = 0;
    uint32_t layers = sublayer->streams == DITI_STREAMS_SHARED ? 1 : DITI_JOINT_STREAMS;
    diti_rows lead = diti_modulation_lead(p, sublayer);
    if (diti_reader_agrees(sublayer->out, layers, &reader)) h = diti_column_shard_input(p, h, reader);
    if (lead.count) diti_sublayer_add_lead(p, x, gate, sublayer, h, &sublayer->out[layers - 1], lead);
    for (i = diti_pass_first(p); i < DITI_JOINT_STREAMS; i++) {
        const diti_layer *out = sublayer->streams == DITI_STREAMS_SHARED ? sublayer->out : &sublayer->out[i];
        diti_linear_desc desc = DITI_ZERO;
        if (!out->weight.part_count) continue;
        desc.gate = diti_modulation_rows(p, i, gate);
        desc.rows_per_gate = diti_modulation_share(p);
        desc.rows = diti_pass_rows(p, i);
        if (lead.first >= desc.rows.first && lead.first < desc.rows.first + desc.rows.count) {
            desc.rows.count -= lead.count;
            if (i == DITI_JOINT_IMAGE) desc.rows.first += lead.count;
        }
        desc.out = x;
        desc.name = sublayer->out_name;
        if (desc.rows.count || p->graph->shards) diti_column_shard_add(p, h, out, sublayer, &desc);
        written++;
    }
    if (written + diti_pass_first(p) == DITI_JOINT_STREAMS) diti_column_shard_sum(p, x);
    for (i = 0; i < p->items && written + diti_pass_first(p) < DITI_JOINT_STREAMS; i++)
        diti_column_shard_sum(p, diti_pass_image(p, x, i));
}

static void diti_sublayer_add_image(const diti_pass *p, diti_tensor x, diti_modulator gate,
                                    const diti_sublayer *sublayer, diti_tensor h) {
    uint32_t i, columns = diti_column_shard_of(p, sublayer).count;
    h = diti_column_shard_input(p, h, &sublayer->out->weight);
    for (i = 0; i < p->items && !diti_graph_failed(p->graph); i++) {
        diti_linear_desc desc = DITI_ZERO;
        desc.gate = diti_modulation_item(p, i, gate);
        desc.out = diti_pass_image(p, x, i);
        desc.name = sublayer->out_name;
        diti_column_shard_add(p, diti_tensor_view(p->graph, h, i * p->image, p->image, 0, columns), sublayer->out,
                              sublayer, &desc);
        diti_column_shard_sum(p, diti_pass_image(p, x, i));
    }
}

DIT_INTERNAL void diti_sublayer_add(const diti_pass *p, diti_tensor x, diti_modulator gate,
                                    const diti_sublayer *sublayer, diti_tensor h) {
    switch (sublayer->streams) {
    case DITI_STREAMS_SHARED:
    case DITI_STREAMS_TWO: diti_sublayer_add_two(p, x, gate, sublayer, h); return;
    case DITI_STREAMS_IMAGE: diti_sublayer_add_image(p, x, gate, sublayer, h); return;
    default: diti_sublayer_add_one(p, x, gate, sublayer, h); return;
    }
}

DIT_INTERNAL diti_tensor diti_sublayer_out(const diti_pass *p, const diti_sublayer *sublayer, diti_tensor h) {
    diti_tensor out = diti_tensor_new(p->graph, DITI_F32, diti_tensor_rows(p->graph, h), p->width, sublayer->out_name);
    bool two = sublayer->streams == DITI_STREAMS_TWO;
    uint32_t i;
    for (i = 0; i < (two ? (uint32_t)DITI_JOINT_STREAMS : 1); i++) {
        diti_linear_desc desc = DITI_ZERO;
        if (two) desc.rows = diti_pass_rows(p, i);
        desc.out = out;
        desc.name = sublayer->out_name;
        diti_column_shard_make(p, h, &sublayer->out[i], sublayer, &desc);
    }
    diti_column_shard_sum(p, out);
    return out;
}

DIT_INTERNAL diti_tensor diti_output(const diti_pass *p, diti_tensor h, const diti_sublayer *sublayer) {
    return diti_layer_f32(p->graph, h, sublayer->in, DITI_ACTIVATION_NONE, 0, sublayer->in_name);
}

DIT_INTERNAL diti_tensor diti_output_modulated(const diti_pass *p, diti_tensor x, const diti_sublayer *sublayer) {
    return diti_output(p, diti_modulate(p, x, DITI_SHIFT, DITI_SCALE, sublayer), sublayer);
}

/* ---- whole blocks ---- */

DIT_INTERNAL void diti_block_attend(const diti_pass *p, diti_tensor x, const diti_sublayer *attention) {
    diti_tensor h = diti_modulate(p, x, DITI_SHIFT_MSA, DITI_SCALE_MSA, attention);
    h = diti_sublayer_attend(p, h, attention, 0);
    diti_sublayer_add(p, x, DITI_GATE_MSA, attention, h);
}

DIT_INTERNAL void diti_block_run(const diti_pass *p, diti_tensor x, const diti_sublayer *attention,
                                 const diti_sublayer *feed) {
    diti_tensor h;
    diti_block_attend(p, x, attention);
    h = diti_modulate(p, x, DITI_SHIFT_MLP, DITI_SCALE_MLP, feed);
    diti_sublayer_add(p, x, DITI_GATE_MLP, feed, diti_sublayer_in(p, h, feed, 0));
}

DIT_INTERNAL void diti_parallel_block_run(const diti_pass *p, diti_tensor x, const diti_sublayer *attention,
                                          const diti_sublayer *feed) {
    diti_tensor h = diti_modulate(p, x, DITI_SHIFT_MSA, DITI_SCALE_MSA, attention), both, parts[DITI_BESIDE];
    both = diti_sublayer_beside(p, attention, parts);
    diti_sublayer_attend(p, h, attention, parts[0]);
    diti_sublayer_in(p, h, feed, parts[1]);
    diti_sublayer_add(p, x, DITI_GATE_MSA, attention, both);
}
