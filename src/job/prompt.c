/* From a prompt to the rows that the transformer reads: its text is cleaned and becomes tokens, the tokens become
   inputs of a plan, and encoders make texts of them there. One path for prompts of any length and of fixed length. */
#include "job/job.h"

/* --- text cleaning --- */

/* A copy of prompt, cleaned and without white space at its ends; freed with diti_free. */
static dit_result diti_prompt_clean(const diti_env *env, const char *prompt, uint32_t rules, char **out,
                                    dit_error *err) {
    diti_codes codes, middle;
    size_t length;
    dit_result result = diti_clean(env, prompt, strlen(prompt), rules, &codes, err);
    *out = NULL;
    DITI_TRY(result);
    middle = codes;
    while (middle.count && diti_unicode_is_space(middle.at[middle.count - 1])) middle.count--;
    while (middle.count && diti_unicode_is_space(middle.at[0])) middle.at++, middle.count--;
    result = diti_codes_to_text(&middle, out, &length, err);
    diti_codes_free(&codes);
    return result;
}

DIT_INTERNAL bool diti_prompts_read_padding(const dit_model *model) {
    return model->transformer && model->transformer->traits.encodes_padding;
}

/* The pipeline's own cleaning: Wan's mends a prompt (docs/models.md 3.9), others lower-case it (3.2) or take it as it
   is, 0. */
static uint32_t diti_prompt_rules(const dit_model *model) {
    const diti_chat *chat = model->encoders[0].chat;
    const diti_model_traits *traits = model->transformer ? &model->transformer->traits : NULL;
    if (traits && traits->mends_prompts) return DITI_CLEAN_ENTITIES | DITI_CLEAN_QUOTES;
    if (model->fixed_text || (chat && !(chat->rules & DITI_CHAT_LOWERS)) || (traits && traits->keeps_case) ||
        model->encoders[0].padding)
        return 0;
    return DITI_CLEAN_LOWER_SIGMA;
}

static void diti_prompt_warn(const diti_env *env, const char *prompt) {
    const char *unread = diti_prompt_unread(prompt);
    if (unread)
        diti_log(env, DITI_LOG_WARNING,
                 "the prompt has %s, which A1111's web UI makes more of: here it is text like other", unread);
}

/* Encodes a prompt, and tells what does not fit, encoder by encoder. */
static dit_result diti_prompt_encode(const diti_env *env, const diti_encoder *encoder, const char *prompt,
                                     diti_tokens *out, dit_error *err) {
    DITI_TRY(diti_tokenizer_encode(encoder->tokenizer, prompt, out, err));
    if (out->lost)
        diti_log(env, DITI_LOG_WARNING,
                 "the prompt is %u tokens too long for the %u of %s; what is lost is its end: \"%s%s\"", out->lost,
                 out->capacity, diti_encoder_name(encoder->kind), out->lost_text, out->lost_more ? "..." : "");
    return DIT_OK;
}

/* The prompt without the text around it; rows that are dropped stand behind it. */
static dit_result diti_prompt_encode_plain(const diti_env *env, const diti_encoder *encoder, const char *prompt,
                                           diti_tokens *out, dit_error *err) {
    uint32_t i;
    out->capacity -= encoder->dropped;
    DITI_TRY(diti_prompt_encode(env, encoder, prompt, out, err));
    for (i = out->capacity; i < encoder->tokens; i++) {
        out->ids[i] = out->ids[out->capacity - 1];
        if (out->weights) out->weights[i] = 1;
    }
    out->count += encoder->dropped;
    return DIT_OK;
}

/* --- pictures that are shown with a prompt: tokens that stand for theirs, behind the template's first text --- */

#define DITI_PROMPT_PICTURE "<|image_pad|>"

static char *diti_prompt_put(char *at, const char *text) {
    size_t length = strlen(text);
    memcpy(at, text, length);
    return at + length;
}

/* A template's text, in which a number stands for #. */
static char *diti_prompt_put_number(char *at, const char *text, uint32_t number) {
    char digits[16];
    diti_format(digits, sizeof digits, "%u", (unsigned)number);
    for (; *text; text++) {
        if (*text == '#')
            at = diti_prompt_put(at, digits);
        else
            *at++ = *text;
    }
    return at;
}

