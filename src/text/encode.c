/* From a prompt to ids: special pieces in the text, weights, begin, end and padding, whatever the kind of tokenizer. */
#include "text/tokenizer.h"

DIT_INTERNAL dit_result diti_tokenizer_finish(diti_tokenizer *tokenizer, dit_error *err) {
    diti_piece_index_sort(&tokenizer->words);
    diti_piece_index_sort(&tokenizer->specials);
    if (tokenizer->words.count == 0)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary has no piece of text", tokenizer->name);
    switch (tokenizer->kind) {
    case DITI_TOKENIZER_UNIGRAM: return diti_unigram_finish(tokenizer, err);
    case DITI_TOKENIZER_CLIP: return diti_bpe_finish(tokenizer, err);
    case DITI_TOKENIZER_WORDPIECE: return diti_wordpiece_finish(tokenizer, err);
    }
    return DIT_OK;
}

static dit_result diti_tokenizer_encode_text(const diti_tokenizer *tokenizer, const char *text, size_t length,
                                             diti_token_sink *sink, dit_error *err) {
    switch (tokenizer->kind) {
    case DITI_TOKENIZER_UNIGRAM: return diti_unigram_encode(tokenizer, text, length, sink, err);
    case DITI_TOKENIZER_CLIP: return diti_bpe_encode(tokenizer, text, length, sink, err);
    case DITI_TOKENIZER_WORDPIECE: return diti_wordpiece_encode(tokenizer, text, length, sink, err);
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

static dit_result diti_tokenizer_encode_weighted(const diti_tokenizer *tokenizer, const char *text,
                                                 diti_token_sink *sink, dit_error *err) {
    diti_prompt prompt = DITI_ZERO;
    dit_result result = diti_prompt_parse(&tokenizer->env, text, strlen(text), &prompt, err);
    size_t i;
    for (i = 0; i < prompt.count && result >= 0; i++) {
        const diti_prompt_part *part = &prompt.parts[i];
        sink->weight = (float)part->weight;
        result = diti_tokenizer_encode_part(tokenizer, prompt.text + part->first, part->length, sink, err);
    }
    diti_prompt_free(&tokenizer->env, &prompt);
    return result;
}

DIT_INTERNAL dit_result diti_tokenizer_encode(const diti_tokenizer *tokenizer, const char *text, diti_tokens *out,
                                              dit_error *err) {
    diti_token_sink sink = DITI_ZERO;
    uint32_t framing = tokenizer->begin >= 0 ? 2 : 1, i;
    dit_result result;
    if (out->capacity < framing)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: room for at least %u tokens is needed", tokenizer->name,
                         framing);
    out->count = out->lost = 0;
    out->lost_more = false;
    out->lost_text[0] = 0;
    for (i = 0; i < out->capacity && out->weights; i++) out->weights[i] = 1.0f;
    sink.tokens = out;
    sink.room = out->capacity - 1; /* the end token always fits */
    sink.weight = 1.0f;
    if (!text) text = "";
    if (tokenizer->begin >= 0) diti_token_emit(&sink, tokenizer->begin, "", 0);
    if (out->weights)
        result = diti_tokenizer_encode_weighted(tokenizer, text, &sink, err);
    else
        result = diti_tokenizer_encode_part(tokenizer, text, strlen(text), &sink, err);
    if (result < 0) return result;
    for (i = (uint32_t)strlen(out->lost_text); i > 0 && out->lost_text[i - 1] == ' '; i--) out->lost_text[i - 1] = 0;
    out->ids[out->count++] = tokenizer->end;
    for (i = out->count; i < out->capacity; i++) out->ids[i] = tokenizer->padding;
    return DIT_OK;
}
