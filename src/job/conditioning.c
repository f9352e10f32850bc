/* Prompts: from text to token ids, and to embeddings that can be kept as data. */
#include "job/job.h"

/* --- text cleaning: the pipelines lower-case and strip the prompt (docs/models.md 3.2) --- */

/* A copy of prompt, lower-cased and without white space at its ends; freed with diti_free. */
static dit_result diti_prompt_clean(const diti_env *env, const char *prompt, char **out, dit_error *err) {
    diti_codes codes, middle;
    size_t length;
    dit_result result = diti_clean(env, prompt, strlen(prompt), DITI_CLEAN_LOWER_SIGMA, &codes, err);
    *out = NULL;
    if (result < 0) return result;
    middle = codes;
    while (middle.count && diti_unicode_is_space(middle.at[middle.count - 1])) middle.count--;
    while (middle.count && diti_unicode_is_space(middle.at[0])) middle.at++, middle.count--;
    result = diti_codes_to_text(&middle, out, &length, err);
    diti_codes_free(&codes);
    return result;
}

/* What does not fit is told, encoder by encoder. */
static dit_result diti_prompt_encode(const diti_env *env, const diti_encoder *encoder, const char *prompt,
                                     diti_tokens *out, dit_error *err) {
    dit_result result = diti_tokenizer_encode(encoder->tokenizer, prompt, out, err);
    if (result >= 0 && out->lost)
        diti_log(env, DITI_LOG_WARNING,
                 "the prompt is %u tokens too long for the %u of %s; what is lost is its end: \"%s%s\"", out->lost,
                 out->capacity, diti_encoder_name(encoder->kind), out->lost_text, out->lost_more ? "..." : "");
    return result;
}

DIT_INTERNAL dit_result diti_prompt_tokens_make(const dit_model *model, const diti_env *env, const char *prompt,
                                                uint32_t branch, diti_prompt_tokens *tokens, dit_error *err) {
    dit_result result = DIT_OK;
    char *clean = NULL;
    uint32_t i;
    if (!prompt) prompt = "";
    if (!model->fixed_text) result = diti_prompt_clean(env, prompt, &clean, err);
    for (i = 0; i < DITI_ENCODERS && result >= 0; i++) {
        const diti_encoder *encoder = &model->encoders[i];
        size_t first = (size_t)branch * encoder->tokens;
        diti_tokens out = DITI_ZERO;
        if (!diti_encoder_weights(encoder)) continue;
        out.ids = tokens[i].ids + first;
        out.weights = tokens[i].weights ? tokens[i].weights + first : NULL;
        out.capacity = encoder->tokens;
        result = diti_prompt_encode(env, encoder, clean ? clean : prompt, &out, err);
        tokens[i].lengths[branch] = out.count;
    }
    diti_free(env, clean);
    return result;
}

DIT_INTERNAL dit_result diti_prompt_tokens_alloc(const dit_model *model, const diti_env *env, bool weighted,
                                                 diti_prompt_tokens *tokens, dit_error *err) {
    uint32_t i;
    for (i = 0; i < DITI_ENCODERS; i++) {
        size_t count = 2 * (size_t)model->encoders[i].tokens;
        if (!count) continue;
        tokens[i].ids = (int32_t *)diti_alloc_array(env, count, sizeof *tokens[i].ids);
        if (weighted) tokens[i].weights = (float *)diti_alloc_array(env, count, sizeof *tokens[i].weights);
        if (!tokens[i].ids || (weighted && !tokens[i].weights))
            return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for token ids");
    }
    return DIT_OK;
}

DIT_INTERNAL bool diti_prompt_tokens_weighted(const dit_model *model, uint32_t branch,
                                              const diti_prompt_tokens *tokens) {
    uint32_t i, k;
    for (i = 0; i < DITI_ENCODERS; i++) {
        uint32_t count = model->encoders[i].tokens;
        for (k = 0; tokens[i].weights && k < count; k++)
            if (tokens[i].weights[branch * count + k] != 1.0f) return true;
    }
    return false;
}

DIT_INTERNAL void diti_prompt_tokens_free(const diti_env *env, diti_prompt_tokens *tokens) {
    uint32_t i;
    for (i = 0; i < DITI_ENCODERS; i++) {
        diti_free(env, tokens[i].ids);
        diti_free(env, tokens[i].weights);
    }
}

/* --- blobs: what dit_encode_prompt returns. Little-endian words, then float rows --- */

#define DITI_BLOB_MAGIC 0x43544944u /* "DITC" */
#define DITI_BLOB_VERSION 2u
/* magic, version, hash low, hash high; then tokens, columns and length of each text */
#define DITI_BLOB_HEAD 4u
#define DITI_BLOB_WORDS (DITI_BLOB_HEAD + 3u * DITI_TEXTS)

