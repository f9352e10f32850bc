/* Text encoders of all kinds: where their results belong, and prompts of fixed length in a plan. */
#include "job/job.h"

#define DITI_CLIP_TOKENS 77u

DIT_INTERNAL const char *diti_encoder_name(diti_encoder_kind kind) {
    switch (kind) {
    case DITI_ENCODER_T5: return "T5";
    case DITI_ENCODER_CLIP_L: return "CLIP-L";
    case DITI_ENCODER_CLIP_G: return "CLIP-G";
    case DITI_ENCODER_BERT: return "BERT";
    default: return "unknown";
    }
}

DIT_INTERNAL const diti_weights *diti_encoder_weights(const diti_encoder *encoder) {
    if (encoder->t5) return diti_t5_weights(encoder->t5);
    if (encoder->clip) return diti_clip_weights(encoder->clip);
    return encoder->bert ? diti_bert_weights(encoder->bert) : NULL;
}

/* Of the states. */
static uint32_t diti_encoder_columns(const diti_encoder *encoder) {
    if (encoder->t5) return diti_t5_get_traits(encoder->t5)->columns;
    if (encoder->clip) return diti_clip_get_traits(encoder->clip)->columns;
    return encoder->bert ? diti_bert_get_traits(encoder->bert)->columns : 0;
}

/* Of the pooled output: FLUX takes it without the projection. */
static uint32_t diti_encoder_pooled(const diti_encoder *encoder) {
    const diti_clip_traits *traits = encoder->clip ? diti_clip_get_traits(encoder->clip) : NULL;
    if (!traits) return 0;
    return encoder->text != DITI_TEXT_POOLED && traits->projected ? traits->projected : traits->columns;
}

static dit_result diti_encoder_load_kind(diti_encoder *encoder, diti_device *device, const diti_env *env,
                                         const diti_model_part *part, const diti_load_options *options,
                                         dit_error *err) {
    switch (encoder->kind) {
    case DITI_ENCODER_T5:
        return diti_t5_load(device, env, part->config, part->checkpoint, part->prefix, options, &encoder->t5, err);
    case DITI_ENCODER_BERT:
        return diti_bert_load(device, env, part->config, part->checkpoint, part->prefix, options, &encoder->bert, err);
    default:
        return diti_clip_load(device, env, part->config, part->checkpoint, part->prefix, options, &encoder->clip, err);
    }
}

DIT_INTERNAL dit_result diti_encoder_load(diti_encoder *encoder, diti_device *device, const diti_env *env,
                                          const diti_model_part *part, const diti_load_options *options,
                                          dit_error *err) {
    diti_load_options own = *options;
    bool wide = false;
    dit_result result;
    own.wide = &wide;
    result = diti_encoder_load_kind(encoder, device, env, part, &own, err);
    own.wide = NULL;
    return wide ? diti_encoder_load_kind(encoder, device, env, part, &own, err) : result;
}

DIT_INTERNAL void diti_encoder_unload(diti_encoder *encoder) {
    diti_t5_destroy(encoder->t5);
    diti_clip_destroy(encoder->clip);
    diti_bert_destroy(encoder->bert);
    encoder->t5 = NULL;
    encoder->clip = NULL;
    encoder->bert = NULL;
}

/* --- where results belong (docs/models.md 3) --- */

static const diti_encoder *diti_model_encoder(const dit_model *model, diti_encoder_kind kind) {
    uint32_t i;
    for (i = 0; i < DITI_ENCODERS && model->encoders[i].kind != kind; i++) {
    }
    return i < DITI_ENCODERS ? &model->encoders[i] : NULL;
}

