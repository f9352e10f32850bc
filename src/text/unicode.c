/* Unicode as far as tokenizers need it: classes of characters, normal forms, lower case, and the cleaning of prompts.
 */
#include "text/tokenizer.h"
#include "text/unicode_tables.h"

/* --- the tables: expanded for as long as a text is worked on, since most texts need none of them --- */
typedef struct diti_unicode {
    int32_t *classes, *combining, *pairs, *splits, *ideographs, *lower, *cases;
} diti_unicode;

/* As tests/reference/unicode_tables.py writes them: differences from row to row, in digits of base 45. */
static void diti_unicode_expand(const char *const *lines, uint32_t columns, uint32_t count, int32_t *out) {
    const char *text = *lines;
    uint32_t i;
    for (i = 0; i < count; i++) {
        uint32_t number = 0, unit = 1, digit;
        do {
            if (!*text) text = *++lines;
            digit = (uint32_t)*text - (uint32_t)33;
            digit -=
                (uint32_t)(*text > '"') + (uint32_t)(*text > '%') + (uint32_t)(*text > '?') + (uint32_t)(*text > '\\');
            text++;
            number += digit % 45 * unit;
            unit *= 45;
        } while (digit >= 45);
        out[i] =
            (number & 1 ? -(int32_t)(number / 2) - 1 : (int32_t)(number / 2)) + (i < columns ? 0 : out[i - columns]);
    }
}

static diti_unicode *diti_unicode_create(const diti_env *env) {
    size_t count = DITI_UNICODE_CLASSES + DITI_UNICODE_COMBINING + DITI_UNICODE_PAIRS + DITI_UNICODE_SPLITS +
                   DITI_UNICODE_IDEOGRAPHS + DITI_UNICODE_LOWERS + DITI_UNICODE_CASES;
    diti_unicode *unicode = (diti_unicode *)diti_alloc(env, sizeof *unicode + count * sizeof(int32_t));
    if (!unicode) return NULL;
    unicode->classes = (int32_t *)(void *)(unicode + 1);
    unicode->combining = unicode->classes + DITI_UNICODE_CLASSES;
    unicode->pairs = unicode->combining + DITI_UNICODE_COMBINING;
    unicode->splits = unicode->pairs + DITI_UNICODE_PAIRS;
    unicode->ideographs = unicode->splits + DITI_UNICODE_SPLITS;
    unicode->lower = unicode->ideographs + DITI_UNICODE_IDEOGRAPHS;
    unicode->cases = unicode->lower + DITI_UNICODE_LOWERS;
    diti_unicode_expand(diti_unicode_classes, 2, DITI_UNICODE_CLASSES, unicode->classes);
    diti_unicode_expand(diti_unicode_combining, 2, DITI_UNICODE_COMBINING, unicode->combining);
    diti_unicode_expand(diti_unicode_pairs, 3, DITI_UNICODE_PAIRS, unicode->pairs);
    diti_unicode_expand(diti_unicode_splits, 3, DITI_UNICODE_SPLITS, unicode->splits);
    diti_unicode_expand(diti_unicode_ideographs, 1, DITI_UNICODE_IDEOGRAPHS, unicode->ideographs);
    diti_unicode_expand(diti_unicode_lowers, 4, DITI_UNICODE_LOWERS, unicode->lower);
    diti_unicode_expand(diti_unicode_cases, 2, DITI_UNICODE_CASES, unicode->cases);
    return unicode;
}

/* The last row (code, value) whose code is not above this one; the tables begin with code 0. */
static uint32_t diti_unicode_find(const int32_t *rows, uint32_t count, uint32_t code) {
    uint32_t low = 0, high = count / 2;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if ((uint32_t)rows[middle * 2] <= code)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)rows[low * 2 + 1];
}