/* The rows of all texts, which stand one after the other. */
static dit_result diti_blob_size(const diti_text_shape *texts, size_t *rows_size, dit_error *err) {
    size_t count;
    uint32_t i;
    *rows_size = 0;
    for (i = 0; i < DITI_TEXTS; i++) {
        if (diti_mul_size(texts[i].tokens, texts[i].columns, &count) && diti_mul_size(count, sizeof(float), &count) &&
            count <= SIZE_MAX / 2 - *rows_size) {
            *rows_size += count;
            continue;
        }
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "conditioning of %u tokens with %u channels is too large",
                         texts[i].tokens, texts[i].columns);
    }
    return DIT_OK;
}

DIT_INTERNAL void diti_conditioning_free(const diti_env *env, diti_conditioning *conditioning) {
    uint32_t i;
    for (i = 0; i < DITI_TEXTS; i++) diti_free(env, conditioning->texts[i].rows);
}

static dit_result diti_blob_read_rows(const diti_env *env, const unsigned char *bytes, diti_conditioning *out,
                                      dit_error *err) {
    uint32_t i;
    for (i = 0; i < DITI_TEXTS; i++) {
        diti_embedding *text = &out->texts[i];
        size_t size = (size_t)text->tokens * text->columns * sizeof *text->rows;
        if (!size) continue;
        text->rows = (float *)diti_alloc(env, size);
        if (!text->rows) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for a prompt blob");
        memcpy(text->rows, bytes, size);
        bytes += size;
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_conditioning_from_blob(const diti_env *env, const char *member, const void *blob,
                                                    size_t size, diti_conditioning *out, dit_error *err) {
    const unsigned char *bytes = (const unsigned char *)blob;
    diti_text_shape shapes[DITI_TEXTS];
    uint32_t words[DITI_BLOB_WORDS], i;
    size_t rows_size = 0;
    bool good = true;
    uint64_t hash;
    memset(out, 0, sizeof *out);
    if (!blob || size < sizeof words)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: %llu bytes are no prompt blob", member,
                         (unsigned long long)size);
    memcpy(words, blob, sizeof words);
    if (words[0] != DITI_BLOB_MAGIC || words[1] != DITI_BLOB_VERSION)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s: no prompt blob of this version; make it again with dit_encode_prompt", member);
    for (i = 0; i < DITI_TEXTS; i++) {
        const uint32_t *text = words + DITI_BLOB_HEAD + 3 * i;
        out->texts[i].tokens = shapes[i].tokens = text[0];
        out->texts[i].columns = shapes[i].columns = text[1];
        out->texts[i].length = text[2];
        good = good && text[2] <= text[0] && (text[0] == 0) == (text[1] == 0);
    }
    if (diti_blob_size(shapes, &rows_size, err) < 0) return DIT_ERROR_INVALID_ARGUMENT;
    hash = diti_hash(bytes + sizeof words, size - sizeof words);
    if (size != sizeof words + rows_size || rows_size == 0 || !good || words[2] != (uint32_t)hash ||
        words[3] != (uint32_t)(hash >> 32)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s: the prompt blob is damaged; make it again with dit_encode_prompt", member);
    }
    return diti_blob_read_rows(env, bytes + sizeof words, out, err);
}

static void diti_blob_write(unsigned char *blob, size_t rows_size, const diti_text_shape *texts,
                            const uint32_t *lengths) {
    uint32_t words[DITI_BLOB_WORDS], i;
    uint64_t hash = diti_hash(blob + sizeof words, rows_size);
    words[0] = DITI_BLOB_MAGIC;
    words[1] = DITI_BLOB_VERSION;
    words[2] = (uint32_t)hash;
    words[3] = (uint32_t)(hash >> 32);
    for (i = 0; i < DITI_TEXTS; i++) {
        words[DITI_BLOB_HEAD + 3 * i] = texts[i].tokens;
        words[DITI_BLOB_HEAD + 3 * i + 1] = texts[i].columns;
        words[DITI_BLOB_HEAD + 3 * i + 2] = lengths[i];
    }
    memcpy(blob, words, sizeof words);
}

#define DITI_TEXT_GRANULE 32u

DIT_INTERNAL uint32_t diti_conditioning_rows(uint32_t tokens, uint32_t most) {
    uint32_t rows = ((tokens ? tokens : 1) + DITI_TEXT_GRANULE - 1) / DITI_TEXT_GRANULE * DITI_TEXT_GRANULE;
    return rows < most ? rows : most;
}

/* What plans need to encode a prompt alone. */
typedef struct diti_encode {
    const dit_model *model;
    diti_graph graph;
    diti_plan *plan;
    diti_text_use use;
    diti_tensor kept[DITI_TEXTS];
    bool again; /* there is no plan, and emitting the ops once more makes other kernels */
} diti_encode;

static void diti_encode_begin(diti_encode *encode, dit_context *ctx, const dit_model *model) {
    memset(encode, 0, sizeof *encode);
    encode->model = model;
    diti_graph_init(&encode->graph, ctx->device);
    diti_guard_begin(&encode->graph);
    diti_graph_segment(&encode->graph, "encode", false);
}

static dit_result diti_encode_plan(diti_encode *encode, dit_error *err) {
    dit_result result;
    diti_guard_judge(&encode->graph);
    result = diti_plan_create(&encode->graph, NULL, &encode->plan, err);
    encode->again = encode->graph.again;
    if (encode->again && err) memset(err, 0, sizeof *err);
    diti_graph_free(&encode->graph);
    return result;
}

/* The texts one after the other; rows: of the first one, 0: all. */
static dit_result diti_encode_read(diti_encode *encode, uint32_t rows, float *out, dit_error *err) {
    dit_result result = diti_guard_run(encode->plan, 0, err);
    uint32_t i;
    for (i = 0; i < DITI_TEXTS; i++) {
        const diti_text_shape *text = &encode->model->texts[i];
        size_t count = (size_t)text->tokens * text->columns;
        size_t size = (rows ? (size_t)rows * text->columns : count) * sizeof *out;
        if (result >= 0 && encode->kept[i]) result = diti_plan_read(encode->plan, encode->kept[i], out, size, err);
        out += count;
    }
    return result;
}

static dit_result diti_encode_fixed(dit_context *ctx, const dit_model *model, const diti_prompt_tokens *tokens,
                                    bool weighted, float *out, dit_error *err) {
    diti_encode encode;
    dit_result result;
    do {
        diti_encode_begin(&encode, ctx, model);
        encode.use.copies = 1;
        encode.use.encodes[0] = true;
        encode.use.weighted = weighted;
        diti_encoders_emit(model, &encode.graph, &encode.use);
        memcpy(encode.kept, encode.use.texts, sizeof encode.kept);
        result = diti_encode_plan(&encode, err);
    } while (encode.again);
    if (result >= 0) result = diti_encoders_write(model, &ctx->env, encode.plan, &encode.use, tokens, NULL, err);
    if (result >= 0) result = diti_encode_read(&encode, 0, out, err);
    diti_plan_destroy(encode.plan);
    return result;
}

static dit_result diti_encode_weights(const diti_env *env, diti_plan *plan, diti_tensor input, const float *weights,
                                      uint32_t length, uint32_t count, dit_error *err) {
    diti_row_weight *table = (diti_row_weight *)diti_alloc_array(env, count, sizeof *table);
    dit_result result;
    uint32_t i;
    if (!table) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for token weights");
    for (i = 0; i < length; i++) {
        table[i].weight = weights[i];
        table[i].rows = length;
    }
    result = diti_plan_write(plan, input, table, count * sizeof *table, err);
    diti_free(env, table);
    return result;
}

/* What T5 makes of the tokens that are read, zeros behind it. */
static dit_result diti_encode_packed(dit_context *ctx, const dit_model *model, const diti_prompt_tokens *tokens,
                                     bool weighted, float *out, dit_error *err) {
    uint32_t items[2][DITI_ITEM_WORDS] = {{0, 0, 0, 0}, {0, 0, 0, 0}}, length = tokens->lengths[0];
    uint32_t count = diti_conditioning_rows(length, model->texts[DITI_TEXT_FIRST].tokens);
    uint32_t columns = model->texts[DITI_TEXT_FIRST].columns;
    const diti_t5 *t5 = model->encoders[0].t5;
    diti_elementwise_desc keep = DITI_ZERO;
    diti_encode encode;
    diti_t5_use *use = &encode.use.encoders[0].t5;
    diti_tensor encoded;
    dit_result result;
    items[0][1] = items[0][3] = items[1][0] = length;
    items[1][1] = count - length;
    do {
        diti_encode_begin(&encode, ctx, model);
        use->batch = 2;
        use->rows = use->tokens = count;
        use->ids = diti_tensor_input(&encode.graph, DITI_U32, 1, count, "token ids");
        use->items = diti_tensor_input(&encode.graph, DITI_U32, 2, DITI_ITEM_WORDS, "prompts");
        if (weighted) use->weights = diti_tensor_input(&encode.graph, DITI_U32, count, 4, "token weights");
        encoded = diti_t5_encode(t5, &encode.graph, use);
        keep.out = encode.kept[0] = diti_tensor_state(&encode.graph, DITI_F32, count, columns, "prompt embedding");
        keep.name = "keep embedding";
        diti_elementwise(&encode.graph, encoded, &keep);
        result = diti_encode_plan(&encode, err);
    } while (encode.again);
    if (result >= 0) result = diti_plan_write(encode.plan, use->ids, tokens->ids, count * sizeof *tokens->ids, err);
    if (result >= 0) result = diti_plan_write(encode.plan, use->items, items, sizeof items, err);
    if (result >= 0) result = diti_t5_write_inputs(t5, encode.plan, use, err);
    if (result >= 0 && weighted)
        result = diti_encode_weights(&ctx->env, encode.plan, use->weights, tokens->weights, length, count, err);
    if (result >= 0) result = diti_encode_read(&encode, count, out, err);
    memset(out + (size_t)length * columns, 0,
           (size_t)(model->texts[DITI_TEXT_FIRST].tokens - length) * columns * sizeof *out);
    diti_plan_destroy(encode.plan);
    return result;
}

static dit_result diti_encode_check(const dit_context *ctx, const dit_model *model, const size_t *size,
                                    dit_error *err) {
    uint32_t i;
    if (!ctx || !model || !size)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_encode_prompt: ctx, model and size must be given");
    for (i = 0; i < DITI_ENCODERS && !diti_encoder_weights(&model->encoders[i]); i++) {
    }
    if (i == DITI_ENCODERS)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "dit_encode_prompt: the model has no text encoder");
    if (model->device != ctx->device)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_encode_prompt: the model was loaded %s",
                         model->device ? "with another context" : "as a dry run");
    return diti_model_check_encoders(model, NULL, err);
}

