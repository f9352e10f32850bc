/* From prompts to embeddings in pipelines with several encoders: each component's tokenizer and encoder from its own
   folder, against what the pipeline handed to its transformer. */
#ifndef GOLDEN_TEXTS_H
#define GOLDEN_TEXTS_H
#include "golden_text.h"

typedef struct golden_texts {
    golden *g;
    const golden_folder *folder;
    diti_package *package;
    const char *prompt;
} golden_texts;

/* The recorded call's arguments follow this in README. */
static inline diti_json *golden_texts_call(golden *g, const golden_folder *folder) {
    static const char mark[] = "call arguments: ";
    const char *at = folder->readme ? strstr(folder->readme, mark) : NULL;
    const char *end = at ? strchr(at, '\n') : NULL;
    diti_json *call = NULL;
    if (end) {
        at += sizeof mark - 1;
        diti_json_parse(&g->env, at, (size_t)(end - at), "README", &call, NULL);
    }
    return call;
}

static inline bool golden_is_texts(const golden_folder *folder) {
    return folder->golden && golden_has(folder->path, "text_encoder_2/config.json") &&
           diti_checkpoint_find(folder->golden, "prompt_embeds");
}

/* Ids of the prompt by the tokenizer in that folder; NULL when something fails. */
static inline int32_t *golden_texts_ids(golden_texts *t, const char *tokenizer, uint32_t tokens, uint32_t *length) {
    diti_tokenizer *loaded = NULL;
    diti_tokens out = DITI_ZERO;
    dit_error err = DITI_ZERO;
    uint32_t limit;
    bool good =
        diti_tokenizer_load_folder(&t->g->env, t->package, tokenizer, &loaded, &limit, &err) == DIT_OK && loaded;
    out.ids = (int32_t *)calloc(tokens, sizeof *out.ids);
    out.capacity = tokens;
    good = good && diti_tokenizer_encode(loaded, t->prompt, &out, &err) == DIT_OK;
    diti_tokenizer_free(loaded);
    *length = out.count;
    golden_require(t->g, good, "%s %s", tokenizer, err.message);
    return out.ids;
}

typedef struct golden_texts_part {
    const diti_checkpoint *weights;
    const char *prefix;
    diti_json *config;
} golden_texts_part;

static inline bool golden_texts_open(golden_texts *t, const char *component, golden_texts_part *part) {
    char path[64];
    dit_error err = DITI_ZERO;
    diti_format(path, sizeof path, "%s/config.json", component);
    part->config = golden_open_json(&t->g->env, t->folder->path, path);
    return golden_require(t->g,
                          diti_package_component(t->package, component, &part->weights, &part->prefix, &err) ==
                                  DIT_OK &&
                              part->weights && part->config,
                          "%s opens %s", component, err.message);
}

/* Part of a recorded [1, rows, columns]: from that row and column on. */
static inline void golden_texts_expect(golden_graph *m, const char *name, diti_tensor tensor, uint32_t row,
                                       uint32_t column) {
    const diti_stored_tensor *stored = diti_checkpoint_find(m->folder->golden, name);
    const diti_tensor_info *info = diti_tensor_get(&m->graph, tensor);
    uint32_t width = stored ? (uint32_t)stored->shape[stored->rank - 1] : 1, r;
    uint64_t count;
    float *all = golden_floats(m->folder->golden, name, &count);
    float *part = (float *)calloc((size_t)info->rows * info->columns + 1, sizeof(float));
    if (golden_require(m->g,
                       all && !diti_graph_failed(&m->graph) && column + info->columns <= width &&
                           (uint64_t)(row + info->rows) * width <= count,
                       "%s has room", name)) {
        for (r = 0; r < info->rows; r++)
            memcpy(part + r * info->columns, all + (size_t)(row + r) * width + column, info->columns * sizeof(float));
    }
    free(all);
    golden_expect(m, name, tensor, part, GOLDEN_MODEL);
}

/* states: the column of prompt_embeds at which the states begin, -1: they are not used; likewise pooled. Both move to
   where the next encoder's columns begin. */
static inline void golden_texts_clip(golden_texts *t, const char *component, const char *tokenizer, int *states,
                                     int *pooled) {
    golden_texts_part part = {NULL, NULL, NULL};
    golden_graph m;
    diti_clip *clip = NULL;
    diti_encoder_use use = DITI_ZERO;
    dit_error err = DITI_ZERO;
    uint32_t length;
    int32_t *ids = golden_texts_ids(t, tokenizer, 77, &length);
    golden_graph_begin(&m, t->g, t->folder);
    use.batch = 1;
    use.tokens = 77;
    use.skip = *states >= 0;
    use.unprojected = *states < 0;
    use.ids = golden_give(&m, DITI_U32, 1, 77, ids);
    if (golden_texts_open(t, component, &part) &&
        golden_require(t->g,
                       diti_clip_load(golden_shared.device, &t->g->env, part.config, part.weights, part.prefix, NULL,
                                      &clip, &err) == DIT_OK,
                       "%s %s", component, err.message)) {
        diti_tensor out = diti_clip_encode(clip, &m.graph, &use);
        if (*states >= 0) golden_texts_expect(&m, "prompt_embeds", out, 0, (uint32_t)*states);
        golden_texts_expect(&m, "pooled", use.pooled, 0, (uint32_t)*pooled);
        *states += (int)clip->config.columns;
        *pooled += (int)diti_tensor_get(&m.graph, use.pooled)->columns;
        if (golden_require(t->g,
                           golden_graph_create(&m, &err) == DIT_OK &&
                               diti_clip_write_inputs(clip, m.plan, &use, ids, &err) == DIT_OK,
                           "%s %s", component, err.message))
            golden_graph_run(&m);
    }
    golden_graph_end(&m);
    diti_clip_destroy(clip);
    diti_json_free(&t->g->env, part.config);
}

