/* CLIP text encoders: states, pooled prompts, each layer alone on the recorded input; then the same weights under
   OpenCLIP's names and under those of transformers 5, which must give the same. */
#ifndef GOLDEN_CLIP_H
#define GOLDEN_CLIP_H
#include "golden_renamed.h"
#include "golden_text.h"
#include "job/job.h"
#include "model_files.h"

static inline bool golden_is_clip(const golden_folder *folder) {
    return folder->golden && diti_equal(diti_json_string(folder->config, "model_type", ""), "clip_text_model");
}

/* --- the folder's weights as OpenCLIP names and shapes them: q, k and v in one matrix, the projection [in, out] --- */
typedef struct golden_clip_file {
    const diti_checkpoint *from;
    char header[32768];
    bytes data;
} golden_clip_file;

/* Appends a tensor's values to the data; its shape as [rows, columns], vectors as [1, N]. */
static inline void golden_clip_append(golden_clip_file *file, const char *name, uint64_t *rows, uint64_t *columns,
                                      bool turned) {
    const diti_stored_tensor *tensor = diti_checkpoint_find(file->from, name);
    uint64_t count;
    float *values = golden_floats(file->from, name, &count);
    *columns = tensor->shape[tensor->rank - 1];
    *rows = count / *columns;
    if (turned) values = golden_transpose(values, (uint32_t)*rows, (uint32_t)*columns);
    bytes_add(&file->data, values, (size_t)count * sizeof(float));
    free(values);
}

static inline void golden_clip_name(golden_clip_file *file, const char *name, uint64_t rows, uint64_t columns,
                                    size_t begin) {
    size_t used = strlen(file->header);
    snprintf(file->header + used, sizeof file->header - used,
             "%s\"x.%s\":{\"dtype\":\"F32\",\"shape\":[%llu,%llu],\"data_offsets\":[%llu,%llu]}", used > 1 ? "," : "",
             name, (unsigned long long)rows, (unsigned long long)columns, (unsigned long long)begin,
             (unsigned long long)file->data.size);
}

/* q's name stands for q, k and v. */
static inline void golden_clip_join(golden_clip_file *file, const char *name, const char *open) {
    char part[256];
    size_t begin = file->data.size, i;
    uint64_t rows = 0, columns = 0, all = 0;
    for (i = 0; i < 3; i++) {
        diti_format(part, sizeof part, "%s", name);
        *(strstr(part, ".q_proj") + 1) = "qkv"[i];
        golden_clip_append(file, part, &rows, &columns, false);
        all += rows;
    }
    if (diti_ends_with(name, ".bias")) columns *= 3, all = 1;
    golden_clip_name(file, open, all, columns, begin);
}

static inline void golden_clip_rename(golden_clip_file *file, const char *name) {
    static const char *const pairs[][2] = {{"layer_norm1", "ln_1"},
                                           {"layer_norm2", "ln_2"},
                                           {"self_attn.q_proj.", "attn.in_proj_"},
                                           {"self_attn.out_proj", "attn.out_proj"},
                                           {"mlp.fc1", "mlp.c_fc"},
                                           {"mlp.fc2", "mlp.c_proj"}};
    char open[256];
    const char *layer = strstr(name, "layers.");
    uint64_t rows = 0, columns = 0;
    size_t begin = file->data.size, i;
    diti_format(open, sizeof open, "%s", name);
    if (strstr(name, ".k_proj") || strstr(name, ".v_proj")) return;
    if (strstr(name, "token_embedding")) diti_format(open, sizeof open, "token_embedding.weight");
    if (strstr(name, "position_embedding")) diti_format(open, sizeof open, "positional_embedding");
    if (strstr(name, "text_projection")) diti_format(open, sizeof open, "text_projection");
    if (strstr(name, "final_layer_norm")) diti_format(open, sizeof open, "ln_final%s", strrchr(name, '.'));
    for (i = 0; layer && i < DITI_COUNT(pairs); i++) {
        const char *found = strstr(layer, pairs[i][0]);
        if (!found) continue;
        diti_format(open, sizeof open, "transformer.resblocks.%.*s%s%s", (int)(found - layer - 7), layer + 7,
                    pairs[i][1], found + strlen(pairs[i][0]));
    }
    if (strstr(name, ".q_proj")) {
        golden_clip_join(file, name, open);
        return;
    }
    golden_clip_append(file, name, &rows, &columns, diti_equal(open, "text_projection"));
    if (diti_equal(open, "text_projection"))
        golden_clip_name(file, open, columns, rows, begin);
    else
        golden_clip_name(file, open, rows, columns, begin);
}

/* Freed with bytes_free. */
static inline bytes golden_clip_open_file(const diti_checkpoint *weights) {
    static golden_clip_file file;
    bytes out;
    uint32_t i;
    memset(&file, 0, sizeof file);
    file.from = weights;
    strcpy(file.header, "{");
    for (i = 0; i < diti_checkpoint_count(weights); i++)
        golden_clip_rename(&file, diti_checkpoint_tensor(weights, i)->name);
    strcat(file.header, "}");
    out = safetensors_bytes(file.header, 0);
    bytes_add(&out, file.data.data, file.data.size);
    bytes_free(&file.data);
    return out;
}

/* --- cases --- */
typedef struct golden_clip_case {
    golden_graph m;
    const diti_clip *clip;
    diti_encoder_use use;
    char prefix[16];
    bool blocks; /* each layer alone, too */
} golden_clip_case;

static inline void golden_clip_expect(golden_clip_case *c, const char *what, diti_tensor tensor, uint32_t rows,
                                      double tolerance) {
    uint32_t columns = diti_graph_failed(&c->m.graph) ? 1 : diti_tensor_get(&c->m.graph, tensor)->columns;
    char name[64];
    diti_format(name, sizeof name, "%s.%s", c->prefix, what);
    if (diti_checkpoint_find(c->m.folder->golden, name))
        golden_expect(&c->m, name, tensor, golden_item(&c->m, name, 0, rows, columns), tolerance);
}

