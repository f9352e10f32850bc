/* Decoder language models: all hidden states side by side, each layer alone on its recorded input, the states and
   layers that each model's chat takes, and what their GGUF files make of tokens. Qwen3 then behind the names that
   models of several parts have, and Mistral as llama.cpp writes files of the architectures llama and mistral3, must
   give the same. */
#ifndef GOLDEN_DECODER_H
#define GOLDEN_DECODER_H
#include "golden_renamed.h"
#include "golden_text.h"
#include "golden_tokenizers.h"

static inline bool golden_is_decoder(const golden_folder *folder) {
    static const char *const names[] = {"qwen3_text",  "qwen3_text_gguf", "qwen2_text",
                                        "gemma2_text", "mistral_text",    "ministral_text"};
    size_t i;
    for (i = 0; i < DITI_COUNT(names); i++)
        if (folder->golden && diti_equal(folder->name, names[i])) return true;
    return false;
}

typedef struct golden_decoder_case {
    golden_graph m;
    const diti_decoder *decoder;
    diti_encoder_use use;
    uint32_t *ids, *items, *keys; /* keys: the tokens of each prompt */
    char prefix[16];
} golden_decoder_case;

/* The rows that are left of a recorded state. */
static inline float *golden_decoder_state(golden_decoder_case *c, const char *name, uint32_t columns) {
    return golden_item(&c->m, name, 0, c->use.rows, columns);
}

/* Layer `index` on what the reference gave it; the last recorded state is behind the final norm. */
static inline void golden_decoder_layer(golden_decoder_case *c, uint32_t index) {
    const diti_decoder_config *config = &c->decoder->config;
    diti_graph *graph = &c->m.graph;
    char from[64], name[64];
    diti_tensor x;
    diti_format(from, sizeof from, "%s.mid.hidden_states.%u", c->prefix, index);
    diti_format(name, sizeof name, "%s.mid.hidden_states.%u", c->prefix, index + 1);
    if (!diti_checkpoint_find(c->m.folder->golden, from) || !diti_checkpoint_find(c->m.folder->golden, name)) return;
    x = golden_copy(&c->m, golden_give(&c->m, DITI_F32, c->use.rows, config->columns,
                                       golden_decoder_state(c, from, config->columns)));
    diti_decoder_run_block(c->decoder, graph, &c->use, index, x);
    if (index + 1 == config->layers)
        x = diti_decoder_norm(c->decoder, graph, x, &c->decoder->final_norm, NULL, 0, true, "golden_norm");
    golden_expect(&c->m, name, x, golden_decoder_state(c, name, config->columns), GOLDEN_BLOCK);
}

static inline void golden_decoder_emit(golden_decoder_case *c) {
    const diti_decoder_config *config = &c->decoder->config;
    uint32_t i, rows = c->use.rows;
    char name[64];
    diti_tensor out;
    c->use.ids = golden_give(&c->m, DITI_U32, 1, rows, c->ids);
    c->use.items = golden_give(&c->m, DITI_U32, c->use.batch, DITI_ITEM_WORDS, c->items);
    out = diti_decoder_encode(c->decoder, &c->m.graph, &c->use);
    for (i = 0; i < config->tap_count; i++) {
        diti_format(name, sizeof name, "%s.mid.hidden_states.%u", c->prefix, config->taps[i]);
        if (!diti_checkpoint_find(c->m.folder->golden, name) && config->taps[i] == config->layers)
            diti_format(name, sizeof name, "%s.out", c->prefix);
        if (diti_checkpoint_find(c->m.folder->golden, name))
            golden_expect(&c->m, name,
                          diti_tensor_view(&c->m.graph, out, 0, rows, i * config->columns, config->columns),
                          golden_decoder_state(c, name, config->columns), GOLDEN_MODEL);
    }
    for (i = 0; i < config->needed && config->needed == config->layers; i++) golden_decoder_layer(c, i);
}

/* Rows of tokens one behind the other, of which the mask leaves out those between and behind them: a prompt whose
   padding is in its middle has positions that do not count it (Krea 2), so that it is the prompt without. */
