#include "text/text.h"

/* Decoder language models as text encoders (docs/models.md 5.4): RMS norms before attention and feed-forward, heads of
   queries that share heads of keys and values, rotary embedding of whole heads, a causal mask, and a gated
   feed-forward. Qwen3 norms each head of queries and keys, Qwen2.5 has biases on them, Gemma 2 norms what both
   sublayers say and caps scores, Gemma 3 norms both, and rotates in its windowed layers by a theta of their own. LLaMA
   and Mistral are the plain form. Whichever it is follows from its tensors. */

typedef struct diti_decoder_block {
    diti_weight norm;           /* [d] */
    diti_layer q;               /* [heads * head_dim, d] */
    diti_fused_linear kv;       /* [2 * kv_heads * head_dim, d] */
    diti_weight q_norm, k_norm; /* [head_dim]; Qwen3 */
    diti_weight out;            /* [d, heads * head_dim] */
    diti_weight attention_norm; /* [d]; Gemma 2: norms what attention says */
    diti_weight ff_norm;        /* [d] */
    diti_weight gate, up, down; /* [ff, d], [ff, d], [d, ff] */
    diti_weight last_norm;      /* [d]; Gemma 2: norms what the feed-forward says */
} diti_decoder_block;

#define DITI_DECODER_LAYERS 1024u
typedef struct diti_decoder_config {
    uint32_t columns, vocabulary; /* columns: d */
    uint32_t layers, needed;      /* layers of the model, and those before the last state that is wanted */
    uint32_t heads, kv_heads, head_dim, hidden, q_rows, kv_rows;
    uint32_t window;                             /* keys that a windowed layer sees; 0: all */
    uint32_t windowed[DITI_DECODER_LAYERS / 32]; /* bit k % 32 of k / 32: layer k is one */
    float eps, theta, scale;                     /* scale: of scores */
    float local_theta;                           /* Gemma 3: windowed layers rotate by this one; 0: by theta */
    float linear_stretch;                        /* places count for so many times less; not in windowed layers */
    double stretch;                              /* YaRN: slow pairs turn slower by so much; 0: no pair does */
    double stretch_tokens, fast, slow;           /* pairs are fast or slow by turns within so many tokens */
    float first_slower, last_slower;             /* pairs before the first are fast, those from the last on slow */
    float turn_scale;        /* cosines and sines are so many times as large, where pairs are stretched */
    float cap;               /* scores are cap * tanh(score / cap); 0: as they are */
    float embedding_scale;   /* 0: 1 */
    bool head_norms, biased; /* Qwen3; Qwen2.5 */
    bool four_norms;         /* Gemma 2 */
    bool offset_norms;       /* weights of norms are stored minus 1 */
    bool interleaved;        /* llama.cpp's order of rows: pairs (2i, 2i + 1) are rotated, else (i, i + head_dim / 2) */
    diti_activation activation;
    uint32_t sections[3]; /* pairs of a head that rotate by the row in time, the line and the column of a picture */
    bool weaves;          /* Qwen3-VL: these take turns, as far as each has pairs */
    int32_t picture;      /* token that stands for one of a picture's */
    uint32_t taps[DITI_TAPS_ALL], tap_count;
    bool normed; /* the last state, if it is wanted, is behind the final norm */
    bool deals;  /* DITI_TAPS_DEALT */
} diti_decoder_config;

struct diti_decoder {
    diti_component base;
    diti_decoder_config config;
    diti_encoder_traits traits;
    diti_weight embedding;  /* [vocabulary, d] */
    diti_weight final_norm; /* [d] */
    diti_decoder_block *blocks;
    const diti_json *json; /* config.json while it is loaded */
    diti_vision *vision;   /* NULL: nothing is shown to it */
};

/* ---- names: those that are asked for are transformers' behind "model."; other models have other words before them
 * ----
 */

#define DITI_DECODER_PREFIXES 5u
static const diti_key_table diti_decoder_prefixes[DITI_DECODER_PREFIXES][DITI_KEY_TABLES] = {
    {{NULL, "model.", NULL, 0}, {NULL, NULL, NULL, 0}, {NULL, NULL, NULL, 0}, {NULL, NULL, NULL, 0}},
    {{NULL, "", NULL, 0}, {NULL, NULL, NULL, 0}, {NULL, NULL, NULL, 0}, {NULL, NULL, NULL, 0}},
    {{NULL, "model.language_model.", NULL, 0}, {NULL, NULL, NULL, 0}, {NULL, NULL, NULL, 0}, {NULL, NULL, NULL, 0}},
    {{NULL, "language_model.model.", NULL, 0}, {NULL, NULL, NULL, 0}, {NULL, NULL, NULL, 0}, {NULL, NULL, NULL, 0}},
    {{NULL, "language_model.", NULL, 0}, {NULL, NULL, NULL, 0}, {NULL, NULL, NULL, 0}, {NULL, NULL, NULL, 0}},
};

static const char *const diti_decoder_gguf_keys[][2] = {{"embed_tokens", "token_embd"}, {"norm", "output_norm"}};
static const char *const diti_decoder_gguf_block_keys[][2] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};
/* Gemma 2: the norm before the feed-forward has another name in transformers. */
static const char *const diti_decoder_gemma_block_keys[][2] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.o_proj", "attn_output"},
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};
static const diti_key_table diti_decoder_gguf_names[DITI_KEY_TABLES] = {
    {"layers.", "blk.", diti_decoder_gguf_block_keys, DITI_COUNT(diti_decoder_gguf_block_keys)},
    {NULL, NULL, diti_decoder_gguf_keys, DITI_COUNT(diti_decoder_gguf_keys)},
    {NULL, NULL, NULL, 0},
    {NULL, NULL, NULL, 0},
};
static const diti_key_table diti_decoder_gemma_names[DITI_KEY_TABLES] = {
    {"layers.", "blk.", diti_decoder_gemma_block_keys, DITI_COUNT(diti_decoder_gemma_block_keys)},
    {NULL, NULL, diti_decoder_gguf_keys, DITI_COUNT(diti_decoder_gguf_keys)},
    {NULL, NULL, NULL, 0},
    {NULL, NULL, NULL, 0},
};

static const diti_key_table *diti_decoder_names(const diti_component_source *from) {
    char name[64];
    uint32_t i;
    for (i = 0; i < DITI_DECODER_PREFIXES; i++) {
        diti_format(name, sizeof name, "%slayers.0.self_attn.q_proj.weight", diti_decoder_prefixes[i][0].after);
        if (diti_component_has(from, name)) return diti_decoder_prefixes[i];
    }
    if (diti_component_has(from, "blk.0.post_ffw_norm.weight")) return diti_decoder_gemma_names;
    return diti_component_has(from, "blk.0.attn_q.weight") ? diti_decoder_gguf_names : diti_decoder_prefixes[0];
}

/* ---- configuration ---- */

/* A GGUF's metadata, ARCHITECTURE.KEY; NULL: absent. */
static const char *diti_decoder_said(const diti_checkpoint *checkpoint, const char *key) {
    const char *architecture = diti_checkpoint_text(checkpoint, "general.architecture");
    char name[128];
    if (!architecture || !diti_format(name, sizeof name, "%s.%s", architecture, key)) return NULL;
    return diti_checkpoint_text(checkpoint, name);
}