/* Freed with diti_free. */
static dit_result diti_prompt_before(const diti_env *env, const diti_chat *chat, const diti_job_shape *shape,
                                     char **out, dit_error *err) {
    static const char begin[] = "<|vision_start|>", end[] = "<|vision_end|>";
    size_t size = strlen(chat->before) + 1, each = strlen(chat->picture) + sizeof begin + sizeof end + 16;
    uint32_t i, k;
    char *at;
    for (i = 0; i < shape->reference_count; i++)
        size += each + (size_t)shape->references[i].shown.rows * shape->references[i].shown.columns *
                           strlen(DITI_PROMPT_PICTURE);
    *out = at = (char *)diti_alloc(env, size);
    if (!at) return diti_fail_memory(err, "the prompt");
    at = diti_prompt_put(at, chat->before);
    for (i = 0; i < shape->reference_count; i++) {
        uint32_t tokens = shape->references[i].shown.rows * shape->references[i].shown.columns;
        at = diti_prompt_put(diti_prompt_put_number(at, chat->picture + (!i && *chat->picture == ' '), i + 1), begin);
        for (k = 0; k < tokens; k++) at = diti_prompt_put(at, DITI_PROMPT_PICTURE);
        at = diti_prompt_put(at, end);
    }
    *at = 0;
    return DIT_OK;
}

/* The texts in quotes; no token at all where the prompt has none. */
static dit_result diti_prompt_encode_quotes(const diti_env *env, const diti_encoder *encoder, const char *prompt,
                                            diti_tokens *out, dit_error *err) {
    char *quotes;
    dit_result result;
    DITI_TRY(diti_byt5_quotes(env, prompt, &quotes, err));
    result = diti_prompt_encode(env, encoder, quotes ? quotes : "", out, err);
    if (!quotes) out->count = 0;
    diti_free(env, quotes);
    return result;
}

/* plain: nothing stands around the prompt. */
static dit_result diti_prompt_make(const diti_env *env, const diti_job_shape *shape, const diti_encoder *encoder,
                                   const char *prompt, bool plain, diti_tokens *out, dit_error *err) {
    uint32_t shown = shape ? diti_references_tokens(shape) : 0;
    const diti_chat *chat = shown ? encoder->picture_chat : encoder->chat;
    char *before = NULL;
    dit_result result = DIT_OK;
    if (encoder->kind == DITI_ENCODER_BYT5) return diti_prompt_encode_quotes(env, encoder, prompt, out, err);
    if (chat && !*prompt && !shown && chat->rules & DITI_CHAT_EMPTY_ALONE) {
        out->before = chat->empty;
        return diti_prompt_encode(env, encoder, prompt, out, err);
    }
    if (chat && !*prompt) prompt = chat->empty;
    if (plain) return diti_prompt_encode_plain(env, encoder, prompt, out, err);
    if (chat) {
        out->before = chat->before;
        out->after = chat->after;
        out->keeps_after = (chat->rules & DITI_CHAT_KEEPS_AFTER) != 0;
        out->spells_quotes = (chat->rules & DITI_CHAT_SPELLS_QUOTES) != 0;
    }
    if (shown) {
        result = diti_prompt_before(env, chat, shape, &before, err);
        out->before = before;
        if (chat->padded) shown = diti_references_rows(shape);
        out->capacity += shown + encoder->picture_dropped - encoder->dropped;
    }
    if (result >= 0) result = diti_prompt_encode(env, encoder, prompt, out, err);
    diti_free(env, before);
    return result;
}

/* The tokens of an encoder that reads none, but as many states as `from` has tokens. */
static void diti_prompt_tokens_follow(const diti_encoder *encoder, uint32_t branch, const diti_prompt_tokens *from,
                                      diti_prompt_tokens *to) {
    uint32_t room = diti_encoder_room(encoder), i;
    for (i = branch * room; i < (branch + 1) * room; i++) {
        to->ids[i] = 0;
        if (to->weights) to->weights[i] = from->weights[i];
    }
    to->plain[branch] = false;
    to->lengths[branch] = from->lengths[branch];
}

