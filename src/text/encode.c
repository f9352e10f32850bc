/* From a prompt to ids: special pieces in the text, weights, begin, end and padding, whatever the kind of tokenizer. */
#include "text/tokenizer.h"

DIT_INTERNAL dit_result diti_tokenizer_finish(diti_tokenizer *tokenizer, dit_error *err) {
    diti_piece_index_sort(&tokenizer->words);
    diti_piece_index_sort(&tokenizer->specials);
    if (tokenizer->words.count == 0 && tokenizer->kind != DITI_TOKENIZER_BYT5)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary has no piece of text", tokenizer->name);
    switch (tokenizer->kind) {
    case DITI_TOKENIZER_UNIGRAM: return diti_unigram_finish(tokenizer, err);
    case DITI_TOKENIZER_CLIP:
    case DITI_TOKENIZER_BYTES:
    case DITI_TOKENIZER_PIECES: return diti_bpe_finish(tokenizer, err);
    case DITI_TOKENIZER_WORDPIECE: return diti_wordpiece_finish(tokenizer, err);
    case DITI_TOKENIZER_BYT5: diti_byt5_finish(tokenizer); break;
    }
    return DIT_OK;
}

static dit_result diti_tokenizer_encode_text(const diti_tokenizer *tokenizer, const char *text, size_t length,
                                             diti_token_sink *sink, dit_error *err) {
    switch (tokenizer->kind) {
    case DITI_TOKENIZER_UNIGRAM: return diti_unigram_encode(tokenizer, text, length, sink, err);
    case DITI_TOKENIZER_CLIP:
    case DITI_TOKENIZER_BYTES:
    case DITI_TOKENIZER_PIECES: return diti_bpe_encode(tokenizer, text, length, sink, err);
    case DITI_TOKENIZER_WORDPIECE: return diti_wordpiece_encode(tokenizer, text, length, sink, err);
    case DITI_TOKENIZER_BYT5: diti_byt5_encode(text, length, sink); break;
    }
    return DIT_OK;
}

/* Text between special pieces is encoded piece by piece, as transformers does. */
static dit_result diti_tokenizer_encode_part(const diti_tokenizer *tokenizer, const char *text, size_t length,
                                             diti_token_sink *sink, dit_error *err) {
    size_t start = 0, position = 0;
    while (position < length) {
        const diti_piece *special = diti_piece_longest(&tokenizer->specials, text + position, length - position);
        if (!special) {
            position++;
            continue;
        }
        DITI_TRY(diti_tokenizer_encode_text(tokenizer, text + start, position - start, sink, err));
        diti_token_emit(sink, special->id, special->text, special->length);
        start = position += special->length;
    }
    return diti_tokenizer_encode_text(tokenizer, text + start, length - start, sink, err);
}

/* Text of one weight that waits: what stands side by side becomes tokens together. */
typedef struct diti_encode_run {
    const diti_tokenizer *tokenizer;
    diti_token_sink *sink;
    char *text;
    size_t length;
    double weight;
} diti_encode_run;

static dit_result diti_encode_flush(diti_encode_run *run, dit_error *err) {
    size_t length = run->length;
    run->length = 0;
    run->sink->weight = (float)run->weight;
    return diti_tokenizer_encode_part(run->tokenizer, run->text, length, run->sink, err);
}

static dit_result diti_encode_add(diti_encode_run *run, const char *text, size_t length, double weight,
                                  dit_error *err) {
    if (!length) return DIT_OK;
    if (run->length && weight != run->weight) DITI_TRY(diti_encode_flush(run, err));
    memcpy(run->text + run->length, text, length);
    run->length += length;
    run->weight = weight;
    return DIT_OK;
}

/* begins: bytes of the prompt that begin tokens of their own; NULL: none does, and all is one with the text around it.
 */
static dit_result diti_encode_all(diti_encode_run *run, const diti_prompt *prompt, const bool *begins,
                                  const char *before, const char *after, dit_error *err) {
    size_t i, at, next;
    DITI_TRY(diti_encode_add(run, before, strlen(before), 1, err));
    for (i = 0; i < prompt->count; i++) {
        const diti_prompt_part *part = &prompt->parts[i];
        size_t end = part->first + part->length;
        for (at = part->first; at < end; at = next) {
            if (begins && begins[at]) DITI_TRY(diti_encode_flush(run, err));
            for (next = begins ? at + 1 : end; next < end && !begins[next];) next++;
            DITI_TRY(diti_encode_add(run, prompt->text + at, next - at, part->weight, err));
        }
    }
    DITI_TRY(diti_encode_add(run, after, strlen(after), 1, err));
    return diti_encode_flush(run, err);
}

