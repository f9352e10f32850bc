/* Decoder language models as text encoders, through the public calls: what chat templates drop, keep and pad, which
   states a repository may ask for, a GGUF that brings its tokenizer along, streamed and released weights, prompts with
   weights, halves that overflow, and repositories that do not fit together. tests/golden compares with the original
   pipelines. */
/* test-runs: lavapipe sanitize, in test-all swiftshader */
#include "library.h"
#include "files.h"
#include "real_shapes.h"
#include "vulkan_test.h"

#define ENCODER "tests/fixtures/qwen3_text"
#define TOKENIZER "tests/fixtures/tokenizers/qwen2"
#define GGUF "tests/fixtures/qwen3_text_gguf/model-F16.gguf"

static diti_env env;
static dit_context *context;

/* A repository of that class without transformer and autoencoder. */
typedef struct repository {
    const char *index;   /* model_index.json */
    const char *config;  /* instead of the encoder's config.json; NULL: its own */
    const char *weights; /* instead of its model.safetensors; NULL: its own */
    size_t size;
    char path[512];
    const char *words; /* instead of the tokenizer's tokenizer.json; NULL: its own */
} repository;

static dit_result repository_open(const char *member, dit_source *out, void *user) {
    repository *from = user;
    const char *text = !strcmp(member, "model_index.json")                           ? from->index
                       : from->config && !strcmp(member, "text_encoder/config.json") ? from->config
                                                                                     : NULL;
    FILE *file;
    if (from->weights && !strcmp(member, "text_encoder/model.safetensors")) {
        out->data = from->weights;
        out->size = from->size;
        return DIT_OK;
    }
    if (text) {
        out->data = text;
        out->size = strlen(text);
        return DIT_OK;
    }
    if (!strncmp(member, "text_encoder/", 13))
        snprintf(from->path, sizeof from->path, ENCODER "/%s", member + 13);
    else if (from->words && !strncmp(member, "tokenizer/", 10))
        snprintf(from->path, sizeof from->path, "%s", strcmp(member + 10, "tokenizer.json") ? "" : from->words);
    else if (!strncmp(member, "tokenizer/", 10))
        snprintf(from->path, sizeof from->path, TOKENIZER "/%s", member + 10);
    else
        return DIT_ERROR_IO;
    file = fopen(from->path, "rb");
    if (!file) return DIT_ERROR_IO;
    fclose(file);
    out->path = from->path;
    return DIT_OK;
}

static dit_result repository_load(repository *from, dit_model_desc *desc, dit_model **out, dit_error *err) {
    memset(err, 0, sizeof *err);
    *out = NULL;
    desc->source.open = repository_open;
    desc->source.user = from;
    return dit_model_load(context, desc, out, err);
}

typedef struct text {
    float *rows;
    uint32_t length, columns, tokens;
    void *blob;
    size_t size;
} text;

static void text_free(text *t) {
    free(t->rows), free(t->blob);
    memset(t, 0, sizeof *t);
}

static text encode_with(const dit_model *model, const char *prompt, bool weighted) {
    diti_conditioning out;
    text t = {0};
    dit_error err = {0};
    if (!CHECK_MESSAGE(dit_encode_prompt(context, model, prompt, NULL, &t.size, &err) == DIT_OK, "%s", err.message))
        return t;
    t.blob = malloc(t.size);
    CHECK_MESSAGE((weighted ? dit_encode_weighted_prompt : dit_encode_prompt)(context, model, prompt, t.blob, &t.size,
                                                                              &err) == DIT_OK,
                  "%s", err.message);
    if (!CHECK_MESSAGE(diti_conditioning_from_blob(&env, "test", t.blob, t.size, &out, &err) == DIT_OK, "%s",
                       err.message))
        return t;
    t.length = out.texts[0].length;
    t.columns = out.texts[0].columns;
    t.tokens = out.texts[0].tokens;
    t.rows = malloc((size_t)t.tokens * t.columns * sizeof *t.rows);
    memcpy(t.rows, out.texts[0].rows, (size_t)t.tokens * t.columns * sizeof *t.rows);
    diti_conditioning_free(&env, &out);
    return t;
}

