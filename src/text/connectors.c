#include "text/text.h"

/* LTX-2's connectors (docs/models.md 5.10): all states of a language model become one vector for each token, which
   stands in front of learned vectors, the registers, and goes through a small transformer; one for the text of pictures
   and one for that of sound. Their attention, which LTX-2's transformer has, too, is here as well. */

/* ---- attention of heads that are normed together, may have gates, and rotate by halves ---- */

DIT_INTERNAL void diti_gated_attention_load(diti_loader *loader, diti_gated_attention *out, uint32_t heads,
                                            uint32_t head_dim, uint32_t width, uint32_t columns) {
    uint32_t inner = heads * head_dim;
    out->heads = heads;
    out->head_dim = head_dim;
    diti_load_layer(loader, &out->q, inner, width, 1, "to_q");
    diti_load_layer(loader, &out->k, inner, columns, 1, "to_k");
    diti_load_layer(loader, &out->v, inner, columns, 1, "to_v");
    diti_load_vector(loader, &out->norms[0], 1, inner, "norm_q.weight");
    diti_load_vector(loader, &out->norms[1], 1, inner, "norm_k.weight");
    if (diti_loader_find(loader, "to_gate_logits.weight"))
        diti_load_layer(loader, &out->gate, heads, width, 1, "to_gate_logits");
    diti_load_layer(loader, &out->out, width, inner, 1, "to_out.0");
}

static diti_tensor diti_gated_layer(diti_graph *graph, diti_tensor x, const diti_layer *layer, bool out_f32,
                                    const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.out_f32 = out_f32;
    desc.name = name;
    return diti_linear(graph, x, &layer->weight, &desc);
}

/* Queries or keys [items * tokens, inner]: normed, then each half of a head rotated against the other, by a table F32
   [tokens, inner / 2] that has columns of its own for each head. */
static diti_tensor diti_gated_heads(diti_graph *graph, diti_tensor h, const diti_gated_attention *w, uint32_t kind,
                                    const diti_tensor table[2]) {
    uint32_t inner = w->heads * w->head_dim, rows = diti_tensor_rows(graph, h);
    diti_tensor x = diti_gated_layer(graph, h, kind ? &w->k : &w->q, false, kind ? "keys" : "queries");
    diti_qkv_desc desc = DITI_ZERO;
    desc.heads = 1;
    desc.head_dim = inner;
    desc.norm = DITI_QKV_RMS;
    desc.eps = 1e-6f;
    desc.weight = &w->norms[kind];
    desc.name = "qk_norm";
    diti_qk_norm_rope(graph, x, &desc);
    if (!table[0] || diti_graph_failed(graph)) return x;
    desc.tokens = diti_tensor_rows(graph, table[0]) * w->heads;
    desc.head_dim = w->head_dim;
    desc.norm = DITI_QKV_NO_NORM;
    desc.weight = NULL;
    desc.cosines = diti_tensor_reshape(graph, table[0], desc.tokens, w->head_dim / 2);
    desc.sines = diti_tensor_reshape(graph, table[1], desc.tokens, w->head_dim / 2);
    desc.half_split = true;
    desc.name = "rotate";
    diti_qk_norm_rope(graph, diti_tensor_reshape(graph, x, rows * w->heads, w->head_dim), &desc);
    return x;
}

/* o * sigmoid(gate h) of each head = o * (1/2 + tanh(gate h / 2) / 2). */
static diti_tensor diti_gated_close(diti_graph *graph, diti_tensor o, diti_tensor h, const diti_gated_attention *w) {
    uint32_t rows = diti_tensor_rows(graph, o);
    diti_tensor gate = diti_gated_layer(graph, h, &w->gate, true, "head_gates");
    diti_elementwise_desc desc = DITI_ZERO;
    diti_block_desc repeat = DITI_ZERO;
    desc.activation = DITI_ACTIVATION_SQUASH; /* 3 tanh(g / 3) of g = 3 / 2 gate */
    desc.scale = 1.5f;
    desc.out_f32 = true;
    desc.name = "head_gates";
    gate = diti_elementwise(graph, gate, &desc);
    desc.activation = DITI_ACTIVATION_NONE;
    desc.scale = 1.0f / 6;
    desc.offset = 0.5f;
    gate = diti_elementwise(graph, gate, &desc);
    repeat.clip.frames = rows;
    repeat.clip.height = repeat.clip.width = 1;
    repeat.columns = w->heads * w->head_dim;
    repeat.repeats = w->head_dim;
    repeat.time = repeat.side = 1;
    repeat.channel_step = 1;
    repeat.out_f32 = true;
    repeat.name = "head_gates";
    return diti_multiply(graph, o, diti_spread_frames(graph, gate, &repeat), 0, "head_gates");
}

