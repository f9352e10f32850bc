/* base: JSON, and the conversions of small floats against their definitions in double precision. */
#include "library.h"
#include "test.h"
#include "files.h"
#include "model_files.h"
#include <locale.h>

static test_memory memory;
static diti_env env;

static diti_json *parse(const char *text, dit_error *err) {
    diti_json *root = NULL;
    size_t size = strlen(text);
    char *exact = malloc(size ? size : 1); /* no NUL at its end, so that AddressSanitizer sees reads past it */
    memcpy(exact, text, size);
    diti_json_parse(&env, exact, size, "test.json", &root, err);
    free(exact);
    return root;
}

static void refuses(const char *text, const char *why) {
    dit_error err = {0};
    diti_json *root = parse(text, &err);
    CHECK_MESSAGE(!root && err.result == DIT_ERROR_BAD_FILE && strstr(err.message, why) &&
                      strstr(err.message, "test.json"),
                  "%.60s: expected '%s', got '%s'", text, why, err.message);
    diti_json_free(&env, root);
}

static void accepts_text(const char *text, const char *value, size_t length) {
    dit_error err = {0};
    diti_json *root = parse(text, &err);
    CHECK_MESSAGE(root && root->kind == DITI_JSON_STRING && root->text_length == length &&
                      memcmp(root->text, value, length + 1) == 0,
                  "%s: %s", text, err.message);
    diti_json_free(&env, root);
}

static void accepts_number(const char *text, double value) {
    dit_error err = {0};
    diti_json *root = parse(text, &err);
    CHECK_MESSAGE(root && root->kind == DITI_JSON_NUMBER && strcmp(root->text, text) == 0 &&
                      (root->number == value || (isnan(value) && isnan(root->number))),
                  "%s: %s", text, err.message);
    diti_json_free(&env, root);
}

