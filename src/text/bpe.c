#include "text/tokenizer.h"

/* Byte-level BPE: CLIP's (docs/models.md 6.1), and that of language models (6.4), whose words keep the white space in
   front of them and do not end in a sign of their own; and the BPE of characters that other language models have (6.5),
   for which a text is one word. */

/* --- merges by their two sides --- */
static uint32_t diti_merge_slot(const diti_merge_index *index, int32_t left, int32_t right) {
    uint32_t mask = (uint32_t)index->slot_count - 1;
    uint32_t slot = ((uint32_t)left * 0x9e3779b1u ^ (uint32_t)right * 0x85ebca6bu) * 0xc2b2ae35u >> 7 & mask;
    while (index->slots[slot]) {
        const diti_merge *merge = &index->merges[index->slots[slot] - 1];
        if (merge->left == left && merge->right == right) break;
        slot = (slot + 1) & mask;
    }
    return slot;
}

static const diti_merge *diti_merge_find(const diti_merge_index *index, int32_t left, int32_t right) {
    uint32_t found = index->slots[diti_merge_slot(index, left, right)];
    return found ? &index->merges[found - 1] : NULL;
}

/* A merge that is named twice counts as the first of the two. */
DIT_INTERNAL dit_result diti_merge_index_build(diti_tokenizer *tokenizer, dit_error *err) {
    diti_merge_index *index = &tokenizer->merges;
    size_t i;
    index->slot_count = 16;
    while (index->slot_count < index->count * 2) index->slot_count *= 2;
    index->slots = (uint32_t *)diti_alloc_array(&tokenizer->env, index->slot_count, sizeof *index->slots);
    if (!index->slots) return diti_fail_memory(err, "the merges of %s", tokenizer->name);
    for (i = 0; i < index->count; i++) {
        uint32_t slot = diti_merge_slot(index, index->merges[i].left, index->merges[i].right);
        if (!index->slots[slot]) index->slots[slot] = (uint32_t)i + 1;
    }
    return DIT_OK;
}

/* --- finishing: bytes are spelled as printable characters; those that end a word have a suffix --- */
static uint32_t diti_bpe_letter(uint32_t byte) {
    bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    if (printable) return byte;
    if (byte <= 32) return 256 + byte;
    return byte == 173 ? 256 + 33 + 34 : 256 + 33 + (byte - 127);
}

/* Language models have no text begin or end by itself; Mistral's are padded with a word of their own. */
static void diti_bpe_finish_bytes(diti_tokenizer *tokenizer) {
    static const char *const pads[] = {"<|endoftext|>", "<pad>"};
    size_t i;
    tokenizer->padding = -1;
    for (i = 0; i < DITI_COUNT(pads) && tokenizer->padding < 0; i++)
        tokenizer->padding = diti_piece_find(&tokenizer->specials, pads[i], strlen(pads[i]));
    if (tokenizer->padding < 0) tokenizer->padding = 0;
}

/* Characters that the vocabulary lacks are spelled in bytes. */
static dit_result diti_bpe_finish_pieces(diti_tokenizer *tokenizer, dit_error *err) {
    static const char pad[] = "<pad>";
    uint32_t byte;
    tokenizer->padding = diti_piece_find(&tokenizer->specials, pad, sizeof pad - 1);
    if (tokenizer->padding < 0) tokenizer->padding = 0;
    for (byte = 0; byte < 256; byte++) {
        char text[8];
        diti_format(text, sizeof text, "<0x%02X>", (unsigned)byte);
        tokenizer->byte_ids[byte] = diti_piece_find(&tokenizer->words, text, 6);
        if (tokenizer->byte_ids[byte] < 0)
            return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary has no piece %s", tokenizer->name, text);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_bpe_finish(diti_tokenizer *tokenizer, dit_error *err) {
    bool clip = tokenizer->kind == DITI_TOKENIZER_CLIP;
    uint32_t byte;
    if (tokenizer->kind == DITI_TOKENIZER_PIECES) return diti_bpe_finish_pieces(tokenizer, err);
    if (clip) {
        DITI_TRY(diti_tokenizer_special(tokenizer, "<|startoftext|>", &tokenizer->begin, err));
        DITI_TRY(diti_tokenizer_special(tokenizer, "<|endoftext|>", &tokenizer->end, err));
        tokenizer->padding = tokenizer->unknown = tokenizer->end;
    } else {
        diti_bpe_finish_bytes(tokenizer);
    }
    for (byte = 0; byte < 256; byte++) {
        char text[8];
        size_t length = diti_utf8_encode(diti_bpe_letter(byte), text);
        memcpy(text + length, "</w>", 4);
        tokenizer->byte_ids[byte] = diti_piece_find(&tokenizer->words, text, length);
        tokenizer->last_byte_ids[byte] = diti_piece_find(&tokenizer->words, text, clip ? length + 4 : length);
        if (tokenizer->byte_ids[byte] < 0 || tokenizer->last_byte_ids[byte] < 0)
            return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary has no piece for byte %u%s", tokenizer->name,
                             byte, tokenizer->byte_ids[byte] < 0 ? "" : " at the end of a word");
    }
    return DIT_OK;
}