DIT_INTERNAL dit_result diti_prompt_tokens_make(const dit_model *model, const diti_env *env,
                                                const diti_job_shape *shape, const char *prompt, uint32_t branch,
                                                bool negative, diti_prompt_tokens *tokens, dit_error *err) {
    uint32_t rules = diti_prompt_rules(model), i;
    dit_result result = DIT_OK;
    char *clean = NULL;
    if (!prompt) prompt = "";
    if (rules || (model->encoders[0].chat && model->encoders[0].chat->rules & DITI_CHAT_STRIPS))
        result = diti_prompt_clean(env, prompt, rules, &clean, err);
    for (i = 0; i < DITI_ENCODERS && !tokens[i].weights;) i++;
    if (i < DITI_ENCODERS) diti_prompt_warn(env, prompt);
    for (i = 0; i < DITI_ENCODERS && result >= 0; i++) {
        const diti_encoder *encoder = &model->encoders[i];
        size_t first = (size_t)branch * diti_encoder_room(encoder);
        diti_tokens out = DITI_ZERO;
        bool unseen;
        if (!diti_encoder_weights(encoder)) continue;
        if (encoder->kind == DITI_ENCODER_CONNECTORS) { /* connectors read states alone */
            diti_prompt_tokens_follow(encoder, branch, &tokens[i - 1], &tokens[i]);
            continue;
        }
        out.ids = tokens[i].ids + first;
        out.weights = tokens[i].weights ? tokens[i].weights + first : NULL;
        out.capacity = encoder->tokens;
        tokens[i].plain[branch] = negative && encoder->chat && encoder->chat->rules & DITI_CHAT_PLAIN_GUIDES;
        unseen = negative && encoder->picture_chat && encoder->picture_chat->rules & DITI_CHAT_GUIDES_UNSEEN;
        result = diti_prompt_make(env, unseen ? NULL : shape, encoder, clean ? clean : prompt, tokens[i].plain[branch],
                                  &out, err);
        tokens[i].lengths[branch] = out.count;
    }
    diti_free(env, clean);
    return result;
}

DIT_INTERNAL dit_result diti_prompt_tokens_alloc(const dit_model *model, const diti_env *env, bool weighted,
                                                 diti_prompt_tokens *tokens, dit_error *err) {
    uint32_t i;
    for (i = 0; i < DITI_ENCODERS; i++) {
        size_t count = 2 * (size_t)diti_encoder_room(&model->encoders[i]);
        if (!count) continue;
        tokens[i].ids = (int32_t *)diti_alloc_array(env, count, sizeof *tokens[i].ids);
        if (weighted) tokens[i].weights = (float *)diti_alloc_array(env, count, sizeof *tokens[i].weights);
        if (!tokens[i].ids || (weighted && !tokens[i].weights)) return diti_fail_memory(err, "token ids");
    }
    return DIT_OK;
}

DIT_INTERNAL bool diti_prompt_tokens_weighted(const dit_model *model, uint32_t branch,
                                              const diti_prompt_tokens *tokens) {
    uint32_t i, k;
    for (i = 0; i < DITI_ENCODERS; i++) {
        uint32_t count = diti_encoder_room(&model->encoders[i]);
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

/* A negative prompt is shown the same pictures, in the same places. */
DIT_INTERNAL dit_result diti_prompts_shown(const dit_model *model, const diti_job_shape *shape,
                                           const diti_prompt_tokens *tokens, uint32_t rows[DITI_MAX_REFERENCES],
                                           dit_error *err) {
    const diti_encoder *encoder = &model->encoders[0];
    uint32_t branch = shape->encodes[0] ? 0 : 1, row = encoder->picture_dropped, i;
    const int32_t *ids = tokens->ids + (size_t)branch * diti_encoder_room(encoder);
    const char *name = model->transformer->traits.anchors ? "init_image" : "references";
    if (!shape->encodes[branch] || !tokens->ids)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "%s: this model reads pictures among the tokens of a prompt, and none is given; give "
                         "dit_job_desc.prompt in place of conditioning",
                         name);
    for (i = 0; i < shape->reference_count; i++) {
        while (row < tokens->lengths[branch] && ids[row] != diti_decoder_picture((const diti_decoder *)encoder->self))
            row++;
        rows[i] = row - encoder->picture_dropped;
        row += shape->references[i].shown.rows * shape->references[i].shown.columns;
    }
    return row <= tokens->lengths[branch] ? DIT_OK
                                          : diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                                                      "%s: the prompt's tokens end in front of the pictures", name);
}

