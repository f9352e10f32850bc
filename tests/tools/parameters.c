/* The text in a PNG (examples/cli/parameters.h) and the command line (examples/cli/options.h) without the program
   around them: every option of the table is told or is declared as one that no picture depends on, and is read back as
   it was. */
#include "library.h"
#include "examples/cli/stills.h"
#include "examples/cli/completion.h"
#include "examples/cli/pictures.h"
#include "examples/cli/sheet.h"
#include "examples/cli/wire.h"
#include "test.h"

/* Texts that separate, quote or end values in one format or another. */
static const char *const awkward[] = {
    "plain",       "a, b: c",  "say \"x\"",  "\"", "\"a\".png", "back\\slash",     "line\nline", "tab\tbell\a\x01\r",
    "gr\xc3\xbcn", " spaces ", "x: 1, y: 2", ",",  "\\\"",      "{\"a\": [1, 2]}", "Steps: 3",   "ends\\"};

/* The text of o, read back; the text itself in out, freed with free. */
static bool read_back(const options *o, options *again, char **out) {
    parameter_text unknown = {0};
    bool good;
    *out = write_parameters(o);
    if (!CHECK(*out)) return false;
    good = CHECK_MESSAGE(read_parameters(*out, again, &unknown), "'%s'", *out) && CHECK(unknown.length == 0);
    free(unknown.at);
    return good;
}

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static options usual(void) {
    options o = {0};
    o.prompt = "a fox";
    o.steps = "20";
    o.guidance = "4.5";
    o.seed = "42";
    o.width = "64";
    o.height = "32";
    o.model = "emoji";
    return o;
}

/* One option that differs changes the text, where a picture depends on it, and comes back. */
static void check_option(const option_entry *entry, const char *value) {
    options o = usual(), again, base;
    char *text, *before, *after;
    o.hires_width = "128"; /* a size is told where both of its sides are known */
    o.hires_height = "64";
    base = o;
    before = write_parameters(&base);
    if (!entry->value)
        *option_flag(&o, entry) = true;
    else
        *option_text(&o, entry) = is_size(entry) ? "80" : value;
    after = write_parameters(&o);
    if (entry->told == TOLD_NOT || entry->key == tile_key || entry->key == device_key ||
        (entry->key == hires_key && !entry->value)) { /* of a second pass the upscaler is told */
        CHECK_MESSAGE(entry->value == 0 || is_told(entry) || strcmp(before, after) == 0, "%s: %s", entry->name, after);
    } else {
        CHECK_MESSAGE(strcmp(before, after) != 0, "%s changes pictures and not their text: %s", entry->name, after);
    }
    if ((is_told(entry) || entry->told == TOLD_FIRST) && read_back(&o, &again, &text)) {
        if (entry->value)
            CHECK_MESSAGE(same_text(*option_text(&again, entry), *option_text(&o, entry)), "%s: '%s' became '%s'",
                          entry->name, *option_text(&o, entry), *option_text(&again, entry));
        else
            CHECK(*option_flag(&again, entry));
        CHECK(same_text(again.prompt, o.prompt) && same_text(again.steps, o.steps) && same_text(again.model, o.model));
        free(text);
    }
    free(before);
    free(after);
}

static void test_every_option(void) {
    size_t i, k, told = 0;
    for (i = 0; i < OPTION_COUNT; i++) {
        const option_entry *entry = &option_table[i], *other;
        CHECK_MESSAGE((is_told(entry) || entry->told == TOLD_WITH) == (entry->key != NULL), "%s", entry->name);
        CHECK_MESSAGE(find_option(entry->name) == entry, "%s", entry->name);
        for (k = 0; k < i; k++) {
            other = &option_table[k];
            CHECK_MESSAGE(!is_told(entry) || !is_told(other) || strcmp(entry->key, other->key) != 0,
                          "%s and %s are told alike", entry->name, other->name);
        }
        for (k = 0; k < sizeof awkward / sizeof awkward[0]; k++) check_option(entry, awkward[k]);
        told += is_told(entry);
    }
    CHECK(told > 30);
}