static text encode(const char *index, const char *prompt, bool weighted, dit_model_desc desc) {
    repository from = {index, NULL, NULL, 0, "", NULL};
    dit_model *model;
    dit_error err;
    text t = {0};
    if (CHECK_MESSAGE(repository_load(&from, &desc, &model, &err) == DIT_OK, "%s", err.message))
        t = encode_with(model, prompt, weighted);
    dit_model_destroy(model);
    return t;
}

/* Whether columns [column, column + count) of row a are columns [0, count) of row b. */
static double row_error(const text *a, uint32_t row, uint32_t column, const text *b, uint32_t other, uint32_t count) {
    double error = 0, size = 0;
    for (uint32_t i = 0; i < count; i++) {
        double x = a->rows[(size_t)row * a->columns + column + i], y = b->rows[(size_t)other * b->columns + i];
        error += (x - y) * (x - y);
        size += y * y;
    }
    return sqrt(error / (size + 1e-30));
}

#define NONE                                                                                                           \
    (dit_model_desc) { 0 }
#define PLAIN "{}"
#define CLASS(NAME) "{\"_class_name\": \"" NAME "\"}"
#define USER "<|im_start|>user\n"
#define ANSWER "<|im_end|>\n<|im_start|>assistant\n"

/* A template's text as a plain prompt has the same rows, of which the dropped ones are the first. */
static void test_templates(void) {
    static const char prompt[] = "a (cat) on a hill";
    const diti_chat *chat = diti_families_chat("QwenImagePipeline");
    char whole[2048];
    text plain, asked;
    uint32_t i;
    snprintf(whole, sizeof whole, "%s%s%s", chat->before, prompt, chat->after);
    plain = encode(PLAIN, whole, false, NONE);
    asked = encode(CLASS("QwenImagePipeline"), prompt, false, NONE);
    CHECK_MESSAGE(plain.length == asked.length + 34 && asked.tokens == 1024 && asked.columns == 40, "%u rows of %u",
                  asked.length, plain.length);
    for (i = 0; i < asked.length && plain.length == asked.length + 34; i++)
        CHECK_MESSAGE(row_error(&asked, i, 0, &plain, i + 34, 40) < 1e-6, "row %u", i);
    for (i = asked.length; i < asked.tokens; i++) CHECK(asked.rows[(size_t)i * 40] == 0);
    text_free(&plain), text_free(&asked);
    /* a template without a system message; nothing of it is cleaned away */
    plain = encode(PLAIN, USER " A  Cat" ANSWER, false, (dit_model_desc){0});
    asked = encode(CLASS("ZImagePipeline"), " A  Cat", false, NONE);
    CHECK(plain.length == asked.length && asked.length > 8 && asked.tokens == 512);
    text_free(&plain), text_free(&asked);
}

/* FLUX.2 klein's rows are padded: three states side by side, and those behind the prompt are none of zeros. */
static void test_states(void) {
    text klein = encode(CLASS("Flux2KleinPipeline"), "a cat", false, NONE), states[3];
    static const char *const indices[3] = {"{\"text_encoder_select_layers\": [1]}",
                                           "{\"text_encoder_select_layers\": [2]}",
                                           "{\"text_encoder_select_layers\": [3]}"};
    for (uint32_t i = 0; i < 3; i++)
        states[i] = encode(indices[i], USER "a cat" ANSWER "<think>\n\n</think>\n\n", false, NONE);
    CHECK_MESSAGE(klein.length == 512 && klein.tokens == 512 && klein.columns == 120, "%u rows of %u columns",
                  klein.length, klein.columns);
    for (uint32_t i = 0; i < 3 && klein.columns == 120; i++) {
        CHECK(states[i].length > 10 && states[i].columns == 40);
        for (uint32_t r = 0; r < states[i].length; r++)
            CHECK_MESSAGE(row_error(&klein, r, 40 * i, &states[i], r, 40) < 1e-6, "state %u, row %u", i + 1, r);
        CHECK(klein.rows[511 * 120 + 40 * i] != 0);
        text_free(&states[i]);
    }
    text_free(&klein);
}

