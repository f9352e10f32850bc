/* Text encoders whose matrices have few bits, as other programs' files hold them, against the encoder of floats that
   the file means: T5 as nunchaku packs it (AWQ, groups of 128) and with 8-bit and 4-bit floats that have factors
   (ComfyUI's "scaled fp8", and its newer kinds), Qwen3 with 8-bit floats. On the base rung both have the same bytes,
   those of F32, as have the pictures of a pipeline that asks such a T5; in halves those of F16. A width of 384 has
   three groups, and 640 five.

   make test runs nunchaku's kind and ComfyUI's older one; DIT_TEST_ALL=1 all, and in halves.
   test-runs: lavapipe, in test-all sanitize swiftshader */
#include "library.h"
#include "files.h"
#include "lora_file.h"
#include "nunchaku_file.h"
#include "vulkan_test.h"

#define PIPELINE "tests/fixtures/pipe_pixart_sigma/"
#define QWEN3 "tests/fixtures/qwen3_text/"
enum {
    WORDS = 1024,
    COLUMNS = 384,
    HEADS = 2,
    HIDDEN = 640,
    BLOCKS = 2,
    WIDTH = 16,
    HEIGHT = 16,
    NUNCHAKU = SMALL_FLOATS_KINDS
};

static const char *const kind_names[] = {"F8, marked", "F8, older", "F8, rows", "NVFP4", "nunchaku's"};
static const char prompt[] = "a red kite over the sea";

static diti_env env;
static dit_context *context;
static lora_file ours, meant, transformer;
static bool sweep;  /* DIT_TEST_ALL=1 */
static bool halves; /* what a file means is rounded to F16, as the device does with it */

/* --- files --- */

static void add_floats(lora_file *file, const diti_stored_tensor *tensor, const float *values) {
    lora_file_bytes(file, tensor->name, "F32", tensor->shape, tensor->rank, values,
                    (size_t)diti_stored_tensor_elements(tensor) * sizeof *values);
}

static void add_halves(lora_file *file, const diti_stored_tensor *tensor, const float *values) {
    uint64_t count = diti_stored_tensor_elements(tensor);
    uint16_t *out = malloc((size_t)count * sizeof *out);
    for (uint64_t i = 0; i < count; i++) out[i] = diti_float_to_half(values[i]);
    lora_file_bytes(file, tensor->name, "F16", tensor->shape, tensor->rank, out, (size_t)count * sizeof *out);
    free(out);
}

static bool is_matrix(const diti_stored_tensor *tensor) {
    return tensor->rank == 2 && diti_ends_with(tensor->name, ".weight") && strstr(tensor->name, "layer") &&
           !strstr(tensor->name, "relative_attention_bias");
}

/* All matrices of the layers become ones of the kind. Such files name the table of words twice. */
static void make_files(const diti_checkpoint *model, int kind) {
    const uint64_t none = 0;
    dit_error err = {0};
    lora_file_free(&ours);
    lora_file_free(&meant);
    if (kind == FLOAT8_OLDER) lora_file_bytes(&ours, "scaled_fp8", "F8_E4M3", &none, 1, NULL, 0);
    for (uint32_t i = 0; i < diti_checkpoint_count(model); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(model, i);
        uint64_t count = diti_stored_tensor_elements(tensor);
        float *values = malloc((size_t)count * sizeof *values);
        char module[200];
        CHECK_MESSAGE(diti_checkpoint_read_float(model, tensor, values, count, &err) == DIT_OK, "%s", err.message);
        snprintf(module, sizeof module, "%.*s", (int)(strlen(tensor->name) - strlen(".weight")), tensor->name);
        if (!is_matrix(tensor))
            add_floats(&ours, tensor, values);
        else if (kind == NUNCHAKU)
            nunchaku_text(&ours, module, values, tensor->shape[0], tensor->shape[1]);
        else
            small_floats_add(&ours, module, (small_floats_kind)kind, values, tensor->shape[0], tensor->shape[1]);
        if (kind == NUNCHAKU && diti_equal(tensor->name, "shared.weight"))
            lora_file_bytes(&ours, "encoder.embed_tokens.weight", "F32", tensor->shape, 2, values,
                            (size_t)count * sizeof *values);
        if (halves && is_matrix(tensor))
            add_halves(&meant, tensor, values);
        else
            add_floats(&meant, tensor, values);
        free(values);
    }
}