/* A number of it; 0: absent. */
static double diti_decoder_metadata(const diti_checkpoint *checkpoint, const char *key) {
    const char *text = diti_decoder_said(checkpoint, key);
    return text ? diti_parse_double(text) : 0;
}

static uint32_t diti_decoder_count(const diti_checkpoint *checkpoint, const char *key) {
    double value = diti_decoder_metadata(checkpoint, key);
    return value >= 1 && value <= 1u << 20 ? (uint32_t)value : 0;
}

/* As published, 16, 24 and 24 of 64, Qwen3-VL's 24, 20 and 20; the same shares of other heads. */
static void diti_decoder_assume_sections(diti_decoder_config *config) {
    uint32_t half = config->head_dim / 2;
    config->weaves = config->head_norms;
    config->sections[1] = config->sections[2] = config->weaves ? half * 5 / 16 : half * 3 / 8;
    config->sections[0] = half - 2 * config->sections[1];
}

static void diti_decoder_read_sections(diti_settings *rope, diti_decoder_config *config) {
    const diti_json *list = diti_setting_numbers(rope, "mrope_section"), *entry = list ? list->first : NULL;
    uint32_t i;
    for (i = 0; i < 3 && entry; i++, entry = entry->next)
        config->sections[i] = entry->number >= 0 && entry->number <= 512 ? (uint32_t)entry->number : 0;
}

static double diti_decoder_magnify(double factor, double by) { return factor > 1 ? 0.1 * by * log(factor) + 1 : 1; }

/* The pair that turns so many times within the texts that rotations were stretched from. */
static double diti_decoder_turned(const diti_decoder_config *config, double turns) {
    return config->head_dim * log(config->stretch_tokens / (turns * 6.283185307179586)) /
           (2 * log((double)config->theta));
}

/* YaRN (docs/models.md 5.4): from the pair that is the last to be fast to the one that is the first to be slow. */
static void diti_decoder_stretch(diti_decoder_config *config) {
    double first = floor(diti_decoder_turned(config, config->fast)),
           last = ceil(diti_decoder_turned(config, config->slow));
    if (!(first > 0)) first = 0;
    if (!(last < config->head_dim - 1)) last = config->head_dim - 1;
    config->first_slower = (float)first;
    config->last_slower = (float)(last > first ? last : first + 0.001);
}

static void diti_decoder_read_stretch(diti_settings *rope, diti_decoder_config *config) {
    double own = diti_setting_number(rope, "mscale", 0, 0, 1e3),
           all = diti_setting_number(rope, "mscale_all_dim", 0, 0, 1e3), scale;
    config->stretch = diti_setting_number(rope, "factor", 1, 1, 1e6);
    config->stretch_tokens = diti_setting_number(rope, "original_max_position_embeddings", 0, 0, 1e9);
    config->fast = diti_setting_number(rope, "beta_fast", 32, 1e-3, 1e6);
    config->slow = diti_setting_number(rope, "beta_slow", 1, 1e-3, 1e6);
    scale = diti_decoder_magnify(config->stretch, own > 0 && all > 0 ? own : 1);
    if (own > 0 && all > 0) scale /= diti_decoder_magnify(config->stretch, all);
    config->turn_scale = (float)diti_setting_number(rope, "attention_factor", scale, 1e-3, 1e3);
    if (config->stretch_tokens < 1)
        diti_settings_refuse(rope, DIT_ERROR_UNSUPPORTED_MODEL, "original_max_position_embeddings",
                             "missing, which rotations of type yarn are stretched from");
}

/* Gemma 3: layers that see all rotate by a theta of their own, and stretch places by a factor. */
static void diti_decoder_read_rotations(diti_settings *settings, diti_decoder_config *config) {
    const diti_json *both = diti_setting(settings, "rope_parameters");
    const diti_json *full = diti_json_get(both, "full_attention");
    diti_settings scaling = diti_settings_of(full ? full : diti_setting(settings, "rope_scaling"), settings->file,
                                             settings->err),
                  local = diti_settings_of(diti_json_get(both, "sliding_attention"), settings->file, settings->err);
    const char *type = diti_setting_text(&scaling, "rope_type", diti_setting_text(&scaling, "type", "default"));
    double theta = diti_setting_number(settings, "rope_theta", config->theta, 1, 1e15),
           inside = diti_setting_number(settings, "rope_local_base_freq", config->local_theta, 1, 1e15),
           stretch = diti_equal(type, "default") && settings->object ? 1 : config->linear_stretch;
    config->theta = (float)diti_setting_number(&scaling, "rope_theta", theta, 1, 1e15);
    config->local_theta = (float)diti_setting_number(&local, "rope_theta", inside, 1, 1e15);
    config->linear_stretch = (float)diti_setting_number(&scaling, "factor", stretch, 1, 1e6);
    config->sections[0] = config->head_dim / 2;
    if (settings->result == DIT_OK) settings->result = scaling.result < 0 ? scaling.result : local.result;
    if (!diti_equal(type, "default") && !diti_equal(type, "linear"))
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "rope_scaling",
                             "of a type that is not known for Gemma 3, only default and linear");
}

/* How far apart rotations are, and what stretches them. Newer files have both in rope_parameters, models with images
   the sections of their three axes, which agree in text. */
static void diti_decoder_read_rotation(diti_settings *settings, diti_decoder_config *config) {
    static const char *const places[] = {"rope_scaling", "rope_parameters"};
    double theta = config->theta;
    size_t i;
    if (config->head_norms && config->four_norms) {
        diti_decoder_read_rotations(settings, config);
        return;
    }
    theta = diti_setting_number(settings, "rope_theta", theta, 1, 1e15);
    diti_decoder_assume_sections(config);
    for (i = 0; i < DITI_COUNT(places); i++) {
        diti_settings rope = diti_settings_of(diti_setting(settings, places[i]), settings->file, settings->err);
        const char *type = diti_setting_text(&rope, "type", "default");
        type = diti_setting_text(&rope, "rope_type", type);
        theta = diti_setting_number(&rope, "rope_theta", theta, 1, 1e15);
        config->theta = (float)theta;
        diti_decoder_read_sections(&rope, config);
        if (diti_equal(type, "yarn"))
            diti_decoder_read_stretch(&rope, config);
        else if (rope.object)
            config->stretch = 0;
        if (settings->result == DIT_OK) settings->result = rope.result;
        if (!diti_equal(type, "default") && !diti_equal(type, "mrope") && !diti_equal(type, "yarn"))
            diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, places[i],
                                 "of a type that is not known for text encoders, only default, mrope and yarn");
    }
    if (config->stretch > 0 && settings->result == DIT_OK) diti_decoder_stretch(config);
}

static void diti_decoder_read_activation(diti_settings *settings, diti_decoder_config *config) {
    const char *usual = config->four_norms ? "gelu_pytorch_tanh" : "silu";
    const char *name = diti_setting_text(settings, "hidden_activation", usual);
    if (!diti_setting(settings, "hidden_activation")) name = diti_setting_text(settings, "hidden_act", usual);
    config->activation = diti_equal(name, "silu") ? DITI_ACTIVATION_SILU : DITI_ACTIVATION_GELU_TANH;
    if (diti_equal(name, "silu") || diti_equal(name, "gelu_pytorch_tanh")) return;
    diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "hidden_act",
                         "not known for a language model, only silu and gelu_pytorch_tanh");
}