static inline bool golden_run_decoder_case(golden *g, const golden_folder *folder, const diti_decoder *decoder,
                                           const char *prefix) {
    golden_decoder_case c = DITI_ZERO;
    dit_error err = DITI_ZERO;
    dit_result result;
    char name[64];
    uint32_t i;
    c.decoder = decoder;
    diti_format(c.prefix, sizeof c.prefix, "%s", prefix);
    diti_format(name, sizeof name, "%s.in.position_ids", c.prefix);
    if (diti_checkpoint_find(folder->golden, name)) return true; /* golden_run_decoder_gaps */
    if (!golden_text_read(g, folder, c.prefix, &c.use.batch, &c.use.tokens, &c.ids, &c.keys)) return false;
    c.use.rows = c.use.batch * c.use.tokens;
    c.items = (uint32_t *)malloc(c.use.batch * DITI_ITEM_WORDS * sizeof *c.items);
    for (i = 0; i < c.use.batch; i++) {
        c.items[4 * i] = c.items[4 * i + 2] = i * c.use.tokens;
        c.items[4 * i + 1] = c.use.tokens;
        c.items[4 * i + 3] = c.keys ? c.keys[i] : c.use.tokens;
    }
    golden_graph_begin(&c.m, g, folder);
    golden_decoder_emit(&c);
    result = golden_graph_create(&c.m, &err);
    if (result == DIT_OK) result = diti_decoder_write_inputs(decoder, c.m.plan, &c.use, NULL, c.items, &err);
    if (golden_require(g, result == DIT_OK, "%s is planned %s", c.prefix, err.message)) golden_graph_run(&c.m);
    golden_graph_end(&c.m);
    free(c.keys);
    return true;
}

/* A case with padding inside: its tokens alone, prompt after prompt, must have the states that they have there. */
static inline void golden_run_decoder_gaps(golden *g, const golden_folder *folder, const diti_decoder *decoder,
                                           const char *prefix) {
    golden_decoder_case c = DITI_ZERO;
    dit_error err = DITI_ZERO;
    dit_result result;
    uint64_t count, masked = 0, row;
    uint32_t d = decoder->config.columns, i, prompts;
    const diti_stored_tensor *stored;
    float *ids, *mask, *states, *wanted;
    char name[64];
    diti_tensor out;
    diti_format(name, sizeof name, "%s.in.position_ids", prefix);
    stored = diti_checkpoint_find(folder->golden, name);
    if (!stored || decoder->config.tap_count != decoder->config.layers + 1) return;
    prompts = (uint32_t)stored->shape[0];
    diti_format(name, sizeof name, "%s.in.input_ids", prefix);
    ids = golden_floats(folder->golden, name, &count);
    diti_format(name, sizeof name, "%s.in.attention_mask", prefix);
    mask = golden_floats(folder->golden, name, &masked);
    diti_format(name, sizeof name, "%s.out", prefix);
    states = golden_floats(folder->golden, name, &row);
    wanted = (float *)calloc((size_t)count * d, sizeof *wanted);
    c.decoder = decoder;
    c.use.batch = prompts;
    c.use.tokens = (uint32_t)count / prompts;
    c.ids = (uint32_t *)calloc((size_t)count, sizeof *c.ids);
    c.items = (uint32_t *)calloc(prompts, DITI_ITEM_WORDS * sizeof *c.items);
    for (row = 0; row < count; row++) {
        uint32_t *item = c.items + row / c.use.tokens * 4;
        if (row % c.use.tokens == 0) item[0] = item[2] = c.use.rows;
        if (mask[row] == 0) continue;
        memcpy(wanted + (size_t)c.use.rows * d, states + row * d, d * sizeof *wanted);
        c.ids[c.use.rows++] = (uint32_t)ids[row];
        item[1]++, item[3]++;
    }
    golden_graph_begin(&c.m, g, folder);
    c.use.ids = golden_give(&c.m, DITI_U32, 1, c.use.rows, c.ids);
    c.use.items = golden_give(&c.m, DITI_U32, prompts, DITI_ITEM_WORDS, c.items);
    out = diti_decoder_encode(decoder, &c.m.graph, &c.use);
    i = decoder->config.tap_count - 1;
    golden_expect(&c.m, name, diti_tensor_view(&c.m.graph, out, 0, c.use.rows, i * d, d), wanted, GOLDEN_MODEL);
    result = golden_graph_create(&c.m, &err);
    if (result == DIT_OK) result = diti_decoder_write_inputs(decoder, c.m.plan, &c.use, NULL, c.items, &err);
    if (golden_require(g, result == DIT_OK, "%s is planned %s", name, err.message)) golden_graph_run(&c.m);
    golden_graph_end(&c.m);
    free(ids);
    free(mask);
    free(states);
}

