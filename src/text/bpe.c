#include "text/tokenizer.h"

/* CLIP's byte-level BPE (docs/models.md 6.1). */

#define DITI_MERGE_LIMIT (4u << 20)

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
static dit_result diti_merge_index_build(diti_tokenizer *tokenizer, dit_error *err) {
    diti_merge_index *index = &tokenizer->merges;
    size_t i;
    index->slot_count = 16;
    while (index->slot_count < index->count * 2) index->slot_count *= 2;
    index->slots = (uint32_t *)diti_alloc_array(&tokenizer->env, index->slot_count, sizeof *index->slots);
    if (!index->slots)
        return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory for the merges", tokenizer->name);
    for (i = 0; i < index->count; i++) {
        uint32_t slot = diti_merge_slot(index, index->merges[i].left, index->merges[i].right);
        if (!index->slots[slot]) index->slots[slot] = (uint32_t)i + 1;
    }
    return DIT_OK;
}

static dit_result diti_merge_add(diti_tokenizer *tokenizer, const char *left, size_t left_length, const char *right,
                                 size_t right_length, dit_error *err) {
    diti_merge_index *index = &tokenizer->merges;
    char joined[2048];
    diti_merge merge;
    void *merges = index->merges;
    merge.rank = (uint32_t)index->count;
    merge.left = diti_piece_find(&tokenizer->words, left, left_length);
    merge.right = diti_piece_find(&tokenizer->words, right, right_length);
    merge.result = -1;
    if (merge.left >= 0 && merge.right >= 0 && left_length + right_length <= sizeof joined) {
        memcpy(joined, left, left_length);
        memcpy(joined + left_length, right, right_length);
        merge.result = diti_piece_find(&tokenizer->words, joined, left_length + right_length);
    }
    if (merge.result < 0)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: merge %u joins or makes a piece that the vocabulary lacks",
                         tokenizer->name, merge.rank + 1);
    if (index->count >= DITI_MERGE_LIMIT)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: more than %u merges", tokenizer->name, DITI_MERGE_LIMIT);
    if (!diti_grow(&tokenizer->env, &merges, &index->capacity, index->count, sizeof merge))
        return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory for the merges", tokenizer->name);
    index->merges = (diti_merge *)merges;
    index->merges[index->count++] = merge;
    return DIT_OK;
}

/* "left right" */
static dit_result diti_merge_add_line(diti_tokenizer *tokenizer, const char *line, size_t length, dit_error *err) {
    const char *space = (const char *)memchr(line, ' ', length);
    if (!space)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: merge %lu is no pair of pieces", tokenizer->name,
                         (unsigned long)tokenizer->merges.count + 1);
    return diti_merge_add(tokenizer, line, (size_t)(space - line), space + 1, length - (size_t)(space - line) - 1, err);
}

/* --- finishing: bytes are spelled as printable characters; those that end a word have a suffix --- */
static uint32_t diti_bpe_letter(uint32_t byte) {
    bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    if (printable) return byte;
    if (byte <= 32) return 256 + byte;
    return byte == 173 ? 256 + 33 + 34 : 256 + 33 + (byte - 127);
}

DIT_INTERNAL dit_result diti_bpe_finish(diti_tokenizer *tokenizer, dit_error *err) {
    uint32_t byte;
    dit_result result = diti_tokenizer_special(tokenizer, "<|startoftext|>", &tokenizer->begin, err);
    if (result >= 0) result = diti_tokenizer_special(tokenizer, "<|endoftext|>", &tokenizer->end, err);
    tokenizer->padding = tokenizer->unknown = tokenizer->end;
    for (byte = 0; byte < 256 && result >= 0; byte++) {
        char text[8];
        size_t length = diti_utf8_encode(diti_bpe_letter(byte), text);
        memcpy(text + length, "</w>", 4);
        tokenizer->byte_ids[byte] = diti_piece_find(&tokenizer->words, text, length);
        tokenizer->last_byte_ids[byte] = diti_piece_find(&tokenizer->words, text, length + 4);
        if (tokenizer->byte_ids[byte] < 0 || tokenizer->last_byte_ids[byte] < 0)
            return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: the vocabulary has no piece for byte %u%s", tokenizer->name,
                             byte, tokenizer->byte_ids[byte] < 0 ? "" : " at the end of a word");
    }
    return result;
}