/* Layers are windowed as layer_types says, or else as models of their kind have it: every other one of Gemma 2, all of
   Gemma 3 but every sixth, Qwen's
   from max_window_layers on where use_sliding_window asks for it, all of Mistral's. */
static void diti_decoder_read_windows(diti_settings *settings, diti_decoder_config *config) {
    bool qwen = (config->head_norms || config->biased) && !config->four_norms;
    bool gemma3 = config->head_norms && config->four_norms;
    uint32_t period = gemma3 ? diti_setting_size(settings, "sliding_window_pattern", 6, DITI_DECODER_LAYERS) : 2;
    double first = diti_setting_number(settings, "max_window_layers", qwen ? 28 : 0, 0, DITI_DECODER_LAYERS);
    const diti_json *types = diti_setting(settings, "layer_types"), *type = types ? types->first : NULL;
    uint32_t i;
    if (!diti_setting_bool(settings, "use_sliding_window", !qwen)) return;
    config->window = diti_setting_size(settings, "sliding_window", config->window, 1u << 30);
    for (i = 0; i < config->layers && i < DITI_DECODER_LAYERS; i++, type = type ? type->next : NULL) {
        bool windowed = type ? type->kind == DITI_JSON_STRING && diti_equal(type->text, "sliding_attention")
                             : (!qwen || i >= first) && (!config->four_norms || (i + 1) % period != 0);
        if (windowed) config->windowed[i / 32] |= 1u << i % 32;
    }
}

/* YaRN as a GGUF's metadata says it. Ministral's has mscale_all_dim alone, which is mscale, too. */
static void diti_decoder_assume_stretch(const diti_checkpoint *file, diti_decoder_config *config) {
    double tokens = diti_decoder_metadata(file, "rope.scaling.original_context_length"),
           fast = diti_decoder_metadata(file, "rope.scaling.yarn_beta_fast"),
           slow = diti_decoder_metadata(file, "rope.scaling.yarn_beta_slow");
    if (!diti_equal(diti_decoder_said(file, "rope.scaling.type"), "yarn") || !(tokens >= 1)) return;
    config->stretch = diti_decoder_metadata(file, "rope.scaling.factor");
    config->stretch_tokens = tokens;
    config->fast = fast > 0 ? fast : 32;
    config->slow = slow > 0 ? slow : 1;
    config->turn_scale = 1;
    if (!(diti_decoder_metadata(file, "rope.scaling.yarn_log_multiplier") > 0))
        config->turn_scale = (float)diti_decoder_magnify(config->stretch, 1);
}

/* Mistral's files without config.json and metadata are told from LLaMA's by their words: Ministral 3 of 3 B parameters,
   and Mistral Small 3. */
static void diti_decoder_assume_mistral(diti_decoder_config *config) {
    config->theta = 1e9f;
    if (config->columns != 3072) return;
    config->theta = 1e6f;
    config->stretch = 16;
    config->stretch_tokens = 16384;
    config->fast = 32;
    config->slow = config->turn_scale = 1;
}

#define DITI_DECODER_MISTRAL_WORDS 131072u
#define DITI_DECODER_PICTURE 151655 /* <|image_pad|> */

/* The values that published models have where neither config.json nor metadata says them. */
static void diti_decoder_assume(const diti_loader *loader, const diti_json *json, diti_decoder_config *config) {
    const diti_checkpoint *file = loader->checkpoint;
    const diti_key_table *names = (const diti_key_table *)loader->user;
    double eps = diti_decoder_metadata(file, "attention.layer_norm_rms_epsilon");
    double theta = diti_decoder_metadata(file, "rope.freq_base");
    bool images = loader->sees || (names->after && strstr(names->after, "language_model")), told = json || theta >= 1;
    bool gemma3 = config->head_norms && config->four_norms;
    double stretch = diti_decoder_metadata(file, "rope.scaling.factor");
    if (theta < 1)
        theta = gemma3               ? 1e6
                : config->four_norms ? 1e4
                : config->head_norms ? images ? 5e6 : 1e6
                : config->biased     ? 1e6
                                     : 5e5;
    config->eps = eps > 0 && eps < 1                                           ? (float)eps
                  : config->head_norms || config->biased || config->four_norms ? 1e-6f
                                                                               : 1e-5f;
    config->theta = (float)theta;
    if (!told && config->vocabulary == DITI_DECODER_MISTRAL_WORDS && !config->head_norms && !config->biased &&
        !config->four_norms)
        diti_decoder_assume_mistral(config);
    diti_decoder_assume_stretch(file, config);
    config->local_theta = gemma3 ? 1e4f : 0;
    config->linear_stretch = !gemma3                  ? 1
                             : stretch >= 1           ? (float)stretch
                             : config->columns > 1152 ? 8
                                                      : 1; /* not Gemma 3 1B's */
    config->head_dim = diti_decoder_count(file, "attention.key_length");
    config->heads = diti_decoder_count(file, "attention.head_count");
    config->kv_heads = diti_decoder_count(file, "attention.head_count_kv");
    config->window = config->four_norms ? diti_decoder_count(file, "attention.sliding_window") : 0;
    config->cap = config->four_norms && !gemma3 ? 50.0f : 0;
    config->interleaved = diti_equal(diti_checkpoint_text(file, "general.architecture"), "llama") ||
                          diti_equal(diti_checkpoint_text(file, "general.architecture"), "mistral3");
    config->offset_norms = config->four_norms && names != diti_decoder_gemma_names; /* llama.cpp adds the 1 */
}

static void diti_decoder_read_heads(diti_loader *loader, diti_settings *settings, diti_decoder_config *config) {
    uint32_t own = diti_loader_dimension(loader, "layers.0.self_attn.q_norm.weight", 0);
    config->heads = diti_setting_size(settings, "num_attention_heads", config->heads, 1024);
    config->kv_heads = diti_setting_size(settings, "num_key_value_heads", config->kv_heads, 1024);
    if (!config->head_dim) config->head_dim = own;
    if (!config->head_dim && config->heads) config->head_dim = config->columns / config->heads;
    if (!config->head_dim) config->head_dim = config->four_norms ? 256 : 128;
    config->head_dim = diti_setting_size(settings, "head_dim", config->head_dim, 1024);
    if (!config->heads) config->heads = config->q_rows / config->head_dim;
    if (!config->kv_heads) config->kv_heads = config->kv_rows / config->head_dim;
}

