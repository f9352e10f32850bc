/* Prompts as data: dit_encode_prompt, and the blobs that it makes. */
#include "job/job.h"

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
        if (!text->rows) return diti_fail_memory(err, "a prompt blob");
        memcpy(text->rows, bytes, size);
        bytes += size;
    }
    return DIT_OK;
}

/* words: the head of a blob that is whole. */
static dit_result diti_blob_check(const char *member, const void *blob, size_t size, uint32_t *words, dit_error *err) {
    const size_t head = DITI_BLOB_WORDS * sizeof *words;
    diti_text_shape shapes[DITI_TEXTS];
    size_t rows_size = 0;
    bool good = true;
    uint64_t hash;
    uint32_t i;
    if (!blob || size < head)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: %llu bytes are no prompt blob", member,
                         (unsigned long long)size);
    memcpy(words, blob, head);
    if (words[0] != DITI_BLOB_MAGIC || words[1] != DITI_BLOB_VERSION)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s: no prompt blob of this version; make it again with dit_encode_prompt", member);
    for (i = 0; i < DITI_TEXTS; i++) {
        const uint32_t *text = words + DITI_BLOB_HEAD + 3 * i;
        shapes[i].tokens = text[0];
        shapes[i].columns = text[1];
        good = good && text[2] <= text[0] && (text[0] == 0) == (text[1] == 0);
    }
    if (diti_blob_size(shapes, &rows_size, err) < 0) return DIT_ERROR_INVALID_ARGUMENT;
    hash = diti_hash((const unsigned char *)blob + head, size - head);
    if (size != head + rows_size || rows_size == 0 || !good || words[2] != (uint32_t)hash ||
        words[3] != (uint32_t)(hash >> 32)) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s: the prompt blob is damaged; make it again with dit_encode_prompt", member);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_conditioning_from_blob(const diti_env *env, const char *member, const void *blob,
                                                    size_t size, diti_conditioning *out, dit_error *err) {
    uint32_t words[DITI_BLOB_WORDS], i;
    memset(out, 0, sizeof *out);
    DITI_TRY(diti_blob_check(member, blob, size, words, err));
    for (i = 0; i < DITI_TEXTS; i++) {
        const uint32_t *text = words + DITI_BLOB_HEAD + 3 * i;
        out->texts[i].tokens = text[0];
        out->texts[i].columns = text[1];
        out->texts[i].length = text[2];
    }
    return diti_blob_read_rows(env, (const unsigned char *)blob + sizeof words, out, err);
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

DIT_API dit_result dit_mix_prompts(const void *a, const void *b, size_t size, float part, void *blob, dit_error *err) {
    uint32_t words[2][DITI_BLOB_WORDS], lengths[DITI_TEXTS], i;
    diti_text_shape shapes[DITI_TEXTS];
    size_t at = sizeof words[0];
    if (!blob) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_mix_prompts: blob must be given");
    if (!(part >= 0 && part <= 1))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_mix_prompts: part is %g; it must be 0 (a) to 1 (b)",
                         (double)part);
    DITI_TRY(diti_blob_check("dit_mix_prompts: a", a, size, words[0], err));
    DITI_TRY(diti_blob_check("dit_mix_prompts: b", b, size, words[1], err));
    for (i = 0; i < DITI_TEXTS; i++) {
        const uint32_t *left = words[0] + DITI_BLOB_HEAD + 3 * i, *right = words[1] + DITI_BLOB_HEAD + 3 * i;
        if (left[0] != right[0] || left[1] != right[1])
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_mix_prompts: a and b are of different models");
        shapes[i].tokens = left[0];
        shapes[i].columns = left[1];
        lengths[i] = left[2] > right[2] ? left[2] : right[2];
    }
    for (; at < size; at += sizeof(float)) {
        float values[2];
        memcpy(&values[0], (const unsigned char *)a + at, sizeof(float));
        memcpy(&values[1], (const unsigned char *)b + at, sizeof(float));
        values[0] = part == 1 ? values[1] : values[0] + part * (values[1] - values[0]);
        memcpy((unsigned char *)blob + at, values, sizeof(float));
    }
    diti_blob_write((unsigned char *)blob, size - sizeof words[0], shapes, lengths);
    return DIT_OK;
}