DIT_INTERNAL void diti_gated_attend(diti_graph *graph, const diti_gated_attention *w,
                                    const diti_gated_attend_desc *desc) {
    uint32_t groups = desc->gate ? diti_tensor_rows(graph, desc->gate) : 1;
    diti_tensor q = desc->values ? 0 : diti_gated_heads(graph, desc->h, w, 0, desc->q_table),
                k = desc->values ? 0 : diti_gated_heads(graph, desc->from, w, 1, desc->k_table),
                v = diti_gated_layer(graph, desc->from, &w->v, false, "values"), o;
    bool gated = w->gate.weight.part_count != 0;
    diti_attention_desc attention = DITI_ZERO;
    diti_linear_desc out = DITI_ZERO;
    diti_elementwise_desc twice = DITI_ZERO;
    twice.scale = 2;
    twice.name = "values";
    if (gated) v = diti_elementwise(graph, v, &twice); /* a head's gate is twice a sigmoid */
    attention.batch = desc->batch;
    attention.heads = w->heads;
    attention.head_dim = w->head_dim;
    attention.scale = 1.0f / sqrtf((float)w->head_dim);
    attention.int8 = desc->int8;
    attention.name = "attention";
    o = desc->values ? v : diti_attention(graph, q, k, v, &attention);
    if (gated) o = diti_gated_close(graph, o, desc->h, w);
    out.bias = &w->out.bias;
    out.gate = desc->gate;
    out.rows_per_gate = groups > 1 ? diti_tensor_rows(graph, desc->x) / groups : 0;
    out.residual = out.out = desc->x;
    out.name = "attention_out";
    diti_linear(graph, o, &w->out.weight, &out);
}

DIT_INTERNAL void diti_part_rotation(uint32_t width, uint32_t axes, const float *places, float *cosines, float *sines) {
    uint32_t half = width / 2, count = width / (2 * axes), rest = half - axes * count, j, axis;
    for (j = 0; j < rest; j++) {
        cosines[j] = 1;
        sines[j] = 0;
    }
    for (j = 0; j < count; j++) {
        double exponent = count > 1 ? (double)j / (double)(count - 1) : 0;
        float frequency = (float)(pow(10000.0, exponent) * 3.14159265358979323846 / 2.0);
        for (axis = 0; axis < axes; axis++) {
            float angle = (places[axis] * 2.0f - 1.0f) * frequency;
            cosines[rest + axes * j + axis] = cosf(angle);
            sines[rest + axes * j + axis] = sinf(angle);
        }
    }
}

/* ---- weights ---- */

#define DITI_CONNECTORS 2u
typedef struct diti_connector_block {
    diti_gated_attention attention;
    diti_layer ff_in, ff_out; /* [4 * width, width], [width, 4 * width] */
} diti_connector_block;
typedef struct diti_connector {
    uint32_t width, heads, blocks;
    diti_layer in;         /* [width, states * columns] */
    diti_weight registers; /* F32 [count, width] */
    diti_connector_block *block;
} diti_connector;
typedef struct diti_connectors {
    diti_component base;
    diti_encoder_traits traits;
    uint32_t columns, states; /* columns of a state */
    bool shared;              /* both read what one layer makes of the states (LTX-2) */
    diti_connector each[DITI_CONNECTORS];
} diti_connectors;

/* ---- names of original files: the layers in front stand beside the transformer, the rest inside ---- */