static dit_result diti_decoder_read_config(diti_loader *loader, const diti_json *json, diti_decoder_config *config,
                                           dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_decoder_config, vocabulary), "embed_tokens.weight", 0},
        {offsetof(diti_decoder_config, columns), "embed_tokens.weight", 1},
        {offsetof(diti_decoder_config, q_rows), "layers.0.self_attn.q_proj.weight", 0},
        {offsetof(diti_decoder_config, kv_rows), "layers.0.self_attn.k_proj.weight", 0},
        {offsetof(diti_decoder_config, hidden), "layers.0.mlp.gate_proj.weight", 0}};
    const diti_json *text = diti_json_get(json, "text_config");
    diti_settings settings = diti_settings_of(text ? text : json, "the text encoder's config.json", err);
    double scalar;
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    config->head_norms = diti_loader_find(loader, "layers.0.self_attn.q_norm.weight") != NULL;
    config->biased = diti_loader_find(loader, "layers.0.self_attn.q_proj.bias") != NULL;
    config->four_norms = diti_loader_find(loader, "layers.0.pre_feedforward_layernorm.weight") != NULL;
    diti_decoder_assume(loader, json, config);
    config->layers = diti_loader_layers(loader, &settings, "num_hidden_layers", "layers.", ".self_attn.q_proj.weight");
    config->eps = (float)diti_setting_number(&settings, "rms_norm_eps", config->eps, 1e-30, 1);
    diti_decoder_read_heads(loader, &settings, config);
    diti_decoder_read_rotation(&settings, config);
    diti_decoder_read_activation(&settings, config);
    config->picture = (int32_t)diti_json_number(json, "image_token_id", DITI_DECODER_PICTURE);
    scalar = diti_setting_number(&settings, "query_pre_attn_scalar", config->head_dim, 1e-3, 1e6);
    config->scale = (float)(1.0 / sqrt(scalar));
    if (diti_json_get(settings.object, "attn_logit_softcapping")) config->cap = 0; /* null: none */
    config->cap = (float)diti_setting_number(&settings, "attn_logit_softcapping", config->cap, 0, 1e6);
    diti_decoder_read_windows(&settings, config);
    return settings.result;
}

static dit_result diti_decoder_check(diti_loader *loader, const diti_decoder_config *config, dit_error *err) {
    static const char *const foreign[] = {"self_attn.o_proj.bias", "mlp.gate_proj.bias", "mlp.up_proj.bias",
                                          "mlp.down_proj.bias"};
    const diti_stored_tensor *tensor;
    char name[64];
    size_t i;
    if (!config->columns || !config->q_rows || !config->kv_rows || !config->hidden || !config->layers)
        return diti_loader_refuse(loader, err,
                                  "not a language model that dit knows: %s is missing or has an impossible shape",
                                  config->columns ? "a matrix of layer 0" : "the token embedding");
    if (config->q_rows != (uint64_t)config->heads * config->head_dim ||
        config->kv_rows != (uint64_t)config->kv_heads * config->head_dim || config->heads % config->kv_heads)
        return diti_loader_refuse(
            loader, err,
            "%u heads of queries and %u of keys with %u channels each do not go with matrices of %u and "
            "%u rows; the config.json or metadata is another model's",
            (unsigned)config->heads, (unsigned)config->kv_heads, (unsigned)config->head_dim, (unsigned)config->q_rows,
            (unsigned)config->kv_rows);
    if (config->head_dim % 4 || config->head_dim > 256)
        return diti_loader_refuse(
            loader, err, "heads of %u channels are not known for a language model, only multiples of 4 up to 256",
            (unsigned)config->head_dim);
    if (config->layers > DITI_DECODER_LAYERS)
        return diti_loader_refuse(loader, err, "a language model of %u layers is not known, at most %u",
                                  (unsigned)config->layers, DITI_DECODER_LAYERS);
    for (i = 0; i < DITI_COUNT(foreign); i++) {
        diti_format(name, sizeof name, "layers.0.%s", foreign[i]);
        tensor = diti_loader_find(loader, name);
        if (tensor)
            return diti_loader_refuse(loader, err,
                                      "a language model with biases where no text encoder that dit knows has them (%s)",
                                      tensor->name);
    }
    if (diti_checkpoint_find(loader->checkpoint, "rope_freqs.weight"))
        return diti_loader_refuse(loader, err,
                                  "rotations that are stretched (rope_freqs.weight) are not known for a text encoder");
    return DIT_OK;
}

static dit_result diti_decoder_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                    dit_error *err) {
    diti_decoder_config *config = &((diti_decoder *)(void *)component)->config;
    ((diti_decoder *)(void *)component)->json = json;
    DITI_TRY(diti_decoder_read_config(loader, json, config, err));
    DITI_TRY(diti_decoder_check(loader, config, err));
    if (!diti_taps_resolve(loader->taps, config->layers, config->taps, &config->tap_count))
        return diti_loader_refuse(
            loader, err,
            "a language model of %u layers lacks hidden states that the transformer reads; they belong "
            "to different models",
            (unsigned)config->layers);
    config->needed = config->taps[config->tap_count - 1];
    config->deals = config->tap_count > 1 && loader->taps->form & DITI_TAPS_DEALT;
    config->normed = config->needed == config->layers && !(loader->taps && loader->taps->form & DITI_TAPS_UNNORMED);
    return DIT_OK;
}

/* ---- loading ---- */

static void diti_decoder_load_block(diti_loader *loader, diti_decoder *decoder, uint32_t index) {
    static const char *const kv[] = {"self_attn.k_proj", "self_attn.v_proj"};
    const diti_decoder_config *config = &decoder->config;
    diti_decoder_block *block = &decoder->blocks[index];
    uint32_t d = config->columns;
    diti_loader_scope(loader, "layers.%u.", (unsigned)index);
    diti_load_vector(loader, &block->norm, 1, d, "input_layernorm.weight");
    diti_load_linear(loader, &block->q.weight, config->q_rows, d, "self_attn.q_proj.weight");
    if (config->biased) diti_load_vector(loader, &block->q.bias, 1, config->q_rows, "self_attn.q_proj.bias");
    diti_load_fused_linear(loader, &block->kv, kv, 2, config->kv_rows, d, config->biased);
    if (config->head_norms) {
        diti_load_offset(loader, &block->q_norm, config->head_dim, config->offset_norms ? 1 : 0,
                         "self_attn.q_norm.weight");
        diti_load_offset(loader, &block->k_norm, config->head_dim, config->offset_norms ? 1 : 0,
                         "self_attn.k_norm.weight");
    }
    diti_load_linear(loader, &block->out, d, config->q_rows, "self_attn.o_proj.weight");
    if (config->four_norms) {
        diti_load_vector(loader, &block->attention_norm, 1, d, "post_attention_layernorm.weight");
        diti_load_vector(loader, &block->ff_norm, 1, d, "pre_feedforward_layernorm.weight");
        diti_load_vector(loader, &block->last_norm, 1, d, "post_feedforward_layernorm.weight");
    } else {
        diti_load_vector(loader, &block->ff_norm, 1, d, "post_attention_layernorm.weight");
    }
    diti_load_linear(loader, &block->gate, config->hidden, d, "mlp.gate_proj.weight");
    diti_load_linear(loader, &block->up, config->hidden, d, "mlp.up_proj.weight");
    diti_load_linear(loader, &block->down, d, config->hidden, "mlp.down_proj.weight");
    diti_loader_scope_end(loader);
}

