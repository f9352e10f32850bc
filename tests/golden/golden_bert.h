/* BERT: the whole encoder, and each layer alone on the recorded input. */
#ifndef GOLDEN_BERT_H
#define GOLDEN_BERT_H
#include "golden_text.h"

static inline bool golden_is_bert(const golden_folder *folder) {
    return folder->golden && diti_equal(diti_json_string(folder->config, "model_type", ""), "bert");
}

static inline void golden_bert_emit(golden_graph *m, const diti_bert *bert, const diti_encoder_use *use,
                                    const char *prefix) {
    uint32_t i, rows = use->batch * use->tokens, columns = bert->config.columns;
    char name[64];
    diti_format(name, sizeof name, "%s.out.last_hidden_state", prefix);
    golden_expect(m, name, diti_bert_encode(bert, &m->graph, use), golden_item(m, name, 0, rows, columns),
                  GOLDEN_MODEL);
    diti_format(name, sizeof name, "%s.mid.hidden_states.0", prefix);
    for (i = 0; i < bert->config.blocks && diti_checkpoint_find(m->folder->golden, name); i++) {
        diti_tensor x = golden_copy(m, golden_give(m, DITI_F32, rows, columns, golden_item(m, name, 0, rows, columns)));
        x = diti_bert_run_block(bert, &m->graph, use, i, x);
        diti_format(name, sizeof name, "%s.mid.hidden_states.%u", prefix, i + 1);
        golden_expect(m, name, x, golden_item(m, name, 0, rows, columns), GOLDEN_BLOCK);
    }
}

static inline bool golden_run_bert_case(golden *g, const golden_folder *folder, const diti_bert *bert, int index) {
    golden_graph m;
    diti_encoder_use use = DITI_ZERO;
    dit_error err = DITI_ZERO;
    uint32_t *ids = NULL, *lengths = NULL;
    char prefix[16];
    diti_format(prefix, sizeof prefix, "case%d", index);
    if (!golden_text_read(g, folder, prefix, &use.batch, &use.tokens, &ids, &lengths)) return false;
    golden_graph_begin(&m, g, folder);
    use.ids = golden_give(&m, DITI_U32, 1, use.batch * use.tokens, ids);
    use.items =
        golden_give(&m, DITI_U32, use.batch, DITI_ITEM_WORDS, golden_text_items(use.batch, use.tokens, lengths));
    golden_bert_emit(&m, bert, &use, prefix);
    if (golden_require(g, golden_graph_create(&m, &err) == DIT_OK, "%s is planned %s", prefix, err.message))
        golden_graph_run(&m);
    golden_graph_end(&m);
    return true;
}

static inline void golden_run_bert(golden *g, const golden_folder *folder) {
    diti_checkpoint *weights = golden_open_weights(g, folder);
    diti_bert *bert = NULL;
    dit_error err = DITI_ZERO;
    int i = 0;
    if (golden_require(g, weights != NULL, "weights can be opened") && golden_open_device(g) &&
        golden_require(
            g, diti_bert_load(golden_shared.device, &g->env, folder->config, weights, "", NULL, &bert, &err) == DIT_OK,
            "loads %s", err.message)) {
        while (golden_run_bert_case(g, folder, bert, i)) i++;
        golden_require(g, i > 0, "no case");
    }
    diti_bert_destroy(bert);
    diti_checkpoint_close(weights);
}
#endif