/* An option that a shell completes to a file, and that a picture depends on, is one whose file --repeat-from looks for.
 */
static void test_files(void) {
    size_t i, files = 0;
    for (i = 0; i < OPTION_COUNT; i++) {
        const option_entry *entry = &option_table[i];
        const size_t k = find_completed(entry);
        const bool completed_to_file = k < COMPLETED && !completed[k].words;
        CHECK_MESSAGE(entry->told != TOLD_FILE || (entry->value && completed_to_file),
                      "%s is a file, and completion does not know it", entry->name);
        CHECK_MESSAGE(!completed_to_file || entry->told == TOLD_FILE || entry->told == TOLD_NOT,
                      "%s is completed to a file that --repeat-from would not look for", entry->name);
        files += entry->told == TOLD_FILE;
    }
    CHECK(files > 20);
}

/* All options at once, and facts, come back. */
static void test_all_together(void) {
    options o = {0}, again;
    char *text;
    size_t i, k = 0;
    for (i = 0; i < OPTION_COUNT; i++) {
        const option_entry *entry = &option_table[i];
        if (!is_told(entry) && entry->told != TOLD_FIRST && !is_size(entry)) continue;
        if (entry->value)
            *option_text(&o, entry) = is_size(entry) ? "16" : awkward[k++ % (sizeof awkward / sizeof awkward[0])];
        else
            *option_flag(&o, entry) = true;
    }
    for (i = 0; i < FACT_COUNT; i++) *fact_text(&o, &fact_table[i]) = awkward[i];
    if (!read_back(&o, &again, &text)) return;
    for (i = 0; i < OPTION_COUNT; i++) {
        const option_entry *entry = &option_table[i];
        if (entry->value)
            CHECK_MESSAGE(same_text(*option_text(&o, entry), *option_text(&again, entry)), "%s", entry->name);
        else
            CHECK_MESSAGE(*option_flag(&o, entry) == *option_flag(&again, entry), "%s", entry->name);
    }
    for (i = 0; i < FACT_COUNT; i++)
        CHECK(same_text(*fact_text(&o, &fact_table[i]), *fact_text(&again, &fact_table[i])));
    free(text);
}

/* Prompts with lines that look like something else. */
static void test_prompts(void) {
    static const char *const prompts[] = {
        "", "a", "a\nb", "Negative prompt: x", "a\nNegative prompt: b\nc", "Steps: 1, a: 2, b: 3", "\n", "a\n"};
    size_t i, k;
    for (i = 0; i < sizeof prompts / sizeof prompts[0]; i++)
        for (k = 0; k < sizeof prompts / sizeof prompts[0]; k++) {
            options o = usual(), again;
            char *text;
            o.prompt = prompts[i];
            o.negative_prompt = *prompts[k] ? prompts[k] : NULL;
            if (!read_back(&o, &again, &text)) continue;
            CHECK_MESSAGE(same_text(o.prompt, again.prompt) && same_text(o.negative_prompt, again.negative_prompt),
                          "'%s' and '%s' became '%s' and '%s'", o.prompt, o.negative_prompt, again.prompt,
                          again.negative_prompt);
            free(text);
        }
}

/* The bytes that json.dumps(value, ensure_ascii=False) gives, and what A1111 writes itself. */
static void test_foreign(void) {
    options o = usual(), read;
    parameter_text unknown = {0};
    char *text;
    char a1111[] =
        "a \"red\" fox,\nsecond line\nNegative prompt: blue: 1, green\nSteps: 20, Sampler: DPM++ 2M, Schedule "
        "type: Karras, CFG scale: 7, Seed: 1234, Size: 512x768, Model hash: 6ce0161689, Model: v1-5, "
        "Denoising strength: 0.7, TI hashes: \"a: b, c: \\u00e4\\ud83d\\ude00\", Clip skip: 2, Version: v1.10";
    o.init_image = "in \"a\", b.png";
    o.mask = "a\nb\\c\x02.png";
    text = write_parameters(&o);
    CHECK_MESSAGE(strstr(text, "Init image: \"in \\\"a\\\", b.png\", Mask: \"a\\nb\\\\c\\u0002.png\", Model: emoji"),
                  "%s", text);
    free(text);
    CHECK(read_parameters(a1111, &read, &unknown));
    CHECK(same_text(read.prompt, "a \"red\" fox,\nsecond line") && same_text(read.negative_prompt, "blue: 1, green"));
    CHECK(same_text(read.sampler, "DPM++ 2M") && same_text(read.schedule, "Karras") && same_text(read.guidance, "7"));
    CHECK(same_text(read.width, "512") && same_text(read.height, "768") && same_text(read.seed, "1234"));
    CHECK(same_text(read.strength, "0.7") && same_text(read.clip_skip, "2") && same_text(read.made_by, "v1.10"));
    CHECK_MESSAGE(same_text(unknown.at, "Model hash, TI hashes"), "%s", unknown.at);
    free(unknown.at);
}

