/* Prompts: from text to token ids, and to embeddings that can be kept as data. */
#include "job/job.h"

/* --- text cleaning: the pipelines lower-case and strip the prompt (models.md 3.2) --- */

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

DIT_INTERNAL dit_result diti_conditioning_ids(const dit_model *model, const diti_env *env, const char *prompt,
                                              int32_t *ids, float *weights, uint32_t tokens, uint32_t *length,
                                              dit_error *err) {
    diti_tokens out = DITI_ZERO;
    dit_result result;
    char *clean;
    if (!model->tokenizer) {
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "the model has no tokenizer; add its spiece.model or tokenizer.json, or give prompt_embeds instead of a prompt");
    }
    result = diti_prompt_clean(env, prompt ? prompt : "", &clean, err);
    if (result < 0) return result;
    out.ids = ids;
    out.weights = weights;
    out.capacity = tokens;
    result = diti_tokenizer_encode(model->tokenizer, clean, &out, err);
    *length = out.count;
    if (result >= 0 && out.lost)
        diti_log(env, DITI_LOG_WARNING,
                 "the prompt is %u tokens too long for the model's %u; what is lost is its end: \"%s%s\"", out.lost,
                 tokens, out.lost_text, out.lost_more ? "..." : "");
    diti_free(env, clean);
    return result;
}

/* --- blobs: what dit_encode_prompt returns. Little-endian words, then float rows --- */

#define DITI_BLOB_MAGIC 0x43544944u /* "DITC" */
#define DITI_BLOB_VERSION 1u
#define DITI_BLOB_WORDS 8u /* magic, version, tokens, columns, length, hash low, hash high, 0 */

static dit_result diti_blob_size(uint32_t tokens, uint32_t columns, size_t *rows_size, dit_error *err) {
    size_t count;
    if (!diti_mul_size(tokens, columns, &count) || !diti_mul_size(count, sizeof(float), rows_size) ||
        *rows_size > SIZE_MAX - DITI_BLOB_WORDS * 4) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "conditioning of %u tokens with %u channels is too large",
                         tokens, columns);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_conditioning_from_blob(const diti_env *env, const void *blob, size_t size,
                                                    diti_conditioning *out, dit_error *err) {
    uint32_t words[DITI_BLOB_WORDS];
    const unsigned char *bytes = (const unsigned char *)blob;
    size_t rows_size = 0;
    uint64_t hash;
    memset(out, 0, sizeof *out);
    if (!blob || size < sizeof words)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "conditioning: %llu bytes are no prompt blob",
                         (unsigned long long)size);
    memcpy(words, blob, sizeof words);
    if (words[0] != DITI_BLOB_MAGIC || words[1] != DITI_BLOB_VERSION)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "conditioning: no prompt blob of this version; make it again with dit_encode_prompt");
    if (diti_blob_size(words[2], words[3], &rows_size, err) < 0) return DIT_ERROR_INVALID_ARGUMENT;
    hash = size > sizeof words ? diti_hash(bytes + sizeof words, size - sizeof words) : 0;
    if (size != sizeof words + rows_size || words[4] > words[2] || words[2] == 0 || words[3] == 0 ||
        words[5] != (uint32_t)hash || words[6] != (uint32_t)(hash >> 32)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "conditioning: the prompt blob is damaged; make it again with dit_encode_prompt");
    }
    out->rows = (float *)diti_alloc(env, rows_size);
    if (!out->rows) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for a prompt blob");
    memcpy(out->rows, bytes + sizeof words, rows_size);
    out->tokens = words[2];
    out->columns = words[3];
    out->length = words[4];
    return DIT_OK;
}

static void diti_blob_write(unsigned char *blob, size_t rows_size, uint32_t tokens, uint32_t columns, uint32_t length) {
    uint32_t words[DITI_BLOB_WORDS];
    uint64_t hash = diti_hash(blob + sizeof words, rows_size);
    words[0] = DITI_BLOB_MAGIC;
    words[1] = DITI_BLOB_VERSION;
    words[2] = tokens;
    words[3] = columns;
    words[4] = length;
    words[5] = (uint32_t)hash;
    words[6] = (uint32_t)(hash >> 32);
    words[7] = 0;
    memcpy(blob, words, sizeof words);
}

#define DITI_TEXT_GRANULE 32u

DIT_INTERNAL uint32_t diti_conditioning_rows(uint32_t tokens, uint32_t most) {
    uint32_t rows = ((tokens ? tokens : 1) + DITI_TEXT_GRANULE - 1) / DITI_TEXT_GRANULE * DITI_TEXT_GRANULE;
    return rows < most ? rows : most;
}

/* Runs the text encoder alone: the first `length` ids -> rows [count, columns], of which those behind length are
 * nobody's. */