/* The prompt with the text around it. Room is kept for text that has to follow a prompt that is cut. */
static dit_result diti_encode_around(const diti_tokenizer *tokenizer, const diti_prompt *prompt, diti_tokens *tokens,
                                     diti_token_sink *sink, dit_error *err) {
    const char *before = tokens->before ? tokens->before : "", *after = tokens->after ? tokens->after : "", *apart = "";
    diti_encode_run run = DITI_ZERO;
    uint32_t kept = 0;
    bool *begins = NULL;
    dit_result result;
    if (tokens->keeps_after) {
        apart = after;
        after = "";
        DITI_TRY(diti_tokenizer_count(tokenizer, apart, &kept, err));
        if (kept > sink->room)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: %u tokens have no room for the %u behind a prompt",
                             tokenizer->name, sink->room, kept);
    }
    run.tokenizer = tokenizer;
    run.sink = sink;
    run.text = (char *)diti_alloc(&tokenizer->env, strlen(before) + prompt->size + strlen(after) + 1);
    if (tokens->spells_quotes) begins = (bool *)diti_alloc_array(&tokenizer->env, prompt->size + 1, sizeof *begins);
    result = run.text && (begins || !tokens->spells_quotes) ? DIT_OK : diti_fail_memory(err, "the prompt");
    if (result >= 0 && begins) diti_quotes_find(prompt->text, prompt->size, begins);
    sink->room -= kept;
    if (result >= 0) result = diti_encode_all(&run, prompt, begins, before, after, err);
    sink->room += kept;
    sink->weight = 1;
    if (result >= 0) result = diti_tokenizer_encode_part(tokenizer, apart, strlen(apart), sink, err);
    diti_free(&tokenizer->env, run.text);
    diti_free(&tokenizer->env, begins);
    return result;
}

static dit_result diti_tokenizer_encode_prompt(const diti_tokenizer *tokenizer, const char *text, diti_token_sink *sink,
                                               dit_error *err) {
    diti_tokens *tokens = sink->tokens;
    diti_prompt_part whole = DITI_ZERO;
    diti_prompt prompt = DITI_ZERO;
    dit_result result;
    if (tokens->weights) {
        DITI_TRY(diti_prompt_parse(&tokenizer->env, text, strlen(text), &prompt, err));
        result = diti_encode_around(tokenizer, &prompt, tokens, sink, err);
        diti_prompt_free(&tokenizer->env, &prompt);
        return result;
    }
    if (!tokens->before && !tokens->after) return diti_tokenizer_encode_part(tokenizer, text, strlen(text), sink, err);
    whole.length = prompt.size = strlen(text);
    whole.weight = 1;
    prompt.text = (char *)(uintptr_t)text;
    prompt.parts = &whole;
    prompt.count = 1;
    return diti_encode_around(tokenizer, &prompt, tokens, sink, err);
}

DIT_INTERNAL dit_result diti_tokenizer_count(const diti_tokenizer *tokenizer, const char *text, uint32_t *count,
                                             dit_error *err) {
    diti_tokens tokens = DITI_ZERO;
    diti_token_sink sink = DITI_ZERO;
    dit_result result;
    sink.tokens = &tokens;
    result = diti_tokenizer_encode_part(tokenizer, text, strlen(text), &sink, err);
    *count = tokens.lost;
    return result;
}

DIT_INTERNAL dit_result diti_tokenizer_encode(const diti_tokenizer *tokenizer, const char *text, diti_tokens *out,
                                              dit_error *err) {
    diti_token_sink sink = DITI_ZERO;
    uint32_t ends = tokenizer->end >= 0 ? 1 : 0, framing = ends + (tokenizer->begin >= 0 ? 1 : 0), i;
    dit_result result;
    if (out->capacity < framing)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: room for at least %u tokens is needed", tokenizer->name,
                         framing);
    out->count = out->lost = 0;
    out->lost_more = false;
    out->lost_text[0] = 0;
    for (i = 0; i < out->capacity && out->weights; i++) out->weights[i] = 1.0f;
    sink.tokens = out;
    sink.room = out->capacity - ends; /* the end token always fits */
    sink.weight = 1.0f;
    if (!text) text = "";
    if (tokenizer->begin >= 0) diti_token_emit(&sink, tokenizer->begin, "", 0);
    result = diti_tokenizer_encode_prompt(tokenizer, text, &sink, err);
    DITI_TRY(result);
    for (i = (uint32_t)strlen(out->lost_text); i > 0 && out->lost_text[i - 1] == ' '; i--) out->lost_text[i - 1] = 0;
    if (ends) out->ids[out->count++] = tokenizer->end;
    for (i = out->count; i < out->capacity; i++) out->ids[i] = tokenizer->padding;
    return DIT_OK;
}