#define DITI_TEXT_GRANULE 32u

DIT_INTERNAL uint32_t diti_conditioning_rows(uint32_t tokens, uint32_t most) {
    uint32_t rows = ((tokens ? tokens : 1) + DITI_TEXT_GRANULE - 1) / DITI_TEXT_GRANULE * DITI_TEXT_GRANULE;
    return rows < most ? rows : most;
}

/* --- in a graph --- */

static uint32_t diti_prompts_encoded(const diti_text_use *use) {
    return (use->encodes[0] ? 1u : 0u) + (use->branches > 1 && use->encodes[1] ? 1u : 0u);
}

/* Texts of fixed length are states, which begin as zeros, and every encoder writes its own part of them: rows
   [prompts * rows, columns] of what is encoded, or given, go to their branches' places. */
static void diti_prompts_scatter(const dit_model *model, diti_graph *graph, const diti_text_use *use, bool encoded,
                                 diti_tensor from, uint32_t rows, uint32_t text, uint32_t row, uint32_t column) {
    uint32_t branch, next = 0, columns = diti_tensor_get(graph, from)->columns;
    for (branch = 0; branch < use->branches && !diti_graph_failed(graph); branch++) {
        if (use->encodes[branch] != encoded) continue;
        diti_copy(
            graph, diti_tensor_view(graph, from, next++ * rows, rows, 0, columns),
            diti_tensor_view(graph, use->texts[text], branch * model->texts[text].tokens + row, rows, column, columns),
            "gather text");
    }
}

/* The rows of an encoder that are the text; 0 where all are. */
static diti_tensor diti_prompts_keep(const dit_model *model, diti_graph *graph, const diti_encoder *encoder,
                                     const diti_encoder_use *use, diti_tensor states, diti_tensor *kept) {
    uint32_t prompts = use->batch - (model->fixed_text ? 0 : 1);
    uint32_t dropped = diti_encoder_dropped(encoder, use->picture_count > 0);
    if (!dropped || diti_graph_failed(graph)) return states;
    *kept = diti_tensor_input(graph, DITI_U32, 1, use->rows - prompts * dropped, "rows of the text");
    return diti_gather_tensor(graph, states, *kept, "drop the system message");
}

/* Padding in front of a prompt is an item of its own, which has no keys. */
static bool diti_prompts_pad_before(const diti_encoder *encoder) {
    return encoder->chat && encoder->chat->rules & DITI_CHAT_PADS_BEFORE;
}

/* Where prompts have unequal lengths, one item more names the rows of none. */
static diti_tensor diti_prompts_encode(const dit_model *model, diti_graph *graph, uint32_t index, diti_text_use *text) {
    const diti_encoder *encoder = &model->encoders[index];
    diti_encoder_use *use = &text->encoders[index];
    uint32_t prompts = diti_prompts_encoded(text);
    bool fixed = model->fixed_text;
    use->batch = fixed ? prompts * (diti_prompts_pad_before(encoder) ? 2 : 1) : prompts + 1;
    use->tokens = text->picture_count ? diti_encoder_room(encoder) : encoder->tokens;
    use->picture_count = text->picture_count;
    use->padding = encoder->chat && encoder->chat->unit ? 1 : 0;
    memcpy(use->pictures, text->pictures, sizeof use->pictures);
    use->rows = fixed ? prompts * encoder->tokens
                      : text->encoded_rows + prompts * diti_encoder_dropped(encoder, text->picture_count > 0);
    use->ids = diti_tensor_input(graph, DITI_U32, 1, use->rows, "token ids");
    if (encoder->type->packed || (encoder->type->masks && diti_encoders_mask(model)))
        use->items = diti_tensor_input(graph, DITI_U32, use->batch, DITI_ITEM_WORDS, "encoded prompts");
    if (text->weighted && encoder->text != DITI_TEXT_POOLED && !diti_encoder_feeds(model, encoder))
        use->weights = diti_tensor_input(graph, DITI_U32, use->rows, 4, "token weights");
    use->unprojected = encoder->text == DITI_TEXT_POOLED;
    use->skip = text->clip_skip ? text->clip_skip : encoder->text != DITI_TEXT_POOLED ? 1u : 0u;
    return diti_prompts_keep(model, graph, encoder, use, encoder->type->encode(encoder->self, graph, use),
                             &text->kept[index]);
}