static bool make_t5(int kind) {
    real_file file = {0};
    diti_checkpoint *model = NULL;
    dit_error err = {0};
    dit_source source;
    bool made;
    file.container = REAL_SAFETENSORS;
    file.type = DIT_TYPE_F32;
    real_t5(&file, WORDS, COLUMNS, HIDDEN, BLOCKS, HEADS);
    source = real_source(&file);
    made = CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &model, &err) == DIT_OK, "%s", err.message);
    if (made) make_files(model, kind);
    diti_checkpoint_close(model);
    real_free(&file);
    return made;
}

static bool make_qwen3(int kind) {
    diti_checkpoint *model = NULL;
    dit_error err = {0};
    dit_source source = {0};
    bool made;
    source.path = QWEN3 "model.safetensors";
    made = CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &model, &err) == DIT_OK, "%s", err.message);
    if (made) make_files(model, kind);
    diti_checkpoint_close(model);
    return made;
}

/* The pipeline's transformer, for texts as wide as this T5's. */
static void make_transformer(void) {
    diti_checkpoint *model = NULL;
    dit_error err = {0};
    dit_source source = {0};
    source.path = PIPELINE "transformer/diffusion_pytorch_model.safetensors";
    if (!CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &model, &err) == DIT_OK, "%s", err.message)) return;
    for (uint32_t i = 0; i < diti_checkpoint_count(model); i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(model, i);
        uint64_t count = diti_stored_tensor_elements(tensor);
        float *values = malloc((size_t)count * sizeof *values);
        CHECK(diti_checkpoint_read_float(model, tensor, values, count, &err) == DIT_OK);
        if (diti_equal(tensor->name, "caption_projection.linear_1.weight"))
            lora_file_matrix(&transformer, tensor->name, tensor->shape[0], COLUMNS, 0.3, 1);
        else
            add_floats(&transformer, tensor, values);
        free(values);
    }
    diti_checkpoint_close(model);
}

/* --- pipelines of them --- */

/* The folder of a pipeline with the text encoder in `encoder`, or without one; bare: of the encoder alone. */
typedef struct repository {
    const char *index, *config, *tokenizer;
    bool bare;
    lora_file *encoder;
    char path[512];
} repository;

static bool give(dit_source *out, const char *text) {
    out->data = text;
    out->size = strlen(text);
    return true;
}

static dit_result repository_open(const char *member, dit_source *out, void *user) {
    static const char config[] =
        "{\"_class_name\": \"PixArtTransformer2DModel\", \"attention_head_dim\": 24, \"caption_channels\": 384, "
        "\"cross_attention_dim\": 48, \"in_channels\": 4, \"interpolation_scale\": 1, \"num_attention_heads\": 2, "
        "\"num_layers\": 2, \"out_channels\": 8, \"patch_size\": 2, \"sample_size\": 8}";
    repository *from = user;
    FILE *file;
    if (!strcmp(member, "model_index.json") && give(out, from->index)) return DIT_OK;
    if (from->bare && strncmp(member, "text_encoder/", 13) && strncmp(member, "tokenizer/", 10)) return DIT_ERROR_IO;
    if (!strcmp(member, "transformer/config.json") && give(out, config)) return DIT_OK;
    if (!strcmp(member, "text_encoder/config.json") && from->encoder && give(out, from->config)) return DIT_OK;
    if (!strcmp(member, "text_encoder/model.safetensors") && from->encoder) {
        *out = lora_file_source(from->encoder);
        return DIT_OK;
    }
    if (!strcmp(member, "transformer/diffusion_pytorch_model.safetensors")) {
        *out = lora_file_source(&transformer);
        return DIT_OK;
    }
    if (!strncmp(member, "text_encoder/", 13) || !strncmp(member, "transformer/", 12)) return DIT_ERROR_IO;
    if (!strncmp(member, "tokenizer/", 10))
        snprintf(from->path, sizeof from->path, "%s%s", from->tokenizer, member + 10);
    else
        snprintf(from->path, sizeof from->path, PIPELINE "%s", member);
    file = fopen(from->path, "rb");
    if (!file) return DIT_ERROR_IO;
    fclose(file);
    out->path = from->path;
    return DIT_OK;
}