static dit_result diti_encode_run(dit_context *ctx, const dit_model *model, const int32_t *ids, uint32_t count,
                                  uint32_t length, float *rows, dit_error *err) {
    uint32_t items[2][DITI_ITEM_WORDS] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    uint32_t columns = diti_t5_get_traits(model->text_encoder)->columns;
    diti_graph graph;
    diti_t5_use use;
    diti_plan *plan = NULL;
    diti_tensor encoded, kept;
    diti_elementwise_desc keep;
    dit_result result;
    items[0][1] = items[0][3] = items[1][0] = length;
    items[1][1] = count - length;
    memset(&use, 0, sizeof use);
    memset(&keep, 0, sizeof keep);
    diti_graph_init(&graph, ctx->device);
    diti_guard_begin(&graph);
    diti_graph_segment(&graph, "encode", false);
    use.batch = 2;
    use.rows = use.tokens = count;
    use.ids = diti_tensor_input(&graph, DITI_U32, 1, count, "token ids");
    use.items = diti_tensor_input(&graph, DITI_U32, 2, DITI_ITEM_WORDS, "prompts");
    encoded = diti_t5_encode(model->text_encoder, &graph, &use);
    keep.out = kept = diti_tensor_state(&graph, DITI_F32, count, columns, "prompt embedding");
    keep.name = "keep embedding";
    diti_elementwise(&graph, encoded, &keep);
    diti_guard_judge(&graph);
    result = diti_plan_create(&graph, NULL, &plan, err);
    diti_graph_free(&graph);
    if (result >= 0) result = diti_plan_write(plan, use.ids, ids, count * sizeof *ids, err);
    if (result >= 0) result = diti_plan_write(plan, use.items, items, sizeof items, err);
    if (result >= 0) result = diti_t5_write_inputs(model->text_encoder, plan, &use, err);
    if (result >= 0) result = diti_guard_run(plan, 0, err);
    if (result >= 0) result = diti_plan_read(plan, kept, rows, (size_t)count * columns * sizeof *rows, err);
    diti_plan_destroy(plan);
    return result;
}

/* Encodes what is read of a prompt: rows [tokens, columns], zeros behind it. */
static dit_result diti_encode_rows(dit_context *ctx, const dit_model *model, const int32_t *ids, uint32_t tokens,
                                   uint32_t length, float *rows, dit_error *err) {
    bool all = model->transformer && model->transformer->traits.attends_padding;
    uint32_t count, columns = diti_t5_get_traits(model->text_encoder)->columns;
    dit_result result;
    if (all) length = tokens;
    count = diti_conditioning_rows(length, tokens);
    result = diti_encode_run(ctx, model, ids, count, length, rows, err);
    memset(rows + (size_t)length * columns, 0, (size_t)(tokens - length) * columns * sizeof *rows);
    return result;
}

static dit_result diti_encode_check(const dit_context *ctx, const dit_model *model, const size_t *size,
                                    dit_error *err) {
    if (!ctx || !model || !size)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_encode_prompt: ctx, model and size must be given");
    if (!model->text_encoder)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "dit_encode_prompt: the model has no text encoder");
    if (model->device != ctx->device)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_encode_prompt: the model was loaded %s",
                         model->device ? "with another context" : "as a dry run");
    return DIT_OK;
}

DIT_API dit_result dit_encode_prompt(dit_context *ctx, const dit_model *model, const char *prompt, void *blob,
                                     size_t *size, dit_error *err) {
    uint32_t tokens, columns, length = 0;
    size_t rows_size = 0, capacity;
    int32_t *ids;
    dit_result result = diti_encode_check(ctx, model, size, err);
    if (result < 0) return result;
    tokens = diti_model_text_tokens(model);
    if (tokens == 0) tokens = 256;
    columns = diti_t5_get_traits(model->text_encoder)->columns;
    result = diti_blob_size(tokens, columns, &rows_size, err);
    if (result < 0) return result;
    capacity = *size;
    *size = DITI_BLOB_WORDS * 4 + rows_size;
    if (!blob) return DIT_OK;
    if (capacity < *size)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_encode_prompt: the blob needs %llu bytes, %llu were given", (unsigned long long)*size,
                         (unsigned long long)capacity);
    ids = (int32_t *)diti_alloc_array(&ctx->env, tokens, sizeof *ids);
    if (!ids) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for %u token ids", tokens);
    result = diti_conditioning_ids(model, &ctx->env, prompt, ids, NULL, tokens, &length, err);
    if (result >= 0)
        result = diti_encode_rows(ctx, model, ids, tokens, length,
                                  (float *)(void *)((unsigned char *)blob + DITI_BLOB_WORDS * 4), err);
    if (result >= 0) diti_blob_write((unsigned char *)blob, rows_size, tokens, columns, length);
    diti_free(&ctx->env, ids);
    return result;
}