/* The last rows, which weigh 1, are scaled alike: by what keeps the mean of the text's rows, without those in front. */
static void test_weights(void) {
    text asked = encode(CLASS("QwenImagePipeline"), "(cat:1.5) hat", true, NONE);
    text even = encode(CLASS("QwenImagePipeline"), "cat hat", true, NONE);
    double mean[2] = {0, 0}, factor;
    bool same = asked.length == even.length && asked.length > 5 && asked.columns == 40;
    CHECK_MESSAGE(same, "%u and %u rows", asked.length, even.length);
    if (same) {
        factor = (double)asked.rows[asked.length * 40u - 1] / (double)even.rows[asked.length * 40u - 1];
        for (uint32_t i = 0; i < asked.length * 40u; i++) {
            double weight = (double)asked.rows[i] / (double)even.rows[i];
            mean[0] += (double)asked.rows[i], mean[1] += (double)even.rows[i];
            if (i / 40 > asked.length - 6) /* the end of the template */
                CHECK_MESSAGE(fabs(weight - factor) < 1e-3, "%u: %g", i, weight);
        }
        CHECK_MESSAGE(fabs(mean[0] / mean[1] - 1) < 1e-4, "mean %g and %g", mean[0], mean[1]);
        CHECK(fabs(factor - 1) > 1e-4);
    }
    text_free(&asked), text_free(&even);
}

/* Multiplies a tensor of BF16 by a power of two. */
static void scale_tensor(char *file, const char *name, int exponent) {
    char quoted[128];
    const char *entry, *offsets;
    unsigned long long begin = 0, end = 0;
    uint64_t header;
    memcpy(&header, file, 8);
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    entry = strstr(file + 8, quoted);
    offsets = entry ? strstr(entry, "\"data_offsets\":[") : NULL;
    if (!CHECK_MESSAGE(offsets && sscanf(offsets, "\"data_offsets\":[%llu,%llu]", &begin, &end) == 2, "%s", name))
        return;
    for (; begin < end; begin += 2) {
        uint16_t value;
        memcpy(&value, file + 8 + header + begin, 2);
        if (value & 0x7f80) value = (uint16_t)(value + exponent * 128);
        memcpy(file + 8 + header + begin, &value, 2);
    }
}

/* Values, and feed-forwards behind their gates, grow beyond 65504, and the matrices behind them take it back: halves
   overflow, the prompt is encoded again with smaller numbers, and nothing is lost. */
static void test_overflow(void) {
    static const char index[] = "{\"_class_name\": \"ZImagePipeline\"}", prompt[] = "a red (kite) over the sea";
    dit_context_desc open = {0};
    dit_context *half = NULL, *full = context;
    dit_error err = {0};
    size_t size;
    char *file = test_read_file(ENCODER "/model.safetensors", &size);
    repository from = {index, NULL, file, size, "", NULL};
    text wanted = encode(index, prompt, false, NONE), got = {0};
    dit_model_desc desc = {0};
    dit_model *model;
    double error = 0, sum = 0;
    scale_tensor(file, "model.layers.1.mlp.up_proj.weight", 15);
    scale_tensor(file, "model.layers.1.mlp.down_proj.weight", -15);
    scale_tensor(file, "model.layers.2.self_attn.v_proj.weight", 15);
    scale_tensor(file, "model.layers.2.self_attn.o_proj.weight", -15);
    open.overrides = "rung=fp16";
    if (dit_context_create(&open, &half, &err) == DIT_OK && half->device->has_fp16) {
        context = half;
        if (CHECK_MESSAGE(repository_load(&from, &desc, &model, &err) == DIT_OK, "%s", err.message))
            got = encode_with(model, prompt, false);
        dit_model_destroy(model);
        context = full;
        for (size_t i = 0; got.length == wanted.length && i < (size_t)wanted.length * wanted.columns; i++) {
            double d = (double)got.rows[i] - (double)wanted.rows[i];
            error += d * d, sum += (double)wanted.rows[i] * (double)wanted.rows[i];
        }
        CHECK_MESSAGE(got.length == wanted.length && sum > 0 && sqrt(error / sum) <= 1.4e-2, "off by %g",
                      sqrt(error / (sum + 1e-30)));
    } else {
        printf("skipped: no halves on this device\n");
    }
    text_free(&wanted), text_free(&got);
    dit_context_destroy(half);
    free(file);
}

