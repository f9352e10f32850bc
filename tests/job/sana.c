/* Pipelines that ask a Gemma 2 (Sana, Sana-Sprint, Lumina-Image 2), whole: repositories of small weights make pictures,
   the same ones again, and others for other prompts; what their templates keep of a text; and what they refuse. The
   original's results of each part are in tests/golden.   test-runs: lavapipe, in test-all sanitize swiftshader */
#include "library.h"
#include "files.h"
#include "real_shapes.h"
#include "vulkan_test.h"

#define WORDS "tests/fixtures/tokenizers/scripts/gemma.json"
enum { VOCABULARY = 961, WIDTH = 32, HEIGHT = 16 };

static const char encoder_config[] =
    "{\"architectures\": [\"Gemma2Model\"], \"model_type\": \"gemma2\", \"hidden_size\": 40, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 16, \"intermediate_size\": 64, \"vocab_size\": "
    "961, \"query_pre_attn_scalar\": 16, \"sliding_window\": 4096, \"attn_logit_softcapping\": 50.0, \"rms_norm_eps\": "
    "1e-06, \"rope_theta\": 10000.0, \"hidden_activation\": \"gelu_pytorch_tanh\"}";

static diti_env env;
static dit_context *context;

/* A repository of that class. */
typedef struct repository {
    const char *index, *transformer, *vae; /* model_index.json; folders of fixtures */
    const char *scheduler;                 /* NULL: none */
    real_file encoder;
    char path[512];
} repository;

static bool give_text(const char *text, dit_source *out) {
    out->data = text;
    out->size = strlen(text);
    return text != NULL;
}

static dit_result repository_open(const char *member, dit_source *out, void *user) {
    static const char *const weights[] = {"diffusion_pytorch_model.safetensors", "model.safetensors"};
    repository *from = user;
    const char *folder = NULL, *rest = strchr(member, '/');
    FILE *file;
    if (!strcmp(member, "model_index.json")) return give_text(from->index, out) ? DIT_OK : DIT_ERROR_IO;
    if (!strcmp(member, "scheduler/scheduler_config.json") && from->scheduler)
        return give_text(from->scheduler, out) ? DIT_OK : DIT_ERROR_IO;
    if (!strcmp(member, "text_encoder/config.json")) return give_text(encoder_config, out) ? DIT_OK : DIT_ERROR_IO;
    if (!strcmp(member, "text_encoder/model.safetensors")) {
        *out = real_source(&from->encoder);
        return DIT_OK;
    }
    if (!strcmp(member, "tokenizer/tokenizer.json")) {
        out->path = WORDS;
        return DIT_OK;
    }
    if (!strncmp(member, "transformer/", 12)) folder = from->transformer;
    if (!strncmp(member, "vae/", 4)) folder = from->vae;
    if (!folder || !rest) return DIT_ERROR_IO;
    snprintf(from->path, sizeof from->path, "%s%s", folder, rest);
    file = fopen(from->path, "rb");
    if (!file && !strcmp(rest + 1, weights[0])) {
        snprintf(from->path, sizeof from->path, "%s/%s", folder, weights[1]);
        file = fopen(from->path, "rb");
    }
    if (!file) return DIT_ERROR_IO;
    fclose(file);
    out->path = from->path;
    return DIT_OK;
}

static dit_model *load(repository *from, uint32_t parts) {
    static const real_decoder_shape shape = {"model.", VOCABULARY, 40, 64, 2, 2, 1, 16, false, false, true};
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    from->encoder.container = REAL_SAFETENSORS;
    from->encoder.type = DIT_TYPE_F32;
    real_decoder(&from->encoder, &shape);
    desc.source.open = repository_open;
    desc.source.user = from;
    desc.parts = parts;
    CHECK_MESSAGE(dit_model_load(context, &desc, &model, &err) == DIT_OK, "%s", err.message);
    return model;
}

static void close_model(repository *from, dit_model *model) {
    dit_model_destroy(model);
    real_free(&from->encoder);
}