/* Where padding is read it counts as well, unless the encoders leave it out. */
static void diti_encode_lengths(const dit_model *model, const diti_prompt_tokens *tokens, uint32_t *lengths) {
    uint32_t i;
    for (i = 0; i < DITI_TEXTS; i++) lengths[i] = model->texts[i].tokens;
    for (i = 0; i < DITI_ENCODERS && (!model->fixed_text || diti_encoders_mask(model)); i++) {
        if (model->encoders[i].tokens) lengths[model->encoders[i].text] = tokens[i].lengths[0];
    }
}

static dit_result diti_encode_blob(dit_context *ctx, const dit_model *model, const char *prompt, bool weighted,
                                   unsigned char *blob, size_t rows_size, dit_error *err) {
    diti_prompt_tokens tokens[DITI_ENCODERS];
    uint32_t lengths[DITI_TEXTS];
    float *rows = (float *)(void *)(blob + DITI_BLOB_WORDS * 4);
    dit_result result;
    memset(tokens, 0, sizeof tokens);
    result = diti_prompt_tokens_alloc(model, &ctx->env, weighted, tokens, err);
    if (result >= 0) result = diti_prompt_tokens_make(model, &ctx->env, prompt, 0, tokens, err);
    weighted = result >= 0 && diti_prompt_tokens_weighted(model, 0, tokens);
    if (result >= 0)
        result = model->fixed_text ? diti_encode_fixed(ctx, model, tokens, weighted, rows, err)
                                   : diti_encode_packed(ctx, model, tokens, weighted, rows, err);
    if (result >= 0) {
        diti_encode_lengths(model, tokens, lengths);
        diti_blob_write(blob, rows_size, model->texts, lengths);
    }
    diti_prompt_tokens_free(&ctx->env, tokens);
    return result;
}

