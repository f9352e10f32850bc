/* Prompts: from text to token ids, and to embeddings that can be kept as data. */
#include "job/job.h"

/* --- text cleaning: the pipelines lower-case and strip the prompt (models.md 3.2) --- */

/* One UTF-8 character at text; its length, or 1 with *code = the byte itself where the encoding is broken. */
static uint32_t diti_utf8_next(const char *text, uint32_t *code) {
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t length = bytes[0] < 0x80   ? 1
                      : bytes[0] < 0xc2 ? 0
                      : bytes[0] < 0xe0 ? 2
                      : bytes[0] < 0xf0 ? 3
                      : bytes[0] < 0xf5 ? 4
                                        : 0,
             i;
    *code = bytes[0];
    if (length <= 1) return 1;
    *code = bytes[0] & (0xffu >> (length + 1));
    for (i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            *code = bytes[0];
            return 1;
        }
        *code = (*code << 6) | (bytes[i] & 0x3fu);
    }
    return length;
}

/* Lower case of the bicameral scripts whose cases lie at regular distances: Latin, Greek, Cyrillic, Armenian. Every
   pair that is mapped has the same UTF-8 length. */
static uint32_t diti_lower_case(uint32_t c) {
    if ((c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7)) return c + 32;
    if (c >= 0x391 && c <= 0x3ab && c != 0x3a2) return c + 32;
    if (c >= 0x410 && c <= 0x42f) return c + 32;
    if (c >= 0x400 && c <= 0x40f) return c + 80;
    if (c >= 0x531 && c <= 0x556) return c + 48;
    if (c == 0x178) return 0xff;
    if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e)) return c & 1 ? c + 1 : c;
    if ((c >= 0x100 && c <= 0x177 && c != 0x130 && c != 0x131 && c != 0x138) || (c >= 0x460 && c <= 0x481) ||
        (c >= 0x48a && c <= 0x4bf) || (c >= 0x4d0 && c <= 0x52f) || (c >= 0x1e00 && c <= 0x1e95) ||
        (c >= 0x1ea0 && c <= 0x1eff)) {
        return c & 1 ? c : c + 1;
    }
    return c;
}

static void diti_utf8_put(char *out, uint32_t code, uint32_t length) {
    uint32_t i;
    if (length == 1) {
        out[0] = (char)code;
        return;
    }
    for (i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80u | (code & 0x3fu));
    out[0] = (char)(((0xf00u >> length) & 0xffu) | code);
}

static bool diti_is_space(uint32_t c) {
    return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* A copy of prompt, lower-cased and without white space at its ends; freed with diti_free. */
static char *diti_prompt_clean(const diti_env *env, const char *prompt) {
    char *clean = diti_copy_string(env, prompt);
    size_t read = 0, start = 0, end = 0;
    bool any = false;
    if (!clean) return NULL;
    while (clean[read]) {
        uint32_t code, length = diti_utf8_next(clean + read, &code);
        if (!diti_is_space(code)) {
            if (!any) start = read;
            any = true;
            end = read + length;
        }
        if (length > 1 || code < 0x80) diti_utf8_put(clean + read, diti_lower_case(code), length);
        read += length;
    }
    memmove(clean, clean + start, end - start);
    clean[any ? end - start : 0] = 0;
    return clean;
}

DIT_INTERNAL dit_result diti_conditioning_ids(const dit_model *model, const diti_env *env, const char *prompt,
                                              int32_t *ids, uint32_t tokens, uint32_t *length, dit_error *err) {
    uint32_t lost = 0;
    dit_result result;
    char *clean;
    if (!model->tokenizer) {
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "the model has no tokenizer; add its spiece.model or tokenizer.json, or give prompt_embeds instead of a prompt");
    }
    clean = diti_prompt_clean(env, prompt ? prompt : "");
    if (!clean) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the prompt");
    result = diti_tokenizer_encode(model->tokenizer, clean, ids, tokens, length, &lost, err);
    if (result >= 0 && lost)
        diti_log(env, DITI_LOG_WARNING, "the prompt is %u tokens too long for the model's %u; its end is ignored", lost,
                 tokens);
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
    diti_graph_segment(&graph, "encode", false);
    use.batch = 2;
    use.rows = use.tokens = count;
    use.ids = diti_tensor_input(&graph, DITI_U32, 1, count, "token ids");
    use.items = diti_tensor_input(&graph, DITI_U32, 2, DITI_ITEM_WORDS, "prompts");
    encoded = diti_t5_encode(model->text_encoder, &graph, &use);
    keep.out = kept = diti_tensor_state(&graph, DITI_F32, count, columns, "prompt embedding");
    keep.name = "keep embedding";
    diti_elementwise(&graph, encoded, &keep);
    result = diti_plan_create(&graph, NULL, &plan, err);
    diti_graph_free(&graph);
    if (result >= 0) result = diti_plan_write(plan, use.ids, ids, count * sizeof *ids, err);
    if (result >= 0) result = diti_plan_write(plan, use.items, items, sizeof items, err);
    if (result >= 0) result = diti_t5_write_inputs(model->text_encoder, plan, &use, err);
    if (result >= 0) result = diti_plan_run(plan, 0, 1, err);
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
    result = diti_conditioning_ids(model, &ctx->env, prompt, ids, tokens, &length, err);
    if (result >= 0)
        result = diti_encode_rows(ctx, model, ids, tokens, length,
                                  (float *)(void *)((unsigned char *)blob + DITI_BLOB_WORDS * 4), err);
    if (result >= 0) diti_blob_write((unsigned char *)blob, rows_size, tokens, columns, length);
    diti_free(&ctx->env, ids);
    return result;
}