/* ---- pictures ---- */

typedef struct pipeline {
    const char *index, *transformer, *vae, *scheduler;
    const char *family, *variant;
    uint32_t factor, steps;
    float guidance, distilled; /* that the model says */
} pipeline;

static const pipeline pipelines[] = {
    {"{\"_class_name\": \"SanaPipeline\"}", "tests/fixtures/sana", "tests/fixtures/vae_dcae", NULL, "sana", "sana", 2,
     20, 4.5f, 4.5f},
    {"{\"_class_name\": \"SanaSprintPipeline\"}", "tests/fixtures/sana_sprint", "tests/fixtures/vae_dcae",
     "{\"_class_name\": \"SCMScheduler\", \"prediction_type\": \"trigflow\", \"sigma_data\": 0.5}", "sana", "sprint", 2,
     2, 1, 4.5f},
    {"{\"_class_name\": \"Lumina2Pipeline\"}", "tests/fixtures/lumina2", "tests/fixtures/pipe_zimage/vae", NULL,
     "lumina2", "lumina2", 2, 30, 4, 0},
};

static bool draw_desc(dit_job_desc desc, const dit_model *model, uint32_t steps, float *out) {
    dit_job *job = NULL;
    dit_error err = {0};
    dit_result result;
    desc.model = model;
    desc.width = WIDTH;
    desc.height = HEIGHT;
    desc.steps = steps;
    desc.seed = 7;
    result = dit_job_create(context, &desc, &job, &err);
    if (result == DIT_OK) result = dit_job_wait(job, UINT64_MAX);
    if (job && result != DIT_OK) dit_job_status(job, NULL, &err);
    if (CHECK_MESSAGE(result == DIT_OK, "%s", err.message))
        result = dit_job_read(job, DIT_READ_RGB_F32, 0, 0, out, 3 * WIDTH * HEIGHT * sizeof *out, 0, &err);
    CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
    dit_job_destroy(job);
    return result == DIT_OK;
}

static bool draw(const dit_model *model, const char *prompt, const char *negative, uint32_t steps, float *out) {
    return draw_desc((dit_job_desc){.prompt = prompt, .negative_prompt = negative}, model, steps, out);
}

/* With prompts that were encoded before: what guidance leads away from is an empty one, as it stands. */
static bool draw_encoded(const dit_model *model, const char *prompt, uint32_t steps, float *out) {
    size_t sizes[2] = {0, 0};
    void *blobs[2] = {NULL, NULL};
    dit_error err = {0};
    bool good = true;
    for (uint32_t i = 0; i < 2; i++) {
        good = good && dit_encode_prompt(context, model, i ? "" : prompt, NULL, &sizes[i], &err) == DIT_OK;
        blobs[i] = malloc(sizes[i] + 1);
        good = good && dit_encode_prompt(context, model, i ? "" : prompt, blobs[i], &sizes[i], &err) == DIT_OK;
    }
    good = CHECK_MESSAGE(good, "%s", err.message) && draw_desc((dit_job_desc){.conditioning = blobs[0],
                                                                              .conditioning_size = sizes[0],
                                                                              .negative_conditioning = blobs[1],
                                                                              .negative_conditioning_size = sizes[1]},
                                                               model, steps, out);
    free(blobs[0]), free(blobs[1]);
    return good;
}