static inline void golden_texts_bert(golden_texts *t, const char *component, const char *tokenizer, uint32_t tokens) {
    golden_texts_part part = {NULL, NULL, NULL};
    golden_graph m;
    diti_bert *bert = NULL;
    diti_encoder_use use = DITI_ZERO;
    dit_error err = DITI_ZERO;
    uint32_t *lengths = (uint32_t *)malloc(sizeof *lengths);
    int32_t *ids = golden_texts_ids(t, tokenizer, tokens, lengths);
    golden_graph_begin(&m, t->g, t->folder);
    use.batch = 1;
    use.tokens = tokens;
    use.ids = golden_give(&m, DITI_U32, 1, tokens, ids);
    use.items = golden_give(&m, DITI_U32, 1, DITI_ITEM_WORDS, golden_text_items(1, tokens, lengths));
    if (golden_texts_open(t, component, &part) &&
        golden_require(t->g,
                       diti_bert_load(golden_shared.device, &t->g->env, part.config, part.weights, part.prefix, NULL,
                                      &bert, &err) == DIT_OK,
                       "%s %s", component, err.message)) {
        golden_texts_expect(&m, "prompt_embeds", diti_bert_encode(bert, &m.graph, &use), 0, 0);
        if (golden_require(t->g, golden_graph_create(&m, &err) == DIT_OK, "%s %s", component, err.message))
            golden_graph_run(&m);
    }
    golden_graph_end(&m);
    diti_bert_destroy(bert);
    diti_json_free(&t->g->env, part.config);
}

/* name: the recorded tensor, in which the states begin at `row`. */
static inline void golden_texts_t5(golden_texts *t, const char *component, const char *tokenizer, uint32_t tokens,
                                   bool masked, const char *name, uint32_t row) {
    golden_texts_part part = {NULL, NULL, NULL};
    golden_graph m;
    diti_t5 *t5 = NULL;
    diti_encoder_use use = DITI_ZERO;
    dit_error err = DITI_ZERO;
    uint32_t *lengths = (uint32_t *)malloc(sizeof *lengths);
    int32_t *ids = golden_texts_ids(t, tokenizer, tokens, lengths);
    if (!masked) *lengths = tokens;
    golden_graph_begin(&m, t->g, t->folder);
    use.batch = 1;
    use.rows = use.tokens = tokens;
    use.ids = golden_give(&m, DITI_U32, 1, tokens, ids);
    use.items = golden_give(&m, DITI_U32, 1, DITI_ITEM_WORDS, golden_text_items(1, tokens, lengths));
    if (golden_texts_open(t, component, &part) &&
        golden_require(t->g,
                       diti_t5_load(golden_shared.device, &t->g->env, part.config, part.weights, part.prefix, NULL, &t5,
                                    &err) == DIT_OK,
                       "%s %s", component, err.message)) {
        golden_texts_expect(&m, name, diti_t5_encode(t5, &m.graph, &use), row, 0);
        if (golden_require(
                t->g, golden_graph_create(&m, &err) == DIT_OK && diti_t5_write_inputs(t5, m.plan, &use, &err) == DIT_OK,
                "%s %s", component, err.message))
            golden_graph_run(&m);
    }
    golden_graph_end(&m);
    diti_t5_destroy(t5);
    diti_json_free(&t->g->env, part.config);
}

/* Whatever encoders a folder has: CLIPs and T5 (SD3), CLIP and T5 (FLUX), BERT and T5 (HunyuanDiT). */
static inline void golden_texts_compare(golden_texts *t, uint32_t t5_tokens) {
    int states = 0, pooled = 0;
    if (golden_has(t->folder->path, "text_encoder_3/config.json")) {
        golden_texts_clip(t, "text_encoder", "tokenizer/", &states, &pooled);
        golden_texts_clip(t, "text_encoder_2", "tokenizer_2/", &states, &pooled);
        golden_texts_t5(t, "text_encoder_3", "tokenizer_3/", t5_tokens, false, "prompt_embeds", 77);
    } else if (golden_has(t->folder->path, "tokenizer/merges.txt")) {
        states = -1;
        golden_texts_clip(t, "text_encoder", "tokenizer/", &states, &pooled);
        golden_texts_t5(t, "text_encoder_2", "tokenizer_2/", t5_tokens, false, "prompt_embeds", 0);
    } else {
        golden_texts_bert(t, "text_encoder", "tokenizer/", 77);
        golden_texts_t5(t, "text_encoder_2", "tokenizer_2/", t5_tokens, true, "prompt_embeds_2", 0);
    }
}

static inline void golden_run_texts(golden *g, const golden_folder *folder) {
    golden_texts t;
    dit_source source = DITI_ZERO;
    dit_error err = DITI_ZERO;
    diti_json *call = golden_texts_call(g, folder);
    source.path = folder->path;
    t.g = g;
    t.folder = folder;
    t.prompt = diti_json_string(call, "prompt", NULL);
    if (golden_require(g, t.prompt != NULL, "README tells the call") && golden_open_device(g) &&
        golden_require(g, diti_package_open(&g->env, &source, &t.package, &err) == DIT_OK, "%s", err.message)) {
        golden_texts_compare(&t, (uint32_t)diti_json_number(call, "max_sequence_length", 256));
        diti_package_close(t.package);
    }
    diti_json_free(&g->env, call);
}
#endif