static const char *const diti_connector_keys[][2] = {
    {"text_proj_in", "text_embedding_projection.aggregate_embed"},
    {"video_text_proj_in", "text_embedding_projection.video_aggregate_embed"},
    {"audio_text_proj_in", "text_embedding_projection.audio_aggregate_embed"},
};
static const char *const diti_connector_block_keys[][2] = {
    {"attn1.norm_q", "attn1.q_norm"},
    {"attn1.norm_k", "attn1.k_norm"},
    {"attn1", "attn1"},
    {"ff", "ff"},
};
#define DITI_CONNECTOR_NAMES(prefix)                                                                                   \
    {                                                                                                                  \
        {"video_connector.transformer_blocks.", prefix "video_embeddings_connector.transformer_1d_blocks.",            \
         diti_connector_block_keys, DITI_COUNT(diti_connector_block_keys)},                                            \
            {"audio_connector.transformer_blocks.", prefix "audio_embeddings_connector.transformer_1d_blocks.",        \
             diti_connector_block_keys, DITI_COUNT(diti_connector_block_keys)},                                        \
            {NULL, NULL, diti_connector_keys, DITI_COUNT(diti_connector_keys)},                                        \
            {"video_connector.", prefix "video_embeddings_connector.", NULL, 0}, {                                     \
            "audio_connector.", prefix "audio_embeddings_connector.", NULL, 0                                          \
        }                                                                                                              \
    }
static const diti_key_table diti_connector_names[][DITI_KEY_TABLES] = {DITI_CONNECTOR_NAMES("model.diffusion_model."),
                                                                       DITI_CONNECTOR_NAMES("")};

/* ---- loading ---- */

static dit_result diti_connectors_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                       dit_error *err) {
    static const char *const names[] = {"video", "audio"};
    diti_connectors *own = (diti_connectors *)(void *)component;
    diti_settings settings = diti_settings_of(json, "the connectors' config.json", err);
    uint32_t i, all;
    char name[128], key[64];
    bool good = true;
    own->shared = diti_loader_find(loader, "text_proj_in.weight") != NULL;
    all = diti_loader_dimension(loader, own->shared ? "text_proj_in.weight" : "video_text_proj_in.weight", 1);
    own->columns = diti_setting_size(&settings, "caption_channels", 3840, 1u << 20);
    own->states = all / own->columns;
    if (!diti_equal(diti_setting_text(&settings, "rope_type", "split"), "split"))
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "rope_type", "only split is known");
    for (i = 0; i < DITI_CONNECTORS; i++) {
        diti_connector *one = &own->each[i];
        diti_format(name, sizeof name, "%s_connector.transformer_blocks.0.attn1.to_q.weight", names[i]);
        one->width = diti_loader_dimension(loader, name, 1);
        diti_format(name, sizeof name, "%s_connector.transformer_blocks.0.attn1.to_gate_logits.weight", names[i]);
        one->heads = diti_loader_dimension(loader, name, 0);
        diti_format(key, sizeof key, "%s_connector_num_attention_heads", names[i]);
        one->heads = diti_setting_size(&settings, key, one->heads ? one->heads : one->width / 128, 1024);
        diti_format(name, sizeof name, "%s_connector.transformer_blocks.", names[i]);
        diti_format(key, sizeof key, "%s_connector_num_layers", names[i]);
        one->blocks = diti_loader_layers(loader, &settings, key, name, ".attn1.to_q.weight");
        good = good && one->width && one->heads && one->blocks && one->width % one->heads == 0 &&
               one->width / one->heads % 4 == 0 && own->columns % 4 == 0 && one->width / one->heads <= 256;
    }
    DITI_TRY(settings.result);
    if (good && own->states && all == own->states * own->columns && own->states <= DITI_TAPS_ALL) return DIT_OK;
    if (!all || !own->each[0].width || !own->each[1].width)
        return diti_loader_refuse(loader, err,
                                  "LTX-2's connectors without %s, which neither this file nor the transformer's has",
                                  all ? "their blocks (video_embeddings_connector, audio_embeddings_connector)"
                                      : "what reads the text encoder (text_embedding_projection)");
    return diti_loader_refuse(
        loader, err,
        "connectors of %u and %u blocks in widths of %u and %u for %u channels of a text encoder are "
        "out of range",
        (unsigned)own->each[0].blocks, (unsigned)own->each[1].blocks, (unsigned)own->each[0].width,
        (unsigned)own->each[1].width, (unsigned)all);
}