/* Layers behind the last state that is wanted stay in the file; they are no mistake. */
static void diti_decoder_leave_block(diti_loader *loader, uint32_t index) {
    static const char *const names[] = {"input_layernorm.weight",
                                        "self_attn.q_proj.weight",
                                        "self_attn.k_proj.weight",
                                        "self_attn.v_proj.weight",
                                        "self_attn.q_proj.bias",
                                        "self_attn.k_proj.bias",
                                        "self_attn.v_proj.bias",
                                        "self_attn.q_norm.weight",
                                        "self_attn.k_norm.weight",
                                        "self_attn.o_proj.weight",
                                        "post_attention_layernorm.weight",
                                        "pre_feedforward_layernorm.weight",
                                        "post_feedforward_layernorm.weight",
                                        "mlp.gate_proj.weight",
                                        "mlp.up_proj.weight",
                                        "mlp.down_proj.weight"};
    size_t i;
    diti_loader_scope(loader, "layers.%u.", (unsigned)index);
    for (i = 0; i < DITI_COUNT(names); i++) {
        const diti_stored_tensor *tensor = diti_loader_find(loader, names[i]);
        if (tensor) diti_loader_use(loader, tensor);
    }
    diti_loader_scope_end(loader);
}

/* Gemma multiplies embeddings by the root of their width, rounded as the weights are. */
static float diti_decoder_embedding_scale(diti_loader *loader, const diti_decoder_config *config) {
    const diti_stored_tensor *table = diti_loader_find(loader, "embed_tokens.weight");
    float root = sqrtf((float)config->columns);
    if (!config->four_norms || !table) return 0;
    if (table->type == DIT_TYPE_BF16) return diti_bfloat_to_float(diti_float_to_bfloat(root));
    return table->type == DIT_TYPE_F16 ? diti_half_to_float(diti_float_to_half(root)) : root;
}

static void diti_decoder_load_all(diti_component *component, diti_loader *loader) {
    diti_decoder *decoder = (diti_decoder *)(void *)component;
    diti_decoder_config *config = &decoder->config;
    uint32_t i;
    decoder->blocks = (diti_decoder_block *)diti_component_array(component, loader, config->needed ? config->needed : 1,
                                                                 sizeof *decoder->blocks);
    if (!decoder->blocks) return;
    decoder->traits.columns = config->columns * config->tap_count;
    decoder->traits.vocabulary = config->vocabulary;
    decoder->traits.layers = config->needed;
    config->embedding_scale = diti_decoder_embedding_scale(loader, config);
    diti_load_table(loader, &decoder->embedding, config->vocabulary, config->columns, "embed_tokens.weight");
    for (i = 0; i < config->needed; i++) diti_decoder_load_block(loader, decoder, i);
    for (; i < config->layers; i++) diti_decoder_leave_block(loader, i);
    if (config->normed) diti_load_vector(loader, &decoder->final_norm, 1, config->columns, "norm.weight");
    if (loader->shown) decoder->vision = diti_vision_load(component, loader, decoder->json, config->columns);
    decoder->json = NULL;
}

DIT_INTERNAL const diti_vision *diti_decoder_vision(const diti_decoder *decoder) { return decoder->vision; }

DIT_INTERNAL int32_t diti_decoder_picture(const diti_decoder *decoder) { return decoder->config.picture; }

DIT_INTERNAL dit_result diti_decoder_load(diti_device *device, const diti_env *env, const diti_json *config,
                                          const diti_checkpoint *checkpoint, const char *prefix,
                                          const diti_load_options *options, diti_decoder **out, dit_error *err) {
    static const diti_component_kind kind = {"text encoder",    "text_encoder",        sizeof(diti_decoder),
                                             diti_decoder_read, diti_decoder_load_all, NULL};
    diti_component_source from = {device, env, config, checkpoint, prefix, options, NULL, NULL};
    diti_component *component;
    dit_result result;
    from.keys = diti_decoder_names(&from);
    result = diti_component_load(&kind, &from, &component, err);
    *out = (diti_decoder *)(void *)component;
    return result;
}

DIT_INTERNAL void diti_decoder_destroy(diti_decoder *decoder) {
    if (decoder) diti_component_free(&decoder->base);
}

/* ---- what the host writes ---- */

#define DITI_DECODER_MASKED (-1.0e30f) /* finite, so that differences of scores are never NaN */

/* Where a row stands: in time, and in a picture its line and its column, which are the same in text. */
typedef struct diti_decoder_place {
    uint32_t at[3];
} diti_decoder_place;

/* Places of an item's rows. Text goes on behind a picture as if that had as many rows as its longer side has tokens. */
static void diti_decoder_places(const diti_decoder *decoder, const diti_encoder_use *use, const int32_t *ids,
                                uint32_t rows, diti_decoder_place *places) {
    uint32_t row = 0, next = 0, picture = 0, i;
    while (row < rows) {
        const diti_vision_grid *grid = &use->pictures[picture];
        uint32_t count =
            picture < use->picture_count && ids[row] == decoder->config.picture ? grid->rows * grid->columns : 1;
        for (i = 0; i < count && row < rows; i++, row++) {
            places[row].at[0] = next;
            places[row].at[1] = next + (count > 1 ? i / grid->columns : 0);
            places[row].at[2] = next + (count > 1 ? i % grid->columns : 0);
        }
        if (picture < use->picture_count && ids[row - 1] == decoder->config.picture) {
            next += grid->rows > grid->columns ? grid->rows : grid->columns;
            picture++;
        } else {
            next++;
        }
    }
}

/* Cosines and sines of position * theta^(-2j / head_dim), stretched, in float32 as the references round. local: of a
   layer that is windowed. */
static void diti_decoder_angles(const diti_decoder *decoder, const diti_decoder_place *place, bool local,
                                float *cosines, float *sines) {
    const diti_decoder_config *config = &decoder->config;
    float theta = local ? config->local_theta : config->theta, stretch = local ? 1 : config->linear_stretch;
    uint32_t half = config->head_dim / 2, j;
    for (j = 0; j < half; j++) {
        uint32_t axis = j < config->sections[0] ? 0 : j < config->sections[0] + config->sections[1] ? 1 : 2;
        if (config->weaves) axis = j % 3 && j < 3 * config->sections[j % 3] ? j % 3 : 0;
        float power = (float)pow((double)theta, (double)((float)(2 * j) / (float)(2 * half)));
        float turn = 1.0f / power, slower = 0, angle;
        if (config->stretch > 0)
            slower = ((float)j - config->first_slower) / (config->last_slower - config->first_slower);
        slower = slower < 0 ? 0 : slower > 1 ? 1 : slower;
        if (slower > 0) turn = 1.0f / ((float)config->stretch * power) * slower + turn * (1 - slower);
        angle = (float)place->at[axis] * (turn / stretch);
        cosines[j] = (float)cos((double)angle);
        sines[j] = (float)sin((double)angle);
        if (config->stretch > 0) {
            cosines[j] *= config->turn_scale;
            sines[j] *= config->turn_scale;
        }
    }
}