static void test_values(void) {
    accepts_text("\"\"", "", 0);
    accepts_text(" \"a\\\"\\\\\\/\\b\\f\\n\\r\\t\" ", "a\"\\/\b\f\n\r\t", 9);
    accepts_text("\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10);
    accepts_text("\"a\\u0000b\"", "a\0b", 3);
    accepts_text("\"\xf4\x8f\xbf\xbf\xe1\x80\x80\"", "\xf4\x8f\xbf\xbf\xe1\x80\x80", 7);
    accepts_number("0", 0);
    accepts_number("-0.5e-3", -0.5e-3);
    accepts_number("1E+2", 100);
    accepts_number("0.18215", 0.18215);
    accepts_number("1.4142135623730951", 1.4142135623730951);
    accepts_number("18446744073709551615", 18446744073709551615.0);
    accepts_number("NaN", NAN);
    accepts_number("Infinity", INFINITY);
    accepts_number("-Infinity", -INFINITY);
    accepts_number("1e999", INFINITY);
}

static void test_tree(void) {
    dit_error err = {0};
    uint64_t exact = 0;
    diti_json *root = parse(
        "{\"a\": [1, {}, [], null, true], \"b\": {\"c\": -Infinity, \"d\": \"x\"}, \"e\": 9007199254740993, \"\": 1}",
        &err);
    const diti_json *a = diti_json_get(root, "a"), *b = diti_json_get(root, "b");
    if (!CHECK(root && a && b)) return;
    CHECK(root->count == 4 && a->count == 5 && a->first->number == 1 && a->first->next->kind == DITI_JSON_OBJECT);
    CHECK(a->first->next->next->kind == DITI_JSON_ARRAY && a->first->next->next->next->kind == DITI_JSON_NULL);
    CHECK(isinf(diti_json_number(b, "c", 0)) && diti_json_number(b, "c", 0) < 0);
    CHECK(diti_equal(diti_json_string(b, "d", NULL), "x") && diti_equal(diti_json_string(b, "c", "other"), "other"));
    CHECK(diti_json_u64(diti_json_get(root, "e"), &exact) && exact == 9007199254740993u);
    CHECK(!diti_json_u64(diti_json_get(b, "c"), &exact) && !diti_json_u64(NULL, &exact));
    CHECK(diti_json_number(root, "missing", 7) == 7 && diti_json_bool(root, "missing", true));
    CHECK(diti_json_get(NULL, "a") == NULL && diti_json_get(a, "a") == NULL && diti_json_get(root, ""));
    diti_json_free(&env, root);
    CHECK(memory.alive == 0);
}

/* A setting that is absent or null has its default; the first wrong one is named, and no other. */
static void test_settings(void) {
    static const char text[] =
        "{\"n\": 2.5, \"i\": 7, \"b\": true, \"t\": \"x\", \"l\": [1, 2], \"m\": [1, \"2\"], \"z\": "
        "null, \"big\": 1e400, \"half\": 0.5, \"less\": -1}";
    static const struct {
        const char *key, *words;
    } wrong[] = {{"t", "f.json: t: \"x\" is not a number from 0 to 9"},
                 {"b", "b: true is not a number"},
                 {"l", "l: the list is not a number"},
                 {"big", "big: 1e400 is not a number"},
                 {"less", "less: -1 is not a number from 0 to 9"}};
    dit_error err = {0};
    diti_json *root = parse(text, &err);
    diti_settings s = diti_settings_of(root, "f.json", &err);
    CHECK(diti_setting_number(&s, "n", 1, 0, 9) == 2.5 && diti_setting_number(&s, "z", 1, 0, 9) == 1);
    CHECK(diti_setting_number(&s, "absent", 100, 0, 9) == 100 && diti_setting_size(&s, "i", 1, 7) == 7);
    CHECK(diti_setting_bool(&s, "b", false) && !diti_setting_bool(&s, "z", false));
    CHECK(diti_equal(diti_setting_text(&s, "t", NULL), "x") && !diti_setting_text(&s, "z", NULL));
    CHECK(diti_setting_numbers(&s, "l") && diti_setting_numbers(&s, "l")->count == 2 && !diti_setting_numbers(&s, "z"));
    CHECK(s.result == DIT_OK && !err.message[0]);
    for (size_t i = 0; i < DITI_COUNT(wrong); i++) {
        s = diti_settings_of(root, "f.json", &err);
        CHECK(diti_setting_number(&s, wrong[i].key, 3, 0, 9) == 3 && s.result == DIT_ERROR_BAD_FILE);
        CHECK_MESSAGE(strstr(err.message, wrong[i].words), "%s", err.message);
        CHECK(!diti_setting_bool(&s, "n", false) && strstr(err.message, wrong[i].words)); /* the first error stays */
    }
    s = diti_settings_of(root, "f.json", &err);
    CHECK(diti_setting_size(&s, "half", 4, 9) == 4 &&
          strstr(err.message, "half: 0.5 is not a whole number from 1 to 9"));
    s = diti_settings_of(root, "f.json", &err);
    CHECK(diti_setting_size(&s, "i", 4, 6) == 4 && strstr(err.message, "i: 7 is not a whole number from 1 to 6"));
    s = diti_settings_of(root, "f.json", &err);
    CHECK(diti_setting_bool(&s, "t", true) && strstr(err.message, "t: \"x\" is not true or false"));
    s = diti_settings_of(root, "f.json", &err);
    CHECK(!diti_setting_text(&s, "n", NULL) && strstr(err.message, "n: 2.5 is not a text"));
    s = diti_settings_of(root, "f.json", NULL);
    CHECK(!diti_setting_numbers(&s, "m") && s.result == DIT_ERROR_BAD_FILE); /* nobody wants the message */
    s = diti_settings_of(diti_json_get(root, "l"), "f.json", &err);
    CHECK(s.result == DIT_ERROR_BAD_FILE && strstr(err.message, "f.json: it is not an object"));
    s = diti_settings_of(NULL, "f.json", &err);
    CHECK(s.result == DIT_OK && diti_setting_number(&s, "n", 1, 0, 9) == 1);
    diti_json_free(&env, root);
    CHECK(memory.alive == 0);
}

static void test_refusals(void) {
    char deep[200], number[400];
    refuses("", "expected a value");
    refuses("{", "expected a name");
    refuses("[1,]", "expected a value");
    refuses("[1 2]", "expected ','");
    refuses("{\"a\":1,}", "expected a name");
    refuses("{\"a\" 1}", "expected ':'");
    refuses("{a:1}", "expected a name");
    refuses("[1] x", "something follows");
    refuses("{\"a\":1,\"b\":2,\"a\":3}", "duplicate name 'a'");
    refuses("{\"a\":1,\"\\u0061\":3}", "duplicate name 'a'");
    refuses("\"abc", "unterminated");
    refuses("\"abc\\", "unknown escape");
    refuses("\"\\x41\"", "unknown escape");
    refuses("\"\\u12g4\"", "four hex digits");
    refuses("\"\\u12", "four hex digits");
    refuses("\"\\ud800\"", "lone high");
    refuses("\"\\ud800\\u0041\"", "lone high");
    refuses("\"\\udc00\"", "lone low");
    refuses("\"a\nb\"", "control character");
    refuses("\"\xc0\x80\"", "UTF-8");
    refuses("\"\xed\xa0\x80\"", "UTF-8");
    refuses("\"\xf5\x80\x80\x80\"", "UTF-8");
    refuses("\"\xe2\x82\"", "UTF-8");
    refuses("\"\xe2\x82", "UTF-8");
    refuses("01", "superfluous zero");
    refuses("1.", "after the decimal point");
    refuses("1e", "exponent");
    refuses("+1", "expected a value");
    refuses(".5", "expected a value");
    refuses("nul", "expected a value");
    refuses("-", "expected a value");
    refuses("Nan", "expected a value");
    memset(deep, '[', 65), deep[65] = 0;
    refuses(deep, "deeper than 64");
    memset(deep, '[', 64), memset(deep + 64, ']', 64), deep[128] = 0;
    dit_error err = {0};
    diti_json *root = parse(deep, &err);
    CHECK(root);
    diti_json_free(&env, root);
    memset(number, '1', sizeof number), number[sizeof number - 1] = 0;
    refuses(number, "too long");
    CHECK(memory.alive == 0);
}

/* Duplicates among many keys, and time that grows with the size only. */
static void test_many_keys(void) {
    bytes text = {0};
    dit_error err = {0};
    diti_json *root;
    char key[32];
    bytes_add(&text, "{", 1);
    for (int i = 0; i < 50000; i++) {
        snprintf(key, sizeof key, "%s\"key%d\":%d", i ? "," : "", i, i);
        bytes_add(&text, key, strlen(key));
    }
    bytes_add(&text, "}", 2);
    root = parse((const char *)text.data, &err);
    CHECK(root && root->count == 50000 && diti_json_number(root, "key49999", 0) == 49999);
    diti_json_free(&env, root);
    text.size -= 2;
    bytes_add(&text, ",\"key777\":0}", 13);
    refuses((const char *)text.data, "duplicate name 'key777'");
    bytes_free(&text);
}

/* Every allocation fails once. */
static void test_no_memory(void) {
    diti_json *root = NULL;
    for (long nth = 1; !root; nth++) {
        dit_error err = {0};
        memory.calls = 0, memory.fail_at = nth;
        root = parse("{\"a\":[{\"b\":1,\"c\":{\"d\":2}}]}", &err);
        CHECK(root || (err.result == DIT_ERROR_OUT_OF_HOST_MEMORY && memory.alive == 0));
    }
    memory.fail_at = 0;
    diti_json_free(&env, root);
}

/* A message is one line of UTF-8, though it names what is not, and is cut off in the middle of a character. */
static bool is_line(const char *text) {
    size_t size = strlen(text), length;
    for (; size; text += length, size -= length) {
        length = diti_utf8_length(text, size);
        if (!length || (unsigned char)*text < 0x20 || *text == 0x7f) return false;
    }
    return true;
}

static void hear(int level, const char *message, void *user) {
    (void)level;
    snprintf((char *)user, 1000, "%s", message);
}

static void test_messages(void) {
    static const char *const names[] = {"caf\xe9", "\xff\xfe", "a\nb", "\xc3\xa9\xed\xa0\x80", "\xe2\x82"};
    const diti_env loud = {.allocator = env.allocator, .logger = {hear, 3, (char[1000]){0}}};
    const char *heard = (const char *)loud.logger.user;
    char longer[600];
    dit_error err;
    size_t i, n;
    for (i = 0; i < DITI_COUNT(names); i++) {
        diti_fail(&err, DIT_ERROR_IO, "%s/x: no such file", names[i]);
        CHECK_MESSAGE(is_line(err.message) && strstr(err.message, "/x: no such file"), "%s", err.message);
        diti_log(&loud, DITI_LOG_INFO, "%s/x", names[i]);
        CHECK_MESSAGE(is_line(heard) && strstr(heard, "/x"), "%s", heard);
    }
    diti_fail(&err, DIT_ERROR_IO, "caf\xc3\xa9: \xf0\x9f\xa6\x8a");
    CHECK(!strcmp(err.message, "caf\xc3\xa9: \xf0\x9f\xa6\x8a"));
    for (n = 495; n < 520; n++) {
        memset(longer, 'x', n);
        strcpy(longer + n, "\xf0\x9f\xa6\x8a.");
        diti_fail(&err, DIT_ERROR_IO, "%s", longer);
        diti_log(&loud, DITI_LOG_INFO, "%s", longer);
        CHECK_MESSAGE(is_line(err.message) && is_line(heard) && !strncmp(err.message, longer, 495), "%s", err.message);
    }
}

/* An application may have called setlocale. */
static void test_locale(void) {
    char text[32];
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "C"};
    for (size_t i = 0; i < DITI_COUNT(locales); i++) {
        if (!setlocale(LC_NUMERIC, locales[i])) continue;
        accepts_number("0.18215", 0.18215);
        CHECK(diti_print_double(-1.5e-7, 9, text, sizeof text) && strcmp(text, "-1.5e-07") == 0);
        CHECK(diti_print_double(3, 9, text, sizeof text) && strcmp(text, "3") == 0);
    }
    setlocale(LC_NUMERIC, "C");
}

