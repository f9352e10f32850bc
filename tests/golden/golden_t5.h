/* T5 encoders: the whole encoder, each block alone on the recorded input, and the buckets of relative positions; umT5
   then under the names of Wan's original file and of llama.cpp, which must give the same. */
#ifndef GOLDEN_T5_H
#define GOLDEN_T5_H
#include "golden_renamed.h"
#include "golden_text.h"

static inline bool golden_is_t5(const golden_folder *folder) {
    return folder->golden && diti_checkpoint_find(folder->golden, "case0.in.input_ids") && strstr(folder->name, "t5");
}

typedef struct golden_t5_case {
    golden_graph m;
    const diti_t5 *t5;
    diti_encoder_use use;
    char prefix[16];
    bool records_blocks;
} golden_t5_case;

static inline float *golden_t5_states(golden_t5_case *c, uint32_t index, char *name, size_t size) {
    diti_format(name, size, "%s.mid.hidden_states.%u", c->prefix, index);
    return golden_item(&c->m, name, 0, c->use.batch * c->use.tokens, c->t5->config.columns);
}

/* Block `index` on what the reference gave it; the last recorded state is behind the final norm. */
static inline void golden_t5_block(golden_t5_case *c, uint32_t index) {
    const diti_t5_config *config = &c->t5->config;
    uint32_t rows = c->use.batch * c->use.tokens;
    char name[64];
    float *input = golden_t5_states(c, index, name, sizeof name),
          *output = golden_t5_states(c, index + 1, name, sizeof name);
    diti_graph *graph = &c->m.graph;
    diti_tensor x = golden_copy(&c->m, golden_give(&c->m, DITI_F32, rows, config->columns, input));
    diti_t5_run_block(c->t5, graph, &c->use, index, x, diti_t5_bias(c->t5, graph, &c->use, index));
    if (index + 1 == config->blocks) x = diti_t5_norm(graph, c->t5, x, &c->t5->final_norm, true, "golden_norm");
    golden_expect(&c->m, name, x, output, GOLDEN_BLOCK);
}

static inline void golden_t5_emit(golden_t5_case *c, uint32_t *ids, uint32_t *lengths) {
    uint32_t i, rows = c->use.batch * c->use.tokens;
    char name[64];
    diti_tensor out;
    c->use.rows = rows;
    c->use.ids = golden_give(&c->m, DITI_U32, 1, rows, ids);
    c->use.items = golden_give(&c->m, DITI_U32, c->use.batch, DITI_ITEM_WORDS,
                               golden_text_items(c->use.batch, c->use.tokens, lengths));
    out = diti_t5_encode(c->t5, &c->m.graph, &c->use);
    diti_format(name, sizeof name, "%s.out", c->prefix);
    golden_expect(&c->m, name, out, golden_item(&c->m, name, 0, rows, c->t5->config.columns), GOLDEN_MODEL);
    for (i = 0; c->records_blocks && i < c->t5->config.blocks; i++) golden_t5_block(c, i);
}

static inline bool golden_run_t5_case(golden *g, const golden_folder *folder, const diti_t5 *t5, int index) {
    golden_t5_case c = DITI_ZERO;
    dit_error err = DITI_ZERO;
    dit_result result;
    uint32_t *ids = NULL, *lengths = NULL;
    char name[64];
    c.t5 = t5;
    diti_format(c.prefix, sizeof c.prefix, "case%d", index);
    if (!golden_text_read(g, folder, c.prefix, &c.use.batch, &c.use.tokens, &ids, &lengths)) return false;
    diti_format(name, sizeof name, "%s.mid.hidden_states.0", c.prefix);
    c.records_blocks = diti_checkpoint_find(folder->golden, name) != NULL;
    golden_graph_begin(&c.m, g, folder);
    golden_t5_emit(&c, ids, lengths);
    result = golden_graph_create(&c.m, &err);
    if (result == DIT_OK) result = diti_t5_write_inputs(t5, c.m.plan, &c.use, &err);
    if (golden_require(g, result == DIT_OK, "%s is planned %s", c.prefix, err.message)) golden_graph_run(&c.m);
    golden_graph_end(&c.m);
    return true;
}