static dit_result diti_decoder_write_angles(const diti_decoder *decoder, diti_plan *plan, const diti_encoder_use *use,
                                            const int32_t *ids, const uint32_t *items, bool local, dit_error *err) {
    uint32_t half = decoder->config.head_dim / 2, rows = use->rows, row, item,
             input = local ? DITI_DECODER_LOCAL_COSINES : DITI_DECODER_COSINES;
    size_t count = (size_t)rows * half;
    float *cosines = (float *)diti_alloc_array(&decoder->base.env, 2 * count, sizeof *cosines);
    diti_decoder_place *places =
        (diti_decoder_place *)diti_alloc_array(&decoder->base.env, rows ? rows : 1, sizeof *places);
    dit_result result = DIT_OK;
    if (!cosines || !places) result = diti_fail_memory(err, "the text encoder's positions");
    for (item = 0; item < use->batch && result >= 0; item++) {
        const uint32_t *place = items + (size_t)item * DITI_ITEM_WORDS;
        diti_decoder_places(decoder, use, ids ? ids + place[0] : NULL, place[1], places);
        for (row = place[3]; row < place[1] && use->padding; row++)
            places[row].at[0] = places[row].at[1] = places[row].at[2] = use->padding;
        for (row = 0; row < place[1]; row++)
            diti_decoder_angles(decoder, &places[row], local, cosines + (size_t)(place[0] + row) * half,
                                cosines + count + (size_t)(place[0] + row) * half);
    }
    if (result >= 0) result = diti_plan_write(plan, use->inputs[input], cosines, count * sizeof *cosines, err);
    if (result >= 0)
        result = diti_plan_write(plan, use->inputs[input + 1], cosines + count, count * sizeof *cosines, err);
    diti_free(&decoder->base.env, cosines);
    diti_free(&decoder->base.env, places);
    return result;
}

/* Rows of what is embedded, or, behind them, of what the tower makes. */
static void diti_decoder_order(const diti_decoder *decoder, const diti_encoder_use *use, const int32_t *ids,
                               const uint32_t *items, const uint32_t *places, uint32_t *order) {
    uint32_t item, row, tokens = diti_vision_tokens(use);
    for (row = 0; row < use->rows; row++) order[row] = row;
    for (item = 0; item < use->batch; item++) {
        const uint32_t *place = items + (size_t)item * DITI_ITEM_WORDS;
        uint32_t next = 0;
        for (row = place[0]; row < place[0] + place[1] && next < tokens; row++)
            if (ids[row] == decoder->config.picture) order[row] = use->rows + places[next++];
    }
}

static dit_result diti_decoder_write_order(const diti_decoder *decoder, diti_plan *plan, const diti_encoder_use *use,
                                           const int32_t *ids, const uint32_t *items, dit_error *err) {
    uint32_t tokens = diti_vision_tokens(use);
    uint32_t *order = (uint32_t *)diti_alloc_array(&decoder->base.env, (size_t)use->rows + tokens, sizeof *order);
    dit_result result;
    if (!order) return diti_fail_memory(err, "the places of pictures");
    diti_vision_order(decoder->vision, use, order + use->rows);
    diti_decoder_order(decoder, use, ids, items, order + use->rows, order);
    result = diti_plan_write(plan, use->inputs[DITI_DECODER_ORDER], order, use->rows * sizeof *order, err);
    if (result >= 0 && use->inputs[DITI_DECODER_DEEP]) {
        uint32_t row; /* text is behind the rows of pictures, where there are zeros */
        for (row = 0; row < use->rows; row++) order[row] = order[row] < use->rows ? tokens : order[row] - use->rows;
        result = diti_plan_write(plan, use->inputs[DITI_DECODER_DEEP], order, use->rows * sizeof *order, err);
    }
    if (result >= 0) result = diti_vision_write(decoder->vision, &decoder->base.env, plan, use, err);
    diti_free(&decoder->base.env, order);
    return result;
}

/* Element key - query + tokens - 1 of every head: keys behind a query are masked, and those out of its window. */
static dit_result diti_decoder_write_mask(const diti_decoder *decoder, diti_plan *plan, const diti_encoder_use *use,
                                          diti_tensor input, uint32_t window, dit_error *err) {
    uint32_t width = 2 * use->tokens - 1, i;
    size_t count = (size_t)decoder->config.heads * width, n;
    float *mask = (float *)diti_alloc_array(&decoder->base.env, count, sizeof *mask);
    dit_result result;
    if (!mask) return diti_fail_memory(err, "the text encoder's mask");
    for (n = 0; n < count; n++) {
        i = (uint32_t)(n % width);
        mask[n] = i >= use->tokens || (window && use->tokens - 1 - i >= window) ? DITI_DECODER_MASKED : 0.0f;
    }
    result = diti_plan_write(plan, input, mask, count * sizeof *mask, err);
    diti_free(&decoder->base.env, mask);
    return result;
}

DIT_INTERNAL dit_result diti_decoder_write_inputs(const diti_decoder *decoder, diti_plan *plan,
                                                  const diti_encoder_use *use, const int32_t *ids,
                                                  const uint32_t *items, dit_error *err) {
    const diti_tensor *inputs = use->inputs;
    uint32_t window = decoder->config.window;
    if (inputs[DITI_DECODER_COSINES]) DITI_TRY(diti_decoder_write_angles(decoder, plan, use, ids, items, false, err));
    if (inputs[DITI_DECODER_LOCAL_COSINES])
        DITI_TRY(diti_decoder_write_angles(decoder, plan, use, ids, items, true, err));
    if (inputs[DITI_DECODER_ORDER]) DITI_TRY(diti_decoder_write_order(decoder, plan, use, ids, items, err));
    if (inputs[DITI_DECODER_MASK])
        DITI_TRY(diti_decoder_write_mask(decoder, plan, use, inputs[DITI_DECODER_MASK], 0, err));
    return inputs[DITI_DECODER_WINDOW]
               ? diti_decoder_write_mask(decoder, plan, use, inputs[DITI_DECODER_WINDOW], window, err)
               : DIT_OK;
}

/* ---- the graph ---- */

/* Whether a layer rotates by local_theta. */
static bool diti_decoder_local(const diti_decoder_config *config, uint32_t index) {
    return config->local_theta > 0 && (config->windowed[index / 32] >> index % 32 & 1u);
}

static bool diti_decoder_windowed(const diti_decoder_config *config, const diti_encoder_use *use, uint32_t index) {
    return config->window && config->window < use->tokens && (config->windowed[index / 32] >> index % 32 & 1u);
}

static void diti_decoder_inputs(const diti_decoder *decoder, diti_graph *graph, diti_encoder_use *use) {
    const diti_decoder_config *config = &decoder->config;
    uint32_t i, half = config->head_dim / 2, width = 2 * use->tokens - 1;
    if (!config->needed) return;
    use->inputs[DITI_DECODER_COSINES] = diti_tensor_input(graph, DITI_F32, use->rows, half, "text cosines");
    use->inputs[DITI_DECODER_SINES] = diti_tensor_input(graph, DITI_F32, use->rows, half, "text sines");
    if (config->local_theta > 0) {
        use->inputs[DITI_DECODER_LOCAL_COSINES] = diti_tensor_input(graph, DITI_F32, use->rows, half, "local cosines");
        use->inputs[DITI_DECODER_LOCAL_SINES] = diti_tensor_input(graph, DITI_F32, use->rows, half, "local sines");
    }
    for (i = 0; i < config->needed; i++) {
        bool windowed = diti_decoder_windowed(config, use, i);
        diti_tensor *mask = &use->inputs[windowed ? DITI_DECODER_WINDOW : DITI_DECODER_MASK];
        if (!*mask)
            *mask = diti_tensor_input(graph, DITI_F32, config->heads, width, windowed ? "window mask" : "causal mask");
    }
}