/* tag: the cases of one file among several; "case": case0, case1, ... */
static inline void golden_run_decoder_taps(golden *g, const golden_folder *folder, const diti_checkpoint *weights,
                                           const char *tag, const diti_taps *taps) {
    diti_decoder *decoder = NULL;
    diti_load_options options = DITI_ZERO;
    dit_error err = DITI_ZERO;
    int i = 0;
    options.taps = taps;
    if (golden_require(g,
                       diti_decoder_load(golden_shared.device, &g->env, folder->config, weights, "", &options, &decoder,
                                         &err) == DIT_OK,
                       "loads %s", err.message)) {
        char prefix[16];
        diti_format(prefix, sizeof prefix, "%s", tag);
        for (; i < 8; i++) {
            if (diti_equal(tag, "case")) diti_format(prefix, sizeof prefix, "case%d", i);
            if (!golden_run_decoder_case(g, folder, decoder, prefix) || !diti_equal(tag, "case")) break;
            golden_run_decoder_gaps(g, folder, decoder, prefix);
        }
    }
    diti_decoder_destroy(decoder);
}

/* All states at once, then those of Z-Image and of FLUX.2 klein, which leave the last layer alone. */
static inline void golden_run_decoder_file(golden *g, const golden_folder *folder, const diti_checkpoint *weights,
                                           const char *tag) {
    diti_taps taps = DITI_ZERO;
    uint32_t layers = 0, i;
    char name[64];
    do diti_format(name, sizeof name, "%s%s.mid.hidden_states.%u", tag, diti_equal(tag, "case") ? "0" : "", ++layers);
    while (diti_checkpoint_find(folder->golden, name));
    for (i = 0; i < layers; i++) taps.at[taps.count++] = (int32_t)i;
    golden_run_decoder_taps(g, folder, weights, tag, &taps);
    if (layers != 5) return;
    golden_run_decoder_taps(g, folder, weights, tag, &diti_families_chat("ZImagePipeline")->taps);
    golden_run_decoder_taps(g, folder, weights, tag, &diti_families_chat("Flux2KleinPipeline")->taps);
}

/* The weights in llama.cpp's order and names: pairs of rows that rotate together are neighbours, and nothing but
   metadata tells the sizes. */
static inline bytes golden_llama_file(const diti_checkpoint *from, const diti_decoder_config *config) {
    static const char *const names[][2] = {{"layers.", "blk."},
                                           {"self_attn.q_proj", "attn_q"},
                                           {"self_attn.k_proj", "attn_k"},
                                           {"self_attn.v_proj", "attn_v"},
                                           {"self_attn.o_proj", "attn_output"},
                                           {"input_layernorm", "attn_norm"},
                                           {"post_attention_layernorm", "ffn_norm"},
                                           {"mlp.gate_proj", "ffn_gate"},
                                           {"mlp.up_proj", "ffn_up"},
                                           {"mlp.down_proj", "ffn_down"},
                                           {"embed_tokens", "token_embd"}};
    static const golden_renamed to = {"", names, DITI_COUNT(names), false};
    static char header[32768];
    const char *kind = config->stretch > 0 ? "mistral3" : "llama";
    uint32_t i, r, half = config->head_dim / 2;
    bytes data = {0}, out;
    diti_format(header, sizeof header,
                "{\"__metadata__\":{\"general.architecture\":\"%s\",\"%s.attention.head_count\":\"%u\","
                "\"%s.attention.head_count_kv\":\"%u\",\"%s.attention.key_length\":\"%u\","
                "\"%s.rope.freq_base\":\"%g\",\"%s.attention.layer_norm_rms_epsilon\":\"%g\"",
                kind, kind, config->heads, kind, config->kv_heads, kind, config->head_dim, kind, (double)config->theta,
                kind, (double)config->eps);
    if (config->stretch > 0)
        diti_format(header + strlen(header), sizeof header - strlen(header),
                    ",\"%s.rope.scaling.type\":\"yarn\",\"%s.rope.scaling.factor\":\"%g\","
                    "\"%s.rope.scaling.original_context_length\":\"%g\",\"%s.rope.scaling.yarn_log_multiplier\":\"1\"",
                    kind, kind, config->stretch, kind, config->stretch_tokens, kind);
    strcat(header, "}");
    for (i = 0; i < diti_checkpoint_count(from); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(from, i);
        bool rotates = strstr(tensor->name, "q_proj") || strstr(tensor->name, "k_proj");
        uint64_t count, columns = tensor->shape[tensor->rank - 1], begin = data.size;
        float *values = golden_floats(from, tensor->name, &count);
        char name[256], shape[64];
        golden_rename(&to, tensor->name, name, sizeof name);
        if (diti_equal(name, "norm.weight")) strcpy(name, "output_norm.weight");
        for (r = 0; r < count / columns; r++) {
            uint32_t in = r % config->head_dim, own = r - in + in % 2 * half + in / 2;
            bytes_add(&data, values + (rotates ? own : r) * columns, (size_t)columns * sizeof *values);
        }
        if (tensor->rank == 2)
            diti_format(shape, sizeof shape, "%u,%u", (unsigned)tensor->shape[0], (unsigned)columns);
        else
            diti_format(shape, sizeof shape, "%u", (unsigned)columns);
        diti_format(header + strlen(header), sizeof header - strlen(header),
                    ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}", name, shape,
                    (unsigned long long)begin, (unsigned long long)data.size);
        free(values);
    }
    strcat(header, "}");
    out = safetensors_bytes(header, 0);
    bytes_add(&out, data.data, data.size);
    bytes_free(&data);
    return out;
}