/* Rows 0, 100 and 199 of the bucket matrix of 200 positions. */
static inline void golden_t5_buckets(golden *g, const golden_folder *folder, const diti_t5 *t5) {
    static const int rows[3] = {0, 100, 199};
    uint64_t count;
    float *reference = golden_floats(folder->golden, "relative_position_bucket_200", &count);
    int i, j, wrong = 0;
    if (!reference) return;
    for (i = 0; i < 3; i++)
        for (j = 0; j < 200; j++) wrong += (float)diti_t5_bucket(&t5->config, j - rows[i]) != reference[i * 200 + j];
    golden_check(g, count == 600 && wrong == 0, "relative_position_bucket_200: %d of 600 differ", wrong);
    free(reference);
}

static inline void golden_run_t5_file(golden *g, const golden_folder *folder, const diti_json *config,
                                      const diti_checkpoint *weights) {
    diti_t5 *t5 = NULL;
    dit_error err = DITI_ZERO;
    int i = 0;
    if (golden_require(g, weights != NULL, "weights can be opened") && golden_open_device(g) &&
        golden_require(g, diti_t5_load(golden_shared.device, &g->env, config, weights, "", NULL, &t5, &err) == DIT_OK,
                       "loads %s", err.message)) {
        golden_t5_buckets(g, folder, t5);
        while (golden_run_t5_case(g, folder, t5, i)) i++;
        golden_require(g, i > 0, "no case");
    }
    diti_t5_destroy(t5);
}

/* Neither Wan's original file nor a GGUF comes with a configuration. */
static inline void golden_run_t5(golden *g, const golden_folder *folder) {
    static const char *const original[][2] = {
        {"encoder.block.", "blocks."},
        {"layer.0.SelfAttention.relative_attention_bias", "pos_embedding.embedding"},
        {"layer.0.SelfAttention.", "attn."},
        {"layer.0.layer_norm", "norm1"},
        {"layer.1.layer_norm", "norm2"},
        {"layer.1.DenseReluDense.wi_0", "ffn.gate.0"},
        {"layer.1.DenseReluDense.wi_1", "ffn.fc1"},
        {"layer.1.DenseReluDense.wo", "ffn.fc2"},
        {"encoder.final_layer_norm", "norm"},
        {"shared", "token_embedding"}};
    static const char *const llama[][2] = {{"encoder.block.", "enc.blk."},
                                           {"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"},
                                           {"layer.0.SelfAttention.", "attn_"},
                                           {"layer.0.layer_norm", "attn_norm"},
                                           {"layer.1.layer_norm", "ffn_norm"},
                                           {"layer.1.DenseReluDense.wi_0", "ffn_gate"},
                                           {"layer.1.DenseReluDense.wi_1", "ffn_up"},
                                           {"layer.1.DenseReluDense.wo", "ffn_down"},
                                           {"encoder.final_layer_norm", "enc.output_norm"},
                                           {"shared", "token_embd"}};
    const golden_renamed names[] = {{"", original, DITI_COUNT(original), false}, {"", llama, DITI_COUNT(llama), false}};
    diti_checkpoint *weights = golden_open_weights(g, folder);
    size_t i;
    golden_run_t5_file(g, folder, folder->config, weights);
    for (i = 0; i < DITI_COUNT(names) && weights && diti_equal(folder->name, "umt5_encoder"); i++) {
        bytes file = {0};
        diti_checkpoint *open = golden_open_renamed(g, weights, &names[i], &file);
        golden_run_t5_file(g, folder, NULL, open);
        diti_checkpoint_close(open);
        bytes_free(&file);
    }
    diti_checkpoint_close(weights);
}
#endif