static diti_tensor diti_decoder_norm(const diti_decoder *decoder, diti_graph *graph, diti_tensor x,
                                     const diti_weight *weight, const diti_weight *reader, diti_tensor out,
                                     bool out_f32, const char *name) {
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = true;
    desc.eps = decoder->config.eps;
    if (decoder->config.offset_norms)
        desc.scale = diti_tensor_weight(graph, weight, 0);
    else
        desc.weight = weight;
    desc.reader = reader;
    desc.out = out;
    desc.out_f32 = out_f32;
    desc.name = name;
    return diti_norm(graph, x, &desc);
}

/* x += weight h, in place; with a norm, x += norm(weight h). */
static void diti_decoder_residual(const diti_decoder *decoder, diti_graph *graph, diti_tensor x, diti_tensor h,
                                  const diti_weight *weight, const diti_weight *norm, const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    diti_elementwise_desc add = DITI_ZERO;
    desc.name = add.name = name;
    if (!decoder->config.four_norms) {
        desc.residual = desc.out = x;
        diti_linear(graph, h, weight, &desc);
        return;
    }
    desc.out_f32 = true;
    h = diti_linear(graph, h, weight, &desc);
    h = diti_decoder_norm(decoder, graph, h, norm, NULL, 0, true, name);
    add.add = x;
    add.out = x;
    diti_elementwise(graph, h, &add);
}

/* Heads of queries or keys, in place. */
static void diti_decoder_rotate(const diti_decoder *decoder, diti_graph *graph, const diti_encoder_use *use,
                                uint32_t index, diti_tensor x, uint32_t heads, const diti_weight *norm,
                                const char *name) {
    bool local = diti_decoder_local(&decoder->config, index);
    const diti_decoder_config *config = &decoder->config;
    diti_qkv_desc desc = DITI_ZERO;
    desc.heads = heads;
    desc.head_dim = config->head_dim;
    desc.norm = config->head_norms ? DITI_QKV_RMS : DITI_QKV_NO_NORM;
    desc.eps = config->eps;
    desc.weight = config->head_norms ? norm : NULL;
    desc.cosines = use->inputs[local ? DITI_DECODER_LOCAL_COSINES : DITI_DECODER_COSINES];
    desc.sines = use->inputs[local ? DITI_DECODER_LOCAL_SINES : DITI_DECODER_SINES];
    desc.half_split = !config->interleaved;
    desc.name = name;
    diti_qk_norm_rope(graph, x, &desc);
}

static diti_tensor diti_decoder_attention(const diti_decoder *decoder, diti_graph *graph, const diti_encoder_use *use,
                                          uint32_t index, diti_tensor h) {
    const diti_decoder_config *config = &decoder->config;
    const diti_decoder_block *block = &decoder->blocks[index];
    diti_attention_desc desc = DITI_ZERO;
    diti_linear_desc linear = DITI_ZERO;
    diti_tensor q, kv, k;
    linear.name = "decoder_q";
    linear.bias = &block->q.bias;
    q = diti_linear(graph, h, &block->q.weight, &linear);
    linear.bias = NULL;
    linear.name = "decoder_kv";
    kv = diti_linear_fused(graph, h, &block->kv, &linear);
    k = diti_tensor_view(graph, kv, 0, use->rows, 0, config->kv_rows);
    diti_decoder_rotate(decoder, graph, use, index, q, config->heads, &block->q_norm, "decoder_rotate_q");
    diti_decoder_rotate(decoder, graph, use, index, k, config->kv_heads, &block->k_norm, "decoder_rotate_k");
    desc.batch = use->batch;
    desc.heads = config->heads;
    desc.kv_heads = config->kv_heads;
    desc.head_dim = config->head_dim;
    desc.scale = config->scale;
    desc.cap = config->cap;
    desc.items = use->items;
    desc.packed = true;
    desc.key_limit = use->tokens;
    desc.bias = use->inputs[diti_decoder_windowed(config, use, index) ? DITI_DECODER_WINDOW : DITI_DECODER_MASK];
    desc.name = "decoder_attention";
    return diti_attention(graph, q, k, diti_tensor_view(graph, kv, 0, use->rows, config->kv_rows, config->kv_rows),
                          &desc);
}

/* activation(gate h) * (up h) */
static diti_tensor diti_decoder_gated(const diti_decoder *decoder, diti_graph *graph, const diti_decoder_block *block,
                                      diti_tensor h) {
    diti_linear_desc up = DITI_ZERO, gate = DITI_ZERO;
    up.name = "decoder_up";
    gate.multiply = diti_linear(graph, h, &block->up, &up);
    gate.activation = decoder->config.activation;
    gate.name = "decoder_gate";
    return diti_linear(graph, h, &block->gate, &gate);
}

/* The rows of pictures of x F32 [rows, d] get what the tower has for the layer. */
static void diti_decoder_deepen(diti_graph *graph, const diti_encoder_use *use, diti_tensor deep, diti_tensor x) {
    diti_elementwise_desc add = DITI_ZERO;
    add.add = add.out = x;
    add.name = "decoder_pictures";
    diti_elementwise(graph, diti_gather_tensor(graph, deep, use->inputs[DITI_DECODER_DEEP], "decoder_pictures"), &add);
}

/* x F32 [rows, d] is changed in place. */
static void diti_decoder_run_block(const diti_decoder *decoder, diti_graph *graph, const diti_encoder_use *use,
                                   uint32_t index, diti_tensor x) {
    const diti_decoder_block *block = &decoder->blocks[index];
    diti_tensor h = diti_decoder_norm(decoder, graph, x, &block->norm, NULL, 0, false, "decoder_norm1");
    h = diti_decoder_attention(decoder, graph, use, index, h);
    diti_decoder_residual(decoder, graph, x, h, &block->out, &block->attention_norm, "decoder_attention_out");
    h = diti_decoder_norm(decoder, graph, x, &block->ff_norm, NULL, 0, false, "decoder_norm2");
    h = diti_decoder_gated(decoder, graph, block, h);
    diti_decoder_residual(decoder, graph, x, h, &block->down, &block->last_norm, "decoder_down");
    if (index < DITI_VISION_DEEP && use->deep[index]) diti_decoder_deepen(graph, use, use->deep[index], x);
}