static inline void golden_run_decoder_llama(golden *g, const golden_folder *folder, const diti_checkpoint *weights) {
    diti_decoder *decoder = NULL;
    diti_checkpoint *open = NULL;
    golden_folder bare = *folder;
    dit_source source;
    dit_error err = DITI_ZERO;
    bytes file;
    if (!golden_require(g,
                        diti_decoder_load(golden_shared.device, &g->env, folder->config, weights, "", NULL, &decoder,
                                          &err) == DIT_OK,
                        "loads %s", err.message))
        return;
    file = golden_llama_file(weights, &decoder->config);
    source = memory_source(&file);
    bare.config = NULL;
    if (golden_require(g, diti_checkpoint_open(&g->env, &source, &open, &err) == DIT_OK, "llama.cpp's names open %s",
                       err.message))
        golden_run_decoder_taps(g, &bare, open, "case", NULL);
    diti_checkpoint_close(open);
    diti_decoder_destroy(decoder);
    bytes_free(&file);
}

static inline void golden_run_decoder_renamed(golden *g, const golden_folder *folder, const diti_checkpoint *weights) {
    static const char *const names[][1][2] = {{{"model.", ""}},
                                              {{"model.", "model.language_model."}},
                                              {{"model.", "language_model.model."}},
                                              {{"model.", "language_model."}}};
    size_t i;
    for (i = 0; i < DITI_COUNT(names); i++) {
        golden_renamed to = {"", names[i], 1, false};
        bytes file = {0};
        diti_checkpoint *open = golden_open_renamed(g, weights, &to, &file);
        if (open) golden_run_decoder_taps(g, folder, open, "case", NULL);
        diti_checkpoint_close(open);
        bytes_free(&file);
    }
}

/* config.json says which layers see a window of keys, w, and how scores are capped. */
static inline void golden_run_decoder_windows(golden *g, const golden_folder *folder, const diti_checkpoint *weights) {
    static const struct {
        const char *folder, *says, *layers;
        float cap;
    } cases[] = {
        {"gemma2_text", "\"head_dim\": 16, \"sliding_window\": 8", "w-w", 50},
        {"gemma2_text",
         "\"head_dim\": 16, \"sliding_window\": 8, \"attn_logit_softcapping\": null, "
         "\"layer_types\": [\"full_attention\", \"sliding_attention\", \"sliding_attention\"]",
         "-ww", 0},
        {"qwen2_text", "\"head_dim\": 8, \"sliding_window\": 8", "---", 0},
        {"qwen2_text", "\"head_dim\": 8, \"sliding_window\": 8, \"use_sliding_window\": true", "---", 0},
        {"qwen2_text", "\"head_dim\": 8, \"sliding_window\": 8, \"use_sliding_window\": true, \"max_window_layers\": 1",
         "-ww", 0},
        {"mistral_text", "\"head_dim\": 16, \"sliding_window\": 8", "www", 0},
    };
    diti_encoder_use use = DITI_ZERO;
    size_t i;
    use.tokens = 9;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        diti_decoder *decoder = NULL;
        diti_json *json = NULL;
        dit_error err = DITI_ZERO;
        char text[256], layers[8] = "";
        uint32_t k;
        if (!diti_equal(cases[i].folder, folder->name)) continue;
        diti_format(text, sizeof text, "{%s}", cases[i].says);
        if (diti_json_parse(&g->env, text, strlen(text), "config.json", &json, &err) >= 0)
            diti_decoder_load(golden_shared.device, &g->env, json, weights, "", NULL, &decoder, &err);
        for (k = 0; decoder && k < 3; k++) layers[k] = "-w"[diti_decoder_windowed(&decoder->config, &use, k)];
        golden_require(g, decoder && diti_equal(layers, cases[i].layers) && decoder->config.cap == cases[i].cap,
                       "%s: windows %s, not %s %s", cases[i].says, layers, cases[i].layers, err.message);
        diti_decoder_destroy(decoder);
        diti_json_free(&g->env, json);
    }
}

