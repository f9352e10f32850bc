/* SentencePiece's normalizer (docs/models.md 6.2): a table of replacements, a trie of whose keys the longest wins, and
   the rules for white space. */
#include "text/tokenizer.h"

/* Bounds that no real map comes near; they keep hostile maps from costing more than the prompt's length. */
#define DITI_NORMALIZED_LIMIT (16u << 20) /* bytes of normalised prompt */
#define DITI_CHARSMAP_KEY 256u            /* bytes of a trie key */
#define DITI_CHARSMAP_REPLACEMENT 1024u   /* bytes of a replacement string */

/* --- the precompiled map: u32 byte size of the trie, the trie, the replacement strings --- */
static uint32_t diti_normalize_u32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static bool diti_charsmap_strings_good(const diti_normalizer *normalizer) {
    uint32_t i, length = 0;
    for (i = 0; i < normalizer->replacements_size; i++) {
        length = normalizer->replacements[i] ? length + 1 : 0;
        if (length > DITI_CHARSMAP_REPLACEMENT) return false;
    }
    return true;
}

DIT_INTERNAL dit_result diti_normalizer_set_charsmap(const diti_env *env, diti_normalizer *normalizer, const void *data,
                                                     size_t size, const char *name, dit_error *err) {
    const uint8_t *bytes = (const uint8_t *)data;
    uint32_t trie_size, i;
    if (size == 0) return DIT_OK;
    trie_size = size < 4 ? 0 : diti_normalize_u32(bytes);
    if (trie_size == 0 || trie_size % 4 != 0 || trie_size > size - 4 || size - 4 - trie_size > UINT32_MAX - 1) {
        return diti_fail(err, DIT_ERROR_BAD_FILE,
                         "%s: the normaliser's character map is damaged: a trie of %lu bytes in a map of %lu", name,
                         (unsigned long)trie_size, (unsigned long)size);
    }
    diti_normalizer_free(env, normalizer);
    normalizer->trie_count = trie_size / 4;
    normalizer->replacements_size = (uint32_t)(size - 4 - trie_size);
    normalizer->trie = (uint32_t *)diti_alloc_array(env, normalizer->trie_count, sizeof(uint32_t));
    normalizer->replacements = (char *)diti_alloc_zero(env, (size_t)normalizer->replacements_size + 1);
    if (!normalizer->trie || !normalizer->replacements) return diti_fail_memory(err, "the character map of %s", name);
    for (i = 0; i < normalizer->trie_count; i++) normalizer->trie[i] = diti_normalize_u32(bytes + 4 + (size_t)i * 4);
    memcpy(normalizer->replacements, bytes + 4 + trie_size, normalizer->replacements_size);
    if (diti_charsmap_strings_good(normalizer)) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE,
                     "%s: the normaliser's character map is damaged: a replacement longer than %u bytes", name,
                     DITI_CHARSMAP_REPLACEMENT);
}

DIT_INTERNAL void diti_normalizer_free(const diti_env *env, diti_normalizer *normalizer) {
    diti_free(env, normalizer->trie);
    diti_free(env, normalizer->replacements);
    normalizer->trie = NULL;
    normalizer->replacements = NULL;
    normalizer->trie_count = 0;
}

static uint32_t diti_darts_offset(uint32_t unit) { return (unit >> 10) << ((unit & 512u) >> 6); }

/* Longest key of the trie that text starts with: its length (0: none) and the offset of its replacement. */
static size_t diti_darts_longest(const diti_normalizer *normalizer, const char *text, size_t length, uint32_t *value) {
    size_t i, matched = 0;
    uint32_t unit, position;
    if (!normalizer->trie) return 0;
    position = diti_darts_offset(normalizer->trie[0]);
    for (i = 0; i < length && i < DITI_CHARSMAP_KEY; i++) {
        uint32_t byte = (uint8_t)text[i];
        position ^= byte;
        if (position >= normalizer->trie_count) break;
        unit = normalizer->trie[position];
        if ((unit & 0x800000ffu) != byte) break;
        position ^= diti_darts_offset(unit);
        if (position >= normalizer->trie_count) break;
        if (!((unit >> 8) & 1u)) continue;
        matched = i + 1;
        *value = normalizer->trie[position] & 0x7fffffffu;
    }
    return matched;
}

/* --- normalising --- */
typedef struct diti_normalize_run {
    const diti_env *env;
    char *text;
    size_t size, capacity;
} diti_normalize_run;