static const repository pixart = {"{\"_class_name\": \"PixArtSigmaPipeline\"}",
                                  "{\"feed_forward_proj\": \"gated-gelu\"}",
                                  PIPELINE "tokenizer/",
                                  false,
                                  NULL,
                                  ""};

/* apart: the encoder is a file of its own, which has no config.json. */
static dit_model *load(repository *from, lora_file *encoder, bool apart, uint32_t parts, VkDeviceSize budget) {
    dit_model_desc desc = {0};
    dit_component component = {0};
    dit_model *model = NULL;
    dit_error err = {0};
    from->encoder = apart ? NULL : encoder;
    component.role = DIT_ROLE_TEXT_1;
    component.source = lora_file_source(encoder);
    desc.source.open = repository_open;
    desc.source.user = from;
    desc.components = &component;
    desc.component_count = apart;
    desc.parts = parts;
    desc.weight_budget = budget;
    CHECK_MESSAGE(dit_model_load(context, &desc, &model, &err) == DIT_OK, "%s", err.message);
    return model;
}

typedef struct text {
    float *rows;
    size_t count;
} text;

static text encode(repository *from, lora_file *encoder, bool apart, uint64_t *bytes) {
    dit_model *model = load(from, encoder, apart, 1u << DIT_ROLE_TEXT_1, 0);
    dit_model_info info;
    diti_conditioning out;
    dit_error err = {0};
    text t = {0};
    size_t size = 0;
    void *blob;
    if (!model) return t;
    dit_model_get_info(model, &info);
    if (bytes) *bytes = info.weight_bytes;
    CHECK_MESSAGE(dit_encode_prompt(context, model, prompt, NULL, &size, &err) == DIT_OK, "%s", err.message);
    blob = malloc(size + 1);
    if (CHECK_MESSAGE(dit_encode_prompt(context, model, prompt, blob, &size, &err) == DIT_OK, "%s", err.message) &&
        CHECK(diti_conditioning_from_blob(&env, "test", blob, size, &out, &err) == DIT_OK)) {
        t.count = (size_t)out.texts[0].length * out.texts[0].columns;
        t.rows = malloc(t.count * sizeof *t.rows);
        memcpy(t.rows, out.texts[0].rows, t.count * sizeof *t.rows);
        diti_conditioning_free(&env, &out);
    }
    free(blob);
    dit_model_destroy(model);
    return t;
}

static double apart_by(const text *a, const text *b) {
    double error = 0, size = 0;
    if (!CHECK(a->count && a->count == b->count)) return INFINITY;
    for (size_t i = 0; i < a->count; i++) {
        double x = (double)a->rows[i], y = (double)b->rows[i];
        error += (x - y) * (x - y);
        size += y * y;
    }
    return CHECK(size > 0) ? sqrt(error / size) : INFINITY;
}

/* The texts of both files have the same bytes. apart: ours is a file of its own. */
static void check_texts(const char *what, int kind, const repository *like, bool apart) {
    repository from = *like;
    uint64_t bytes = 0, all = 0;
    text wanted = encode(&from, &meant, false, &all), got = encode(&from, &ours, apart, &bytes);
    double off = apart_by(&got, &wanted);
    printf("%s, %s: off by %.3g, %llu of %llu bytes\n", what, kind_names[kind], off, (unsigned long long)bytes,
           (unsigned long long)all);
    CHECK_MESSAGE(off == 0, "%s, %s: off by %.3g", what, kind_names[kind], off);
    if (kind == NUNCHAKU && !halves) { /* 4.25 bits, and what was F32 stays so */
        uint64_t matrices = BLOCKS * (4 * 64 * HEADS + 3 * HIDDEN) * (uint64_t)COLUMNS;
        CHECK_MESSAGE(all - bytes > matrices * 4 - matrices * 17 / 32 - 4096, "%llu of %llu bytes",
                      (unsigned long long)bytes, (unsigned long long)all);
    }
    free(wanted.rows), free(got.rows);
}