static dit_result diti_encode_any(dit_context *ctx, const dit_model *model, const char *prompt, bool weighted,
                                  void *blob, size_t *size, dit_error *err) {
    size_t rows_size = 0, capacity;
    dit_result result = diti_encode_check(ctx, model, size, err);
    if (result >= 0) result = diti_blob_size(model->texts, &rows_size, err);
    if (result < 0) return result;
    capacity = *size;
    *size = DITI_BLOB_WORDS * 4 + rows_size;
    if (!blob) return DIT_OK;
    if (capacity < *size)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_encode_prompt: the blob needs %llu bytes, %llu were given", (unsigned long long)*size,
                         (unsigned long long)capacity);
    return diti_encode_blob(ctx, model, prompt, weighted, (unsigned char *)blob, rows_size, err);
}

DIT_API dit_result dit_encode_prompt(dit_context *ctx, const dit_model *model, const char *prompt, void *blob,
                                     size_t *size, dit_error *err) {
    return diti_encode_any(ctx, model, prompt, false, blob, size, err);
}

DIT_API dit_result dit_encode_weighted_prompt(dit_context *ctx, const dit_model *model, const char *prompt, void *blob,
                                              size_t *size, dit_error *err) {
    return diti_encode_any(ctx, model, prompt, true, blob, size, err);
}