/* --- encoding a prompt alone --- */

/* The rows of a text, as a state: those of prompts of unequal length lie in memory that others share. */
static diti_tensor diti_encode_keep(const dit_model *model, diti_graph *graph, diti_tensor text) {
    diti_elementwise_desc keep = DITI_ZERO;
    if (model->fixed_text || !text) return text;
    keep.out = diti_tensor_state(graph, DITI_F32, diti_tensor_rows(graph, text), diti_tensor_get(graph, text)->columns,
                                 "prompt embedding");
    keep.name = "keep embedding";
    return diti_elementwise(graph, text, &keep);
}

/* LoRAs have the strengths that jobs give them by themselves. */
static dit_result diti_encode_plan(dit_context *ctx, const dit_model *model, diti_text_use *use, diti_plan **out,
                                   dit_error *err) {
    diti_text_use wanted = *use;
    diti_lora_uses loras;
    diti_graph graph;
    dit_result result;
    bool again;
    uint32_t i;
    do {
        *use = wanted;
        diti_graph_init(&graph, ctx->device);
        diti_guard_begin(&graph);
        diti_loras_emit(model, UINT32_MAX, &graph, &loras);
        diti_graph_segment(&graph, "encode", false);
        diti_prompts_emit(model, &graph, use);
        for (i = 0; i < DITI_TEXTS; i++) use->texts[i] = diti_encode_keep(model, &graph, use->texts[i]);
        diti_guard_judge(&graph);
        result = diti_plan_create(&graph, &ctx->progress, out, err);
        again = graph.again; /* a kernel did not compile: the same ops make others */
        if (again && err) memset(err, 0, sizeof *err);
        diti_graph_free(&graph);
    } while (again);
    return result == DIT_OK ? diti_loras_write(model, NULL, &loras, *out, err) : result;
}

/* A prompt and the plan that encodes it. Slices [first, next) of the plan's only segment are in flight. */
struct dit_encoding {
    dit_context *context;
    const dit_model *model;
    diti_prompt_tokens tokens[DITI_ENCODERS];
    diti_text_use use;
    diti_plan *plan;
    uint64_t *values; /* by slice: value of the plan's timeline when it is finished */
    uint32_t first, next, tries;
};

/* The texts one after the other, with zeros behind rows that a plan does not have, or that are of no token. */
static dit_result diti_encode_read(const dit_encoding *e, float *out, dit_error *err) {
    const dit_model *model = e->model;
    uint32_t i;
    for (i = 0; i < DITI_TEXTS; i++) {
        const diti_text_shape *text = &model->texts[i];
        size_t rows = e->use.texts[i] ? e->plan->tensors[e->use.texts[i]].rows : 0, read = rows;
        if (rows) DITI_TRY(diti_plan_read(e->plan, e->use.texts[i], out, rows * text->columns * sizeof *out, err));
        if (i == DITI_TEXT_FIRST && !model->fixed_text)
            read = diti_encoder_rows(&model->encoders[0], e->tokens[0].lengths[0], 0) - model->encoders[0].dropped;
        if (read > rows) read = rows;
        memset(out + read * text->columns, 0, (text->tokens - read) * text->columns * sizeof *out);
        out += (size_t)text->tokens * text->columns;
    }
    return DIT_OK;
}

/* call: the function that the application called, for messages. */
static dit_result diti_encode_check(const char *call, const dit_context *ctx, const dit_model *model, dit_error *err) {
    uint32_t i;
    if (!ctx || !model)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", call, ctx ? "model" : "ctx");
    for (i = 0; i < DITI_ENCODERS && !diti_encoder_weights(&model->encoders[i]); i++) {
    }
    if (i == DITI_ENCODERS)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: the model has no text encoder", call);
    if (model->device != ctx->device)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: the model was loaded %s", call,
                         model->device ? "with another context" : "as a dry run");
    return diti_model_check_encoders(model, NULL, err);
}