/* The tokens of pictures, one after the other, are the second text of all branches, or a text that all share. */
static void diti_prompts_see(const dit_model *model, diti_graph *graph, diti_text_use *use) {
    const diti_text_shape *text = &model->texts[DITI_TEXT_SECOND];
    uint32_t branch, i, tokens = diti_clip_vision_tokens(model->image_encoder);
    if (model->transformer->traits.seen_columns) {
        diti_copy(graph, diti_clip_vision_encode(model->image_encoder, graph, use->patches[0]), use->seen,
                  "tokens of the picture");
        return;
    }
    for (i = 0; i < DITI_COUNT(use->patches) && use->patches[i]; i++) {
        diti_tensor states = diti_clip_vision_encode(model->image_encoder, graph, use->patches[i]);
        for (branch = 0; branch < use->branches && !diti_graph_failed(graph); branch++)
            diti_copy(graph, states,
                      diti_tensor_view(graph, use->texts[DITI_TEXT_SECOND], branch * text->tokens + i * tokens, tokens,
                                       0, text->columns),
                      "tokens of the picture");
    }
}

static void diti_prompts_emit_fixed(const dit_model *model, diti_graph *graph, diti_text_use *use) {
    static const char *const names[DITI_TEXTS] = {"text", "second text", "pooled text"};
    uint32_t i, given = use->branches - diti_prompts_encoded(use);
    for (i = 0; i < DITI_TEXTS; i++) {
        const diti_text_shape *text = &model->texts[i];
        if (!text->tokens) continue;
        use->texts[i] = diti_tensor_state(graph, DITI_F32, use->branches * text->tokens, text->columns, names[i]);
        if (!given || diti_text_is_seen(model, i)) continue;
        use->given[i] = diti_tensor_input(graph, DITI_F32, given * text->tokens, text->columns, "given embeddings");
        diti_prompts_scatter(model, graph, use, false, use->given[i], text->tokens, i, 0, 0);
    }
    if (use->patches[0]) diti_prompts_see(model, graph, use);
    for (i = 0; i < DITI_ENCODERS && given < use->branches && !diti_graph_failed(graph); i++) {
        const diti_encoder *encoder = &model->encoders[i];
        diti_tensor states;
        if (!encoder->self) continue;
        states = diti_prompts_encode(model, graph, i, use);
        if (diti_encoder_feeds(model, encoder)) {
            use->encoders[i + 1].source = states;
            use->encoders[i + 1].source_items = use->encoders[i].items;
            use->encoders[i + 1].source_tokens = use->encoders[i].tokens;
            continue;
        }
        if (use->encoders[i].pooled)
            diti_prompts_scatter(model, graph, use, true, use->encoders[i].pooled, 1, DITI_TEXT_POOLED, 0,
                                 encoder->pooled);
        if (encoder->text != DITI_TEXT_POOLED)
            diti_prompts_scatter(model, graph, use, true, states, encoder->tokens - encoder->dropped, encoder->text,
                                 encoder->row, encoder->column);
    }
}

/* [encoded rows, then given rows, then those of the model's own text; columns]: what the encoder makes of the tokens of
   all prompts one after the other, what the caller gave, and what stands for an absent prompt. */
