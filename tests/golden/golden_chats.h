/* From prompts to what pipelines hand to their transformers, where a decoder language model reads them: the text
   encoder and its tokenizer of a repository alone, through the public API, against recorded embeddings. */
#ifndef GOLDEN_CHATS_H
#define GOLDEN_CHATS_H
#include "golden_text.h"

/* A repository without transformer and autoencoder, whose tokenizer allows fewer tokens: recorded calls had
   max_sequence_length of their own. */
typedef struct golden_asked {
    const char *path, *language; /* language: the fixture that has the language model; NULL: the folder */
    char file[1024];
    char *config;
} golden_asked;

static inline dit_result golden_asked_open(const char *member, dit_source *out, void *user) {
    golden_asked *asked = (golden_asked *)user;
    bool language = asked->language && (!strncmp(member, "text_encoder", 12) || !strncmp(member, "tokenizer", 9));
    const char *path = language ? asked->language : asked->path;
    if (!strncmp(member, "transformer", 11) || !strncmp(member, "vae", 3) || !golden_has(path, member))
        return DIT_ERROR_IO;
    if (asked->config && strstr(member, "tokenizer_config.json")) {
        out->data = asked->config;
        out->size = strlen(asked->config);
        return DIT_OK;
    }
    golden_join(asked->file, sizeof asked->file, path, member);
    out->path = asked->file;
    return DIT_OK;
}

typedef struct golden_asked_case {
    const char *folder, *prompt, *embeds;
    uint32_t tokens; /* max_sequence_length; 0: the pipeline's own */
    const char *mask, *language;
} golden_asked_case;
#define GOLDEN_SIGN                                                                                                    \
    "a sign that says 'Hello World' and \"it's me\" on \xe2\x80\x9c\xe4\xbd\xa0\xe5\xa5\xbd\xe2\x80\x9d street, "      \
    "highly detailed"
#define GOLDEN_ASTRONAUT "a photo of an astronaut riding a horse on mars, highly detailed"
static const golden_asked_case golden_asked_cases[] = {
    {"pipe_zimage", GOLDEN_ASTRONAUT, "turbo.prompt_embeds.0", 96, NULL, NULL},
    {"pipe_zimage", "blurry, low quality", "base.negative_prompt_embeds.0", 96, NULL, NULL},
    {"pipe_flux2_klein", GOLDEN_ASTRONAUT, "t2i.prompt_embeds", 48, NULL, NULL},
    {"pipe_flux2_klein", "", "base.negative_prompt_embeds", 48, NULL, NULL},
    {"flux2_dev_text", GOLDEN_ASTRONAUT, "long.prompt_embeds", 224, NULL, NULL},
    {"flux2_dev_text", "", "empty.prompt_embeds", 224, NULL, NULL},
    {"pipe_qwenimage", GOLDEN_ASTRONAUT, "t2i.prompt_embeds", 0, NULL, NULL},
    {"pipe_qwenimage", "blurry, low quality", "t2i.negative_prompt_embeds", 0, NULL, NULL},
    {"pipe_qwenimage21", GOLDEN_ASTRONAUT, "t2i.prompt_embeds", 0, NULL, NULL},
    {"pipe_krea2", GOLDEN_ASTRONAUT, "turbo.prompt_hidden", 32, "turbo.prompt_mask", NULL},
    {"pipe_krea2", "blurry, low quality", "raw_cfg.negative_prompt_hidden", 32, "raw_cfg.negative_prompt_mask", NULL},
    {"pipe_ideogram4", GOLDEN_ASTRONAUT, "polish.text", 0, NULL, "tests/fixtures/pipe_krea2"},
    {"pipe_anima", GOLDEN_ASTRONAUT, "cond.source_hidden_states", 0, NULL, NULL},
    {"pipe_anima", "blurry, low quality", "uncond.source_hidden_states", 0, NULL, NULL},
    {"pipe_boogu", "", "t2i.negative_prompt_embeds", 0, NULL, "tests/fixtures/pipe_krea2"},
    {"pipe_longcat", GOLDEN_SIGN, "t2i.prompt_embeds", 0, NULL, "tests/fixtures/pipe_qwenimage"},
    {"pipe_longcat", "", "t2i.negative_prompt_embeds", 0, NULL, "tests/fixtures/pipe_qwenimage"},
    {"pipe_ernie", GOLDEN_ASTRONAUT, "turbo.prompt_embeds", 0, NULL, NULL},
    {"pipe_ernie", "", "empty.prompt_embeds", 0, NULL, NULL},
    {"pipe_ovis", "a red Fox on a sign that says \"OVIS\", highly detailed", "t2i.prompt_embeds", 0, NULL,
     "tests/fixtures/pipe_zimage"},
    {"pipe_ovis", "", "t2i.negative_prompt_embeds", 0, NULL, "tests/fixtures/pipe_zimage"},
    {"pipe_kandinsky", GOLDEN_ASTRONAUT, "guided.prompt_embeds", 0, NULL, NULL},
    {"pipe_kandinsky", "", "empty.prompt_embeds", 0, NULL, NULL},
    {"pipe_kandinsky_t2v", GOLDEN_ASTRONAUT, "t2v.prompt_embeds", 0, NULL, "tests/fixtures/pipe_kandinsky"},
    {"pipe_kandinsky_t2v", "", "empty.prompt_embeds", 0, NULL, "tests/fixtures/pipe_kandinsky"},
};