/* Any bytes are read or refused, and nothing is read behind them. */
static void test_damaged(void) {
    options o = usual(), again;
    uint32_t state = 7, i, k;
    char *text, *copy;
    o.prompt = "a fox\nNegative prompt: b";
    o.init_image = awkward[2];
    o.mask = awkward[6];
    text = write_parameters(&o);
    for (i = 0; i < 20000; i++) {
        parameter_text unknown = {0};
        size_t length = strlen(text);
        copy = malloc(length + 1);
        memcpy(copy, text, length + 1);
        for (k = 0; k < 1 + i % 5; k++) {
            state = state * 1664525u + 1013904223u;
            copy[(state >> 8) % length] = (state >> 3) % 3 ? "\"\\\n:,u0dx "[state % 10] : (char)(state >> 16);
        }
        if (i % 7 == 0) copy[(state >> 9) % length] = 0;
        copy = realloc(copy, strlen(copy) + 1);
        read_parameters(copy, &again, &unknown);
        free(unknown.at);
        free(copy);
    }
    free(text);
    CHECK(i == 20000);
}

/* ---- PNG ---- */

static void test_png(void) {
    static const unsigned char rgba[4 * 6] = {0};
    static const char *const texts[] = {"plain", "gr\xc3\xbcn", ""};
    size_t size = 0, i, cut;
    const char *wrong;
    for (i = 0; i < 3; i++) {
        unsigned char *png = encode_png(rgba, 3, 2, "parameters", texts[i], &size), *copy;
        char *text = find_png_text(png, size, "parameters", &wrong);
        CHECK_MESSAGE(same_text(text, texts[i]), "'%s', %s", text ? text : "", wrong);
        free(text);
        CHECK(!find_png_text(png, size, "parameter", &wrong) && strstr(wrong, "no text"));
        for (cut = 0; cut < size; cut++) {
            copy = malloc(cut + 1);
            memcpy(copy, png, cut);
            text = find_png_text(copy, cut, "parameters", &wrong);
            CHECK(text || wrong);
            CHECK(!text || cut > 40);
            free(text);
            free(copy);
        }
        free(png);
    }
    CHECK(!find_png_text((const unsigned char *)"GIF89a", 6, "parameters", &wrong) && strstr(wrong, "no PNG"));
    {
        unsigned char latin[] = "\x89PNG\r\n\x1a\n\0\0\0\x0dtEXtparameters\0\xfc!\0\0\0\0";
        char *text = find_png_text(latin, sizeof latin - 1, "parameters", &wrong);
        CHECK(same_text(text, "\xc3\xbc!"));
        free(text);
    }
}

/* ---- The command line ---- */