/* Streamed weights, encoders that are released, and a GGUF with its own tokenizer give what resident weights do. */
static void test_places(void) {
    static const char prompt[] = "two foxes, one lamp";
    dit_component component = {{0}, DIT_ROLE_TEXT_1, 0, false, DIT_ROLE_NONE};
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    text resident = encode(CLASS("ZImagePipeline"), prompt, false, NONE), other, plain;
    desc.weight_budget = 1u << 16;
    other = encode(CLASS("ZImagePipeline"), prompt, false, desc);
    CHECK(other.size == resident.size && !memcmp(other.blob, resident.blob, resident.size));
    text_free(&other);
    desc.weight_budget = 0;
    desc.release_text_encoders = true;
    other = encode(CLASS("ZImagePipeline"), prompt, false, desc);
    CHECK(other.size == resident.size && !memcmp(other.blob, resident.blob, resident.size));
    text_free(&other), text_free(&resident);
    component.source.path = GGUF;
    memset(&desc, 0, sizeof desc);
    desc.components = &component;
    desc.component_count = 1;
    plain = encode(PLAIN, prompt, false, NONE);
    if (CHECK_MESSAGE(dit_model_load(context, &desc, &model, &err) == DIT_OK, "%s", err.message)) {
        other = encode_with(model, prompt, false);
        CHECK(other.length == plain.length && plain.length > 3);
        for (uint32_t r = 0; r < plain.length && other.length == plain.length; r++)
            CHECK_MESSAGE(row_error(&other, r, 0, &plain, r, 40) < 1e-5, "row %u of the GGUF", r);
        text_free(&other);
    }
    dit_model_destroy(model);
    text_free(&plain);
}

/* Layers behind the last state that is wanted are not loaded. */
static void test_sizes(void) {
    static const char *const indices[2] = {PLAIN, "{\"text_encoder_select_layers\": [1, 3]}"};
    uint64_t parameters[2] = {0, 0};
    for (uint32_t i = 0; i < 2; i++) {
        repository from = {indices[i], NULL, NULL, 0, "", NULL};
        dit_model_desc desc = {0};
        dit_model_info info;
        dit_model *model;
        dit_error err;
        if (CHECK_MESSAGE(repository_load(&from, &desc, &model, &err) == DIT_OK, "%s", err.message)) {
            dit_model_get_info(model, &info);
            parameters[i] = info.parameters[DIT_ROLE_TEXT_1];
        }
        dit_model_destroy(model);
    }
    CHECK_MESSAGE(parameters[0] == 115048, "%llu parameters", (unsigned long long)parameters[0]);
    CHECK_MESSAGE(parameters[0] - parameters[1] == 19312 + 40, "%llu fewer",
                  (unsigned long long)(parameters[0] - parameters[1]));
}

/* Files of published sizes are told from each other, and counted, by their headers. `counted` is what is published,
   less the matrix behind the last norm where it has one of its own. */