/* Where padding is read it counts as well, unless the encoders leave it out. */
static void diti_encode_lengths(const dit_model *model, const diti_prompt_tokens *tokens, uint32_t *lengths) {
    uint32_t i;
    for (i = 0; i < DITI_TEXTS; i++) lengths[i] = model->texts[i].tokens;
    for (i = 0; i < DITI_ENCODERS && (!model->fixed_text || diti_encoders_mask(model)); i++) {
        const diti_encoder *encoder = &model->encoders[i];
        if (encoder->tokens && encoder->text != DITI_TEXT_POOLED)
            lengths[encoder->text] = diti_encoder_rows(encoder, tokens[i].lengths[0], 0) - encoder->dropped;
    }
}

/* The plan, and what it reads. */
static dit_result diti_encode_prepare(dit_encoding *e, dit_error *err) {
    const dit_model *model = e->model;
    diti_prompts prompts = DITI_ZERO;
    dit_result result;
    uint32_t length = diti_encoder_rows(&model->encoders[0], e->tokens[0].lengths[0], 0) - model->encoders[0].dropped,
             encoded = diti_prompts_read_padding(model) ? model->texts[DITI_TEXT_FIRST].tokens : length;
    e->use.branches = 1;
    e->use.encodes[0] = true;
    e->use.weighted = diti_prompt_tokens_weighted(model, 0, e->tokens);
    e->use.encoded_rows = diti_conditioning_rows(encoded, model->texts[DITI_TEXT_FIRST].tokens);
    prompts.tokens = e->tokens;
    prompts.rows = &encoded;
    result = diti_encode_plan(e->context, model, &e->use, &e->plan, err);
    if (result != DIT_OK) return result;
    return diti_prompts_write(model, &e->context->env, e->plan, &e->use, &prompts, err);
}

static dit_result diti_encode_begin(dit_encoding *e, const char *prompt, bool weighted, dit_error *err) {
    const diti_env *env = &e->context->env;
    DITI_TRY(diti_prompt_tokens_alloc(e->model, env, weighted, e->tokens, err));
    DITI_TRY(diti_prompt_tokens_make(e->model, env, NULL, prompt, 0, !prompt || !*prompt, e->tokens, err));
    return diti_encode_prepare(e, err);
}

static void diti_encode_end(dit_encoding *e) {
    diti_plan_destroy(e->plan);
    diti_prompt_tokens_free(&e->context->env, e->tokens);
}

/* Writes the blob when nothing is in flight. */
static dit_result diti_encode_finish(const dit_encoding *e, unsigned char *blob, size_t size, dit_error *err) {
    uint32_t lengths[DITI_TEXTS];
    DITI_TRY(diti_encode_read(e, (float *)(void *)(blob + DITI_BLOB_WORDS * 4), err));
    diti_encode_lengths(e->model, e->tokens, lengths);
    diti_blob_write(blob, size - DITI_BLOB_WORDS * 4, e->model->texts, lengths);
    return DIT_OK;
}

/* DIT_OK: blob has room for *size bytes, or is NULL. */
static dit_result diti_encode_room(const char *call, const dit_model *model, const void *blob, size_t *size,
                                   dit_error *err) {
    size_t rows_size = 0, capacity = *size;
    DITI_TRY(diti_blob_size(model->texts, &rows_size, err));
    *size = DITI_BLOB_WORDS * 4 + rows_size;
    if (!blob || capacity >= *size) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: the blob needs %llu bytes, %llu were given", call,
                     (unsigned long long)*size, (unsigned long long)capacity);
}

static dit_result diti_encode_any(dit_context *ctx, const dit_model *model, const char *prompt, bool weighted,
                                  void *blob, size_t *size, dit_error *err) {
    const char *call = weighted ? "dit_encode_weighted_prompt" : "dit_encode_prompt";
    dit_encoding e = DITI_ZERO;
    dit_result result;
    if (!size) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: size is NULL", call);
    DITI_TRY(diti_encode_check(call, ctx, model, err));
    DITI_TRY(diti_encode_room(call, model, blob, size, err));
    if (!blob) return DIT_OK;
    e.context = ctx;
    e.model = model;
    result = diti_encode_begin(&e, prompt, weighted, err);
    if (result == DIT_OK) result = diti_guard_run(e.plan, 0, err);
    if (result == DIT_OK) result = diti_encode_finish(&e, (unsigned char *)blob, *size, err);
    diti_encode_end(&e);
    return result;
}

DIT_API dit_result dit_encode_prompt(dit_context *ctx, const dit_model *model, const char *prompt, void *blob,
                                     size_t *size, dit_error *err) {
    return diti_encode_any(ctx, model, prompt, false, blob, size, err);
}