static void diti_connector_load(diti_component *component, diti_loader *loader, diti_connector *out, const char *name,
                                uint32_t source, const char *in) {
    uint32_t i, width = out->width, rows;
    char full[96];
    out->block = (diti_connector_block *)diti_component_array(component, loader, out->blocks, sizeof *out->block);
    if (!out->block) return;
    diti_format(full, sizeof full, "%s.bias", in);
    if (diti_loader_find(loader, full))
        diti_load_layer(loader, &out->in, width, source, 1, in);
    else
        diti_load_bare(loader, &out->in, width, source, in);
    diti_loader_scope(loader, "%s_connector.", name);
    rows = diti_loader_dimension(loader, "learnable_registers", 0);
    diti_load_vector(loader, &out->registers, rows, width, "learnable_registers");
    for (i = 0; i < out->blocks; i++) {
        diti_loader_scope(loader, "%s_connector.transformer_blocks.%u.attn1.", name, (unsigned)i);
        diti_gated_attention_load(loader, &out->block[i].attention, out->heads, width / out->heads, width, width);
        diti_loader_scope(loader, "%s_connector.transformer_blocks.%u.", name, (unsigned)i);
        diti_load_layer(loader, &out->block[i].ff_in, 4 * width, width, 1, "ff.net.0.proj");
        diti_load_layer(loader, &out->block[i].ff_out, width, 4 * width, 1, "ff.net.2");
    }
    diti_loader_scope_end(loader);
}

static void diti_connectors_load_all(diti_component *component, diti_loader *loader) {
    diti_connectors *own = (diti_connectors *)(void *)component;
    uint32_t source = own->columns * own->states;
    diti_connector_load(component, loader, &own->each[0], "video", source,
                        own->shared ? "text_proj_in" : "video_text_proj_in");
    diti_connector_load(component, loader, &own->each[1], "audio", source,
                        own->shared ? "text_proj_in" : "audio_text_proj_in");
    own->traits.columns = own->each[0].width + own->each[1].width;
    own->traits.layers = own->each[0].blocks + own->each[1].blocks;
    own->traits.source = source;
}

/* ---- the graph ---- */

enum { /* inputs, those of sound behind those of pictures */
       DITI_CONNECTOR_COSINES,
       DITI_CONNECTOR_SINES = DITI_CONNECTOR_COSINES + DITI_CONNECTORS, /* F32 [tokens, width / 2] */
       DITI_CONNECTOR_ORDER = DITI_CONNECTOR_SINES + DITI_CONNECTORS,   /* U32 [1, rows]: tokens, then registers */
       DITI_CONNECTOR_COLUMN_PROBES,                                    /* the rest: see diti_connectors_ranges */
       DITI_CONNECTOR_ROW_PROBES,
       DITI_CONNECTOR_OWN,
       DITI_CONNECTOR_LAST_PROBES
};

/* ---- LTX-2: each state of a prompt minus its mean, divided by how far its largest and smallest values are apart ----
 */

/* Attention finds them. A query that is large in one of a head's channels, and 0 in the others, finds the key whose
   channel is largest, minus it the smallest, and a query of zeros the mean: four of each for heads of four channels. */
#define DITI_CONNECTOR_HEAD 4u
#define DITI_CONNECTOR_SHARP 1000.0f /* a query's channel, and the scale of scores */
#define DITI_CONNECTOR_LITTLE 1e-6f
enum { DITI_CONNECTOR_MOST, DITI_CONNECTOR_LEAST, DITI_CONNECTOR_MEAN, DITI_CONNECTOR_KINDS };
#define DITI_CONNECTOR_PROBES (DITI_CONNECTOR_KINDS * DITI_CONNECTOR_HEAD)

static float diti_connectors_sharp(uint32_t kind) {
    return kind == DITI_CONNECTOR_MOST    ? DITI_CONNECTOR_SHARP
           : kind == DITI_CONNECTOR_LEAST ? -DITI_CONNECTOR_SHARP
                                          : 0;
}

static diti_tensor diti_connectors_search(diti_graph *graph, diti_tensor q, diti_tensor keys, uint32_t batch,
                                          uint32_t heads, diti_tensor items, diti_tensor out) {
    diti_attention_desc desc = DITI_ZERO;
    desc.batch = batch;
    desc.heads = heads;
    desc.head_dim = DITI_CONNECTOR_HEAD;
    desc.scale = DITI_CONNECTOR_SHARP;
    desc.items = items;
    desc.out = out;
    desc.name = "range_of_states";
    return diti_attention(graph, q, keys, keys, &desc);
}

/* The mean of each row's columns in all of so many columns, F32. */
static diti_tensor diti_connectors_spread(diti_graph *graph, diti_tensor x, uint32_t columns) {
    diti_block_desc desc = DITI_ZERO;
    desc.clip.frames = diti_tensor_rows(graph, x);
    desc.clip.height = desc.clip.width = desc.time = desc.side = desc.channel_step = desc.columns = 1;
    desc.repeats = diti_tensor_columns(graph, x);
    desc.out_f32 = true;
    desc.name = "range_of_states";
    x = diti_gather_frames(graph, x, &desc);
    desc.columns = columns;
    desc.repeats = desc.modulus = 1;
    return diti_spread_frames(graph, x, &desc);
}