static diti_unicode_class diti_unicode_classify(const diti_unicode *unicode, uint32_t code) {
    if (code >= 0x80) return (diti_unicode_class)diti_unicode_find(unicode->classes, DITI_UNICODE_CLASSES, code);
    if (code < ' ' || code == 0x7f) return DITI_UNICODE_CONTROL;
    if ((code | 32) >= 'a' && (code | 32) <= 'z') return DITI_UNICODE_LETTER;
    if (code >= '0' && code <= '9') return DITI_UNICODE_NUMBER;
    return strchr(" $+<=>^`|~", (int)code) ? DITI_UNICODE_OTHER : DITI_UNICODE_PUNCTUATION;
}

/* Letters of one case, and marks that are not among the nonspacing ones, have classes of their own. */
static diti_unicode_class diti_unicode_classify_cased(const diti_unicode *unicode, uint32_t code) {
    uint32_t own = 0;
    if (code >= 'A' && code <= 'Z') return DITI_UNICODE_UPPER;
    if (code >= 'a' && code <= 'z') return DITI_UNICODE_LOWER;
    if (code >= 0x80) own = diti_unicode_find(unicode->cases, DITI_UNICODE_CASES, code);
    return own ? (diti_unicode_class)own : diti_unicode_classify(unicode, code);
}

static uint32_t diti_unicode_order(const diti_unicode *unicode, uint32_t code) {
    return code < 0x300 ? 0 : diti_unicode_find(unicode->combining, DITI_UNICODE_COMBINING, code);
}

/* White_Space, and what Python counts besides: U+001C to U+001F. */
DIT_INTERNAL bool diti_unicode_is_space(uint32_t code) {
    return code == ' ' || (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x1f) || code == 0x85 || code == 0xa0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f ||
           code == 0x205f || code == 0x3000;
}

/* The ideographs that BERT and CLIP take for words of their own. */
static bool diti_unicode_is_ideograph(uint32_t code) {
    return (code >= 0x4e00 && code <= 0x9fff) || (code >= 0x3400 && code <= 0x4dbf) ||
           (code >= 0xf900 && code <= 0xfaff) || (code >= 0x20000 && code <= 0x2a6df) ||
           (code >= 0x2a700 && code <= 0x2ceaf) || (code >= 0x2f800 && code <= 0x2fa1f);
}

/* --- text as codes; memory that runs out is remembered --- */
static void diti_codes_put(diti_codes *codes, uint32_t code) {
    if (codes->count == codes->capacity && !codes->failed) {
        size_t capacity = codes->capacity ? codes->capacity * 2 : 64;
        uint32_t *bigger = (uint32_t *)diti_alloc_array(codes->env, capacity, sizeof *bigger);
        if (!bigger) {
            codes->failed = true;
            return;
        }
        if (codes->count) memcpy(bigger, codes->at, codes->count * sizeof *bigger);
        diti_free(codes->env, codes->at);
        codes->at = bigger;
        codes->capacity = capacity;
    }
    if (!codes->failed) codes->at[codes->count++] = code;
}

static uint32_t diti_utf8_decode(const char *text, size_t length) {
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t code = length == 1 ? bytes[0] : bytes[0] & (0xffu >> (length + 1));
    size_t i;
    for (i = 1; i < length; i++) code = code << 6 | (bytes[i] & 0x3fu);
    return code;
}

DIT_INTERNAL uint32_t diti_utf8_encode(uint32_t code, char *out) {
    uint32_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4, i;
    if (length == 1) {
        out[0] = (char)code;
        return 1;
    }
    for (i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80u | (code & 0x3fu));
    out[0] = (char)(((0xf00u >> length) & 0xffu) | code);
    return length;
}

DIT_INTERNAL void diti_codes_free(diti_codes *codes) {
    diti_free(codes->env, codes->at);
    diti_free(codes->env, codes->kinds);
    codes->at = NULL;
    codes->kinds = NULL;
    codes->count = codes->capacity = 0;
}