static diti_tensor diti_prompts_emit_packed(const dit_model *model, diti_graph *graph, diti_text_use *use) {
    uint32_t columns = model->texts[DITI_TEXT_FIRST].columns, rows = use->encoded_rows, first = 0, i,
             counts[3] = {use->encoded_rows, use->given_rows, 0};
    diti_tensor parts[3] = {0, 0, 0}, text;
    if (rows) parts[0] = diti_prompts_encode(model, graph, 0, use);
    if (use->given_rows)
        parts[1] = use->given[DITI_TEXT_FIRST] =
            diti_tensor_input(graph, DITI_F32, use->given_rows, columns, "given prompt embeddings");
    if (use->null_text) {
        parts[2] = diti_tensor_weight(graph, use->null_text, 0);
        counts[2] = diti_tensor_rows(graph, parts[2]);
    } else if (!parts[0] || !parts[1]) {
        return parts[0] ? parts[0] : parts[1];
    }
    text = diti_tensor_new(graph, DITI_F32, counts[0] + counts[1] + counts[2], columns, "text");
    for (i = 0; i < 3; first += counts[i], i++)
        if (counts[i] && !diti_graph_failed(graph))
            diti_copy(graph, parts[i], diti_tensor_view(graph, text, first, counts[i], 0, columns), "gather text");
    return text;
}

DIT_INTERNAL void diti_prompts_emit(const dit_model *model, diti_graph *graph, diti_text_use *use) {
    if (model->fixed_text)
        diti_prompts_emit_fixed(model, graph, use);
    else
        use->texts[DITI_TEXT_FIRST] = diti_prompts_emit_packed(model, graph, use);
}

/* --- what the host writes --- */

DIT_INTERNAL uint32_t diti_prompts_first(const diti_text_use *use, const uint32_t *rows, uint32_t branch) {
    uint32_t before, first = use->encodes[branch] ? 0 : use->encoded_rows;
    if (use->null_text && branch == 0) return use->encoded_rows + use->given_rows;
    for (before = 0; before < branch; before++)
        if (use->encodes[before] == use->encodes[branch]) first += rows[before];
    return first;
}

typedef struct diti_prompt_input { /* an encoder's input for the prompts that are encoded, one after the other */
    int32_t *ids;
    uint32_t *kept; /* rows that are the text */
    uint32_t items[5][DITI_ITEM_WORDS];
    diti_row_weight *weights;
} diti_prompt_input;

/* The row of a branch's encoded ones that is row i of its text. */
static uint32_t diti_prompts_row(const diti_encoder *encoder, const diti_prompt_tokens *tokens, uint32_t branch,
                                 uint32_t dropped, uint32_t i) {
    if (tokens->plain[branch]) return i;
    if (i == 0 && dropped && encoder->chat->rules & DITI_CHAT_KEEPS_FIRST) return 0;
    return dropped + i;
}

static void diti_prompts_fill(const dit_model *model, const diti_text_use *text, uint32_t index,
                              const diti_prompts *prompts, diti_prompt_input *out) {
    const diti_prompt_tokens *tokens = &prompts->tokens[index];
    const diti_encoder *encoder = &model->encoders[index];
    uint32_t branch, i, next = 0, first = 0, kept = 0, room = diti_encoder_room(encoder),
                        dropped = diti_encoder_dropped(encoder, text->picture_count > 0);
    uint32_t apart; /* 1: the first row stands apart from the others */
    uint32_t shift; /* rows of padding in front */
    bool masks = (!model->fixed_text && !diti_prompts_read_padding(model)) || diti_encoders_mask(model) ||
                 diti_kind_is_decoder(encoder->kind) || encoder->kind == DITI_ENCODER_CONNECTORS;
    for (branch = 0; branch < text->branches; branch++) {
        uint32_t count = model->fixed_text ? encoder->tokens : prompts->rows[branch] + dropped,
                 *item = out->items[next];
        if (!text->encodes[branch]) continue;
        shift = diti_prompts_pad_before(encoder) ? count - tokens->lengths[branch] : 0;
        for (i = 0; i < count; i++) out->ids[first + (i + shift) % count] = tokens->ids[(size_t)branch * room + i];
        if (diti_prompts_pad_before(encoder)) {
            item[0] = first;
            item[1] = shift;
            item = out->items[++next];
        }
        item[0] = item[2] = first + shift;
        item[1] = count - shift;
        item[3] = masks ? tokens->lengths[branch] - (tokens->plain[branch] ? dropped : 0) : count;
        apart = !tokens->plain[branch] && dropped && diti_prompts_row(encoder, tokens, branch, dropped, 0) == 0;
        for (i = apart; out->weights && i < count - dropped; i++) {
            uint32_t from = diti_prompts_row(encoder, tokens, branch, dropped, i);
            diti_row_weight *to = &out->weights[first + (from + shift) % count];
            to->weight = tokens->weights[(size_t)branch * room + from];
            to->first = first + diti_prompts_row(encoder, tokens, branch, dropped, apart);
            to->rows = count - dropped - apart;
        }
        for (i = 0; out->kept && i < count - dropped; i++)
            out->kept[kept++] = first + diti_prompts_row(encoder, tokens, branch, dropped, i);
        first += count;
        next++;
    }
    out->items[next][0] = first; /* the rows of none read nothing */
    out->items[next][1] = text->encoders[index].rows - first;
    while (out->kept && first < text->encoders[index].rows) out->kept[kept++] = first++;
}

