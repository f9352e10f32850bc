/* Pipelines with several text encoders, whole: SD3, FLUX.1 and HunyuanDiT put together from parts, some of which are
   made here of random numbers. Where the encoders' results go, what is absent, files of all kinds, blobs and prompts
   side by side, encoders that leave the device, and every refusal. Values against the references are golden's.
   test-runs: sanitize */
#include "library.h"
#include "job/conditioning.c"
#include "files.h"
#include "model_files.h"
#include "vulkan_test.h"

#define FIXTURES "tests/fixtures/"
enum { SIDE = 64, BYTES = SIDE * SIDE * 4, VOCABULARY = 1014 };
static const char prompt[] = "a red apple on a white background", other[] = "low quality, blurry";

/* ---- Messages that dit logs ---- */

static char said[8192];

static void log_line(int level, const char *message, void *user) {
    (void)level, (void)user;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", message);
}

/* ---- Files of random weights, F32 safetensors ---- */

typedef struct maker {
    bytes header, data;
    uint32_t seed;
} maker;

static void make_entry(maker *m, const char *name, uint32_t rank, const uint64_t *shape, uint64_t count) {
    char text[512];
    int n = snprintf(text, sizeof text, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", m->header.size ? "," : "{", name);
    for (uint32_t i = 0; i < rank; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%llu", i ? "," : "", (unsigned long long)shape[i]);
    n += snprintf(text + n, sizeof text - (size_t)n, "],\"data_offsets\":[%zu,%zu]}", m->data.size,
                  m->data.size + (size_t)count * 4);
    bytes_add(&m->header, text, (size_t)n);
}

/* rows 0: a vector; norms are near 1. */
static void make(maker *m, const char *prefix, const char *name, uint64_t rows, uint64_t columns) {
    uint64_t shape[2] = {rows, columns}, count = (rows ? rows : 1) * columns;
    bool norm = diti_ends_with(name, "weight") && !rows;
    char full[256];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    make_entry(m, full, rows ? 2 : 1, rows ? shape : shape + 1, count);
    for (uint64_t i = 0; i < count; i++) {
        float value;
        m->seed = m->seed * 1664525u + 1013904223u;
        value = ((float)(m->seed >> 9) / 4194304.0f - 1.0f) * 0.2f + (norm ? 1.0f : 0.0f);
        bytes_add(&m->data, &value, sizeof value);
    }
}

static void make_layer(maker *m, const char *prefix, const char *name, uint64_t rows, uint64_t columns) {
    char full[128];
    snprintf(full, sizeof full, "%s.weight", name);
    make(m, prefix, full, rows, columns);
    snprintf(full, sizeof full, "%s.bias", name);
    make(m, prefix, full, 0, rows ? rows : columns);
}

static bytes make_end(maker *m) {
    bytes file;
    bytes_add(&m->header, "}", 2);
    file = safetensors_bytes((const char *)m->header.data, 0);
    bytes_add(&file, m->data.data, m->data.size);
    bytes_free(&m->header);
    bytes_free(&m->data);
    return file;
}

static void make_clip(maker *m, const char *prefix, uint64_t d, uint64_t projected) {
    static const char *const layers[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                         "self_attn.out_proj"};
    char block[256];
    make(m, prefix, "text_model.embeddings.token_embedding.weight", VOCABULARY, d);
    make(m, prefix, "text_model.embeddings.position_embedding.weight", 77, d);
    for (int i = 0; i < 3; i++) {
        snprintf(block, sizeof block, "%stext_model.encoder.layers.%d.", prefix, i);
        for (size_t k = 0; k < DITI_COUNT(layers); k++) make_layer(m, block, layers[k], d, d);
        make_layer(m, block, "layer_norm1", 0, d);
        make_layer(m, block, "layer_norm2", 0, d);
        make_layer(m, block, "mlp.fc1", 2 * d, d);
        make_layer(m, block, "mlp.fc2", d, 2 * d);
    }
    make_layer(m, prefix, "text_model.final_layer_norm", 0, d);
    if (projected) make(m, prefix, "text_projection.weight", projected, d);
}

static void make_bert(maker *m, uint64_t d) {
    static const char *const layers[] = {"attention.self.query", "attention.self.key", "attention.self.value",
                                         "attention.output.dense"};
    char block[64];
    make(m, "", "embeddings.word_embeddings.weight", 592, d);
    make(m, "", "embeddings.position_embeddings.weight", 16, d);
    make(m, "", "embeddings.token_type_embeddings.weight", 2, d);
    make_layer(m, "", "embeddings.LayerNorm", 0, d);
    for (int i = 0; i < 2; i++) {
        snprintf(block, sizeof block, "encoder.layer.%d.", i);
        for (size_t k = 0; k < DITI_COUNT(layers); k++) make_layer(m, block, layers[k], d, d);
        make_layer(m, block, "attention.output.LayerNorm", 0, d);
        make_layer(m, block, "output.LayerNorm", 0, d);
        make_layer(m, block, "intermediate.dense", 2 * d, d);
        make_layer(m, block, "output.dense", d, 2 * d);
    }
}

/* The tensors of a file whose names begin with `only`, behind a prefix. channels: of the decoder's latent, 0: as they
   are. */
static void make_copy(maker *m, const char *path, const char *only, const char *prefix, uint64_t channels) {
    diti_env env = test_env(NULL);
    diti_checkpoint *file = NULL;
    dit_source source = {0};
    dit_error err = {0};
    source.path = path;
    if (!CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &file, &err) == DIT_OK, "%s", err.message)) return;
    for (uint32_t i = 0; i < diti_checkpoint_count(file); i++) {
        diti_stored_tensor tensor = *diti_checkpoint_tensor(file, i);
        uint64_t count = diti_stored_tensor_elements(&tensor), widened = count;
        char name[256];
        float *values;
        if (!diti_starts_with(tensor.name, only)) continue;
        if (channels && diti_equal(tensor.name, "decoder.conv_in.weight")) {
            widened = count / tensor.shape[1] * channels;
            tensor.shape[1] = channels;
        }
        values = (float *)calloc((size_t)widened, sizeof *values);
        diti_checkpoint_read_float(file, diti_checkpoint_tensor(file, i), values, count, NULL);
        for (uint64_t k = count; k < widened; k++) values[k] = values[k - count];
        snprintf(name, sizeof name, "%s%s", prefix, tensor.name);
        make_entry(m, name, tensor.rank, tensor.shape, widened);
        bytes_add(&m->data, values, (size_t)widened * sizeof *values);
        free(values);
    }
    diti_checkpoint_close(file);
}

/* ---- Parts: of SD3 [CLIP 16 | CLIP 24], pooled 16 + 32, T5 40; of FLUX.1 CLIP 48, T5 40 ---- */

static struct { bytes clip_l, clip_g, bert, vae; } made;

#define VAE FIXTURES "pipe_dit/vae/diffusion_pytorch_model.safetensors"

static void make_parts(void) {
    maker m = {{0}, {0}, 1};
    make_clip(&m, "", 16, 16);
    made.clip_l = make_end(&m);
    make_clip(&m, "", 24, 32);
    made.clip_g = make_end(&m);
    make_bert(&m, 40);
    made.bert = make_end(&m);
    make_copy(&m, VAE, "decoder.", "", 16);
    made.vae = make_end(&m);
}

typedef struct parts {
    dit_component list[12];
    uint32_t count;
    folder bert; /* with its config.json */
} parts;

static dit_component *add_path(parts *p, dit_role role, const char *path) {
    p->list[p->count].role = role;
    p->list[p->count].source.path = path;
    return &p->list[p->count++];
}

static void add_memory(parts *p, dit_role role, const bytes *file) {
    p->list[p->count].role = role;
    p->list[p->count++].source = memory_source(file);
}

/* Which of its encoders an SD3 has: bits of CLIP-L, CLIP-G and T5. */
static void sd3_parts(parts *p, unsigned encoders) {
    memset(p, 0, sizeof *p);
    add_path(p, DIT_ROLE_TRANSFORMER, FIXTURES "sd35_odd");
    add_memory(p, DIT_ROLE_VAE, &made.vae);
    if (encoders & 1) add_memory(p, DIT_ROLE_TEXT_1, &made.clip_l);
    if (encoders & 2) add_memory(p, DIT_ROLE_TEXT_2, &made.clip_g);
    if (encoders & 4) add_path(p, DIT_ROLE_NONE, FIXTURES "umt5_encoder");
    add_path(p, DIT_ROLE_NONE, FIXTURES "tokenizers/clip");
    add_path(p, DIT_ROLE_NONE, FIXTURES "pipe_pixart_sigma/tokenizer"); /* this tokenizer allows 24 tokens */
}

static void flux_parts(parts *p) {
    memset(p, 0, sizeof *p);
    add_path(p, DIT_ROLE_TRANSFORMER, FIXTURES "gguf_flux_sdcpp/model.gguf");
    add_memory(p, DIT_ROLE_VAE, &made.vae);
    add_path(p, DIT_ROLE_NONE, FIXTURES "tokenizers/clip");
    add_path(p, DIT_ROLE_NONE, FIXTURES "pipe_pixart_sigma/tokenizer");
    add_path(p, DIT_ROLE_NONE, FIXTURES "clip_l_proj/model.safetensors");
    add_path(p, DIT_ROLE_NONE, FIXTURES "umt5_encoder/model.safetensors");
}

static void hunyuan_parts(parts *p) {
    memset(p, 0, sizeof *p);
    add_path(p, DIT_ROLE_TRANSFORMER, FIXTURES "hunyuandit_v12");
    add_path(p, DIT_ROLE_VAE, FIXTURES "pipe_dit/vae");
    folder_add_text(&p->bert, "config.json", "{\"num_attention_heads\": 2}");
    p->bert.members[1].name = "model.safetensors";
    p->bert.members[1].file = made.bert;
    p->bert.count = 2;
    p->list[p->count].role = DIT_ROLE_TEXT_1;
    p->list[p->count++].source = folder_source(&p->bert);
    add_path(p, DIT_ROLE_TEXT_2, FIXTURES "pipe_pixart_sigma/text_encoder");
    add_path(p, DIT_ROLE_TOKENIZER_1, FIXTURES "tokenizers/bert");
    add_path(p, DIT_ROLE_TOKENIZER_2, FIXTURES "pipe_pixart_sigma/tokenizer");
}

/* ---- Running ---- */

static dit_context *context;

static dit_model_desc describe(const parts *p) {
    dit_model_desc desc = {0};
    desc.components = p->list;
    desc.component_count = p->count;
    return desc;
}

static dit_model *load(const dit_model_desc *desc) {
    dit_model *model = NULL;
    dit_error err = {0};
    CHECK_MESSAGE(dit_model_load(context, desc, &model, &err) == DIT_OK, "%s", err.message);
    return model;
}

static dit_model *load_parts(const parts *p) {
    dit_model_desc desc = describe(p);
    return load(&desc);
}

static dit_job_desc request(const dit_model *model) {
    dit_job_desc desc = {0};
    desc.model = model;
    desc.prompt = prompt;
    desc.negative_prompt = other;
    desc.width = desc.height = SIDE;
    desc.steps = 2;
    desc.seed = 7;
    return desc;
}

static bool finish(dit_job *job, unsigned char *rgba) {
    dit_error err = {0};
    dit_result result = dit_job_wait(job, UINT64_MAX);
    if (result == DIT_OK)
        result = dit_job_read(job, DIT_READ_RGBA8, 0, 0, rgba, BYTES, 0, &err);
    else
        dit_job_status(job, NULL, &err);
    return CHECK_MESSAGE(result == DIT_OK, "%s", err.message);
}

static bool picture(const dit_job_desc *desc, unsigned char *rgba) {
    dit_job *job = NULL;
    dit_error err = {0};
    bool good =
        CHECK_MESSAGE(dit_job_create(context, desc, &job, &err) == DIT_OK, "%s", err.message) && finish(job, rgba);
    dit_job_destroy(job);
    return good;
}

static bool same_picture(const dit_job_desc *desc, const unsigned char *expected) {
    unsigned char rgba[BYTES];
    return picture(desc, rgba) && memcmp(rgba, expected, BYTES) == 0;
}

static void refused(const dit_job_desc *desc, const char *word, const char *word2) {
    dit_job *job = NULL;
    dit_error err = {0};
    dit_result result = dit_job_create(context, desc, &job, &err);
    CHECK_MESSAGE(result < 0 && !job && strstr(err.message, word) && strstr(err.message, word2) &&
                      !strchr(err.message, '\n'),
                  "'%s' does not say %s, %s", err.message, word, word2);
}

static void load_refused(const parts *p, const char *word, const char *word2) {
    dit_model_desc desc = describe(p);
    dit_model *model = NULL;
    dit_error err = {0};
    CHECK_MESSAGE(dit_model_load(context, &desc, &model, &err) < 0 && !model && strstr(err.message, word) &&
                      strstr(err.message, word2),
                  "'%s' does not say %s, %s", err.message, word, word2);
}

/* A prompt's blob; freed with free. */
static unsigned char *encode(const dit_model *model, const char *text, size_t *size) {
    dit_error err = {0};
    unsigned char *blob;
    CHECK_MESSAGE(dit_encode_prompt(context, model, text, NULL, size, &err) == DIT_OK, "%s", err.message);
    blob = calloc(1, *size);
    CHECK_MESSAGE(dit_encode_prompt(context, model, text, blob, size, &err) == DIT_OK, "%s", err.message);
    return blob;
}

/* Prompts, blobs of them and both side by side make the same picture, also from one job. */
static void check_blobs(const dit_model *model, const unsigned char *expected) {
    size_t size = 0, negative_size = 0;
    unsigned char *blob = encode(model, prompt, &size), *negative = encode(model, other, &negative_size);
    unsigned char rgba[BYTES];
    dit_job_desc desc = request(model);
    dit_job *job = NULL;
    dit_error err = {0};
    CHECK(size == negative_size);
    desc.conditioning = blob;
    desc.conditioning_size = size;
    desc.prompt = NULL;
    CHECK(same_picture(&desc, expected));
    desc.negative_conditioning = negative;
    desc.negative_conditioning_size = size;
    desc.negative_prompt = NULL;
    CHECK(same_picture(&desc, expected));
    desc.conditioning = NULL;
    desc.prompt = other;
    CHECK_MESSAGE(dit_job_create(context, &desc, &job, &err) == DIT_OK, "%s", err.message);
    CHECK(finish(job, rgba) && memcmp(rgba, expected, BYTES) != 0);
    desc.prompt = prompt;
    CHECK(dit_job_restart(job, &desc, &err) == DIT_OK && finish(job, rgba) && memcmp(rgba, expected, BYTES) == 0);
    dit_job_destroy(job);
    desc.conditioning = blob;
    desc.conditioning_size = size;
    blob[size / 2] ^= 1;
    refused(&desc, "damaged", "dit_encode_prompt");
    free(blob);
    free(negative);
}

/* Weights count in a blob as in a job; the picture may be one step of a byte away, where rows are packed otherwise. */
static void check_weights(const dit_model *model) {
    static const char weighted[] = "a (red:1.4) apple on a [white] background";
    unsigned char expected[BYTES], rgba[BYTES], *blob;
    dit_error err = {0};
    dit_job_desc desc = request(model);
    size_t size = 0;
    int i, worst = 0, plain = 0;
    desc.prompt = weighted;
    desc.negative_prompt = "";
    desc.prompt_weights = true;
    if (!picture(&desc, expected)) return;
    CHECK(dit_encode_weighted_prompt(context, model, weighted, NULL, &size, &err) == DIT_OK);
    blob = calloc(1, size);
    said[0] = 0;
    CHECK(dit_encode_weighted_prompt(context, model, "a [red:blue:4] apple", blob, &size, &err) == DIT_OK);
    CHECK_MESSAGE(strstr(said, "the prompt has [a:b:0.5]"), "%s", said);
    said[0] = 0;
    CHECK_MESSAGE(dit_encode_weighted_prompt(context, model, weighted, blob, &size, &err) == DIT_OK, "%s", err.message);
    CHECK(dit_encode_prompt(context, model, "[a|b]", NULL, &size, &err) == DIT_OK && !strstr(said, "[a"));
    desc.conditioning = blob;
    desc.conditioning_size = size;
    if (picture(&desc, rgba))
        for (i = 0; i < BYTES; i++) worst = abs(rgba[i] - expected[i]) > worst ? abs(rgba[i] - expected[i]) : worst;
    desc.conditioning = NULL;
    desc.prompt = "a red apple on a white background";
    if (picture(&desc, rgba))
        for (i = 0; i < BYTES; i++) plain = abs(rgba[i] - expected[i]) > plain ? abs(rgba[i] - expected[i]) : plain;
    CHECK_MESSAGE(worst <= 1 && plain > 1, "%d, and without weights %d", worst, plain);
    free(blob);
}

/* ---- SD3 ---- */

static const float *blob_text(const unsigned char *blob, uint32_t text, uint32_t *tokens, uint32_t *columns) {
    const uint32_t *words = (const uint32_t *)(const void *)blob + DITI_BLOB_HEAD;
    const float *rows = (const float *)(const void *)(blob + DITI_BLOB_WORDS * 4);
    for (uint32_t i = 0; i < text; i++) rows += words[3 * i] * words[3 * i + 1];
    *tokens = words[3 * text];
    *columns = words[3 * text + 1];
    return rows;
}

/* The values of each encoder stand where they would without the others; zeros stand elsewhere. */
static void test_sd3_places(void) {
    static const unsigned owner_of_text[3] = {1, 2, 4};
    unsigned char *whole, *blobs[3];
    size_t size = 0, wrong[3] = {0, 0, 0}, filled[3] = {0, 0, 0};
    uint32_t tokens, columns, i, row, column;
    parts p;
    dit_model *model;
    sd3_parts(&p, 7);
    model = load_parts(&p);
    whole = encode(model, prompt, &size);
    dit_model_destroy(model);
    for (i = 0; i < 3; i++) {
        size_t one = 0;
        sd3_parts(&p, 1u << i);
        model = load_parts(&p);
        blobs[i] = encode(model, prompt, &one);
        dit_model_destroy(model);
        CHECK(one == size);
    }
    for (uint32_t text = 0; text < DITI_TEXTS; text += 2) { /* states, pooled */
        const float *all = blob_text(whole, text, &tokens, &columns);
        CHECK(columns == (text ? 48 : 40) && tokens == (text ? 1 : 77 + 24));
        for (row = 0; row < tokens; row++) {
            for (column = 0; column < columns; column++) {
                unsigned owner = !text && row >= 77 ? 4u : column < 16 ? 1u : 2u;
                for (i = 0; i < 3; i++) {
                    float value = blob_text(blobs[i], text, &tokens, &columns)[row * columns + column];
                    float expected = owner == owner_of_text[i] ? all[row * columns + column] : 0;
                    wrong[i] += value != expected;
                    filled[i] += value != 0;
                }
            }
        }
    }
    CHECK_MESSAGE(!wrong[0] && !wrong[1] && !wrong[2], "%zu, %zu, %zu values are wrong", wrong[0], wrong[1], wrong[2]);
    CHECK(filled[0] > 900 && filled[1] > 900 && filled[2] > 900);
    for (i = 0; i < 3; i++) free(blobs[i]);
    free(whole);
}

/* Encoders that take device memory only while they read make the same picture. */
static void test_sd3_released(const parts *p, const unsigned char *expected) {
    dit_model_desc desc = describe(p);
    dit_model_info info;
    dit_job_desc d;
    dit_model *model;
    desc.release_text_encoders = true;
    model = load(&desc);
    d = request(model);
    dit_model_get_info(model, &info);
    CHECK(info.streamed_bytes > 0 && same_picture(&d, expected));
    dit_model_destroy(model);
}

/* Everything in one file, under the names of the original ones. */
static void test_sd3_single_file(const unsigned char *expected) {
    dit_model_desc desc = {0};
    dit_component tokenizers[2] = {{{0}, DIT_ROLE_NONE, 0, false, DIT_ROLE_NONE},
                                   {{0}, DIT_ROLE_NONE, 0, false, DIT_ROLE_NONE}};
    maker m = {{0}, {0}, 1};
    bytes file;
    dit_job_desc d;
    dit_model *model;
    make_clip(&m, "text_encoders.clip_l.transformer.", 16, 16);
    make_clip(&m, "text_encoders.clip_g.transformer.", 24, 32);
    make_copy(&m, FIXTURES "sd35_odd/model.safetensors", "", "model.diffusion_model.", 0);
    make_copy(&m, FIXTURES "umt5_encoder/model.safetensors", "", "text_encoders.t5xxl.transformer.", 0);
    make_copy(&m, VAE, "decoder.", "first_stage_model.", 16);
    file = make_end(&m);
    tokenizers[0].source.path = FIXTURES "tokenizers/clip";
    tokenizers[1].source.path = FIXTURES "pipe_pixart_sigma/tokenizer";
    desc.source = memory_source(&file);
    desc.components = tokenizers;
    desc.component_count = 2;
    model = load(&desc);
    d = request(model);
    CHECK(model && same_picture(&d, expected));
    dit_model_destroy(model);
    bytes_free(&file);
}

/* Each encoder tells which words it has lost. */
static void test_lost_words(const dit_model *model) {
    char text[2048] = "";
    size_t size;
    for (int i = 0; i < 200; i++) strcat(text, i == 199 ? "zebra" : "apple ");
    said[0] = 0;
    free(encode(model, text, &size));
    CHECK_MESSAGE(strstr(said, "CLIP-L") && strstr(said, "CLIP-G") && strstr(said, "of T5") && strstr(said, "apple"),
                  "%s", said);
}

static void test_sd3(void) {
    unsigned char expected[BYTES], rgba[BYTES];
    parts p;
    dit_model *model;
    dit_model_info info;
    dit_job_desc d;
    dit_job *job = NULL;
    dit_error err = {0};
    sd3_parts(&p, 7);
    model = load_parts(&p);
    if (!model) return;
    dit_model_get_info(model, &info);
    CHECK(!info.missing && info.parameters[DIT_ROLE_TEXT_1] && info.parameters[DIT_ROLE_TEXT_2] &&
          info.parameters[DIT_ROLE_TEXT_3] && !strcmp(info.family, "sd3"));
    d = request(model);
    if (!picture(&d, expected)) return;
    check_blobs(model, expected);
    check_weights(model);
    test_lost_words(model);
    d.clip_skip = 1; /* its own */
    CHECK(same_picture(&d, expected));
    d.clip_skip = 2;
    CHECK(picture(&d, rgba) && memcmp(rgba, expected, BYTES) != 0);
    CHECK(dit_job_create(context, &d, &job, &err) == DIT_OK);
    d.clip_skip = 1;
    CHECK(dit_job_restart(job, &d, &err) < 0 && strstr(err.message, "clip_skip"));
    dit_job_destroy(job);
    d.clip_skip = 3;
    refused(&d, "clip_skip is 3", "at most 2");
    d.clip_skip = 0;
    d.guidance.distilled = 3;
    refused(&d, "distilled", "no input");
    d.guidance.distilled = 0;
    d.width = SIDE + 3;
    refused(&d, "width 67", "nearest is 64");
    d.width = 16 * SIDE;
    refused(&d, "positions", "14 x 14");
    dit_model_destroy(model);
    test_sd3_released(&p, expected);
    test_sd3_single_file(expected);
}

static void test_sd3_refusals(void) {
    dit_model_info info;
    folder flux_vae = {0};
    parts p;
    dit_model *model;
    dit_job_desc d;
    sd3_parts(&p, 0);
    model = load_parts(&p);
    d = request(model);
    refused(&d, "CLIP-L", "text_encoder");
    dit_model_get_info(model, &info);
    CHECK(info.missing & 1u << DIT_ROLE_TEXT_1 && info.missing & 1u << DIT_ROLE_TEXT_3);
    dit_model_destroy(model);
    sd3_parts(&p, 5);
    p.count -= 2; /* without tokenizers */
    model = load_parts(&p);
    d = request(model);
    refused(&d, "CLIP-L", "tokenizer");
    dit_model_destroy(model);
    sd3_parts(&p, 7);
    p.list[1].source.data = NULL;
    p.list[1].source.size = 0;
    p.list[1].source.path = FIXTURES "pipe_dit/vae";
    load_refused(&p, "4 latent channels", "16");
    sd3_parts(&p, 7);
    folder_add_text(
        &flux_vae, "config.json",
        "{\"_class_name\": \"AutoencoderKL\", \"block_out_channels\": [8, 8, 16, 16], \"latent_channels\": 16, "
        "\"layers_per_block\": 1, \"norm_num_groups\": 4, \"use_post_quant_conv\": false, "
        "\"use_quant_conv\": false, \"scaling_factor\": 0.3611, \"shift_factor\": 0.1159}");
    flux_vae.members[1].name = "diffusion_pytorch_model.safetensors";
    flux_vae.members[1].file = made.vae;
    flux_vae.count = 2;
    p.list[1].source = folder_source(&flux_vae);
    load_refused(&p, "that of FLUX.1", "sd3");
    bytes_free(&flux_vae.members[0].file);
    sd3_parts(&p, 7);
    add_memory(&p, DIT_ROLE_NONE, &made.bert);
    load_refused(&p, "components[7]", "no part");
    sd3_parts(&p, 4);
    add_path(&p, DIT_ROLE_TEXT_1, FIXTURES "umt5_encoder");
    load_refused(&p, "CLIP", "umt5_encoder");
    sd3_parts(&p, 4);
    add_path(&p, DIT_ROLE_TEXT_1, FIXTURES "clip_l_proj"); /* 48 columns and more of CLIP-G */
    load_refused(&p, "CLIP", "different models");
}

/* ---- FLUX.1 ---- */

static void test_flux(void) {
    unsigned char expected[BYTES], rgba[BYTES], *blob;
    const float *pooled;
    uint32_t tokens, columns;
    size_t size = 0;
    parts p;
    dit_model *model;
    dit_model_info info;
    dit_job_desc d;
    dit_job *job = NULL;
    dit_error err = {0};
    dit_counters before, after;
    flux_parts(&p);
    model = load_parts(&p);
    if (!model) return;
    dit_model_get_info(model, &info);
    CHECK_MESSAGE(!info.missing && info.default_guidance == 1 && !strcmp(info.variant, "dev") &&
                      !strcmp(info.default_sampler, "euler"),
                  "%x %g %s %s", info.missing, (double)info.default_guidance, info.variant, info.default_sampler);
    blob = encode(model, prompt, &size); /* pooled without CLIP's projection to 32 columns */
    pooled = blob_text(blob, DITI_TEXT_POOLED, &tokens, &columns);
    CHECK(tokens == 1 && columns == 48 && pooled[0] != 0 && pooled[47] != 0);
    free(blob);
    d = request(model);
    d.negative_prompt = NULL;
    CHECK(dit_job_create(context, &d, &job, &err) == DIT_OK && finish(job, expected));
    dit_job_get_counters(job, &before);
    d.guidance.distilled = 3.5f; /* its own */
    CHECK(dit_job_restart(job, &d, &err) == DIT_OK && finish(job, rgba) && !memcmp(rgba, expected, BYTES));
    d.guidance.distilled = 20;
    CHECK(dit_job_restart(job, &d, &err) == DIT_OK && finish(job, rgba) && memcmp(rgba, expected, BYTES));
    dit_job_get_counters(job, &after);
    CHECK(before.recordings == after.recordings);
    dit_job_destroy(job);
    d.guidance.distilled = 0;
    d.guidance.scale = 4;
    said[0] = 0;
    CHECK(same_picture(&d, expected) && strstr(said, "negative prompt"));
    d.negative_prompt = other;
    CHECK(picture(&d, rgba) && memcmp(rgba, expected, BYTES));
    d.clip_skip = 1;
    refused(&d, "clip_skip", "0");
    dit_model_destroy(model);
    p.count--;
    model = load_parts(&p);
    d = request(model);
    refused(&d, "T5", "text_encoder_2");
    dit_model_destroy(model);
}

/* ---- HunyuanDiT: texts with masks ---- */

/* A whole PixArt lends its T5 as DIT_ROLE_T5 and its tokenizer as either role, and nothing else. */
static void check_hunyuan_elsewhere(const parts *p, const unsigned char *expected) {
    dit_role lent;
    for (lent = DIT_ROLE_TOKENIZER; lent <= DIT_ROLE_T5; lent++) {
        parts other_parts = {0};
        dit_model_desc desc;
        dit_model *model;
        dit_job_desc d;
        add_path(&other_parts, DIT_ROLE_TOKENIZER, FIXTURES "tokenizers/bert");
        add_path(&other_parts, lent, FIXTURES "pipe_pixart_sigma");
        if (lent == DIT_ROLE_TOKENIZER) add_path(&other_parts, DIT_ROLE_T5, FIXTURES "pipe_pixart_sigma/text_encoder");
        add_path(&other_parts, DIT_ROLE_VAE, FIXTURES "pipe_dit/vae");
        other_parts.list[other_parts.count++] = p->list[2]; /* BERT */
        desc = describe(&other_parts);
        desc.source.path = FIXTURES "hunyuandit_v12";
        model = load(&desc);
        if (!model) continue;
        d = request(model);
        CHECK(same_picture(&d, expected));
        dit_model_destroy(model);
        desc.components = &other_parts.list[1]; /* a model without text encoders has no place for it */
        desc.component_count = 1;
        desc.source.path = FIXTURES "pipe_dit";
        CHECK(dit_model_load(context, &desc, &model, NULL) == DIT_ERROR_UNSUPPORTED_MODEL);
    }
}

static void test_hunyuan(void) {
    unsigned char expected[BYTES], rgba[BYTES];
    parts p;
    dit_model *model;
    dit_job_desc d;
    hunyuan_parts(&p);
    model = load_parts(&p);
    if (!model) return;
    d = request(model);
    if (picture(&d, expected)) check_blobs(model, expected);
    check_weights(model);
    d.prompt = "a";
    CHECK(picture(&d, rgba) && memcmp(rgba, expected, BYTES));
    dit_model_destroy(model);
    check_hunyuan_elsewhere(&p, expected);
    bytes_free(&p.bert.members[0].file);
}

/* ---- One encoder, whose prompts have as many rows as tokens ---- */

static void test_pixart(void) {
    dit_model_desc desc = {0};
    dit_model *model;
    desc.source.path = FIXTURES "pipe_pixart_sigma";
    model = load(&desc);
    if (model) check_weights(model);
    dit_model_destroy(model);
}

int main(void) {
    dit_context_desc desc = {0};
    dit_error err = {0};
    test_vulkan_begin();
    desc.overrides = "rung=base,gflop_ns=100000000"; /* slices that no busy machine changes */
    desc.logger.func = log_line;
    desc.logger.max_level = 1;
    if (CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) {
        make_parts();
        test_sd3_places();
        test_sd3();
        test_sd3_refusals();
        test_flux();
        test_hunyuan();
        test_pixart();
        bytes_free(&made.clip_l), bytes_free(&made.clip_g), bytes_free(&made.bert), bytes_free(&made.vae);
    }
    dit_context_destroy(context);
    test_vulkan_end();
    return TEST_END("pipelines");
}