static bool draw(lora_file *encoder, bool apart, VkDeviceSize *budget, float *out) {
    repository from = pixart;
    dit_model *model = load(&from, encoder, apart, 0, budget ? *budget : 0);
    dit_job_desc desc = {0};
    dit_model_info info;
    dit_job *job = NULL;
    dit_error err = {0};
    dit_result result;
    if (!model) return false;
    dit_model_get_info(model, &info);
    if (budget) CHECK(!*budget || info.streamed_bytes > 0), *budget = info.weight_bytes * 3 / 4;
    desc.model = model;
    desc.prompt = prompt;
    desc.width = WIDTH;
    desc.height = HEIGHT;
    desc.steps = 2;
    desc.seed = 7;
    result = dit_job_create(context, &desc, &job, &err);
    if (result == DIT_OK) result = dit_job_wait(job, UINT64_MAX);
    if (job && result != DIT_OK) dit_job_status(job, NULL, &err);
    if (result == DIT_OK)
        result = dit_job_read(job, DIT_READ_RGB_F32, 0, 0, out, 3 * WIDTH * HEIGHT * sizeof *out, 0, &err);
    CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
    dit_job_destroy(job);
    dit_model_destroy(model);
    return result == DIT_OK;
}

/* The pictures of both files, and with weights that are streamed. */
static void check_pictures(int kind, bool apart) {
    static float wanted[3 * WIDTH * HEIGHT], got[3 * WIDTH * HEIGHT];
    VkDeviceSize budget = 0;
    if (draw(&meant, false, NULL, wanted) && draw(&ours, apart, &budget, got))
        CHECK_MESSAGE(!memcmp(wanted, got, sizeof got), "%s: another picture", kind_names[kind]);
    if (draw(&ours, apart, &budget, got))
        CHECK_MESSAGE(!memcmp(wanted, got, sizeof got), "%s: another picture when streamed", kind_names[kind]);
}

static void test_kinds(void) {
    static const repository qwen3 = {"{}", NULL, "tests/fixtures/tokenizers/qwen2/", true, NULL, ""};
    repository qwen = qwen3;
    size_t size;
    char *config = test_read_file(QWEN3 "config.json", &size);
    qwen.config = config;
    for (int kind = 0; kind <= NUNCHAKU; kind++) {
        if (!sweep && kind != NUNCHAKU && kind != FLOAT8_OLDER) continue;
        if (make_t5(kind)) check_texts("T5", kind, &pixart, kind == NUNCHAKU || kind == FLOAT8_OLDER);
        if (!halves && (kind == NUNCHAKU || kind == FLOAT8_OLDER)) check_pictures(kind, true);
        if (kind <= FLOAT8_ROWS && make_qwen3(kind)) check_texts("Qwen3", kind, &qwen, false);
    }
    free(config);
}

int main(void) {
    dit_context_desc desc = {0};
    dit_error err = {0};
    bool has_fp16 = false;
    sweep = test_sweeps();
    test_vulkan_begin();
    diti_env_init(&env, NULL, NULL, NULL);
    make_transformer();
    desc.overrides = "rung=base";
    if (CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) {
        has_fp16 = context->device->has_fp16;
        test_kinds();
    }
    dit_context_destroy(context);
    desc.overrides = "rung=fp16";
    halves = true;
    if (sweep && !has_fp16) printf("skipped: the driver multiplies no halves\n");
    if (sweep && has_fp16 && CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) {
        test_kinds();
        dit_context_destroy(context);
    }
    lora_file_free(&transformer);
    lora_file_free(&ours);
    lora_file_free(&meant);
    test_vulkan_end();
    return TEST_END("text_types");
}