/* A fourth of the largest, of the smallest and of the mean value of each state of each prompt, each in four columns:
   F32 [prompts * states, 12]. First of each column over the tokens, then over a fourth of the columns each, then of
   these four, of which each has its own in a channel of its own. */
static diti_tensor diti_connectors_ranges(const diti_connectors *own, diti_graph *graph, diti_encoder_use *use) {
    uint32_t each = own->states * use->batch, all = each * DITI_CONNECTOR_PROBES, i, columns = own->columns,
             heads = columns / DITI_CONNECTOR_HEAD, rows = use->source_tokens, kinds = each * DITI_CONNECTOR_KINDS;
    diti_tensor found = diti_tensor_new(graph, DITI_F32, all, columns, "range_of_states"),
                some = diti_tensor_new(graph, DITI_F32, all, DITI_CONNECTOR_HEAD, "range_of_states"),
                last = diti_tensor_new(graph, DITI_F32, kinds, DITI_CONNECTOR_HEAD, "range_of_states");
    use->inputs[DITI_CONNECTOR_COLUMN_PROBES] =
        diti_tensor_input(graph, DITI_F32, DITI_CONNECTOR_PROBES, columns, "probes");
    use->inputs[DITI_CONNECTOR_ROW_PROBES] = diti_tensor_input(graph, DITI_F32, all, DITI_CONNECTOR_HEAD, "probes");
    use->inputs[DITI_CONNECTOR_OWN] = diti_tensor_input(graph, DITI_F32, all, DITI_CONNECTOR_HEAD, "own channels");
    use->inputs[DITI_CONNECTOR_LAST_PROBES] = diti_tensor_input(graph, DITI_F32, kinds, DITI_CONNECTOR_HEAD, "probes");
    for (i = 0; i < each && !diti_graph_failed(graph); i++)
        diti_connectors_search(
            graph, use->inputs[DITI_CONNECTOR_COLUMN_PROBES],
            diti_tensor_view(graph, use->source, 0, use->batch * rows, i % own->states * columns, columns), 1, heads,
            diti_tensor_view(graph, use->source_items, i / own->states, 1, 0, DITI_ITEM_WORDS),
            diti_tensor_view(graph, found, i * DITI_CONNECTOR_PROBES, DITI_CONNECTOR_PROBES, 0, columns));
    diti_connectors_search(graph, use->inputs[DITI_CONNECTOR_ROW_PROBES],
                           diti_tensor_reshape(graph, found, all * heads, DITI_CONNECTOR_HEAD), all, 1, 0, some);
    some = diti_multiply(graph, some, use->inputs[DITI_CONNECTOR_OWN], 0, "range_of_states");
    diti_connectors_search(graph, use->inputs[DITI_CONNECTOR_LAST_PROBES],
                           diti_connectors_spread(graph, some, DITI_CONNECTOR_HEAD), kinds, 1, 0, last);
    return diti_tensor_reshape(graph, last, each, DITI_CONNECTOR_PROBES);
}

/* x * scale + add, F32. */
static diti_tensor diti_connectors_sum(diti_graph *graph, diti_tensor x, float scale, diti_tensor add) {
    diti_elementwise_desc desc = DITI_ZERO;
    desc.scale = scale;
    desc.add = add;
    desc.out_f32 = true;
    desc.name = "range_of_states";
    return diti_elementwise(graph, x, &desc);
}

/* (x - mean) / (largest - smallest) of each state, [rows * states, columns]. An RMS norm divides: where a row has four
   times a small number d, then four times a fourth of a range r, it makes d * sqrt(32) / r of the former. */