/* Encoders alone: what the pipeline of the transformer that has such ones takes. */
static void diti_encoders_guess_texts(dit_model *model) {
    const diti_encoder *t5 = diti_model_encoder(model, DITI_ENCODER_T5),
                       *bert = diti_model_encoder(model, DITI_ENCODER_BERT),
                       *l = diti_model_encoder(model, DITI_ENCODER_CLIP_L),
                       *g = diti_model_encoder(model, DITI_ENCODER_CLIP_G);
    diti_text_shape *texts = model->texts;
    model->fixed_text = bert || l || g;
    texts[DITI_TEXT_FIRST].tokens = bert ? 77 : g ? 77 + 256 : l ? 512 : 256;
    texts[DITI_TEXT_FIRST].columns = bert ? diti_encoder_columns(bert) : t5 ? diti_encoder_columns(t5) : 4096;
    if (bert && t5) {
        texts[DITI_TEXT_SECOND].tokens = 256;
        texts[DITI_TEXT_SECOND].columns = diti_encoder_columns(t5);
    }
    texts[DITI_TEXT_POOLED].tokens = l || g;
    if (l && g) /* projected both */
        texts[DITI_TEXT_POOLED].columns = diti_encoder_pooled(l) + diti_encoder_pooled(g);
    else if (l)
        texts[DITI_TEXT_POOLED].columns = diti_encoder_columns(l);
}

static void diti_encoders_read_texts(dit_model *model) {
    const diti_model_traits *traits;
    diti_text_shape *texts = model->texts;
    if (!model->transformer) {
        diti_encoders_guess_texts(model);
        return;
    }
    traits = &model->transformer->traits;
    model->fixed_text = traits->attends_padding;
    texts[DITI_TEXT_FIRST].tokens = traits->text_tokens;
    texts[DITI_TEXT_FIRST].columns = traits->text_columns;
    texts[DITI_TEXT_SECOND].tokens = traits->text2_tokens;
    texts[DITI_TEXT_SECOND].columns = traits->text2_columns;
    texts[DITI_TEXT_POOLED].tokens = traits->pooled_columns != 0;
    texts[DITI_TEXT_POOLED].columns = traits->pooled_columns;
}

/* T5's rows: all of a text, or those behind CLIP's. The tokenizer's config may allow less than the pipeline asks for;
   where padding has rows of its own their number is the transformer's. */
static void diti_encoders_place_t5(dit_model *model, diti_encoder *encoder) {
    diti_text_shape *text;
    encoder->text = model->texts[DITI_TEXT_SECOND].tokens ? DITI_TEXT_SECOND : DITI_TEXT_FIRST;
    text = &model->texts[encoder->text];
    encoder->row = diti_model_encoder(model, DITI_ENCODER_CLIP_G) ? DITI_CLIP_TOKENS : 0;
    if (!model->fixed_text && model->pipeline_tokens) text->tokens = model->pipeline_tokens;
    encoder->tokens = text->tokens - encoder->row;
    if (encoder->text == DITI_TEXT_SECOND || !encoder->limit || encoder->limit >= encoder->tokens) return;
    encoder->tokens = encoder->limit;
    text->tokens = encoder->row + encoder->limit;
}

/* CLIP-G's columns come last, whether CLIP-L is there or not. */
static void diti_encoders_place_clip(dit_model *model, diti_encoder *encoder) {
    const diti_encoder *l = diti_model_encoder(model, DITI_ENCODER_CLIP_L);
    uint32_t all = model->texts[DITI_TEXT_POOLED].columns, own;
    encoder->tokens = DITI_CLIP_TOKENS;
    encoder->text = diti_model_encoder(model, DITI_ENCODER_CLIP_G) ? DITI_TEXT_FIRST : DITI_TEXT_POOLED;
    own = diti_encoder_pooled(encoder);
    if (encoder->kind != DITI_ENCODER_CLIP_G) return;
    encoder->pooled = own < all ? all - own : 0;
    encoder->column = l && l->clip ? diti_encoder_columns(l) : encoder->pooled;
}