static void test_published(void) {
    static const struct {
        real_decoder_shape shape;
        uint64_t counted;
        const char *name;
    } cases[] = {
        {{"model.", 151936, 1024, 3072, 28, 16, 8, 128, true, false, false}, 596049920u, "Qwen3-0.6B"},
        {{"model.", 151936, 2048, 6144, 28, 16, 8, 128, true, false, false}, 1720574976u, "Qwen3-1.7B"},
        {{"model.", 151936, 2560, 9728, 36, 32, 8, 128, true, false, false}, 4022468096u, "Qwen3-4B"},
        {{"model.language_model.", 151936, 4096, 12288, 36, 32, 8, 128, true, false, false},
         8190735360u - 151936u * 4096u,
         "Qwen3-8B"},
        {{"model.", 152064, 3584, 18944, 28, 28, 4, 128, false, true, false},
         7615616512u - 152064u * 3584u,
         "Qwen2.5-7B"},
        {{"model.", 256000, 2304, 9216, 26, 8, 4, 256, false, false, true}, 2614341888u, "Gemma 2 2B"},
        {{"language_model.model.", 131072, 5120, 32768, 40, 32, 8, 128, false, false, false},
         23572403200u - 131072u * 5120u,
         "Mistral Small"},
        {{"model.", 128256, 4096, 14336, 32, 32, 8, 128, false, false, false},
         8030261248u - 128256u * 4096u,
         "LLaMA 3 8B"},
    };
    for (size_t i = 0; i < DITI_COUNT(cases); i++) {
        real_file file = {0};
        dit_model_desc desc = {0};
        dit_model_info info = {0};
        dit_model *model = NULL;
        dit_error err = {0};
        file.container = REAL_SAFETENSORS;
        file.type = DIT_TYPE_BF16;
        real_decoder(&file, &cases[i].shape);
        desc.source = real_source(&file);
        desc.dry_run = true;
        if (CHECK_MESSAGE(dit_model_load(NULL, &desc, &model, &err) == DIT_OK, "%s: %s", cases[i].name, err.message))
            dit_model_get_info(model, &info);
        CHECK_MESSAGE(info.parameters[DIT_ROLE_TEXT_1] == cases[i].counted, "%s: %llu parameters", cases[i].name,
                      (unsigned long long)info.parameters[DIT_ROLE_TEXT_1]);
        dit_model_destroy(model);
        real_free(&file);
    }
}

/* LLaMA 3's tokenizer begins every text with a token, which is dropped with the system's message. */
static void test_begin(void) {
    repository from = {
        CLASS("HunyuanVideoPipeline"), NULL, NULL, 0, "", "tests/fixtures/tokenizers/scripts/llama3.json"};
    const diti_chat *chat = diti_families_chat("HunyuanVideoPipeline");
    dit_model_desc desc = {0};
    uint32_t dropped = 0, kept = 0;
    dit_model *model;
    dit_error err;
    text t;
    if (!CHECK_MESSAGE(repository_load(&from, &desc, &model, &err) == DIT_OK, "%s", err.message)) return;
    CHECK(diti_tokenizer_count(model->encoders[0].tokenizer, chat->dropped, &dropped, &err) == DIT_OK);
    CHECK(diti_tokenizer_count(model->encoders[0].tokenizer, "a cat<|eot_id|>", &kept, &err) == DIT_OK);
    CHECK_MESSAGE(dropped > 50 && model->encoders[0].dropped == dropped + 1, "%u and %u dropped", dropped,
                  model->encoders[0].dropped);
    t = encode_with(model, "a cat", false);
    CHECK_MESSAGE(t.length == kept && t.tokens == 256, "%u rows of %u tokens", t.length, kept);
    text_free(&t);
    dit_model_destroy(model);
}

static void refused(const char *index, const char *config, const char *words) {
    repository from = {index, config, NULL, 0, "", NULL};
    dit_model_desc desc = {0};
    dit_model *model;
    dit_error err;
    dit_result result = repository_load(&from, &desc, &model, &err);
    CHECK_MESSAGE(result < 0 && !model && strstr(err.message, words), "wanted \"%s\", got \"%s\"", words, err.message);
    dit_model_destroy(model);
}

static void test_refused(void) {
    refused(CLASS("Krea2Pipeline"), NULL, "lacks hidden states");
    refused("{\"text_encoder_select_layers\": [5]}", NULL, "lacks hidden states");
    refused("{\"text_encoder_select_layers\": [2, 1]}", NULL, "lacks hidden states");
    refused("{\"text_encoder_select_layers\": [1.5]}", NULL, "numbers of states");
    refused("{\"text_encoder_select_layers\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", NULL, "at most 16");
    refused("{\"text_encoder_select_layers\": \"all\"}", NULL, "text_encoder_select_layers");
    refused(PLAIN, "{\"num_attention_heads\": 6}", "another model's");
}

int main(void) {
    dit_context_desc desc = {0};
    dit_error err = {0};
    test_vulkan_begin();
    diti_env_init(&env, NULL, NULL, NULL);
    desc.overrides = "rung=base";
    if (CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) {
        test_templates();
        test_states();
        test_weights();
        test_places();
        test_overflow();
        test_sizes();
        test_published();
        test_begin();
        test_refused();
    }
    dit_context_destroy(context);
    test_vulkan_end();
    return TEST_END("language");
}