static dit_result diti_prompts_write_encoder(const dit_model *model, const diti_env *env, diti_plan *plan,
                                             const diti_text_use *text, uint32_t index, const diti_prompts *prompts,
                                             dit_error *err) {
    const diti_encoder *encoder = &model->encoders[index];
    const diti_encoder_use *use = &text->encoders[index];
    diti_prompt_input input = DITI_ZERO;
    dit_result result = DIT_OK;
    input.ids = (int32_t *)diti_alloc_array(env, use->rows, sizeof *input.ids);
    if (use->weights) input.weights = (diti_row_weight *)diti_alloc_array(env, use->rows, sizeof *input.weights);
    if (text->kept[index]) input.kept = (uint32_t *)diti_alloc_array(env, use->rows, sizeof *input.kept);
    if (!input.ids || (use->weights && !input.weights) || (text->kept[index] && !input.kept))
        result = diti_fail_memory(err, "token ids");
    else
        diti_prompts_fill(model, text, index, prompts, &input);
    if (result >= 0) result = diti_plan_write(plan, use->ids, input.ids, use->rows * sizeof *input.ids, err);
    if (result >= 0 && use->items)
        result = diti_plan_write(plan, use->items, input.items, use->batch * sizeof *input.items, err);
    if (result >= 0 && use->weights)
        result = diti_plan_write(plan, use->weights, input.weights, use->rows * sizeof *input.weights, err);
    if (result >= 0 && encoder->type->write_inputs)
        result = encoder->type->write_inputs(encoder->self, plan, use, input.ids, input.items[0], err);
    if (result >= 0 && text->kept[index])
        result = diti_plan_write(plan, text->kept[index], input.kept,
                                 plan->tensors[text->kept[index]].columns * sizeof *input.kept, err);
    diti_free(env, input.ids);
    diti_free(env, input.kept);
    diti_free(env, input.weights);
    return result;
}

static dit_result diti_prompts_write_given(const dit_model *model, const diti_env *env, diti_plan *plan,
                                           const diti_text_use *use, uint32_t text, const diti_prompts *prompts,
                                           dit_error *err) {
    const diti_tensor_info *info = &plan->tensors[use->given[text]];
    size_t columns = info->columns, count = info->rows * columns, next = 0;
    float *rows = (float *)diti_alloc_array(env, count, sizeof *rows);
    uint32_t branch;
    dit_result result;
    if (!rows) return diti_fail_memory(err, "the prompt embeddings");
    for (branch = 0; branch < use->branches; branch++) {
        size_t own = (model->fixed_text ? model->texts[text].tokens : prompts->rows[branch]) * columns;
        if (use->encodes[branch] || (use->null_text && branch == 0)) continue;
        memcpy(rows + next, prompts->given[branch].texts[text].rows, own * sizeof *rows);
        next += own;
    }
    result = diti_plan_write(plan, use->given[text], rows, count * sizeof *rows, err);
    diti_free(env, rows);
    return result;
}

DIT_INTERNAL dit_result diti_prompts_write(const dit_model *model, const diti_env *env, diti_plan *plan,
                                           const diti_text_use *use, const diti_prompts *prompts, dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t i;
    for (i = 0; i < DITI_ENCODERS && result >= 0; i++)
        if (use->encoders[i].ids) result = diti_prompts_write_encoder(model, env, plan, use, i, prompts, err);
    for (i = 0; i < DITI_TEXTS && result >= 0; i++)
        if (use->given[i]) result = diti_prompts_write_given(model, env, plan, use, i, prompts, err);
    return result;
}