static dit_result diti_encoders_check(const dit_model *model, const diti_encoder *encoder, dit_error *err) {
    const diti_text_shape *text = &model->texts[encoder->text];
    uint32_t columns = diti_encoder_columns(encoder), wanted = text->columns;
    bool good = columns == wanted, both = diti_model_encoder(model, DITI_ENCODER_CLIP_G) != NULL;
    if (encoder->clip && both) { /* side by side: the other one's columns and zeros are beside it */
        const diti_encoder *other =
            diti_model_encoder(model, encoder->kind == DITI_ENCODER_CLIP_G ? DITI_ENCODER_CLIP_L : DITI_ENCODER_CLIP_G);
        columns = diti_encoder_pooled(encoder) + (other ? diti_encoder_pooled(other) : 0);
        wanted = model->texts[DITI_TEXT_POOLED].columns;
        good = (columns == wanted || (columns < wanted && !(other && other->clip))) &&
               encoder->column + diti_encoder_columns(encoder) <= text->columns;
    }
    if (good) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "the text encoder%s (%s) give%s %u channels, the transformer wants %u; they belong to different "
                     "models",
                     encoder->clip && both ? "s" : "",
                     encoder->clip && both ? "CLIP" : diti_encoder_name(encoder->kind),
                     encoder->clip && both ? "" : "s", columns, wanted);
}

static uint32_t diti_encoder_vocabulary(const diti_encoder *encoder) {
    if (encoder->t5) return diti_t5_get_traits(encoder->t5)->vocabulary;
    if (encoder->clip) return diti_clip_get_traits(encoder->clip)->vocabulary;
    return encoder->bert ? diti_bert_get_traits(encoder->bert)->vocabulary : 0;
}

/* A token without an embedding would be read as nothing, and the picture be of something else. */
static dit_result diti_encoder_check_tokenizer(const diti_encoder *encoder, dit_error *err) {
    const uint32_t vocabulary = diti_encoder_vocabulary(encoder);
    const diti_piece_index *words = encoder->tokenizer ? &encoder->tokenizer->words : NULL;
    uint32_t i;
    for (i = 0; words && vocabulary && i < words->count; i++) {
        if (words->pieces[i].id < (int32_t)vocabulary) continue;
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "the tokenizer of %s has a token %d, the text encoder %u of them; they belong to different "
                         "models",
                         diti_encoder_name(encoder->kind), words->pieces[i].id, vocabulary);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_encoders_place(dit_model *model, dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t i;
    diti_encoders_read_texts(model);
    for (i = 0; i < DITI_ENCODERS && result >= 0; i++) {
        diti_encoder *encoder = &model->encoders[i];
        if (encoder->kind == DITI_ENCODER_NONE) continue;
        if (encoder->kind == DITI_ENCODER_T5) diti_encoders_place_t5(model, encoder);
        if (encoder->kind == DITI_ENCODER_BERT) encoder->tokens = model->texts[DITI_TEXT_FIRST].tokens;
        if (encoder->kind == DITI_ENCODER_CLIP_L || encoder->kind == DITI_ENCODER_CLIP_G)
            diti_encoders_place_clip(model, encoder);
        if (diti_encoder_weights(encoder) && model->transformer) result = diti_encoders_check(model, encoder, err);
        if (result >= 0) result = diti_encoder_check_tokenizer(encoder, err);
    }
    return result;
}

DIT_INTERNAL uint32_t diti_encoders_missing(const dit_model *model) {
    bool lacks = model->transformer && model->transformer->traits.lacks_encoders;
    uint32_t i, found = 0, missing = 0, tokenizers = 0;
    for (i = 0; i < DITI_ENCODERS; i++) {
        const diti_encoder *encoder = &model->encoders[i];
        bool there = diti_encoder_weights(encoder) != NULL;
        if (encoder->kind == DITI_ENCODER_NONE) continue;
        if (there) found++;
        if (!there) missing |= 1u << (DIT_ROLE_TEXT_1 + (int)i);
        if (!encoder->tokenizer && (there || !lacks)) tokenizers |= 1u << (DIT_ROLE_TOKENIZER_1 + (int)i);
    }
    return (lacks && found ? 0 : missing) | tokenizers;
}

DIT_INTERNAL uint32_t diti_encoders_left_out(const dit_model *model) {
    uint32_t i, out = 0;
    for (i = 0; i < DITI_ENCODERS; i++) {
        dit_role role = (dit_role)(DIT_ROLE_TEXT_1 + (int)i);
        if (diti_encoder_weights(&model->encoders[i]) && !diti_model_wants(model, role)) out |= 1u << (uint32_t)role;
    }
    return out;
}

DIT_INTERNAL dit_result diti_model_check_encoders(const dit_model *model, const char *member, dit_error *err) {
    static const char *const numbers[DITI_ENCODERS] = {"", "_2", "_3"};
    uint32_t missing = diti_encoders_missing(model), left_out = diti_encoders_left_out(model), i;
    char instead[200] = "", subject[40] = "";
    if (member) {
        diti_format(subject, sizeof subject, "%s is missing: ", member);
        diti_format(instead, sizeof instead,
                    "; give dit_job_desc.%s, what dit_encode_prompt made elsewhere, or embeddings among the inputs%s",
                    member, diti_equal(member, "conditioning") ? "" : ", or turn guidance off (scale 1)");
    }
    for (i = 0; i < DITI_ENCODERS; i++) {
        const char *name = diti_encoder_name(model->encoders[i].kind);
        bool encoder = (missing & 1u << (DIT_ROLE_TEXT_1 + (int)i)) != 0;
        bool tokenizer = (missing & 1u << (DIT_ROLE_TOKENIZER_1 + (int)i)) != 0;
        if (left_out & 1u << (DIT_ROLE_TEXT_1 + (int)i))
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%sdit_model_desc.parts left the %s text encoder out%s",
                             subject, name, instead);
        if (encoder || tokenizer)
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%sthe model has no %s%s (%s%s): add the component%s",
                             subject, name, encoder ? " text encoder" : " tokenizer",
                             encoder ? "text_encoder" : "tokenizer", numbers[i], instead);
    }
    return DIT_OK;
}