/* The largest difference of two pictures. */
static double apart(const float *a, const float *b) {
    double most = 0;
    for (uint32_t i = 0; i < 3 * WIDTH * HEIGHT; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static void test_pipeline(const pipeline *p, const dit_model *model) {
    static float first[3 * WIDTH * HEIGHT], second[3 * WIDTH * HEIGHT];
    static const char prompt[] = "a red kite over the sea";
    dit_model_info info;
    uint32_t finite = 0;
    dit_model_get_info(model, &info);
    CHECK_MESSAGE(diti_equal(info.family, p->family) && diti_equal(info.variant, p->variant) &&
                      info.default_steps == p->steps && info.default_guidance == p->guidance,
                  "%s: %s %s, %u steps, guidance %g", p->index, info.family, info.variant, info.default_steps,
                  (double)info.default_guidance);
    if (!draw(model, prompt, NULL, 2, first)) return;
    for (uint32_t k = 0; k < 3 * WIDTH * HEIGHT; k++) finite += isfinite(first[k]) != 0;
    CHECK_MESSAGE(finite == 3 * WIDTH * HEIGHT, "%s: %u values are finite", p->index, finite);
    if (draw(model, prompt, NULL, 2, second))
        CHECK_MESSAGE(!memcmp(first, second, sizeof first), "%s: another picture of the same seed", p->index);
    if (draw(model, "two green boats", NULL, 2, second))
        CHECK_MESSAGE(apart(first, second) > 1e-4, "%s: the same picture of another prompt", p->index);
    if (p->guidance > 1 && draw(model, prompt, "blurry", 2, second))
        CHECK_MESSAGE(apart(first, second) > 1e-4, "%s: a negative prompt changes nothing", p->index);
    if (p->guidance > 1 && draw_encoded(model, prompt, 2, second))
        CHECK_MESSAGE(apart(first, second) < 1e-4, "%s: %g apart from the picture of encoded prompts", p->index,
                      apart(first, second));
    if (draw(model, prompt, NULL, 1, second))
        CHECK_MESSAGE(apart(first, second) > 1e-4, "%s: one step makes the picture of two", p->index);
}

static void test_pictures(void) {
    for (size_t i = 0; i < DITI_COUNT(pipelines); i++) {
        const pipeline *p = &pipelines[i];
        repository from = {p->index, p->transformer, p->vae, p->scheduler, {0}, ""};
        dit_model *model = load(&from, 0);
        if (model) test_pipeline(p, model);
        close_model(&from, model);
    }
}

/* ---- templates ---- */

typedef struct text {
    float *rows;
    uint32_t length, columns;
} text;

/* chat: instead of the class's own, whose text is too long for a plain prompt of these few words; NULL: none is. */
static text encode(const char *index, const char *prompt, const diti_chat *chat) {
    repository from = {index, NULL, NULL, NULL, {0}, ""};
    dit_model *model = load(&from, 0);
    diti_conditioning out;
    text t = {0};
    dit_error err = {0};
    size_t size = 0;
    void *blob;
    if (!model) return t;
    if (chat) {
        diti_encoder *encoder = &model->encoders[0];
        uint32_t own = 0, other = 0;
        CHECK(diti_tokenizer_count(encoder->tokenizer, encoder->chat->dropped, &own, &err) == DIT_OK &&
              diti_tokenizer_count(encoder->tokenizer, chat->dropped, &other, &err) == DIT_OK);
        CHECK_MESSAGE(encoder->dropped == own - 1, "%u of %u tokens are dropped", encoder->dropped, own);
        encoder->chat = chat;
        encoder->tokens = encoder->tokens - encoder->dropped + other - 1;
        encoder->dropped = other - 1;
    }
    CHECK_MESSAGE(dit_encode_prompt(context, model, prompt, NULL, &size, &err) == DIT_OK, "%s", err.message);
    blob = malloc(size);
    if (CHECK_MESSAGE(dit_encode_prompt(context, model, prompt, blob, &size, &err) == DIT_OK, "%s", err.message) &&
        CHECK(diti_conditioning_from_blob(&env, "test", blob, size, &out, &err) == DIT_OK)) {
        t.length = out.texts[0].length;
        t.columns = out.texts[0].columns;
        t.rows = malloc((size_t)out.texts[0].tokens * t.columns * sizeof *t.rows);
        memcpy(t.rows, out.texts[0].rows, (size_t)out.texts[0].tokens * t.columns * sizeof *t.rows);
        diti_conditioning_free(&env, &out);
    }
    free(blob);
    close_model(&from, model);
    return t;
}

static bool same_row(const text *a, uint32_t row, const text *b, uint32_t other) {
    double error = 0, size = 1e-30;
    for (uint32_t i = 0; i < a->columns; i++) {
        double x = (double)a->rows[(size_t)row * a->columns + i], y = (double)b->rows[(size_t)other * b->columns + i];
        error += (x - y) * (x - y);
        size += y * y;
    }
    return error <= 1e-10 * size;
}

static void test_templates(void) {
    static const char prompt[] = " A Red Kite ", clean[] = "a red kite";
    const diti_chat *chat = diti_families_chat("SanaPipeline");
    diti_chat shorter = *chat;
    text whole, asked, plain, before;
    char all[4096];
    uint32_t i, skipped;
    /* Sana: the first token, the last one of what stands before the prompt, and all behind that */
    CHECK(chat->tokens == 300 && !strcmp(chat->before, chat->dropped) && diti_ends_with(chat->before, "User Prompt: "));
    shorter.before = shorter.dropped = "Given a user prompt, paint it well.\nUser Prompt: ";
    snprintf(all, sizeof all, "%s%s", shorter.before, clean);
    asked = encode("{\"_class_name\": \"SanaPipeline\"}", prompt, &shorter);
    before = encode("{}", shorter.before, NULL);
    whole = encode("{}", all, NULL);
    skipped = before.length - 2;
    CHECK_MESSAGE(asked.rows && whole.rows && before.length > 10 && asked.length == whole.length - skipped,
                  "%u of %u, %u", asked.length, whole.length, before.length);
    for (i = 0; asked.rows && i < asked.length && asked.length == whole.length - skipped; i++)
        CHECK_MESSAGE(same_row(&asked, i, &whole, i ? skipped + i : 0), "row %u", i);
    free(asked.rows), free(whole.rows), free(before.rows);
    /* an empty prompt is not asked */
    asked = encode("{\"_class_name\": \"SanaSprintPipeline\"}", "", NULL);
    plain = encode("{}", "", NULL);
    CHECK_MESSAGE(asked.length == 1 && plain.length == 1 && same_row(&asked, 0, &plain, 0), "%u rows of nothing",
                  asked.length);
    free(asked.rows), free(plain.rows);
    /* Lumina-Image 2: all of it, as it is, the last state but one */
    chat = diti_families_chat("Lumina2Pipeline");
    snprintf(all, sizeof all, "%s%s", chat->before, prompt);
    plain = encode("{}", all, NULL);
    asked = encode("{\"_class_name\": \"Lumina2Pipeline\"}", prompt, NULL);
    CHECK_MESSAGE(asked.length == plain.length && asked.length > 20, "%u rows of %u", asked.length, plain.length);
    CHECK(asked.rows && plain.rows && !same_row(&asked, 0, &plain, 0));
    free(asked.rows), free(plain.rows);
}

/* ---- refusals ---- */

static void refused(const dit_model *model, const char *sampler, const char *says) {
    dit_job_desc desc = {0};
    dit_job *job = NULL;
    dit_error err = {0};
    desc.model = model;
    desc.prompt = "a kite";
    desc.width = WIDTH;
    desc.height = HEIGHT;
    desc.sampler = sampler;
    CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) < 0 && strstr(err.message, says), "'%s' does not say %s",
                  err.message, says);
    dit_job_destroy(job);
}

static void test_refused(void) {
    for (size_t i = 0; i < 2; i++) {
        const pipeline *p = &pipelines[i];
        repository from = {p->index, p->transformer, p->vae, p->scheduler, {0}, ""};
        dit_model *model = load(&from, 0);
        if (model) refused(model, i ? "euler" : "scm", i ? "use scm" : "distilled for it");
        close_model(&from, model);
    }
}

int main(void) {
    dit_error err = {0};
    dit_context_desc desc = {0};
    test_vulkan_begin();
    CHECK(diti_env_init(&env, NULL, NULL, &err) >= 0);
    if (CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) {
        test_templates();
        test_pictures();
        test_refused();
    }
    dit_context_destroy(context);
    test_vulkan_end();
    return TEST_END("sana");
}