static dit_result diti_normalize_append(diti_normalize_run *run, const char *text, size_t length, dit_error *err) {
    if (run->size + length > DITI_NORMALIZED_LIMIT) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "the prompt is longer than %u bytes after normalisation",
                         DITI_NORMALIZED_LIMIT);
    }
    if (run->size + length > run->capacity) {
        size_t wanted = (run->size + length) * 2;
        char *bigger = (char *)diti_alloc(run->env, wanted);
        if (!bigger) return diti_fail_memory(err, "the normalised prompt");
        if (run->size) memcpy(bigger, run->text, run->size);
        diti_free(run->env, run->text);
        run->text = bigger;
        run->capacity = wanted;
    }
    if (length) memcpy(run->text + run->size, text, length);
    run->size += length;
    return DIT_OK;
}

static dit_result diti_normalize_append_escaped(diti_normalize_run *run, const char *text, size_t length,
                                                dit_error *err) {
    size_t start = 0, i;
    for (i = 0; i <= length; i++) {
        dit_result result;
        if (i < length && text[i] != ' ') continue;
        result = diti_normalize_append(run, text + start, i - start, err);
        if (result >= 0 && i < length) result = diti_normalize_append(run, "\xe2\x96\x81", 3, err);
        DITI_TRY(result);
        start = i + 1;
    }
    return DIT_OK;
}

/* Unicode's White_Space. */
static bool diti_normalize_is_space(const char *text, size_t length) {
    static const char spaces[][4] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\xa8",
                                     "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    size_t i;
    if (length == 1) return (*text >= '\t' && *text <= '\r') || *text == ' ';
    if (length == 3 && memcmp(text, "\xe2\x80", 2) == 0 && (uint8_t)text[2] <= 0x8a) return true; /* U+2000..U+200A */
    for (i = 0; i < DITI_COUNT(spaces); i++) {
        if (strlen(spaces[i]) == length && memcmp(text, spaces[i], length) == 0) return true;
    }
    return false;
}

/* Replaces the beginning of text by a piece; returns how many bytes of the text that takes. */
static size_t diti_normalize_prefix(const diti_normalizer *normalizer, const char *text, size_t length,
                                    const char **piece, size_t *piece_length) {
    uint32_t value = 0;
    size_t matched = diti_darts_longest(normalizer, text, length, &value);
    if (matched && value < normalizer->replacements_size) {
        *piece = normalizer->replacements + value;
        *piece_length = strlen(*piece);
        return matched;
    }
    matched = diti_utf8_length(text, length);
    if (normalizer->unicode_spaces && diti_normalize_is_space(text, matched)) {
        *piece = " ";
        *piece_length = 1;
        return matched;
    }
    *piece = matched ? text : "\xef\xbf\xbd";
    *piece_length = matched ? matched : 3;
    return matched ? matched : 1;
}

static void diti_normalize_trim_end(diti_normalize_run *run) {
    while (run->size >= 3 && memcmp(run->text + run->size - 3, "\xe2\x96\x81", 3) == 0) run->size -= 3;
}

static dit_result diti_normalize_all(diti_normalize_run *run, const diti_normalizer *normalizer, const char *text,
                                     size_t length, dit_error *err) {
    bool after_space = normalizer->collapse_spaces, begun = false;
    size_t position = 0;
    while (position < length) {
        const char *piece;
        size_t piece_length;
        dit_result result = DIT_OK;
        position += diti_normalize_prefix(normalizer, text + position, length - position, &piece, &piece_length);
        while (after_space && piece_length && *piece == ' ') piece++, piece_length--;
        if (piece_length == 0) continue;
        if (!begun && normalizer->add_prefix) result = diti_normalize_append_escaped(run, " ", 1, err);
        begun = true;
        if (result >= 0) result = diti_normalize_append_escaped(run, piece, piece_length, err);
        DITI_TRY(result);
        after_space = normalizer->collapse_spaces && piece[piece_length - 1] == ' ';
    }
    if (normalizer->collapse_spaces) diti_normalize_trim_end(run);
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_normalizer_run(const diti_env *env, const diti_normalizer *normalizer, const char *text,
                                            size_t length, char **out, size_t *out_length, dit_error *err) {
    diti_normalize_run run = DITI_ZERO;
    dit_result result;
    run.env = env;
    result = diti_normalize_all(&run, normalizer, text, length, err);
    if (result < 0) {
        diti_free(env, run.text);
        return result;
    }
    *out = run.text;
    *out_length = run.size;
    return DIT_OK;
}