/* --- in a plan: texts are states, which begin as zeros, and every encoder writes its own part of them --- */

static uint32_t diti_text_encoded(const diti_text_use *use) {
    return (use->encodes[0] ? 1u : 0u) + (use->copies > 1 && use->encodes[1] ? 1u : 0u);
}

/* Rows [prompts * rows, columns] of what is encoded, or given, to their branches' places in a text. */
static void diti_text_scatter(const dit_model *model, diti_graph *graph, const diti_text_use *use, bool encoded,
                              diti_tensor from, uint32_t rows, uint32_t text, uint32_t row, uint32_t column) {
    uint32_t branch, next = 0, columns = diti_graph_failed(graph) ? 0 : diti_tensor_get(graph, from)->columns;
    for (branch = 0; branch < use->copies && !diti_graph_failed(graph); branch++) {
        if (use->encodes[branch] != encoded) continue;
        diti_copy(
            graph, diti_tensor_view(graph, from, next++ * rows, rows, 0, columns),
            diti_tensor_view(graph, use->texts[text], branch * model->texts[text].tokens + row, rows, column, columns),
            "gather text");
    }
}

DIT_INTERNAL bool diti_encoders_mask(const dit_model *model) {
    return model->transformer ? model->transformer->traits.masks_padding : model->encoders[0].kind == DITI_ENCODER_BERT;
}