static void test_forms(void) {
    static const char *const args[] = {
        "dit",       "-pa fox", "-s7", "-W=5",  "--cfg_scale",       "3",       "--Steps=9",    "-s",       "-1",
        "--t5XXL=t", "-o",      "-",   "-bxyz", "--sampling_method", "Euler a", "--vae_tiling", "--clip_L", "c"};
    options o = {0};
    CHECK(parse_options(sizeof args / sizeof args[0], (char **)args, &o) == EXIT_GOOD);
    CHECK(same_text(o.prompt, "a fox") && same_text(o.seed, "-1") && same_text(o.width, "=5"));
    CHECK(same_text(o.guidance, "3") && same_text(o.steps, "9") && same_text(o.t5, "t") && same_text(o.output, "-"));
    CHECK(same_text(o.count, "xyz") && same_text(o.sampler, "Euler a") && o.vae_tiling && same_text(o.clip_l, "c"));
    CHECK(take_sampler(&o) == EXIT_GOOD && same_text(o.sampler, "euler-a") && !o.schedule);
    o.sampler = "DPM++ 2M Karras";
    CHECK(take_sampler(&o) == EXIT_GOOD && same_text(o.sampler, "dpm++2m") && same_text(o.schedule, "karras"));
    o.schedule = "SGM Uniform";
    CHECK(take_sampler(&o) == EXIT_GOOD && same_text(o.schedule, "trailing"));
    o.schedule = "Automatic";
    CHECK(take_sampler(&o) == EXIT_GOOD && !o.schedule);
}

static void test_seeds(void) {
    static const char *const randoms[] = {"-1", "random", "Random", "-7"};
    uint64_t seed = 0;
    bool random = false;
    size_t i;
    for (i = 0; i < 4; i++) CHECK(take_seed(randoms[i], &seed, &random) == EXIT_GOOD && random);
    CHECK(take_seed("18446744073709551615", &seed, &random) == EXIT_GOOD && !random && seed == UINT64_MAX);
}

/* Sentences of the library in the command line's words: none names a member of a structure any more. */
static void test_words(void) {
    static const char *const sentences[][2] = {
        {"dit_guidance: skip_first 1 and skip_last 0 must be rising fractions of the steps, 0 to 1",
         "--skip-layer-start 1 and --skip-layer-end 0 must be rising fractions of the steps, 0 to 1"},
        {"dit_job_desc: this model uses no layers of a CLIP encoder; clip_skip must be 0",
         "--clip-skip: this model uses no layers of a CLIP encoder; leave it out"},
        {"dit_job_desc: cache \"references\" is about references, and there are none; it must be NULL",
         "--keep-references is about --ref-image, which is not there; leave it out"},
        {"dit_job_desc: references are given, and this model (dit xl) takes none; leave them out",
         "--ref-image: this model (dit xl) takes no references; leave them out"},
        {"eta 0.5: only the sampler ddim", "--eta 0.5: only the sampler ddim"},
        {"a beta ", "a beta "},
    };
    char out[600];
    size_t i;
    for (i = 0; i < sizeof sentences / sizeof sentences[0]; i++)
        CHECK_MESSAGE(same_text(in_options(sentences[i][0], out, sizeof out), sentences[i][1]), "%s", out);
    in_options("dit_job_desc: weight_budget", out, 8);
    CHECK(strlen(out) == 7);
}

/* The text in Exif, as JPEG and WebP carry it: read back whole; cut off anywhere it is shorter or none. */
static void test_exif(void) {
    size_t size, i, k;
    for (i = 0; i < sizeof awkward / sizeof awkward[0]; i++) {
        unsigned char *exif = clip_exif(awkward[i], &size);
        char *text = exif ? exif_comment(exif, size) : NULL;
        CHECK_MESSAGE(text && strcmp(text, awkward[i]) == 0, "'%s'", awkward[i]);
        free(text);
        for (k = 0; k < size; k++) {
            unsigned char *part = test_block(k, 16);
            memcpy(part, exif, k);
            free(exif_comment(part, k));
            free(part);
        }
        free(exif);
    }
    {
        unsigned char *exif = clip_exif("\xf0\x9f\xa6\x8a \xe2\x99\xa5", &size); /* a surrogate pair in UTF-16 */
        char *text = exif_comment(exif, size);
        CHECK(text && strcmp(text, "\xf0\x9f\xa6\x8a \xe2\x99\xa5") == 0);
        free(text);
        free(exif);
    }
    for (i = 0; i < 4; i++) { /* Exif and its text in either order, as other programs write them */
        static const char told[] = "\xe7\x8b\x90, a fox\nSteps: 20, Sampler: Euler, Seed: 7";
        static const unsigned char little[] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x86, 0x92, 7, 0, 0, 0, 0, 0, 44};
        unsigned char *exif = clip_exif(told, &size), *letter, byte;
        char *text;
        if (i & 1)
            for (letter = exif + 52; letter < exif + size; letter += 2)
                byte = letter[0], letter[0] = letter[1], letter[1] = byte;
        if (i & 2) {
            memset(exif, 0, 44);
            memcpy(exif, little, sizeof little);
            exif[14] = (unsigned char)(size - 44);
        }
        text = exif_comment(exif, size);
        CHECK_MESSAGE(text && strcmp(text, told) == 0, "%zu: %s", i, text ? text : "none");
        free(text);
        free(exif);
    }
}