DIT_INTERNAL dit_result diti_codes_to_text(const diti_codes *codes, char **out, size_t *length, dit_error *err) {
    size_t i;
    *length = 0;
    *out = (char *)diti_alloc(codes->env, codes->count * 4 + 1);
    if (!*out) return diti_fail_memory(err, "the prompt");
    for (i = 0; i < codes->count; i++) *length += diti_utf8_encode(codes->at[i], *out + *length);
    (*out)[*length] = 0;
    return DIT_OK;
}

DITI_ONCE_BEGIN

/* --- canonical decomposition and composition (Unicode Standard Annex 15) --- */
#define DITI_HANGUL_FIRST 0xac00u
#define DITI_HANGUL_COUNT 11172u
#define DITI_HANGUL_L 0x1100u
#define DITI_HANGUL_V 0x1161u
#define DITI_HANGUL_T 0x11a7u
#define DITI_HANGUL_VOWELS 21u
#define DITI_HANGUL_TAILS 28u /* no tail is one of them */

/* The (code, first, second) of code in a table of such, or NULL. */
static const int32_t *diti_unicode_triple(const int32_t *table, uint32_t count, uint32_t code) {
    uint32_t low = 0, high = count / 3;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((uint32_t)table[middle * 3] == code) return table + middle * 3;
        if ((uint32_t)table[middle * 3] < code)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static uint32_t diti_unicode_ideograph(const diti_unicode *unicode, uint32_t code) {
    if (code >= 0xf900 && code < 0xfada) return (uint32_t)unicode->ideographs[code - 0xf900];
    if (code >= 0x2f800 && code < 0x2fa1e) return (uint32_t)unicode->ideographs[code - 0x2f800 + 0xfada - 0xf900];
    return 0;
}

static void diti_decompose_hangul(uint32_t syllable, diti_codes *out) {
    uint32_t tail = syllable % DITI_HANGUL_TAILS, rest = syllable / DITI_HANGUL_TAILS;
    diti_codes_put(out, DITI_HANGUL_L + rest / DITI_HANGUL_VOWELS);
    diti_codes_put(out, DITI_HANGUL_V + rest % DITI_HANGUL_VOWELS);
    if (tail) diti_codes_put(out, DITI_HANGUL_T + tail);
}

/* Only the first of a pair is ever decomposed again. */
static void diti_decompose_code(const diti_unicode *unicode, uint32_t code, diti_codes *out) {
    const int32_t *triple;
    uint32_t ideograph;
    if (code < 0xc0) {
        diti_codes_put(out, code);
        return;
    }
    ideograph = diti_unicode_ideograph(unicode, code);
    if (code >= DITI_HANGUL_FIRST && code < DITI_HANGUL_FIRST + DITI_HANGUL_COUNT) {
        diti_decompose_hangul(code - DITI_HANGUL_FIRST, out);
    } else if (ideograph) {
        diti_codes_put(out, ideograph);
    } else {
        triple = diti_unicode_triple(unicode->pairs, DITI_UNICODE_PAIRS, code);
        if (!triple) triple = diti_unicode_triple(unicode->splits, DITI_UNICODE_SPLITS, code);
        if (!triple) {
            diti_codes_put(out, code);
            return;
        }
        diti_decompose_code(unicode, (uint32_t)triple[1], out);
        if (triple[2]) diti_codes_put(out, (uint32_t)triple[2]);
    }
}

/* Sorts what combines with one letter by its class, stable. Nobody writes runs this long; sorting part after part keeps
   hostile ones from costing the square of their length. */
#define DITI_COMBINING_RUN 256u
static void diti_sort_marks(const diti_unicode *unicode, uint32_t *codes, size_t count) {
    uint8_t order[DITI_COMBINING_RUN];
    size_t i, j;
    for (i = 0; i < count; i++) order[i] = (uint8_t)diti_unicode_order(unicode, codes[i]);
    for (i = 1; i < count; i++) {
        uint32_t code = codes[i];
        uint8_t own = order[i];
        for (j = i; j > 0 && order[j - 1] > own; j--) {
            codes[j] = codes[j - 1];
            order[j] = order[j - 1];
        }
        codes[j] = code;
        order[j] = own;
    }
}

static void diti_decompose(const diti_unicode *unicode, const diti_codes *text, diti_codes *out) {
    size_t i, first = 0;
    for (i = 0; i < text->count; i++) diti_decompose_code(unicode, text->at[i], out);
    for (i = 0; out->count && i <= out->count; i++) {
        bool mark = i < out->count && diti_unicode_order(unicode, out->at[i]) != 0;
        if (mark && i - first < DITI_COMBINING_RUN) continue;
        diti_sort_marks(unicode, out->at + first, i - first);
        first = mark ? i : i + 1;
    }
}

/* 0: the two don't become one. */
static uint32_t diti_compose_pair(const diti_unicode *unicode, uint32_t first, uint32_t second) {
    size_t i;
    uint32_t l = first - DITI_HANGUL_L, v = second - DITI_HANGUL_V, syllable = first - DITI_HANGUL_FIRST;
    if (first >= DITI_HANGUL_L && l < 19 && second >= DITI_HANGUL_V && v < DITI_HANGUL_VOWELS)
        return DITI_HANGUL_FIRST + (l * DITI_HANGUL_VOWELS + v) * DITI_HANGUL_TAILS;
    if (first >= DITI_HANGUL_FIRST && syllable < DITI_HANGUL_COUNT && syllable % DITI_HANGUL_TAILS == 0 &&
        second > DITI_HANGUL_T && second < DITI_HANGUL_T + DITI_HANGUL_TAILS)
        return first + second - DITI_HANGUL_T;
    for (i = 0; i < DITI_UNICODE_PAIRS; i += 3) {
        const int32_t *pair = unicode->pairs + i;
        if ((uint32_t)pair[1] == first && (uint32_t)pair[2] == second) return (uint32_t)pair[0];
    }
    return 0;
}

/* Marks, and the few letters that stand behind another one in a pair. */
static bool diti_composes(uint32_t code, uint32_t order) {
    return order != 0 || (code >= DITI_HANGUL_V && code < DITI_HANGUL_T + DITI_HANGUL_TAILS) ||
           (code >= 0x9be && code <= 0x1b35) || (code >= 0x11000 && code < 0x17000);
}

/* text is decomposed. */
static void diti_compose(const diti_unicode *unicode, const diti_codes *text, diti_codes *out) {
    size_t i, starter = SIZE_MAX;
    uint32_t last = 0; /* class of what was written last behind the starter */
    for (i = 0; i < text->count && !out->failed; i++) {
        uint32_t code = text->at[i], order = diti_unicode_order(unicode, code), pair = 0;
        bool blocked = starter == SIZE_MAX || (out->count - 1 > starter && (last == 0 || last >= order));
        if (!blocked && diti_composes(code, order)) pair = diti_compose_pair(unicode, out->at[starter], code);
        if (pair) {
            out->at[starter] = pair;
            continue;
        }
        if (order == 0) starter = out->count;
        last = order;
        diti_codes_put(out, code);
    }
}

DITI_REGION_END

/* --- lower case --- */
static uint32_t diti_unicode_to_lower(const diti_unicode *unicode, uint32_t code) {
    size_t i;
    if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 32 : code;
    for (i = 0; i < DITI_UNICODE_LOWERS; i += 4) {
        const int32_t *run = unicode->lower + i;
        int32_t offset = (int32_t)code - run[0];
        if (offset < 0) break;
        if (offset < run[1] * run[2] && offset % run[2] == 0) return (uint32_t)((int32_t)code + run[3]);
    }
    return code;
}

static bool diti_unicode_is_lower(const diti_unicode *unicode, uint32_t code) {
    size_t i;
    for (i = 0; i < DITI_UNICODE_LOWERS; i += 4) {
        const int32_t *run = unicode->lower + i;
        int32_t offset = (int32_t)code - run[3] - run[0];
        if (offset >= 0 && offset < run[1] * run[2] && offset % run[2] == 0) return true;
    }
    return code == 0xdf || code == 0x3c2;
}

/* Unicode's Final_Sigma looks through these: marks, and the signs that stand inside words. */
static bool diti_unicode_is_ignorable(const diti_unicode *unicode, uint32_t code) {
    return diti_unicode_classify(unicode, code) == DITI_UNICODE_MARK || code == '\'' || code == '.' || code == ':' ||
           code == '^' || code == '`' || code == 0xa8 || code == 0xad || code == 0xaf || code == 0xb4 || code == 0xb7 ||
           code == 0xb8 || code == 0x2018 || code == 0x2019 || (code >= 0x200b && code <= 0x200f);
}

static bool diti_is_cased(const diti_unicode *unicode, const diti_codes *text, size_t position) {
    uint32_t code = text->at[position];
    return diti_unicode_to_lower(unicode, code) != code || diti_unicode_is_lower(unicode, code);
}

/* A sigma that ends a word: behind a cased letter, before none. */
static bool diti_is_final_sigma(const diti_unicode *unicode, const diti_codes *text, size_t position) {
    size_t before = position, after = position + 1;
    while (before > 0 && position - before < 64 && diti_unicode_is_ignorable(unicode, text->at[before - 1])) before--;
    while (after < text->count && after - position < 64 && diti_unicode_is_ignorable(unicode, text->at[after])) after++;
    return before > 0 && diti_is_cased(unicode, text, before - 1) &&
           !(after < text->count && diti_is_cased(unicode, text, after));
}

static void diti_lower_codes(const diti_unicode *unicode, const diti_codes *text, bool final_sigma, diti_codes *out) {
    size_t i;
    for (i = 0; i < text->count; i++) {
        uint32_t code = text->at[i];
        if (code == 0x3a3 && final_sigma && diti_is_final_sigma(unicode, text, i))
            diti_codes_put(out, 0x3c2);
        else
            diti_codes_put(out, code == 0x130 ? 'i' : diti_unicode_to_lower(unicode, code));
        if (code == 0x130) diti_codes_put(out, 0x307); /* the only one that becomes two */
    }
}

DITI_ONCE_BEGIN

/* --- HTML's entities, as far as prompts have them, in the way of Python's html.unescape --- */

/* Numbers 128 to 159 mean Windows' signs. */
static const uint16_t diti_entity_windows[32] = {0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021,
                                                 0x2c6,  0x2030, 0x160,  0x2039, 0x152,  0x8d,   0x17d,  0x8f,
                                                 0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
                                                 0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0x9d,   0x17e,  0x178};

/* Some need no semicolon. */
typedef struct diti_entity {
    const char *name;
    uint32_t code;
} diti_entity;
static const diti_entity diti_entities[] = {
    {"amp", '&'},        {"lt", '<'},        {"gt", '>'},        {"quot", '"'},      {"nbsp", 0xa0},
    {"apos;", '\''},     {"lsquo;", 0x2018}, {"rsquo;", 0x2019}, {"ldquo;", 0x201c}, {"rdquo;", 0x201d},
    {"hellip;", 0x2026}, {"ndash;", 0x2013}, {"mdash;", 0x2014}};

static uint32_t diti_entity_digit(uint32_t code, uint32_t base) {
    uint32_t lower = code | 32;
    if (code >= '0' && code <= '9') return code - '0';
    return base == 16 && lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : base;
}

/* Codes behind "&#" that are a number; 0: none is there. */
static size_t diti_entity_number(const diti_codes *text, size_t first, uint32_t *code) {
    uint32_t base = first < text->count && (text->at[first] | 32) == 'x' ? 16 : 10, number = 0;
    size_t at = first + (base == 16), digits = at;
    for (; at < text->count && diti_entity_digit(text->at[at], base) < base; at++)
        if (number <= 0x10ffff) number = number * base + diti_entity_digit(text->at[at], base);
    if (at == digits) return 0;
    *code = number >= 0x80 && number < 0xa0 ? diti_entity_windows[number - 0x80] : number;
    if (!number || number > 0x10ffff || (number >= 0xd800 && number < 0xe000)) *code = 0xfffd;
    return at - first;
}

/* Codes of the entity at a place, with its semicolon; 0: there is none. */
static size_t diti_entity_length(const diti_codes *text, size_t first, uint32_t *code) {
    size_t length = 0, i, k;
    if (text->at[first] != '&' || first + 1 == text->count) return 0;
    if (text->at[first + 1] == '#') {
        length = diti_entity_number(text, first + 2, code);
        if (!length) return 0;
        length++;
    }
    for (i = 0; i < DITI_COUNT(diti_entities) && !length; i++) {
        const char *name = diti_entities[i].name;
        for (k = 0; name[k] && first + 1 + k < text->count && text->at[first + 1 + k] == (uint32_t)name[k];) k++;
        if (name[k]) continue;
        *code = diti_entities[i].code;
        length = name[k - 1] == ';' ? k - 1 : k;
    }
    if (!length) return 0;
    return 1 + length + (first + 1 + length < text->count && text->at[first + 1 + length] == ';');
}

static void diti_clean_entities_once(const diti_codes *text, diti_codes *out) {
    size_t i = 0;
    while (i < text->count) {
        uint32_t code = text->at[i];
        size_t length = diti_entity_length(text, i, &code);
        diti_codes_put(out, code);
        i += length ? length : 1;
    }
}

/* --- the steps of a tokenizer's normaliser, and of pipelines before it --- */
static void diti_clean_entities(const diti_codes *text, diti_codes *out) {
    diti_codes once = DITI_ZERO;
    once.env = text->env;
    diti_clean_entities_once(text, &once);
    out->failed = once.failed;
    diti_clean_entities_once(&once, out);
    diti_codes_free(&once);
}

static void diti_clean_quotes(const diti_codes *text, diti_codes *out) {
    size_t i;
    for (i = 0; i < text->count; i++) {
        uint32_t code = text->at[i];
        bool one = code == 0x2bc || (code >= 0x2018 && code <= 0x201b), two = code >= 0x201c && code <= 0x201f;
        diti_codes_put(out, one ? '\'' : two ? '"' : code);
    }
}

static void diti_clean_controls(const diti_unicode *unicode, const diti_codes *text, diti_codes *out) {
    size_t i;
    for (i = 0; i < text->count; i++) {
        uint32_t code = text->at[i];
        bool space = code == '\t' || code == '\n' || code == '\r';
        if (!space && (code == 0xfffd || diti_unicode_classify(unicode, code) == DITI_UNICODE_CONTROL)) continue;
        diti_codes_put(out, diti_unicode_is_space(code) ? ' ' : code);
    }
}

static void diti_clean_ideographs(const diti_codes *text, diti_codes *out) {
    size_t i;
    for (i = 0; i < text->count; i++) {
        bool ideograph = diti_unicode_is_ideograph(text->at[i]);
        if (ideograph) diti_codes_put(out, ' ');
        diti_codes_put(out, text->at[i]);
        if (ideograph) diti_codes_put(out, ' ');
    }
}

static void diti_clean_accents(const diti_unicode *unicode, const diti_codes *text, diti_codes *out) {
    size_t i;
    for (i = 0; i < text->count; i++) {
        if (diti_unicode_classify(unicode, text->at[i]) != DITI_UNICODE_MARK) diti_codes_put(out, text->at[i]);
    }
}

/* Canonical decomposition, then composition or no marks. */
static void diti_clean_canonical(const diti_unicode *unicode, const diti_codes *text, bool compose, diti_codes *out) {
    diti_codes parts = DITI_ZERO;
    parts.env = text->env;
    diti_decompose(unicode, text, &parts);
    out->failed = parts.failed;
    if (compose)
        diti_compose(unicode, &parts, out);
    else
        diti_clean_accents(unicode, &parts, out);
    diti_codes_free(&parts);
}

static void diti_clean_step(const diti_unicode *unicode, diti_clean_rule rule, const diti_codes *text,
                            diti_codes *out) {
    switch (rule) {
    case DITI_CLEAN_CONTROLS: diti_clean_controls(unicode, text, out); break;
    case DITI_CLEAN_IDEOGRAPHS: diti_clean_ideographs(text, out); break;
    case DITI_CLEAN_COMPOSE: diti_clean_canonical(unicode, text, true, out); break;
    case DITI_CLEAN_LOWER: diti_lower_codes(unicode, text, false, out); break;
    case DITI_CLEAN_LOWER_SIGMA: diti_lower_codes(unicode, text, true, out); break;
    case DITI_CLEAN_ACCENTS: diti_clean_canonical(unicode, text, false, out); break;
    case DITI_CLEAN_ENTITIES: diti_clean_entities(text, out); break;
    case DITI_CLEAN_QUOTES: diti_clean_quotes(text, out); break;
    case DITI_CLEAN_CASES: break;
    }
}

static void diti_clean_read(const char *text, size_t length, bool *ascii, diti_codes *out) {
    size_t position, bytes;
    *ascii = true;
    for (position = 0; position < length; position += bytes ? bytes : 1) {
        bytes = diti_utf8_length(text + position, length - position);
        diti_codes_put(out, bytes ? diti_utf8_decode(text + position, bytes) : 0xfffd);
        if (bytes != 1) *ascii = false;
    }
}

static void diti_clean_run(const diti_unicode *unicode, uint32_t rules, diti_codes *text) {
    uint32_t rule;
    size_t i;
    for (rule = 1; rule <= (uint32_t)DITI_CLEAN_LAST; rule <<= 1) {
        diti_codes next = DITI_ZERO;
        if (!(rules & rule) || text->failed) continue;
        next.env = text->env;
        diti_clean_step(unicode, (diti_clean_rule)rule, text, &next);
        diti_codes_free(text);
        *text = next;
    }
    text->kinds = (uint8_t *)diti_alloc(text->env, text->count);
    if (!text->kinds) text->failed = true;
    for (i = 0; i < text->count && !text->failed; i++) {
        uint32_t code = text->at[i];
        text->kinds[i] = (uint8_t)(diti_unicode_is_space(code) ? DITI_UNICODE_SPACE
                                   : rules & DITI_CLEAN_CASES  ? diti_unicode_classify_cased(unicode, code)
                                                               : diti_unicode_classify(unicode, code));
    }
}

DIT_INTERNAL dit_result diti_clean(const diti_env *env, const char *text, size_t length, uint32_t rules,
                                   diti_codes *out, dit_error *err) {
    diti_unicode *unicode = NULL;
    bool ascii;
    memset(out, 0, sizeof *out);
    out->env = env;
    if (length > DITI_PROMPT_LIMIT)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "the prompt is longer than %u bytes", DITI_PROMPT_LIMIT);
    diti_clean_read(text, length, &ascii, out);
    if (rules & DITI_CLEAN_ENTITIES) ascii = false;
    if (!ascii) unicode = diti_unicode_create(env); /* ASCII never asks for a table */
    if (!ascii && !unicode) out->failed = true;
    diti_clean_run(unicode, rules, out);
    diti_free(env, unicode);
    if (!out->failed) return DIT_OK;
    diti_codes_free(out);
    return diti_fail_memory(err, "the prompt");
}

DITI_REGION_END