static void diti_encoder_emit(const dit_model *model, diti_graph *graph, const diti_encoder *encoder,
                              diti_text_use *text, diti_encoder_use *use) {
    uint32_t prompts = diti_text_encoded(text), rows = prompts * encoder->tokens;
    diti_tensor states = 0;
    diti_clip_result clip = DITI_ZERO;
    use->ids = diti_tensor_input(graph, DITI_U32, 1, rows, "token ids");
    if (encoder->t5 || (encoder->bert && diti_encoders_mask(model)))
        use->items = diti_tensor_input(graph, DITI_U32, prompts, DITI_ITEM_WORDS, "encoded prompts");
    if (text->weighted && encoder->text != DITI_TEXT_POOLED)
        use->weights = diti_tensor_input(graph, DITI_U32, rows, 4, "token weights");
    if (encoder->t5) {
        use->t5.batch = prompts;
        use->t5.rows = rows;
        use->t5.tokens = encoder->tokens;
        use->t5.ids = use->ids;
        use->t5.items = use->items;
        use->t5.weights = use->weights;
        states = diti_t5_encode(encoder->t5, graph, &use->t5);
    } else if (encoder->bert) {
        use->bert.batch = prompts;
        use->bert.tokens = encoder->tokens;
        use->bert.ids = use->ids;
        use->bert.items = use->items;
        use->bert.weights = use->weights;
        states = diti_bert_encode(encoder->bert, graph, &use->bert);
    } else {
        use->clip.batch = prompts;
        use->clip.tokens = encoder->tokens;
        use->clip.ids = use->ids;
        use->clip.weights = use->weights;
        use->clip.unprojected = encoder->text == DITI_TEXT_POOLED;
        use->clip.skip = text->clip_skip ? text->clip_skip : encoder->text != DITI_TEXT_POOLED ? 1u : 0u;
        diti_clip_encode(encoder->clip, graph, &use->clip, &clip);
        diti_text_scatter(model, graph, text, true, clip.pooled, 1, DITI_TEXT_POOLED, 0, encoder->pooled);
        if (encoder->text != DITI_TEXT_POOLED) states = clip.states;
    }
    if (states)
        diti_text_scatter(model, graph, text, true, states, encoder->tokens, encoder->text, encoder->row,
                          encoder->column);
}

DIT_INTERNAL void diti_encoders_emit(const dit_model *model, diti_graph *graph, diti_text_use *use) {
    static const char *const names[DITI_TEXTS] = {"text", "second text", "pooled text"};
    uint32_t i, given = use->copies - diti_text_encoded(use);
    for (i = 0; i < DITI_TEXTS; i++) {
        const diti_text_shape *text = &model->texts[i];
        if (!text->tokens) continue;
        use->texts[i] = diti_tensor_state(graph, DITI_F32, use->copies * text->tokens, text->columns, names[i]);
        if (!given) continue;
        use->given[i] = diti_tensor_input(graph, DITI_F32, given * text->tokens, text->columns, "given embeddings");
        diti_text_scatter(model, graph, use, false, use->given[i], text->tokens, i, 0, 0);
    }
    for (i = 0; i < DITI_ENCODERS && given < use->copies && !diti_graph_failed(graph); i++)
        if (diti_encoder_weights(&model->encoders[i]))
            diti_encoder_emit(model, graph, &model->encoders[i], use, &use->encoders[i]);
}

/* --- what the host writes --- */

typedef struct diti_encoder_input { /* of the prompts that are encoded, one after the other */
    int32_t *ids;
    uint32_t (*items)[DITI_ITEM_WORDS];
    diti_row_weight *weights;
} diti_encoder_input;

static void diti_encoder_fill(const dit_model *model, const diti_text_use *text, const diti_encoder *encoder,
                              const diti_prompt_tokens *tokens, diti_encoder_input *out) {
    uint32_t branch, i, next = 0, count = encoder->tokens;
    for (branch = 0; branch < text->copies; branch++) {
        uint32_t first = next * count, *item = out->items[next];
        if (!text->encodes[branch]) continue;
        memcpy(out->ids + first, tokens->ids + (size_t)branch * count, count * sizeof *out->ids);
        item[0] = item[2] = first;
        item[1] = count;
        item[3] = diti_encoders_mask(model) ? tokens->lengths[branch] : count;
        for (i = 0; out->weights && i < count; i++) {
            out->weights[first + i].weight = tokens->weights[(size_t)branch * count + i];
            out->weights[first + i].first = first;
            out->weights[first + i].rows = count;
        }
        next++;
    }
}