static inline bool golden_is_chats(const golden_folder *folder) {
    size_t i;
    for (i = 0; i < DITI_COUNT(golden_asked_cases); i++)
        if (folder->golden && diti_equal(folder->name, golden_asked_cases[i].folder) &&
            diti_checkpoint_find(folder->golden, golden_asked_cases[i].embeds))
            return true;
    return false;
}

/* The recorded rows that a mask leaves, one behind the other. */
static inline float *golden_asked_rows(const golden_folder *folder, const golden_asked_case *asked, uint32_t columns,
                                       uint64_t *rows) {
    uint64_t count = 0, masked = 0, row, kept = 0;
    float *all = golden_floats(folder->golden, asked->embeds, &count);
    float *mask = asked->mask ? golden_floats(folder->golden, asked->mask, &masked) : NULL;
    *rows = all && columns ? count / columns : 0;
    for (row = 0; mask && row < *rows && row < masked; row++) {
        if (mask[row] == 0) continue;
        memmove(all + kept++ * columns, all + row * columns, columns * sizeof *all);
    }
    if (mask) *rows = kept;
    free(mask);
    return all;
}

static inline void golden_asked_encode(golden *g, const golden_folder *folder, const golden_asked_case *asked,
                                       dit_context *context, const dit_model *model) {
    dit_error err = DITI_ZERO;
    diti_conditioning out;
    const diti_embedding *text = &out.texts[DITI_TEXT_FIRST];
    size_t size = 0;
    uint64_t rows = 0;
    float *wanted = NULL;
    void *blob = NULL;
    bool good = dit_encode_prompt(context, model, asked->prompt, NULL, &size, &err) == DIT_OK;
    if (good) blob = malloc(size);
    good = good && dit_encode_prompt(context, model, asked->prompt, blob, &size, &err) == DIT_OK &&
           diti_conditioning_from_blob(&g->env, "golden", blob, size, &out, &err) == DIT_OK;
    if (golden_require(g, good, "%s is encoded %s", asked->embeds, err.message)) {
        wanted = golden_asked_rows(folder, asked, text->columns, &rows);
        if (golden_require(g, rows && rows == text->length, "%s has %u rows, and %u were made", asked->embeds,
                           (unsigned)rows, text->length))
            golden_compare(g, asked->embeds, text->rows, wanted, rows * text->columns, golden_tolerance(GOLDEN_MODEL));
        diti_conditioning_free(&g->env, &out);
    }
    free(wanted);
    free(blob);
}

static inline void golden_asked_load(golden *g, const golden_folder *folder, const golden_asked_case *asked) {
    char overrides[256], instead[40];
    dit_context_desc open = DITI_ZERO;
    dit_model_desc desc = DITI_ZERO;
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_error err = DITI_ZERO;
    golden_asked source = DITI_ZERO;
    static const char most[] = "\"model_max_length\": 131072";
    char *at, path[1024];
    size_t size;
    golden_join(path, sizeof path, folder->path, "tokenizer/tokenizer_config.json");
    source.path = folder->path;
    source.language = asked->language;
    if (asked->tokens) source.config = test_read_file(path, &size);
    at = source.config ? strstr(source.config, most) : NULL;
    diti_format(instead, sizeof instead, "\"model_max_length\": %-6u", asked->tokens);
    if (at) memcpy(at, instead, strlen(instead));
    golden_overrides(g, overrides, sizeof overrides);
    open.overrides = overrides;
    open.devices = g->device;
    desc.source.open = golden_asked_open;
    desc.source.user = &source;
    if (golden_require(g, !asked->tokens || at, "the tokenizer's most tokens") &&
        golden_require(g, dit_context_create(&open, &context, &err) == DIT_OK, "a context %s", err.message) &&
        golden_require(g, dit_model_load(context, &desc, &model, &err) == DIT_OK, "loads %s", err.message))
        golden_asked_encode(g, folder, asked, context, model);
    dit_model_destroy(model);
    dit_context_destroy(context);
    free(source.config);
}

static inline void golden_run_asked(golden *g, const golden_folder *folder) {
    size_t i;
    golden_open_device(g);
    for (i = 0; i < DITI_COUNT(golden_asked_cases); i++)
        if (diti_equal(folder->name, golden_asked_cases[i].folder))
            golden_asked_load(g, folder, &golden_asked_cases[i]);
}
#endif