static diti_tensor diti_connectors_range_norm(const diti_connectors *own, diti_graph *graph, diti_encoder_use *use) {
    uint32_t each = own->states * use->batch, rows = diti_tensor_rows(graph, use->source), head = DITI_CONNECTOR_HEAD,
             i;
    diti_tensor ranges = diti_connectors_ranges(own, graph, use), parts[DITI_CONNECTOR_KINDS], mean, inverse,
                pair = diti_tensor_new(graph, DITI_F32, each, 2 * head, "range_of_states");
    diti_elementwise_desc little = DITI_ZERO;
    diti_norm_desc norm = DITI_ZERO;
    diti_condition_desc desc = DITI_ZERO;
    for (i = 0; i < DITI_CONNECTOR_KINDS; i++) parts[i] = diti_tensor_view(graph, ranges, 0, each, i * head, head);
    norm.rms = norm.out_f32 = true;
    norm.eps = 1e-30f;
    norm.name = little.name = "range_of_states";
    little.scale = 1e-30f;
    little.offset = DITI_CONNECTOR_LITTLE;
    little.out = diti_tensor_view(graph, pair, 0, each, 0, head);
    diti_elementwise(graph, parts[DITI_CONNECTOR_MOST], &little);
    diti_copy(graph, diti_connectors_sum(graph, parts[DITI_CONNECTOR_LEAST], -1, parts[DITI_CONNECTOR_MOST]),
              diti_tensor_view(graph, pair, 0, each, head, head), "range_of_states");
    inverse = diti_tensor_view(graph, diti_norm(graph, pair, &norm), 0, each, 0, head);
    inverse = diti_connectors_sum(graph, inverse, 1 / (sqrtf(32.0f) * DITI_CONNECTOR_LITTLE), 0);
    mean = diti_multiply(graph, parts[DITI_CONNECTOR_MEAN], inverse, 0, "range_of_states");
    mean = diti_connectors_sum(graph, mean, -(float)DITI_CONNECTOR_HEAD, 0);
    desc.clip.frames = rows;
    desc.coarse.frames = use->batch;
    desc.clip.height = desc.coarse.height = 1;
    desc.clip.width = desc.coarse.width = own->states;
    desc.scale = diti_connectors_spread(graph, inverse, own->columns);
    desc.shift = diti_connectors_spread(graph, mean, own->columns);
    desc.name = "connector_states";
    return diti_condition_frames(graph, diti_tensor_reshape(graph, use->source, rows * own->states, own->columns),
                                 &desc);
}

/* The states of each token side by side, channel by channel: [rows, columns * states], each normed. */
static diti_tensor diti_connectors_states(const diti_connectors *own, diti_graph *graph, diti_encoder_use *use) {
    uint32_t rows = diti_tensor_rows(graph, use->source) * own->states;
    diti_tensor x;
    diti_norm_desc norm = DITI_ZERO;
    diti_block_desc turn = DITI_ZERO;
    norm.rms = true;
    norm.eps = 1e-6f;
    norm.name = "connector_states";
    turn.clip.frames = rows;
    turn.clip.height = turn.clip.width = 1;
    turn.time = own->states;
    turn.side = 1;
    turn.channel_step = own->states;
    turn.time_step = 1;
    turn.columns = own->columns * own->states;
    turn.name = "connector_states";
    x = own->shared ? diti_connectors_range_norm(own, graph, use)
                    : diti_norm(graph, diti_tensor_reshape(graph, use->source, rows, own->columns), &norm);
    return diti_gather_frames(graph, x, &turn);
}

static diti_tensor diti_connector_norm(diti_graph *graph, diti_tensor x, diti_tensor out) {
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = true;
    desc.eps = 1e-6f;
    desc.out = out;
    desc.name = "connector_norm";
    return diti_norm(graph, x, &desc);
}

/* Tokens of all prompts, then the registers, F32 [rows + count, width]. */
static diti_tensor diti_connector_table(const diti_connectors *own, diti_graph *graph, const diti_connector *one,
                                        diti_tensor states) {
    uint32_t rows = diti_tensor_rows(graph, states), width = one->width, count = one->registers.rows;
    diti_tensor table = diti_tensor_new(graph, DITI_F32, rows + count, width, "tokens and registers"), y;
    diti_linear_desc linear = DITI_ZERO;
    diti_elementwise_desc scale = DITI_ZERO;
    linear.out_f32 = true;
    linear.name = scale.name = "connector_in";
    y = diti_linear(graph, states, &one->in.weight, &linear);
    scale.scale = own->shared ? 8.0f : sqrtf((float)width / (float)own->columns);
    if (one->in.bias.part_count) scale.add = diti_tensor_weight(graph, &one->in.bias, 0);
    scale.out = diti_tensor_view(graph, table, 0, rows, 0, width);
    diti_elementwise(graph, y, &scale);
    diti_copy(graph, diti_tensor_weight(graph, &one->registers, 0),
              diti_tensor_view(graph, table, rows, count, 0, width), "registers");
    return table;
}