static dit_result diti_encoder_write(diti_plan *plan, const diti_text_use *text, const diti_encoder *encoder,
                                     const diti_encoder_use *use, const diti_encoder_input *input, dit_error *err) {
    uint32_t prompts = diti_text_encoded(text), rows = prompts * encoder->tokens;
    dit_result result = diti_plan_write(plan, use->ids, input->ids, rows * sizeof *input->ids, err);
    if (result >= 0 && use->items)
        result = diti_plan_write(plan, use->items, input->items, prompts * sizeof *input->items, err);
    if (result >= 0 && use->weights)
        result = diti_plan_write(plan, use->weights, input->weights, rows * sizeof *input->weights, err);
    if (result >= 0 && encoder->t5) result = diti_t5_write_inputs(encoder->t5, plan, &use->t5, err);
    if (result >= 0 && encoder->clip) result = diti_clip_write_inputs(encoder->clip, plan, &use->clip, input->ids, err);
    return result;
}

static dit_result diti_encoder_inputs(const dit_model *model, const diti_env *env, diti_plan *plan,
                                      const diti_text_use *text, uint32_t index, const diti_prompt_tokens *tokens,
                                      dit_error *err) {
    const diti_encoder *encoder = &model->encoders[index];
    size_t rows = (size_t)diti_text_encoded(text) * encoder->tokens;
    uint32_t items[2][DITI_ITEM_WORDS] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    diti_encoder_input input = DITI_ZERO;
    dit_result result;
    input.items = items;
    input.ids = (int32_t *)diti_alloc_array(env, rows, sizeof *input.ids);
    if (text->encoders[index].weights)
        input.weights = (diti_row_weight *)diti_alloc_array(env, rows, sizeof *input.weights);
    if (!input.ids || (text->encoders[index].weights && !input.weights)) {
        result = diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for token ids");
    } else {
        diti_encoder_fill(model, text, encoder, tokens, &input);
        result = diti_encoder_write(plan, text, encoder, &text->encoders[index], &input, err);
    }
    diti_free(env, input.ids);
    diti_free(env, input.weights);
    return result;
}

static dit_result diti_text_write_given(const dit_model *model, const diti_env *env, diti_plan *plan,
                                        const diti_text_use *use, uint32_t text, const diti_conditioning *given,
                                        dit_error *err) {
    size_t count = (size_t)model->texts[text].tokens * model->texts[text].columns, next = 0;
    float *rows = (float *)diti_alloc_array(env, 2 * count, sizeof *rows);
    uint32_t branch;
    dit_result result;
    if (!rows) return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the prompt embeddings");
    for (branch = 0; branch < use->copies; branch++) {
        if (use->encodes[branch]) continue;
        memcpy(rows + next, given[branch].texts[text].rows, count * sizeof *rows);
        next += count;
    }
    result = diti_plan_write(plan, use->given[text], rows, next * sizeof *rows, err);
    diti_free(env, rows);
    return result;
}

DIT_INTERNAL dit_result diti_encoders_write(const dit_model *model, const diti_env *env, diti_plan *plan,
                                            const diti_text_use *use, const diti_prompt_tokens *tokens,
                                            const diti_conditioning *given, dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t i;
    for (i = 0; i < DITI_ENCODERS && result >= 0; i++)
        if (use->encoders[i].ids) result = diti_encoder_inputs(model, env, plan, use, i, &tokens[i], err);
    for (i = 0; i < DITI_TEXTS && result >= 0; i++)
        if (use->given[i]) result = diti_text_write_given(model, env, plan, use, i, given, err);
    return result;
}