/* --- small floats: sign, exponent and mantissa as the formats define them --- */

static double small_float(uint32_t bits, int exponent_bits, int mantissa_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    double mantissa = (double)(bits & ((1u << mantissa_bits) - 1)) / (double)(1 << mantissa_bits);
    double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
    if (exponent == 0) return sign * ldexp(mantissa, 1 - bias);
    if (exponent == (1 << exponent_bits) - 1) return mantissa > 0 ? NAN : sign * INFINITY;
    return sign * ldexp(1 + mantissa, exponent - bias);
}

static int same(float value, double expected) {
    if (isnan(expected)) return isnan(value);
    return (double)value == expected && !signbit(value) == !signbit(expected);
}

static void test_small_floats(void) {
    int wrong = 0;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float half = diti_half_to_float((uint16_t)bits), bfloat = diti_bfloat_to_float((uint16_t)bits);
        if (!same(half, small_float(bits, 5, 10)) || !same(bfloat, small_float(bits, 8, 7))) wrong++;
        if (!isnan(half) && diti_float_to_half(half) != bits) wrong++;
        if (!isnan(bfloat) && diti_float_to_bfloat(bfloat) != bits) wrong++;
        if (isnan(half) && !isnan(diti_half_to_float(diti_float_to_half(half)))) wrong++;
    }
    CHECK(wrong == 0);
    for (uint32_t bits = 0; bits < 256; bits++) {
        double e4m3 = (bits & 0x7f) == 0x7f ? NAN : small_float(bits, 4, 3);
        if ((bits & 0x78) == 0x78 && (bits & 7) != 7) { /* no infinities: the top exponent holds numbers, 448 at most */
            e4m3 = (bits & 0x80 ? -1.0 : 1.0) * ldexp(1 + (bits & 7) / 8.0, 8);
        }
        CHECK_MESSAGE(same(diti_e4m3_to_float((uint8_t)bits), e4m3), "F8_E4M3 code %u", (unsigned)bits);
        CHECK_MESSAGE(same(diti_e5m2_to_float((uint8_t)bits), small_float(bits, 5, 2)), "F8_E5M2 code %u",
                      (unsigned)bits);
    }
    CHECK(diti_e4m3_to_float(0x7e) == 448 && diti_e5m2_to_float(0x7b) == 57344);
}

/* To nearest, ties to even: every value half-way between two neighbours, and just beside it. */
static void test_rounding(void) {
    int wrong = 0;
    for (uint32_t bits = 0; bits < 0x7c00; bits++) {
        double low = small_float(bits, 5, 10), high = bits == 0x7bff ? 65536 : small_float(bits + 1, 5, 10),
               mid = (low + high) / 2;
        uint32_t even = bits & 1 ? bits + 1 : bits;
        if (diti_float_to_half((float)mid) != even || diti_float_to_half((float)-mid) != (even | 0x8000)) wrong++;
        if (diti_float_to_half(nextafterf((float)mid, 0)) != bits) wrong++;
        if (diti_float_to_half(nextafterf((float)mid, INFINITY)) != bits + 1) wrong++;
    }
    CHECK(wrong == 0);
}

int main(void) {
    env = test_env(&memory);
    test_values();
    test_tree();
    test_settings();
    test_refusals();
    test_many_keys();
    test_no_memory();
    test_messages();
    test_locale();
    test_small_floats();
    test_rounding();
    CHECK(memory.alive == 0);
    return TEST_END("base");
}