/* --- one word: symbols are joined, the pair of lowest rank first, of equal ones the leftmost --- */
typedef struct diti_bpe_pair {
    uint32_t rank, at;
    int32_t left, right;
} diti_bpe_pair;
typedef struct diti_bpe_run {
    const diti_tokenizer *tokenizer;
    char *text;            /* the word, and a space behind it */
    int32_t *ids;          /* id of the symbol that begins at this byte; -1: none does */
    uint32_t *next, *prev; /* bytes where its neighbours begin */
    diti_bpe_pair *heap;
    uint32_t length;
    size_t heap_count;
} diti_bpe_run;

static bool diti_bpe_before(const diti_bpe_pair *a, const diti_bpe_pair *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void diti_bpe_push(diti_bpe_run *run, uint32_t at) {
    diti_bpe_pair pair;
    const diti_merge *merge;
    size_t place = run->heap_count;
    if (run->next[at] >= run->length) return;
    pair.at = at;
    pair.left = run->ids[at];
    pair.right = run->ids[run->next[at]];
    merge = diti_merge_find(&run->tokenizer->merges, pair.left, pair.right);
    if (!merge) return;
    pair.rank = merge->rank;
    run->heap_count++;
    while (place && diti_bpe_before(&pair, &run->heap[(place - 1) / 2])) {
        run->heap[place] = run->heap[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    run->heap[place] = pair;
}

static diti_bpe_pair diti_bpe_pop(diti_bpe_run *run) {
    diti_bpe_pair top = run->heap[0], last = run->heap[--run->heap_count];
    size_t place = 0, child;
    while ((child = place * 2 + 1) < run->heap_count) {
        if (child + 1 < run->heap_count && diti_bpe_before(&run->heap[child + 1], &run->heap[child])) child++;
        if (!diti_bpe_before(&run->heap[child], &last)) break;
        run->heap[place] = run->heap[child];
        place = child;
    }
    run->heap[place] = last;
    return top;
}

/* A pair whose symbols have become others meanwhile is passed over. */
static void diti_bpe_join(diti_bpe_run *run, const diti_bpe_pair *pair) {
    uint32_t at = pair->at, right = run->next[at];
    if (run->ids[at] != pair->left || right >= run->length || run->ids[right] != pair->right) return;
    run->ids[at] = run->tokenizer->merges.merges[pair->rank].result;
    run->ids[right] = -1;
    run->next[at] = run->next[right];
    if (run->next[at] < run->length) run->prev[run->next[at]] = at;
    diti_bpe_push(run, at);
    if (at) diti_bpe_push(run, run->prev[at]);
}

/* Symbols to begin with: bytes, or the characters that the vocabulary has. */
static void diti_bpe_symbols(diti_bpe_run *run) {
    const diti_tokenizer *tokenizer = run->tokenizer;
    uint32_t i, size, last = 0;
    for (i = 0; i < run->length; last = i, i += size) {
        const char *text = run->text + i;
        uint8_t byte = (uint8_t)*text;
        int32_t id = i + 1 == run->length ? tokenizer->last_byte_ids[byte] : tokenizer->byte_ids[byte];
        size = 1;
        if (tokenizer->kind == DITI_TOKENIZER_PIECES) {
            uint32_t whole = (uint32_t)diti_utf8_length(text, run->length - i);
            int32_t piece = whole ? diti_piece_find(&tokenizer->words, text, whole) : -1;
            id = piece >= 0 ? piece : tokenizer->byte_ids[byte];
            if (piece >= 0) size = whole;
        }
        run->ids[i] = id;
        run->next[i] = i + size;
        run->prev[i] = last;
    }
}

static void diti_bpe_word(diti_bpe_run *run, diti_token_sink *sink) {
    const diti_tokenizer *tokenizer = run->tokenizer;
    uint32_t i, length = run->length;
    diti_bpe_symbols(run);
    run->heap_count = 0;
    for (i = 0; i < length; i = run->next[i]) diti_bpe_push(run, i);
    while (run->heap_count) {
        diti_bpe_pair pair = diti_bpe_pop(run);
        diti_bpe_join(run, &pair);
    }
    run->text[length] = ' ';
    for (i = 0; i < length; i = run->next[i])
        diti_token_emit(sink, run->ids[i], run->text + i,
                        run->next[i] - i + (run->next[i] == length && tokenizer->kind == DITI_TOKENIZER_CLIP));
}

/* The id of a word that the vocabulary has as a whole; -1: none. Every byte is at most two in the vocabulary. */
static int32_t diti_bpe_whole(const diti_bpe_run *run) {
    diti_piece_range range = diti_piece_range_all(&run->tokenizer->words);
    const diti_piece *piece;
    uint32_t i, j;
    for (i = 0; i < run->length; i++) {
        char letter[4];
        uint32_t bytes = diti_utf8_encode(diti_bpe_letter((uint8_t)run->text[i]), letter);
        for (j = 0; j < bytes; j++)
            if (!diti_piece_range_narrow(&run->tokenizer->words, &range, letter[j])) return -1;
    }
    piece = diti_piece_range_exact(&run->tokenizer->words, &range);
    return piece ? piece->id : -1;
}

/* --- splitting text into words --- */
static size_t diti_bpe_contraction(const diti_codes *text, size_t first) {
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    size_t i, j;
    if (text->at[first] != '\'') return 0;
    for (i = 0; i < DITI_COUNT(endings); i++) {
        size_t length = strlen(endings[i]);
        for (j = 0; j < length && first + 1 + j < text->count; j++) {
            if (text->at[first + 1 + j] != (uint32_t)endings[i][j]) break;
        }
        if (j == length) return 1 + length;
    }
    return 0;
}

/* Letters, one number, or what is neither. */
static size_t diti_bpe_word_end(const diti_codes *text, size_t first) {
    size_t end = first + diti_bpe_contraction(text, first);
    uint8_t kind = text->kinds[first];
    bool other = kind != DITI_UNICODE_LETTER && kind != DITI_UNICODE_NUMBER;
    if (end > first) return end;
    for (end = first + 1; end < text->count && kind != DITI_UNICODE_NUMBER; end++) {
        uint8_t next = text->kinds[end];
        if (other ? next == DITI_UNICODE_LETTER || next == DITI_UNICODE_NUMBER || next == DITI_UNICODE_SPACE
                  : next != kind)
            break;
    }
    return end;
}

/* --- words of language models: the alternatives of Qwen2's and LLaMA 3's pattern in their order (docs/models.md 6.4),
   which differ in how many digits a word has; Mistral's have other words of letters --- */

/* The pattern's white space, which is Unicode's; Python's has four codes more. */
static bool diti_bpe_is_space(const diti_codes *text, size_t at) {
    return at < text->count && text->kinds[at] == DITI_UNICODE_SPACE && !(text->at[at] >= 0x1c && text->at[at] <= 0x1f);
}

static bool diti_bpe_is_feed(const diti_codes *text, size_t at) {
    return at < text->count && (text->at[at] == '\r' || text->at[at] == '\n');
}

/* Letters that have no case, and where cases count, marks, too, are of both. */
static bool diti_bpe_is_both(const diti_codes *text, size_t at) {
    return at < text->count && (text->kinds[at] == DITI_UNICODE_LETTER || text->kinds[at] == DITI_UNICODE_MARK);
}

static bool diti_bpe_is_upper(const diti_codes *text, size_t at) {
    return at < text->count && (text->kinds[at] == DITI_UNICODE_UPPER || diti_bpe_is_both(text, at));
}

static bool diti_bpe_is_lower(const diti_codes *text, size_t at) {
    return at < text->count && (text->kinds[at] == DITI_UNICODE_LOWER || diti_bpe_is_both(text, at));
}

static bool diti_bpe_is_letter(const diti_codes *text, size_t at) {
    return at < text->count && (text->kinds[at] == DITI_UNICODE_LETTER || text->kinds[at] == DITI_UNICODE_UPPER ||
                                text->kinds[at] == DITI_UNICODE_LOWER);
}

static bool diti_bpe_is_number(const diti_codes *text, size_t at) {
    return at < text->count && text->kinds[at] == DITI_UNICODE_NUMBER;
}

/* Neither letter, number nor white space. */
static bool diti_bpe_is_sign(const diti_codes *text, size_t at) {
    return at < text->count && !diti_bpe_is_letter(text, at) && !diti_bpe_is_number(text, at) &&
           !diti_bpe_is_space(text, at);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d): codes after the apostrophe, of which case folding makes U+017F an s, too. */
static size_t diti_bpe_any_contraction(const diti_codes *text, size_t first) {
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    size_t i, j;
    for (i = 0; i < DITI_COUNT(endings) && text->at[first] == '\''; i++) {
        size_t length = strlen(endings[i]);
        for (j = 0; j < length && first + 1 + j < text->count; j++) {
            uint32_t code = text->at[first + 1 + j];
            if (code == 0x17f) code = 's';
            if (code >= 'A' && code <= 'Z') code += 32;
            if (code != (uint32_t)endings[i][j]) break;
        }
        if (j == length) return 1 + length;
    }
    return 0;
}

/* White space: up to its last line feed, where there is one; else all that ends the text, or all but the last before a
   word, or that one alone. */
static size_t diti_bpe_space_end(const diti_codes *text, size_t first) {
    size_t end = first, feed = 0;
    for (; diti_bpe_is_space(text, end); end++)
        if (diti_bpe_is_feed(text, end)) feed = end + 1;
    if (feed) return feed;
    return end == text->count || end == first + 1 ? end : end - 1;
}

/* Mistral's pattern (docs/models.md 6.4) splits at capitals: upper*lower+, where the upper ones are as many as leave
   one that is lower. first: there is no such word. */
static size_t diti_bpe_lower_end(const diti_codes *text, size_t first) {
    size_t end = first, both = first;
    for (; diti_bpe_is_upper(text, end); end++)
        if (diti_bpe_is_both(text, end)) both = end + 1;
    if (!diti_bpe_is_lower(text, end)) return both;
    while (diti_bpe_is_lower(text, end)) end++;
    return end;
}

/* upper+, for what comes behind is not lower where the pattern's first alternative has not found a word. */
static size_t diti_bpe_upper_end(const diti_codes *text, size_t first) {
    while (diti_bpe_is_upper(text, first)) first++;
    return first;
}

/* Either with one sign or space in front, if that makes a word. */
static size_t diti_bpe_cased_end(const diti_codes *text, size_t first) {
    bool leads = !diti_bpe_is_letter(text, first) && !diti_bpe_is_number(text, first) && !diti_bpe_is_feed(text, first);
    size_t end = leads ? diti_bpe_lower_end(text, first + 1) : first;
    if (end > first + leads) return end;
    end = diti_bpe_lower_end(text, first);
    if (end > first) return end;
    end = leads ? diti_bpe_upper_end(text, first + 1) : first;
    return end > first + leads ? end : diti_bpe_upper_end(text, first);
}

static size_t diti_bpe_bytes_end(const diti_tokenizer *tokenizer, const diti_codes *text, size_t first) {
    bool cased = (tokenizer->rules & DITI_CLEAN_CASES) != 0;
    size_t end = cased ? diti_bpe_cased_end(text, first) : first + diti_bpe_any_contraction(text, first);
    bool leads = !diti_bpe_is_letter(text, first) && !diti_bpe_is_number(text, first) && !diti_bpe_is_feed(text, first);
    if (end > first) return end;
    if (!cased && (diti_bpe_is_letter(text, first) || (leads && diti_bpe_is_letter(text, first + 1)))) {
        for (end = first + 1; diti_bpe_is_letter(text, end);) end++;
        return end;
    }
    if (diti_bpe_is_number(text, first)) {
        for (end = first + 1; end - first < tokenizer->digits && diti_bpe_is_number(text, end);) end++;
        return end;
    }
    if (!diti_bpe_is_sign(text, first) && !(text->at[first] == ' ' && diti_bpe_is_sign(text, first + 1)))
        return diti_bpe_space_end(text, first);
    for (end = first + 1; diti_bpe_is_sign(text, end);) end++;
    while (diti_bpe_is_feed(text, end) || (cased && end < text->count && text->at[end] == '/')) end++;
    return end;
}

/* All of a text is one word. */
static void diti_bpe_pieces(diti_bpe_run *run, const diti_codes *text, diti_token_sink *sink) {
    const diti_tokenizer *tokenizer = run->tokenizer;
    size_t i;
    run->length = tokenizer->normalizer.add_prefix ? diti_utf8_encode(0x2581, run->text) : 0;
    for (i = 0; i < text->count; i++) {
        bool space = tokenizer->escapes_spaces && text->at[i] == ' ';
        run->length += diti_utf8_encode(space ? 0x2581 : text->at[i], run->text + run->length);
    }
    if (run->length) diti_bpe_word(run, sink);
}

static void diti_bpe_words(diti_bpe_run *run, const diti_codes *text, diti_token_sink *sink) {
    const diti_tokenizer *tokenizer = run->tokenizer;
    bool clip = tokenizer->kind == DITI_TOKENIZER_CLIP;
    size_t first, end, i;
    for (first = 0; first < text->count; first = end) {
        int32_t whole = -1;
        end = first + 1;
        if (clip && text->kinds[first] == DITI_UNICODE_SPACE) continue;
        end = clip ? diti_bpe_word_end(text, first) : diti_bpe_bytes_end(tokenizer, text, first);
        run->length = 0;
        for (i = first; i < end; i++) run->length += diti_utf8_encode(text->at[i], run->text + run->length);
        if (tokenizer->whole_words) whole = diti_bpe_whole(run);
        if (whole >= 0)
            diti_token_emit(sink, whole, run->text, run->length);
        else
            diti_bpe_word(run, sink);
    }
}

static dit_result diti_bpe_run_create(const diti_tokenizer *tokenizer, size_t codes, diti_bpe_run *run,
                                      dit_error *err) {
    const diti_env *env = &tokenizer->env;
    size_t bytes = codes * 4 + 4;
    run->tokenizer = tokenizer;
    run->text = (char *)diti_alloc(env, bytes);
    run->ids = (int32_t *)diti_alloc_array(env, bytes, sizeof *run->ids);
    run->next = (uint32_t *)diti_alloc_array(env, bytes, sizeof *run->next);
    run->prev = (uint32_t *)diti_alloc_array(env, bytes, sizeof *run->prev);
    run->heap = (diti_bpe_pair *)diti_alloc_array(env, bytes * 3, sizeof *run->heap); /* a join adds two at most */
    if (run->text && run->ids && run->next && run->prev && run->heap) return DIT_OK;
    return diti_fail_memory(err, "a prompt of %lu characters", (unsigned long)codes);
}

static void diti_bpe_run_free(const diti_env *env, diti_bpe_run *run) {
    diti_free(env, run->text);
    diti_free(env, run->ids);
    diti_free(env, run->next);
    diti_free(env, run->prev);
    diti_free(env, run->heap);
}

/* The most codes that stand without white space between them: no word of CLIP's is longer. */
static size_t diti_bpe_longest(const diti_tokenizer *tokenizer, const diti_codes *text) {
    size_t i, start = 0, longest = 0;
    if (tokenizer->kind != DITI_TOKENIZER_CLIP) return text->count;
    for (i = 0; i <= text->count; i++) {
        if (i < text->count && text->kinds[i] != DITI_UNICODE_SPACE) continue;
        if (i - start > longest) longest = i - start;
        start = i + 1;
    }
    return longest;
}

DIT_INTERNAL dit_result diti_bpe_encode(const diti_tokenizer *tokenizer, const char *text, size_t length,
                                        diti_token_sink *sink, dit_error *err) {
    diti_codes codes;
    diti_bpe_run run = DITI_ZERO;
    dit_result result;
    if (length == 0) return DIT_OK;
    DITI_TRY(diti_clean(&tokenizer->env, text, length, tokenizer->rules, &codes, err));
    result = diti_bpe_run_create(tokenizer, diti_bpe_longest(tokenizer, &codes), &run, err);
    if (result >= 0) (tokenizer->kind == DITI_TOKENIZER_PIECES ? diti_bpe_pieces : diti_bpe_words)(&run, &codes, sink);
    diti_bpe_run_free(&tokenizer->env, &run);
    diti_codes_free(&codes);
    return result;
}