static inline void golden_clip_block(golden_clip_case *c, uint32_t index) {
    uint32_t rows = c->use.batch * c->use.tokens, columns = c->clip->config.columns;
    char name[64];
    diti_tensor x;
    diti_format(name, sizeof name, "%s.mid.hidden_states.%u", c->prefix, index);
    x = golden_copy(&c->m, golden_give(&c->m, DITI_F32, rows, columns, golden_item(&c->m, name, 0, rows, columns)));
    diti_clip_run_block(&c->clip->config, &c->clip->blocks[index], &c->m.graph, c->use.batch,
                        c->use.inputs[DITI_CLIP_CAUSAL], x);
    diti_format(name, sizeof name, "mid.hidden_states.%u", index + 1);
    golden_clip_expect(c, name, x, rows, GOLDEN_BLOCK);
}

/* States of the last layer but one as SD3 wants them, then those behind the final norm. */
static inline void golden_clip_emit(golden_clip_case *c) {
    uint32_t i, rows = c->use.batch * c->use.tokens;
    diti_tensor out;
    char name[64];
    c->use.skip = 1;
    out = diti_clip_encode(c->clip, &c->m.graph, &c->use);
    diti_format(name, sizeof name, "mid.hidden_states.%u", c->clip->config.blocks - 1);
    golden_clip_expect(c, name, out, rows, GOLDEN_MODEL);
    golden_clip_expect(c, c->clip->config.projected ? "out.text_embeds" : "out.pooler_output", c->use.pooled,
                       c->use.batch, GOLDEN_MODEL);
    for (i = 0; c->blocks && i < c->clip->config.blocks; i++) golden_clip_block(c, i);
}

static inline bool golden_run_clip_case(golden *g, const golden_folder *folder, const diti_clip *clip, int index,
                                        bool norm) {
    golden_clip_case c = DITI_ZERO;
    diti_tensor out;
    dit_error err = DITI_ZERO;
    uint32_t *ids = NULL, *lengths = NULL;
    dit_result result;
    c.clip = clip;
    diti_format(c.prefix, sizeof c.prefix, "case%d", index);
    if (!golden_text_read(g, folder, c.prefix, &c.use.batch, &c.use.tokens, &ids, &lengths)) return false;
    golden_graph_begin(&c.m, g, folder);
    c.use.ids = golden_give(&c.m, DITI_U32, 1, c.use.batch * c.use.tokens, ids);
    c.use.norm_states = norm;
    c.blocks = !norm;
    if (norm) {
        out = diti_clip_encode(clip, &c.m.graph, &c.use);
        golden_clip_expect(&c, "out.last_hidden_state", out, c.use.batch * c.use.tokens, GOLDEN_MODEL);
    } else {
        golden_clip_emit(&c);
    }
    result = golden_graph_create(&c.m, &err);
    if (result == DIT_OK) result = diti_clip_write_inputs(clip, c.m.plan, &c.use, (const int32_t *)ids, &err);
    if (golden_require(g, result == DIT_OK, "%s is planned %s", c.prefix, err.message)) golden_graph_run(&c.m);
    golden_graph_end(&c.m);
    return true;
}

static inline void golden_run_clip_file(golden *g, const golden_folder *folder, const diti_checkpoint *weights,
                                        const char *prefix) {
    diti_clip *clip = NULL;
    dit_error err = DITI_ZERO;
    int i = 0;
    if (golden_require(
            g,
            diti_clip_load(golden_shared.device, &g->env, folder->config, weights, prefix, NULL, &clip, &err) == DIT_OK,
            "loads %s", err.message)) {
        while (golden_run_clip_case(g, folder, clip, i, false) && golden_run_clip_case(g, folder, clip, i, true)) i++;
        golden_require(g, i > 0, "no case");
    }
    diti_clip_destroy(clip);
}

static inline void golden_run_clip_open(golden *g, const golden_folder *folder, const diti_checkpoint *weights) {
    bytes file = golden_clip_open_file(weights);
    dit_source source = memory_source(&file);
    diti_checkpoint *open = NULL;
    dit_error err = DITI_ZERO;
    if (golden_require(g, diti_checkpoint_open(&g->env, &source, &open, &err) == DIT_OK, "OpenCLIP's form opens %s",
                       err.message))
        golden_run_clip_file(g, folder, open, "x.");
    diti_checkpoint_close(open);
    bytes_free(&file);
}

static inline void golden_run_clip_bare(golden *g, const golden_folder *folder, const diti_checkpoint *weights) {
    static const char *const pairs[][2] = {{"text_model.", ""}};
    const golden_renamed to = {"", pairs, 1, false};
    bytes file;
    diti_checkpoint *bare = golden_open_renamed(g, weights, &to, &file);
    golden_require(g, bare && diti_encoder_kind_of(bare, "") == diti_encoder_kind_of(weights, ""),
                   "transformers 5's form is known");
    if (bare) golden_run_clip_file(g, folder, bare, "");
    diti_checkpoint_close(bare);
    bytes_free(&file);
}

static inline void golden_run_clip(golden *g, const golden_folder *folder) {
    diti_checkpoint *weights = golden_open_weights(g, folder);
    if (golden_require(g, weights != NULL, "weights can be opened") && golden_open_device(g)) {
        golden_run_clip_file(g, folder, weights, "");
        golden_run_clip_open(g, folder, weights);
        golden_run_clip_bare(g, folder, weights);
    }
    diti_checkpoint_close(weights);
}
#endif