/* Tensors that other language models have are no mistake to be passed over. */
static inline void golden_run_decoder_foreign(golden *g, const golden_folder *folder, const diti_checkpoint *weights) {
    static const char *const cases[][2][2] = {
        {{"layers.2.input_layernorm.weight", "layers.0.self_attn.o_proj.bias"},
         {"qwen2_text", "0.self_attn.o_proj.bias"}},
        {{"layers.2.input_layernorm.weight", "layers.0.mlp.down_proj.bias"}, {"mistral_text", "0.mlp.down_proj.bias"}},
    };
    size_t i;
    for (i = 0; i < DITI_COUNT(cases); i++) {
        golden_renamed to = {"", &cases[i][0], 1, false};
        diti_taps taps = {1, 0, {1}, false};
        diti_load_options options = DITI_ZERO;
        diti_decoder *decoder = NULL;
        diti_checkpoint *open;
        bytes file = {0};
        dit_error err = DITI_ZERO;
        options.taps = &taps;
        if (!diti_equal(cases[i][1][0], folder->name)) continue;
        open = golden_open_renamed(g, weights, &to, &file);
        golden_require(g,
                       open &&
                           diti_decoder_load(golden_shared.device, &g->env, folder->config, open, "", &options,
                                             &decoder, &err) == DIT_ERROR_UNSUPPORTED_MODEL &&
                           strstr(err.message, cases[i][1][1]),
                       "%s is refused: %s", cases[i][1][1], err.message);
        diti_decoder_destroy(decoder);
        diti_checkpoint_close(open);
        bytes_free(&file);
    }
}

/* The vocabulary inside a GGUF says what the tokenizer's own files say. */
static inline void golden_run_decoder_words(golden *g, const diti_checkpoint *weights) {
    static const char path[] = "tests/fixtures/tokenizers/qwen2/golden.json";
    diti_json *golden = test_read_json(&g->env, path);
    golden_tokenizer_result result = {0, 0, ""};
    diti_tokenizer *tokenizer = NULL;
    dit_error err = DITI_ZERO;
    if (diti_tokenizer_load_gguf(&g->env, weights, &tokenizer, &err) == DIT_OK)
        golden_tokenizer_cases(tokenizer, golden, &result);
    else
        snprintf(result.message, sizeof result.message, "%s", err.message);
    golden_report_tokenizer(g, "GGUF", result);
    diti_tokenizer_free(tokenizer);
    diti_json_free(&g->env, golden);
}

static inline void golden_run_decoder(golden *g, const golden_folder *folder) {
    static const char *const files[][2] = {{"model.safetensors", "case"},
                                           {"model-F16.gguf", "f16"},
                                           {"model-Q8_0.gguf", "q8_0"},
                                           {"model-Q4_K_M.gguf", "q4_k_m"}};
    size_t i;
    for (i = 0; i < DITI_COUNT(files) && golden_open_device(g); i++) {
        diti_checkpoint *weights = golden_open_checkpoint(&g->env, folder->path, files[i][0]);
        if (!weights) continue;
        golden_run_decoder_file(g, folder, weights, files[i][1]);
        if (i) golden_run_decoder_words(g, weights);
        if (diti_equal(folder->name, "qwen3_text")) golden_run_decoder_renamed(g, folder, weights);
        if (strstr(folder->name, "istral_text")) golden_run_decoder_llama(g, folder, weights);
        if (i == 0) golden_run_decoder_windows(g, folder, weights);
        if (i == 0) golden_run_decoder_foreign(g, folder, weights);
        diti_checkpoint_close(weights);
    }
}
#endif