/* --- one word: symbols are joined, the pair of lowest rank first, of equal ones the leftmost --- */
typedef struct diti_bpe_pair {
    uint32_t rank, at;
    int32_t left, right;
} diti_bpe_pair;
typedef struct diti_bpe_run {
    const diti_tokenizer *tokenizer;
    char *text;            /* the word, and a space behind it */
    int32_t *ids;          /* of the symbol that begins at this byte; -1: none does */
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

static void diti_bpe_word(diti_bpe_run *run, diti_token_sink *sink) {
    const diti_tokenizer *tokenizer = run->tokenizer;
    uint32_t i, length = run->length;
    for (i = 0; i < length; i++) {
        uint8_t byte = (uint8_t)run->text[i];
        run->ids[i] = i + 1 == length ? tokenizer->last_byte_ids[byte] : tokenizer->byte_ids[byte];
        run->next[i] = i + 1;
        run->prev[i] = i ? i - 1 : 0;
    }
    run->heap_count = 0;
    for (i = 0; i + 1 < length; i++) diti_bpe_push(run, i);
    while (run->heap_count) {
        diti_bpe_pair pair = diti_bpe_pop(run);
        diti_bpe_join(run, &pair);
    }
    run->text[length] = ' ';
    for (i = 0; i < length; i = run->next[i])
        diti_token_emit(sink, run->ids[i], run->text + i, run->next[i] - i + (run->next[i] == length));
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

static void diti_bpe_words(diti_bpe_run *run, const diti_codes *text, diti_token_sink *sink) {
    size_t first, end, i;
    for (first = 0; first < text->count; first = end) {
        end = first + 1;
        if (text->kinds[first] == DITI_UNICODE_SPACE) continue;
        end = diti_bpe_word_end(text, first);
        run->length = 0;
        for (i = first; i < end; i++) run->length += diti_utf8_encode(text->at[i], run->text + run->length);
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
    return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "out of memory for a prompt of %lu characters",
                     (unsigned long)codes);
}

static void diti_bpe_run_free(const diti_env *env, diti_bpe_run *run) {
    diti_free(env, run->text);
    diti_free(env, run->ids);
    diti_free(env, run->next);
    diti_free(env, run->prev);
    diti_free(env, run->heap);
}

/* The most codes that stand without white space between them: no word is longer. */
static size_t diti_bpe_longest(const diti_codes *text) {
    size_t i, start = 0, longest = 0;
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
    result = diti_clean(&tokenizer->env, text, length, tokenizer->rules, &codes, err);
    if (result < 0) return result;
    result = diti_bpe_run_create(tokenizer, diti_bpe_longest(&codes), &run, err);
    if (result >= 0) diti_bpe_words(&run, &codes, sink);
    diti_bpe_run_free(&tokenizer->env, &run);
    diti_codes_free(&codes);
    return result;
}

/* --- vocab.json and merges.txt: what transformers' CLIPTokenizer does without ftfy --- */
static dit_result diti_merges_read(diti_tokenizer *tokenizer, const char *text, size_t size, dit_error *err) {
    size_t first = 0, end;
    bool header = true;
    dit_result result = DIT_OK;
    for (; first < size && result >= 0; first = end + 1, header = false) {
        const char *feed = (const char *)memchr(text + first, '\n', size - first);
        size_t length;
        end = feed ? (size_t)(feed - text) : size;
        length = end - first;
        while (length && (text[first + length - 1] == '\r' || text[first + length - 1] == ' ')) length--;
        if (!header && length) result = diti_merge_add_line(tokenizer, text + first, length, err);
    }
    return result;
}

static dit_result diti_merges_load(const diti_env *env, const diti_json *root, const char *merges, size_t size,
                                   const char *name, diti_tokenizer **out, dit_error *err) {
    diti_tokenizer *tokenizer = NULL;
    dit_result result = diti_vocabulary_create(env, DITI_TOKENIZER_CLIP, root, NULL, name, &tokenizer, err);
    if (result >= 0) {
        tokenizer->rules = DITI_CLEAN_CONTROLS | DITI_CLEAN_IDEOGRAPHS | DITI_CLEAN_COMPOSE | DITI_CLEAN_LOWER_SIGMA;
        result = diti_merges_read(tokenizer, merges, size, err);
    }
    if (result >= 0) result = diti_merge_index_build(tokenizer, err);
    if (result >= 0)
        *out = tokenizer;
    else
        diti_tokenizer_free(tokenizer);
    return result;
}

DIT_INTERNAL dit_result diti_tokenizer_load_merges(const diti_env *env, const char *vocabulary, size_t vocabulary_size,
                                                   const char *merges, size_t merges_size, const char *name,
                                                   diti_tokenizer **out, dit_error *err) {
    diti_json *root = NULL;
    dit_result result = diti_json_parse(env, vocabulary, vocabulary_size, name, &root, err);
    if (result >= 0) result = diti_merges_load(env, root, merges, merges_size, name, out, err);
    diti_json_free(env, root);
    return result;
}

/* --- tokenizer.json: what the tokenizers library does, as far as CLIP's files ask for it --- */
static dit_result diti_bpe_unsupported(const char *name, const char *what, const char *value, dit_error *err) {
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: %s \"%.60s\" is not supported for a BPE model, only CLIP's",
                     name, what, value);
}

static dit_result diti_bpe_read_normalizer(diti_tokenizer *tokenizer, const diti_json *normalizer, dit_error *err) {
    diti_settings settings = diti_settings_of(normalizer, tokenizer->name, err);
    const char *type = diti_setting_text(&settings, "type", "");
    const diti_json *member;
    dit_result result = settings.result;
    if (result < 0 || !normalizer || normalizer->kind == DITI_JSON_NULL) return result;
    if (diti_equal(type, "Sequence")) {
        member = diti_json_get(normalizer, "normalizers");
        for (member = member ? member->first : NULL; member && result >= 0; member = member->next)
            result = diti_bpe_read_normalizer(tokenizer, member, err);
    } else if (diti_equal(type, "NFC")) {
        tokenizer->rules |= DITI_CLEAN_COMPOSE;
    } else if (diti_equal(type, "Lowercase")) {
        tokenizer->rules |= DITI_CLEAN_LOWER;
    } else if (!diti_equal(type, "Replace") || /* white space only separates words, however much of it */
               !diti_equal(diti_json_string(diti_json_get(normalizer, "pattern"), "Regex", ""), "\\s+")) {
        result = diti_bpe_unsupported(tokenizer->name, "normalizer", type, err);
    }
    return result;
}

static dit_result diti_bpe_check_split(const diti_json *pre_tokenizer, const char *name, dit_error *err) {
    static const char clip[] = "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+";
    diti_settings settings = diti_settings_of(pre_tokenizer, name, err);
    const char *type = diti_setting_text(&settings, "type", "");
    const char *regex = diti_json_string(diti_json_get(pre_tokenizer, "pattern"), "Regex", "");
    bool prefix = diti_setting_bool(&settings, "add_prefix_space", true);
    const diti_json *member;
    dit_result result = settings.result;
    if (result < 0) return result;
    if (diti_equal(type, "Split"))
        return diti_equal(regex, clip) ? DIT_OK : diti_bpe_unsupported(name, "pattern", regex, err);
    if (diti_equal(type, "ByteLevel") && !prefix) return DIT_OK;
    if (!diti_equal(type, "Sequence")) return diti_bpe_unsupported(name, "pre_tokenizer", type, err);
    member = diti_json_get(pre_tokenizer, "pretokenizers");
    for (member = member ? member->first : NULL; member && result >= 0; member = member->next)
        result = diti_bpe_check_split(member, name, err);
    return result;
}

/* "left right" or ["left", "right"]. */
static dit_result diti_bpe_read_merges(diti_tokenizer *tokenizer, const diti_json *merges, dit_error *err) {
    const diti_json *merge;
    dit_result result = DIT_OK;
    for (merge = merges ? merges->first : NULL; merge && result >= 0; merge = merge->next) {
        const diti_json *left = merge->first, *right = left ? left->next : NULL;
        if (merge->kind == DITI_JSON_STRING)
            result = diti_merge_add_line(tokenizer, merge->text, merge->text_length, err);
        else if (left && right && left->kind == DITI_JSON_STRING && right->kind == DITI_JSON_STRING)
            result = diti_merge_add(tokenizer, left->text, left->text_length, right->text, right->text_length, err);
        else
            result = diti_merge_add_line(tokenizer, "", 0, err);
    }
    return result;
}

static dit_result diti_bpe_fill(diti_tokenizer *tokenizer, const diti_json *root, const diti_json *model,
                                dit_error *err) {
    dit_result result = diti_bpe_read_normalizer(tokenizer, diti_json_get(root, "normalizer"), err);
    if (result >= 0) result = diti_bpe_check_split(diti_json_get(root, "pre_tokenizer"), tokenizer->name, err);
    if (result >= 0) result = diti_bpe_read_merges(tokenizer, diti_json_get(model, "merges"), err);
    return result >= 0 ? diti_merge_index_build(tokenizer, err) : result;
}

DIT_INTERNAL dit_result diti_bpe_load_json(const diti_env *env, const diti_json *root, const char *name,
                                           diti_tokenizer **out, dit_error *err) {
    const diti_json *model = diti_json_get(root, "model");
    diti_settings settings = diti_settings_of(model, name, err);
    const char *suffix = diti_setting_text(&settings, "end_of_word_suffix", "");
    diti_tokenizer *tokenizer = NULL;
    dit_result result = settings.result;
    if (result < 0) return result;
    if (!diti_equal(suffix, "</w>")) return diti_bpe_unsupported(name, "end_of_word_suffix", suffix, err);
    result = diti_vocabulary_create(env, DITI_TOKENIZER_CLIP, diti_json_get(model, "vocab"),
                                    diti_json_get(root, "added_tokens"), name, &tokenizer, err);
    if (result >= 0) result = diti_bpe_fill(tokenizer, root, model, err);
    if (result >= 0)
        *out = tokenizer;
    else
        diti_tokenizer_free(tokenizer);
    return result;
}