static void diti_connector_run(const diti_connectors *own, diti_graph *graph, const diti_encoder_use *use,
                               uint32_t index, diti_tensor states, diti_tensor out) {
    const diti_connector *one = &own->each[index];
    diti_tensor x = diti_connector_table(own, graph, one, states);
    diti_gated_attend_desc attend = DITI_ZERO;
    diti_linear_desc feed = DITI_ZERO;
    uint32_t i;
    x = diti_gather_tensor(graph, x, use->inputs[DITI_CONNECTOR_ORDER], "tokens and registers");
    attend.x = x;
    attend.batch = use->batch;
    attend.q_table[0] = attend.k_table[0] = use->inputs[DITI_CONNECTOR_COSINES + index];
    attend.q_table[1] = attend.k_table[1] = use->inputs[DITI_CONNECTOR_SINES + index];
    feed.name = "connector_feed";
    for (i = 0; i < one->blocks && !diti_graph_failed(graph); i++) {
        diti_tensor h;
        diti_graph_scope(graph, "block", i);
        attend.h = attend.from = diti_connector_norm(graph, x, 0);
        diti_gated_attend(graph, &one->block[i].attention, &attend);
        feed.bias = &one->block[i].ff_in.bias;
        feed.activation = DITI_ACTIVATION_GELU_TANH;
        feed.residual = feed.out = 0;
        h = diti_linear(graph, diti_connector_norm(graph, x, 0), &one->block[i].ff_in.weight, &feed);
        feed.bias = &one->block[i].ff_out.bias;
        feed.activation = DITI_ACTIVATION_NONE;
        feed.residual = feed.out = x;
        diti_linear(graph, h, &one->block[i].ff_out.weight, &feed);
    }
    diti_graph_scope(graph, NULL, 0);
    diti_connector_norm(graph, x, out);
}

static diti_tensor diti_connectors_encode(const void *self, diti_graph *graph, diti_encoder_use *use) {
    const diti_connectors *own = (const diti_connectors *)self;
    uint32_t i, column = 0;
    diti_tensor states = diti_connectors_states(own, graph, use),
                out = diti_tensor_new(graph, DITI_F32, use->rows, own->traits.columns, "texts");
    use->inputs[DITI_CONNECTOR_ORDER] = diti_tensor_input(graph, DITI_U32, 1, use->rows, "order of tokens");
    for (i = 0; i < DITI_CONNECTORS && !diti_graph_failed(graph); column += own->each[i++].width) {
        uint32_t half = own->each[i].width / 2;
        use->inputs[DITI_CONNECTOR_COSINES + i] =
            diti_tensor_input(graph, DITI_F32, use->tokens, half, "connector cosines");
        use->inputs[DITI_CONNECTOR_SINES + i] =
            diti_tensor_input(graph, DITI_F32, use->tokens, half, "connector sines");
        diti_connector_run(own, graph, use, i, states,
                           diti_tensor_view(graph, out, 0, use->rows, column, own->each[i].width));
    }
    if (use->weights) diti_weigh_rows(graph, out, use->weights, "connectors_weigh");
    return out;
}

/* ---- what the host writes, and what those call who do not ask which encoder it is ---- */

/* Registers fill a text's places behind its tokens; they repeat by places. */
static dit_result diti_connectors_write_order(const diti_connectors *own, diti_plan *plan, const diti_encoder_use *use,
                                              const uint32_t *items, dit_error *err) {
    const diti_env *env = &own->base.env;
    uint32_t *order = (uint32_t *)diti_alloc_array(env, use->rows, sizeof *order), i, row,
             count = own->each[0].registers.rows;
    dit_result result;
    if (!order) return diti_fail_memory(err, "the order of tokens");
    for (i = 0; i < use->batch; i++)
        for (row = 0; row < use->tokens; row++)
            order[i * use->tokens + row] = row < items[i * DITI_ITEM_WORDS + 3]
                                               ? i * use->source_tokens + row
                                               : use->batch * use->source_tokens + row % count;
    result = diti_plan_write(plan, use->inputs[DITI_CONNECTOR_ORDER], order, use->rows * sizeof *order, err);
    diti_free(env, order);
    return result;
}