/* Vectors that the tower makes of pictures take the places of the tokens that stand for them. */
static diti_tensor diti_decoder_show(const diti_decoder *decoder, diti_graph *graph, diti_encoder_use *use,
                                     diti_tensor x) {
    uint32_t tokens = diti_vision_tokens(use), d = decoder->config.columns;
    diti_tensor both = diti_tensor_new(graph, DITI_F32, use->rows + tokens, d, "embeddings and pictures");
    use->inputs[DITI_DECODER_ORDER] = diti_tensor_input(graph, DITI_U32, 1, use->rows, "places of pictures");
    diti_copy(graph, x, diti_tensor_view(graph, both, 0, use->rows, 0, d), "decoder_embedding");
    diti_copy(graph, diti_vision_emit(decoder->vision, graph, use),
              diti_tensor_view(graph, both, use->rows, tokens, 0, d), "decoder_pictures");
    if (use->deep[0])
        use->inputs[DITI_DECODER_DEEP] = diti_tensor_input(graph, DITI_U32, 1, use->rows, "pictures' rows");
    return diti_gather_tensor(graph, both, use->inputs[DITI_DECODER_ORDER], "decoder_pictures");
}

static diti_tensor diti_decoder_embed(const diti_decoder *decoder, diti_graph *graph, diti_encoder_use *use) {
    diti_tensor x = diti_gather_rows(graph, &decoder->embedding, use->ids, "decoder_embedding");
    diti_elementwise_desc desc = DITI_ZERO;
    if (decoder->vision && use->picture_count) x = diti_decoder_show(decoder, graph, use, x);
    if (!(decoder->config.embedding_scale > 0)) return x;
    desc.scale = decoder->config.embedding_scale;
    desc.out_f32 = true;
    desc.name = "decoder_embedding_scale";
    return diti_elementwise(graph, x, &desc);
}

/* State `tap`, which is x, to where it belongs in the result; a single state need not be copied. */
static diti_tensor diti_decoder_tap(const diti_decoder *decoder, diti_graph *graph, diti_tensor out, uint32_t tap,
                                    diti_tensor x) {
    const diti_decoder_config *config = &decoder->config;
    diti_tensor to = out && !config->deals ? diti_tensor_view(graph, out, 0, diti_tensor_rows(graph, x),
                                                              tap * config->columns, config->columns)
                                           : 0;
    if (config->normed && config->taps[tap] == config->layers)
        return diti_decoder_norm(decoder, graph, x, &decoder->final_norm, NULL, to, true, "decoder_final_norm");
    if (!to) return x;
    diti_copy(graph, x, to, "decoder_state");
    return to;
}

#define DITI_DECODER_BAND 256u /* rows whose states are dealt together */

/* State `tap` of rows that are dealt: in `out` F32 [taps * rows, columns] every band has its states one below the
   other. */
static void diti_decoder_stack(const diti_decoder *decoder, diti_graph *graph, diti_tensor out, uint32_t tap,
                               diti_tensor x) {
    uint32_t rows = diti_tensor_rows(graph, x), columns = decoder->config.columns, first, count;
    for (first = 0; first < rows && !diti_graph_failed(graph); first += count) {
        count = rows - first < DITI_DECODER_BAND ? rows - first : DITI_DECODER_BAND;
        diti_copy(graph, diti_tensor_view(graph, x, first, count, 0, columns),
                  diti_tensor_view(graph, out, first * decoder->config.tap_count + tap * count, count, 0, columns),
                  "decoder_state");
    }
}

/* F32 [rows, taps * columns] of bands of states: value c of state s is column c * taps + s. */
static diti_tensor diti_decoder_deal(const diti_decoder *decoder, diti_graph *graph, uint32_t rows, diti_tensor x) {
    uint32_t taps = decoder->config.tap_count, columns = decoder->config.columns, first;
    diti_tensor dealt = diti_tensor_new(graph, DITI_F32, rows, taps * columns, "hidden states");
    diti_block_desc deal = DITI_ZERO;
    deal.clip.frames = deal.time = deal.channel_step = taps;
    deal.clip.height = deal.side = deal.time_step = 1;
    deal.columns = taps * columns;
    deal.name = "deal hidden states";
    for (first = 0; first < rows && !diti_graph_failed(graph); first += deal.clip.width) {
        deal.clip.width = rows - first < DITI_DECODER_BAND ? rows - first : DITI_DECODER_BAND;
        deal.out = diti_tensor_view(graph, dealt, first, deal.clip.width, 0, deal.columns);
        diti_gather_frames(graph, diti_tensor_view(graph, x, first * taps, deal.clip.width * taps, 0, columns), &deal);
    }
    return dealt;
}

DIT_INTERNAL diti_tensor diti_decoder_encode(const diti_decoder *decoder, diti_graph *graph, diti_encoder_use *use) {
    const diti_decoder_config *config = &decoder->config;
    diti_tensor x = diti_decoder_embed(decoder, graph, use), out = 0;
    uint32_t i, tap = 0;
    diti_decoder_inputs(decoder, graph, use);
    if (config->tap_count > 1)
        out = diti_tensor_new(graph, DITI_F32, config->deals ? config->tap_count * use->rows : use->rows,
                              config->deals ? config->columns : config->tap_count * config->columns, "hidden states");
    for (i = 0; i <= config->needed && !diti_graph_failed(graph); i++) {
        if (tap < config->tap_count && config->taps[tap] == i) {
            diti_tensor state = diti_decoder_tap(decoder, graph, out, tap++, x);
            if (config->tap_count == 1) out = state;
            if (config->deals) diti_decoder_stack(decoder, graph, out, tap - 1, state);
        }
        if (i == config->needed) break;
        diti_graph_scope(graph, "block", i);
        diti_decoder_run_block(decoder, graph, use, i, x);
    }
    diti_graph_scope(graph, NULL, 0);
    if (config->deals) out = diti_decoder_deal(decoder, graph, use->rows, out);
    if (use->weights) diti_weigh_rows(graph, out, use->weights, "decoder_weigh");
    return out;
}

/* ---- the same for those who do not ask which encoder it is ---- */

static dit_result diti_decoder_type_load(diti_device *device, const diti_env *env, const diti_json *config,
                                         const diti_checkpoint *checkpoint, const char *prefix,
                                         const diti_load_options *options, void **out, dit_error *err) {
    diti_decoder *decoder = NULL;
    dit_result result = diti_decoder_load(device, env, config, checkpoint, prefix, options, &decoder, err);
    *out = decoder;
    return result;
}

static void diti_decoder_type_destroy(void *self) { diti_decoder_destroy((diti_decoder *)self); }

static const diti_encoder_traits *diti_decoder_type_traits(const void *self) {
    return &((const diti_decoder *)self)->traits;
}

static const diti_weights *diti_decoder_type_weights(const void *self) {
    return &((const diti_decoder *)self)->base.weights;
}

static diti_tensor diti_decoder_type_encode(const void *self, diti_graph *graph, diti_encoder_use *use) {
    return diti_decoder_encode((const diti_decoder *)self, graph, use);
}

static dit_result diti_decoder_type_write(const void *self, diti_plan *plan, const diti_encoder_use *use,
                                          const int32_t *ids, const uint32_t *items, dit_error *err) {
    return diti_decoder_write_inputs((const diti_decoder *)self, plan, use, ids, items, err);
}

DIT_INTERNAL const diti_encoder_type *diti_decoder_type(void) {
    static const diti_encoder_type type = {true,
                                           true,
                                           diti_decoder_type_load,
                                           diti_decoder_type_destroy,
                                           diti_decoder_type_traits,
                                           diti_decoder_type_weights,
                                           diti_decoder_type_encode,
                                           diti_decoder_type_write};
    return &type;
}