/* Sheets and previews: no side is longer than the limit, none is nothing, and one colour stays that colour. */
static void test_shrinking(void) {
    static const uint32_t sizes[][5] = {{64, 48, 64, 64, 48},  {65, 48, 64, 32, 24}, {1000, 3, 64, 62, 1},
                                        {1000, 20, 64, 62, 1}, {3, 1000, 64, 1, 62}, {1, 1, 64, 1, 1}};
    size_t i, k;
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t width = sizes[i][0], height = sizes[i][1];
        unsigned char *rgba = test_block((size_t)width * height * 4, 16);
        memset(rgba, 7, (size_t)width * height * 4);
        shrink(rgba, &width, &height, sizes[i][2]);
        CHECK_MESSAGE(width == sizes[i][3] && height == sizes[i][4], "%ux%u becomes %ux%u", sizes[i][0], sizes[i][1],
                      width, height);
        for (k = 0; k < (size_t)width * height * 4 && rgba[k] == 7; k++) {
        }
        CHECK_MESSAGE(k == (size_t)width * height * 4, "%ux%u: byte %zu is another", width, height, k);
        free(rgba);
    }
}

/* base64 of every length, and texts that are none; JSON's strings. */
static void test_wire(void) {
    static const char *const wrong[] = {"A", "=", "AB=", "AB===", "A===", "AB=C", "ABC=D", "AB*D", "ABCDE", "\xc3\xbc"};
    unsigned char bytes[70], *read;
    char letters[100];
    size_t size, i, k;
    parameter_text out = {0};
    for (i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 37 + 5);
    for (i = 0; i < sizeof bytes; i++) {
        base64_write(bytes, i, letters);
        read = base64_read(letters, base64_length(i), &size);
        CHECK(read && size == i && memcmp(read, bytes, i) == 0);
        free(read);
    }
    base64_write((const unsigned char *)"dit.h", 5, letters);
    CHECK(memcmp(letters, "ZGl0Lmg=", 8) == 0);
    read = base64_read("ZGl0\r\n Lmg", 10, &size); /* lines, and an end that was left out */
    CHECK(read && size == 5 && memcmp(read, "dit.h", 5) == 0);
    free(read);
    for (k = 0; k < sizeof wrong / sizeof wrong[0]; k++)
        CHECK_MESSAGE(!base64_read(wrong[k], strlen(wrong[k]), &size), "%s is no base64", wrong[k]);
    json_raw(&out, "{");
    json_text(&out, "a\"b", "\\ \x01\n gr\xc3\xbcn \xff\xf0\x9f \xf0\x9f\xa6\x8a");
    json_number(&out, "n", 0.25);
    json_number(&out, "inf", (double)INFINITY);
    json_count(&out, "c", UINT64_MAX);
    json_flag(&out, "f", true);
    json_raw(&out, "}");
    CHECK_MESSAGE(strcmp(out.at, "{\"a\\\"b\":\"\\\\ \\u0001\\u000a gr\xc3\xbcn \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd "
                                 "\xf0\x9f\xa6\x8a\",\"n\":0.25,\"inf\":0,\"c\":18446744073709551615,\"f\":true}") == 0,
                  "%s", out.at);
    free(out.at);
}

int main(void) {
    test_every_option();
    test_files();
    test_all_together();
    test_prompts();
    test_foreign();
    test_damaged();
    test_png();
    test_forms();
    test_seeds();
    test_words();
    test_exif();
    test_shrinking();
    test_wire();
    return TEST_END("parameters");
}