DIT_API dit_result dit_encode_weighted_prompt(dit_context *ctx, const dit_model *model, const char *prompt, void *blob,
                                              size_t *size, dit_error *err) {
    return diti_encode_any(ctx, model, prompt, true, blob, size, err);
}

/* --- encoding a prompt while jobs run --- */

DIT_API dit_result dit_encoding_create(dit_context *ctx, const dit_model *model, const char *prompt, bool weighted,
                                       dit_encoding **out, dit_error *err) {
    dit_encoding *e;
    dit_result result;
    if (!out) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_encoding_create: out is NULL");
    *out = NULL;
    DITI_TRY(diti_encode_check("dit_encoding_create", ctx, model, err));
    e = (dit_encoding *)diti_alloc_zero(&ctx->env, sizeof *e);
    if (!e) return diti_fail_memory(err, "an encoding");
    e->context = ctx;
    e->model = model;
    result = diti_encode_begin(e, prompt, weighted, err);
    if (result == DIT_OK) {
        diti_plan_begin_stream(e->plan, false);
        e->values = (uint64_t *)diti_alloc_array(&ctx->env, diti_plan_slice_count(e->plan, 0), sizeof *e->values);
        if (!e->values) result = diti_fail_memory(err, "an encoding");
    }
    if (result != DIT_OK)
        dit_encoding_destroy(e);
    else
        *out = e;
    return result;
}

/* Slices as long as those in flight stay within the budget, of which there may always be one. */
static dit_result diti_encode_submit(dit_encoding *e, uint32_t budget_us, dit_error *err) {
    uint64_t bytes = diti_job_load_bytes(budget_us);
    float us = 0;
    uint32_t i;
    for (i = e->first; i < e->next; i++) us += diti_plan_slice_us(e->plan, 0, i);
    while (e->next < diti_plan_slice_count(e->plan, 0)) {
        dit_result result;
        us += diti_plan_slice_us(e->plan, 0, e->next);
        if (e->first < e->next && (us > (float)budget_us || !diti_plan_may_submit(e->plan, 0, e->next))) break;
        result = diti_plan_load(e->plan, 0, e->next, &bytes, err);
        if (result == DIT_OK) result = diti_plan_submit(e->plan, 0, e->next, &e->values[e->next], err);
        if (result != DIT_OK) return result;
        e->next++;
    }
    return DIT_WORKING;
}

/* DIT_OK: all slices are finished. */
static dit_result diti_encode_poll(dit_encoding *e, dit_error *err) {
    uint64_t done = 0;
    diti_verdict verdict;
    DITI_TRY(diti_timeline_value(e->context->device, diti_plan_timeline(e->plan), &done, err));
    diti_plan_learn(e->plan);
    while (e->first < e->next && e->values[e->first] <= done) e->first++;
    if (e->first < diti_plan_slice_count(e->plan, 0)) return DIT_WORKING;
    if (!diti_guard_raise(e->plan, &verdict)) return DIT_OK;
    DITI_TRY(diti_guard_check(&verdict, ++e->tries, 0, err));
    DITI_TRY(diti_guard_restore(e->plan, 0, err));
    e->first = e->next = 0;
    return DIT_WORKING;
}

DIT_API dit_result dit_encoding_step(dit_encoding *encoding, uint32_t budget_us, void *blob, size_t *size,
                                     dit_error *err) {
    dit_result result;
    if (!encoding || !blob || !size)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_encoding_step: encoding, blob and size must be given");
    DITI_TRY(diti_encode_room("dit_encoding_step", encoding->model, blob, size, err));
    result = diti_encode_poll(encoding, err);
    if (result == DIT_WORKING) result = diti_encode_submit(encoding, budget_us, err);
    return result == DIT_OK ? diti_encode_finish(encoding, (unsigned char *)blob, *size, err) : result;
}

DIT_API void dit_encoding_destroy(dit_encoding *encoding) {
    diti_env env;
    if (!encoding) return;
    env = encoding->context->env;
    diti_plan_wait(encoding->plan);
    diti_encode_end(encoding);
    diti_free(&env, encoding->values);
    diti_free(&env, encoding);
}