/* Rows are probes: of each kind one for each channel of a head, but for the last ones, of which each kind has one. */
static dit_result diti_connectors_write_probes(const diti_connectors *own, diti_plan *plan, const diti_encoder_use *use,
                                               dit_error *err) {
    uint32_t input;
    dit_result result = DIT_OK;
    for (input = DITI_CONNECTOR_COLUMN_PROBES; input <= DITI_CONNECTOR_LAST_PROBES && result >= 0; input++) {
        const diti_tensor_info *info = &plan->tensors[use->inputs[input]];
        size_t count = (size_t)info->rows * info->columns, n;
        float *values = (float *)diti_alloc_array(&own->base.env, count, sizeof *values);
        if (!values) return diti_fail_memory(err, "the probes of states");
        for (n = 0; n < count; n++) {
            uint32_t row = (uint32_t)(n / info->columns), kind = row / DITI_CONNECTOR_HEAD % DITI_CONNECTOR_KINDS;
            bool of_channel = row % DITI_CONNECTOR_HEAD == n % info->columns % DITI_CONNECTOR_HEAD;
            if (input == DITI_CONNECTOR_LAST_PROBES)
                values[n] = diti_connectors_sharp(row % DITI_CONNECTOR_KINDS);
            else if (input == DITI_CONNECTOR_OWN)
                values[n] = of_channel;
            else
                values[n] = of_channel ? diti_connectors_sharp(kind) : 0;
        }
        result = diti_plan_write(plan, use->inputs[input], values, count * sizeof *values, err);
        diti_free(&own->base.env, values);
    }
    return result;
}

static dit_result diti_connectors_write(const void *self, diti_plan *plan, const diti_encoder_use *use,
                                        const int32_t *ids, const uint32_t *items, dit_error *err) {
    const diti_connectors *own = (const diti_connectors *)self;
    uint32_t i, row;
    dit_result result = diti_connectors_write_order(own, plan, use, items, err);
    (void)ids;
    if (own->shared && result >= 0) result = diti_connectors_write_probes(own, plan, use, err);
    for (i = 0; i < DITI_CONNECTORS && result >= 0; i++) {
        size_t half = own->each[i].width / 2, count = half * use->tokens;
        float *table = (float *)diti_alloc_array(&own->base.env, 2 * count, sizeof *table);
        if (!table) return diti_fail_memory(err, "the positions of tokens");
        for (row = 0; row < use->tokens; row++) {
            float place = (float)row / 4096.0f;
            diti_part_rotation(own->each[i].width, 1, &place, table + row * half, table + count + row * half);
        }
        result = diti_plan_write(plan, use->inputs[DITI_CONNECTOR_COSINES + i], table, count * sizeof *table, err);
        if (result >= 0)
            result =
                diti_plan_write(plan, use->inputs[DITI_CONNECTOR_SINES + i], table + count, count * sizeof *table, err);
        diti_free(&own->base.env, table);
    }
    return result;
}

static dit_result diti_connectors_load(diti_device *device, const diti_env *env, const diti_json *config,
                                       const diti_checkpoint *checkpoint, const char *prefix,
                                       const diti_load_options *options, void **out, dit_error *err) {
    static const diti_component_kind kind = {
        "connectors", "connectors", sizeof(diti_connectors), diti_connectors_read, diti_connectors_load_all, NULL};
    diti_component_source from = {device, env, config, checkpoint, prefix, options, NULL, NULL};
    diti_component *component = NULL;
    dit_result result;
    if (diti_component_has(&from, "model.diffusion_model.video_embeddings_connector.learnable_registers"))
        from.keys = diti_connector_names[0];
    else if (!diti_component_has(&from, "text_proj_in.weight") &&
             !diti_component_has(&from, "video_text_proj_in.weight"))
        from.keys = diti_connector_names[1];
    result = diti_component_load(&kind, &from, &component, err);
    *out = component;
    return result;
}

static void diti_connectors_destroy(void *self) {
    if (self) diti_component_free(&((diti_connectors *)self)->base);
}

static const diti_encoder_traits *diti_connectors_traits(const void *self) {
    return &((const diti_connectors *)self)->traits;
}

static const diti_weights *diti_connectors_weights(const void *self) {
    return &((const diti_connectors *)self)->base.weights;
}

DIT_INTERNAL const diti_encoder_type *diti_connectors_type(void) {
    static const diti_encoder_type type = {true,
                                           true,
                                           diti_connectors_load,
                                           diti_connectors_destroy,
                                           diti_connectors_traits,
                                           diti_connectors_weights,
                                           diti_connectors_encode,
                                           diti_connectors_write};
    return &type;
}
