/* CLIP's encoder of pictures against its formulas in doubles: a whole encoder with made-up weights, under the names of
   transformers 4 and of 5, pictures of bytes and of floats, wide and high, larger and smaller than what it reads; and
   Wan 2.1 I2V, which reads its tokens, Wan's models that go from one picture to another, and SigLIP's file beside a
   HunyuanVideo 1.5. */
/* test-runs: lavapipe sanitize, in test-all swiftshader */
#include "library.h"
#include "files.h"
#include "real_shapes.h"
#include "vulkan_test.h"

enum {
    D = 20,
    SIDE = 3,
    PATCH = 2,
    TOKENS = SIDE * SIDE + 1,
    HEADS = 2,
    LAYERS = 3,
    HIDDEN = 4 * D,
    IN = 3 * PATCH * PATCH
};

/* --- an encoder with made-up weights, as a folder --- */

/* siglip: SigLIP's, which has no token for the whole; else CLIP's. */
static void vision_file(real_file *file, uint32_t d, uint32_t side, uint32_t patch, uint32_t layers, bool siglip) {
    static const char *const square[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                         "self_attn.out_proj"};
    static const char block[] = "vision_model.encoder.layers.%u";
    const uint64_t kernel[4] = {d, 3, patch, patch}, whole[1] = {d};
    uint32_t i, k;
    memset(file, 0, sizeof *file);
    file->container = REAL_SAFETENSORS;
    file->type = DIT_TYPE_F32;
    real_tensor_of(file, kernel, 4, 0, 0.3, "vision_model.embeddings.patch_embedding", NULL, 0, ".weight");
    real_tensor_of(file, whole, 1, 0, 0.3, "vision_model.embeddings", NULL, 0,
                   siglip ? ".patch_embedding.bias" : ".class_embedding");
    real_rows(file, side * side + !siglip, d, "vision_model.embeddings.position_embedding.weight");
    if (siglip)
        real_named_layer(file, 3 * d, d, "vision_model", "head.attention.out_proj", 0);
    else
        real_named_norm(file, d, true, "vision_model", "pre_layrnorm", 0);
    for (i = 0; i < layers; i++) {
        for (k = 0; k < 4; k++) real_named_layer(file, d, d, block, square[k], i);
        real_named_norm(file, d, true, block, "layer_norm1", i);
        real_named_norm(file, d, true, block, "layer_norm2", i);
        real_named_layer(file, 4 * d, d, block, "mlp.fc1", i);
        real_named_layer(file, d, 4 * d, block, "mlp.fc2", i);
    }
    real_named_norm(file, d, true, "vision_model", "post_layernorm", 0);
}

static bytes file_bytes(real_file *file) {
    bytes whole = {0};
    dit_source source = real_source(file);
    bytes_add(&whole, NULL, (size_t)source.size);
    CHECK(source.read_at(0, whole.data, (size_t)source.size, source.user) == (int64_t)source.size);
    return whole;
}

/* --- its formulas, in doubles --- */

static diti_env env;
static diti_checkpoint *stored;

static void values_of(double *out, size_t count, const char *format, uint32_t layer) {
    char name[128];
    const diti_stored_tensor *tensor;
    float *values = malloc(count * sizeof *values);
    dit_error err = {0};
    snprintf(name, sizeof name, format, layer);
    tensor = diti_checkpoint_find(stored, name);
    memset(values, 0, count * sizeof *values);
    if (CHECK_MESSAGE(tensor && diti_stored_tensor_elements(tensor) == count, "%s", name))
        CHECK(diti_checkpoint_read(stored, tensor, 0, values, count * sizeof *values, &err) == DIT_OK);
    for (size_t i = 0; i < count; i++) out[i] = values[i];
    free(values);
}

static void layer_of(const double *x, uint32_t in, double *out, uint32_t rows, const char *format, uint32_t layer) {
    static double weight[HIDDEN * D], bias[HIDDEN];
    char name[128];
    snprintf(name, sizeof name, "%s.weight", format);
    values_of(weight, (size_t)rows * in, name, layer);
    snprintf(name, sizeof name, "%s.bias", format);
    values_of(bias, rows, name, layer);
    for (uint32_t t = 0; t < TOKENS; t++)
        for (uint32_t r = 0; r < rows; r++) {
            double sum = bias[r];
            for (uint32_t c = 0; c < in; c++) sum += weight[r * in + c] * x[t * in + c];
            out[t * rows + r] = sum;
        }
}

static void norm_of(const double *x, double *out, const char *format, uint32_t layer) {
    double weight[D], bias[D];
    char name[128];
    snprintf(name, sizeof name, "%s.weight", format);
    values_of(weight, D, name, layer);
    snprintf(name, sizeof name, "%s.bias", format);
    values_of(bias, D, name, layer);
    for (uint32_t t = 0; t < TOKENS; t++) {
        double mean = 0, square = 0;
        for (uint32_t c = 0; c < D; c++) mean += x[t * D + c] / D;
        for (uint32_t c = 0; c < D; c++) square += (x[t * D + c] - mean) * (x[t * D + c] - mean) / D;
        for (uint32_t c = 0; c < D; c++)
            out[t * D + c] = (x[t * D + c] - mean) / sqrt(square + 1e-5) * weight[c] + bias[c];
    }
}

#define LAYER "vision_model.encoder.layers.%u."
static void reference(const double *patches, double *x) {
    static double weight[D * IN], position[TOKENS * D], h[TOKENS * D], q[TOKENS * D], k[TOKENS * D], v[TOKENS * D],
        o[TOKENS * D], up[TOKENS * HIDDEN];
    uint32_t i, t, s, c, head;
    values_of(weight, D * IN, "vision_model.embeddings.patch_embedding.weight", 0);
    values_of(position, TOKENS * D, "vision_model.embeddings.position_embedding.weight", 0);
    values_of(x, D, "vision_model.embeddings.class_embedding", 0);
    for (t = 1; t < TOKENS; t++)
        for (c = 0; c < D; c++) {
            x[t * D + c] = 0;
            for (i = 0; i < IN; i++) x[t * D + c] += weight[c * IN + i] * patches[(t - 1) * IN + i];
        }
    for (i = 0; i < TOKENS * D; i++) x[i] += position[i];
    norm_of(x, h, "vision_model.pre_layrnorm", 0);
    memcpy(x, h, sizeof h);
    for (i = 0; i + 1 < LAYERS; i++) { /* all but the last */
        norm_of(x, h, LAYER "layer_norm1", i);
        layer_of(h, D, q, D, LAYER "self_attn.q_proj", i);
        layer_of(h, D, k, D, LAYER "self_attn.k_proj", i);
        layer_of(h, D, v, D, LAYER "self_attn.v_proj", i);
        for (head = 0; head < HEADS; head++)
            for (t = 0; t < TOKENS; t++) {
                double scores[TOKENS], sum = 0;
                uint32_t first = head * D / HEADS, last = first + D / HEADS;
                for (s = 0; s < TOKENS; s++) {
                    scores[s] = 0;
                    for (c = first; c < last; c++) scores[s] += q[t * D + c] * k[s * D + c] / sqrt((double)D / HEADS);
                    sum += scores[s] = exp(scores[s]);
                }
                for (c = first; c < last; c++) {
                    o[t * D + c] = 0;
                    for (s = 0; s < TOKENS; s++) o[t * D + c] += scores[s] / sum * v[s * D + c];
                }
            }
        layer_of(o, D, h, D, LAYER "self_attn.out_proj", i);
        for (c = 0; c < TOKENS * D; c++) x[c] += h[c];
        norm_of(x, h, LAYER "layer_norm2", i);
        layer_of(h, D, up, HIDDEN, LAYER "mlp.fc1", i);
        for (c = 0; c < TOKENS * HIDDEN; c++) up[c] *= 0.5 * (1 + erf(up[c] / sqrt(2.0)));
        layer_of(up, HIDDEN, h, D, LAYER "mlp.fc2", i);
        for (c = 0; c < TOKENS * D; c++) x[c] += h[c];
    }
}

/* --- the picture: every pixel of the result as a sum over all of the picture --- */

static double cubic(double x) {
    x = fabs(x);
    return x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
}

static double scaled(const double *line, size_t step, uint32_t from, uint32_t to, uint32_t at, bool whole) {
    double scale = (double)from / to, wide = scale > 1 ? scale : 1, sum = 0, all = 0;
    for (uint32_t i = 0; i < from; i++) {
        double weight = cubic((i + 0.5 - (at + 0.5) * scale) / wide);
        sum += weight * line[i * step];
        all += weight;
    }
    sum /= all;
    return !whole ? sum : sum < 0 ? 0 : sum > 255 ? 255 : floor(sum + 0.5);
}

static void patches_of(const double *planes, uint32_t width, uint32_t height, bool whole, double *out) {
    static const double mean[] = {0.48145466, 0.4578275, 0.40821073},
                        deviation[] = {0.26862954, 0.26130258, 0.27577711};
    enum { EDGE = SIDE * PATCH };
    static double lines[EDGE * 64];
    uint32_t wide = width < height ? EDGE : EDGE * width / height, high = width < height ? EDGE * height / width : EDGE;
    uint32_t c, y, x;
    for (c = 0; c < 3; c++, planes += (size_t)width * height) {
        for (y = 0; y < height; y++)
            for (x = 0; x < EDGE; x++)
                lines[y * EDGE + x] = scaled(planes + (size_t)y * width, 1, width, wide, (wide - EDGE) / 2 + x, whole);
        for (y = 0; y < EDGE; y++)
            for (x = 0; x < EDGE; x++) {
                double v = scaled(lines + x, EDGE, height, high, (high - EDGE) / 2 + y, whole);
                out[(((y / PATCH) * SIDE + x / PATCH) * 3 + c) * PATCH * PATCH + y % PATCH * PATCH + x % PATCH] =
                    (v / 255 - mean[c]) / deviation[c];
            }
    }
}

static void check_picture(diti_device *device, const diti_clip_vision *vision, uint32_t width, uint32_t height,
                          bool floats) {
    static uint8_t rgba[64 * 64 * 4];
    static float rgb[64 * 64 * 3], made[TOKENS * D];
    static double planes[3 * 64 * 64], patches[(TOKENS - 1) * IN], wanted[TOKENS * D];
    dit_image image = {0};
    diti_graph graph;
    diti_plan *plan = NULL;
    diti_tensor input, out, kept;
    dit_error err = {0};
    uint32_t i, c, state = width * 31 + height;
    double error = 0, size = 0;
    for (i = 0; i < width * height; i++)
        for (c = 0; c < 3; c++) {
            state = state * 1664525u + 1013904223u;
            rgba[4 * i + c] = (uint8_t)(state >> 24);
            rgb[3 * i + c] = (float)(state >> 24) / 255;
            planes[c * width * height + i] = floats ? 255 * (double)rgb[3 * i + c] : rgba[4 * i + c];
        }
    image.width = width, image.height = height;
    if (floats)
        image.rgb = rgb;
    else
        image.rgba = rgba;
    patches_of(planes, width, height, !floats, patches);
    reference(patches, wanted);
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "encode", false);
    input = diti_clip_vision_input(vision, &graph);
    out = diti_clip_vision_encode(vision, &graph, input);
    kept = diti_tensor_state(&graph, DITI_F32, TOKENS, D, "kept");
    diti_copy(&graph, out, kept, "keep");
    if (CHECK_MESSAGE(diti_plan_create(&graph, NULL, &plan, &err) == DIT_OK, "%s", err.message) &&
        CHECK(diti_clip_vision_write(vision, plan, input, &image, &err) == DIT_OK) &&
        CHECK_MESSAGE(diti_plan_run(plan, 0, 1, &err) == DIT_OK, "%s", err.message))
        CHECK(diti_plan_read(plan, kept, made, sizeof made, &err) == DIT_OK);
    for (i = 0; i < TOKENS * D; i++) {
        error += (made[i] - wanted[i]) * (made[i] - wanted[i]);
        size += wanted[i] * wanted[i];
    }
    CHECK_MESSAGE(sqrt(error / size) <= 1e-5, "%u x %u: relative L2 %g", width, height, sqrt(error / size));
    diti_plan_destroy(plan);
    diti_graph_free(&graph);
}

/* The encoder's tokens alone. */
static void tokens_of(diti_device *device, const dit_source *source, const diti_json *config, const dit_image *image,
                      float *out, uint32_t tokens, uint32_t columns) {
    diti_checkpoint *file = NULL;
    diti_clip_vision *vision = NULL;
    diti_plan *plan = NULL;
    diti_graph graph;
    diti_tensor input, kept;
    dit_error err = {0};
    if (!CHECK_MESSAGE(diti_checkpoint_open(&env, source, &file, &err) == DIT_OK &&
                           diti_clip_vision_load(device, &env, config, file, "", NULL, &vision, &err) == DIT_OK,
                       "%s", err.message))
        return;
    diti_graph_init(&graph, device);
    diti_graph_segment(&graph, "encode", false);
    input = diti_clip_vision_input(vision, &graph);
    kept = diti_tensor_state(&graph, DITI_F32, tokens, columns, "kept");
    diti_copy(&graph, diti_clip_vision_encode(vision, &graph, input), kept, "keep");
    CHECK(diti_plan_create(&graph, NULL, &plan, &err) == DIT_OK &&
          diti_clip_vision_write(vision, plan, input, image, &err) == DIT_OK &&
          diti_plan_run(plan, 0, 1, &err) == DIT_OK &&
          diti_plan_read(plan, kept, out, (size_t)tokens * columns * sizeof *out, &err) == DIT_OK);
    diti_plan_destroy(plan);
    diti_graph_free(&graph);
    diti_clip_vision_destroy(vision);
    diti_checkpoint_close(file);
}

/* Files of ComfyUI have no config.json: heads of ViT-H/14 have 80 columns. */
static void test_heads(diti_device *device) {
    enum { WIDE_D = 320, ROWS = SIDE * SIDE + 1 };
    static float made[2][ROWS * WIDE_D];
    static const uint8_t rgba[6 * 6 * 4] = {200, 10, 90, 255, 30, 60, 250, 255};
    static const char config[] = "{\"num_attention_heads\": 4}";
    dit_image image = {0};
    real_file file;
    bytes whole;
    dit_source source;
    uint32_t i;
    vision_file(&file, WIDE_D, SIDE, PATCH, 2, false);
    whole = file_bytes(&file);
    source = memory_source(&whole);
    image.width = image.height = 6, image.rgba = rgba;
    for (i = 0; i < 2; i++) {
        diti_json *json = NULL;
        if (i) CHECK(diti_json_parse(&env, config, strlen(config), "config", &json, NULL) == DIT_OK);
        tokens_of(device, &source, json, &image, made[i], ROWS, WIDE_D);
        diti_json_free(&env, json);
    }
    CHECK(!memcmp(made[0], made[1], sizeof made[0]));
    bytes_free(&whole);
    real_free(&file);
}

/* The beginning of names becomes blanks in front of them. */
static void leave_out(bytes *file, const char *beginning) {
    size_t length = strlen(beginning), i;
    for (i = 0; i + length < file->size; i++)
        if (!memcmp(file->data + i, beginning, length)) {
            memset(file->data + i, ' ', length);
            file->data[i + length - 1] = '"';
        }
}

static void test_encoder(diti_device *device, bool bare) {
    const char config[] = "{\"num_attention_heads\": 2, \"hidden_act\": \"gelu\"}";
    diti_clip_vision *vision = NULL;
    diti_checkpoint *loaded = NULL;
    diti_json *json = NULL;
    real_file file;
    bytes whole, other;
    dit_source source, other_source;
    dit_error err = {0};
    vision_file(&file, D, SIDE, PATCH, LAYERS, false);
    whole = file_bytes(&file);
    other = file_bytes(&file);
    if (bare) leave_out(&other, "\"vision_model.");
    source = memory_source(&whole);
    other_source = memory_source(&other);
    CHECK(diti_json_parse(&env, config, strlen(config), "config", &json, &err) == DIT_OK);
    if (CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &stored, &err) == DIT_OK &&
                          diti_checkpoint_open(&env, &other_source, &loaded, &err) == DIT_OK &&
                          diti_clip_vision_load(device, &env, json, loaded, "", NULL, &vision, &err) == DIT_OK,
                      "%s", err.message)) {
        CHECK(diti_clip_vision_is(loaded, "") && diti_clip_vision_tokens(vision) == TOKENS &&
              diti_clip_vision_columns(vision) == D);
        check_picture(device, vision, 23, 16, false);
        check_picture(device, vision, 16, 37, false);
        check_picture(device, vision, 6, 6, false);
        check_picture(device, vision, 4, 3, true);
        check_picture(device, vision, 31, 47, true);
    }
    diti_clip_vision_destroy(vision);
    diti_checkpoint_close(loaded);
    diti_checkpoint_close(stored);
    diti_json_free(&env, json);
    bytes_free(&whole);
    bytes_free(&other);
    real_free(&file);
}

/* --- Wan 2.1 I2V --- */

enum { WIDE = 48, HIGH = 32, FRAMES = 5, TEXT = 40, WORDS = 6, SEEN = 257 };

static bool make(dit_context *context, const dit_job_desc *desc, uint8_t *out, dit_error *err) {
    dit_job *job = NULL;
    bool good = dit_job_create(context, desc, &job, err) == DIT_OK && dit_job_wait(job, UINT64_MAX) == DIT_OK;
    if (good)
        good = dit_job_read(job, DIT_READ_RGBA8, 0, DIT_ALL_FRAMES, out, FRAMES * WIDE * HIGH * 4, 0, err) == DIT_OK;
    dit_job_destroy(job);
    return good;
}

static dit_tensor embeds(const char *name, uint64_t rows, uint64_t columns, const float *data) {
    dit_tensor out = {0};
    out.name = name;
    out.type = DIT_TYPE_F32;
    out.rank = 3;
    out.shape[0] = 1, out.shape[1] = rows, out.shape[2] = columns;
    out.data = data;
    return out;
}

/* The clip is that of the encoder's tokens, given; another picture's tokens make another clip; without either it is
   refused. */
static void test_wan(dit_context *context) {
    static float text[2][WORDS * TEXT], seen[SEEN * D];
    static uint8_t pixels[WIDE * HIGH * 4], alone[FRAMES * WIDE * HIGH * 4], given[FRAMES * WIDE * HIGH * 4],
        other[FRAMES * WIDE * HIGH * 4];
    dit_component parts[4];
    dit_tensor inputs[4];
    dit_model_desc md = {0};
    dit_job_desc desc = {0};
    dit_model *model = NULL;
    dit_image image = {0};
    dit_model_info info;
    dit_error err = {0};
    real_file file;
    bytes whole;
    uint32_t i;
    memset(parts, 0, sizeof parts);
    vision_file(&file, D, 16, PATCH, 2, false);
    whole = file_bytes(&file);
    for (i = 0; i < 2 * WORDS * TEXT; i++)
        text[i / (WORDS * TEXT)][i % (WORDS * TEXT)] = (float)(i * 7 % 11) / 11 - 0.5f;
    for (i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 5 + i / 192 * 3);
    image.width = WIDE, image.height = HIGH, image.rgba = pixels;
    parts[0].role = DIT_ROLE_TRANSFORMER, parts[0].source.path = "tests/fixtures/wan21_i2v";
    parts[1].role = DIT_ROLE_VAE, parts[1].source.path = "tests/fixtures/pipe_wan22_i2v_a14b/vae";
    parts[2].role = DIT_ROLE_IMAGE_ENCODER, parts[2].source = memory_source(&whole);
    inputs[0] = embeds("prompt_embeds", WORDS, TEXT, text[0]);
    inputs[1] = embeds("negative_prompt_embeds", WORDS, TEXT, text[1]);
    inputs[2] = embeds("prompt_embeds_2", SEEN, D, seen);
    inputs[3] = embeds("negative_prompt_embeds_2", SEEN, D, seen);
    md.components = parts;
    md.component_count = 3;
    desc.width = WIDE, desc.height = HIGH, desc.frame_count = FRAMES, desc.steps = 2;
    desc.init_image = &image;
    desc.inputs = inputs, desc.input_count = 2;
    if (!CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message)) return;
    dit_model_get_info(model, &info);
    CHECK(info.wants_image && info.parameters[DIT_ROLE_IMAGE_ENCODER] > 0);
    desc.model = model;
    CHECK_MESSAGE(make(context, &desc, alone, &err), "%s", err.message);
    tokens_of(context->device, &parts[2].source, NULL, &image, seen, SEEN, D);
    dit_model_destroy(model);
    md.component_count = 2;
    if (CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message)) {
        dit_model_get_info(model, &info);
        CHECK(info.missing & 1u << DIT_ROLE_IMAGE_ENCODER);
        desc.model = model;
        CHECK(!make(context, &desc, other, &err) && strstr(err.message, "image_encoder"));
        desc.input_count = 4;
        CHECK_MESSAGE(make(context, &desc, given, &err), "%s", err.message);
        CHECK(!memcmp(alone, given, sizeof alone));
        for (i = 0; i < SEEN * D; i++) seen[i] = -seen[i];
        CHECK_MESSAGE(make(context, &desc, other, &err), "%s", err.message);
        CHECK(memcmp(given, other, sizeof given) != 0);
        dit_model_destroy(model);
    }
    bytes_free(&whole);
    real_free(&file);
}

/* --- Wan 2.1 FLF2V, Wan 2.2 I2V --- */

enum { WHOLE = 16 * 2 * 4 * 6 /* values of a latent */ };

/* The fixture's transformer with the places of the tokens of two pictures. */
static void transformer_of_two(folder *out) {
    static const char places[] = ",\"condition_embedder.image_embedder.pos_embed\":{\"dtype\":\"F32\",\"shape\":"
                                 "[1,514,20],\"data_offsets\":[%u,%u]}}";
    size_t size = 0, config = 0;
    char *file = test_read_file("tests/fixtures/wan21_i2v/model.safetensors", &size), entry[200];
    char *text = test_read_file("tests/fixtures/wan21_i2v/config.json", &config);
    bytes whole = {0};
    uint64_t header = 0, i;
    if (CHECK(file && text && size > 8)) {
        memcpy(&header, file, sizeof header);
        for (i = 8 + header; file[i - 1] != '}';) i--;
        diti_format(entry, sizeof entry, places, (unsigned)(size - 8 - header),
                    (unsigned)(size - 8 - header + 2 * SEEN * D * sizeof(float)));
        bytes_u64(&whole, i - 9 + strlen(entry));
        bytes_add(&whole, file + 8, i - 9);
        bytes_add(&whole, entry, strlen(entry));
        bytes_add(&whole, file + 8 + header, size - 8 - header);
        for (i = 0; i < 2 * SEEN * D; i++) {
            float place = (float)(i * 7 % 23) / 16 - 0.625f;
            bytes_add(&whole, &place, sizeof place);
        }
        folder_add(out, "diffusion_pytorch_model.safetensors", whole);
        folder_add_text(out, "config.json", text);
    }
    free(file);
    free(text);
}

/* Every 64th value from the sixth on of what diffusers 0.42.1 makes in float32, with UniPC's sigmas of 0.36. */
static void check_latent(dit_context *context, const dit_job_desc *desc, const float wanted[12], float *latent) {
    dit_job *job = NULL;
    dit_error err = {0};
    float worst = 0;
    uint32_t i;
    if (CHECK_MESSAGE(dit_job_create(context, desc, &job, &err) == DIT_OK && dit_job_wait(job, UINT64_MAX) == DIT_OK &&
                          dit_job_read(job, DIT_READ_LATENT_F32, 0, 0, latent, WHOLE * sizeof *latent, 0, &err) ==
                              DIT_OK,
                      "%s", err.message))
        for (i = 0; i < 12; i++) worst = fmaxf(worst, fabsf(latent[5 + 64 * i] - wanted[i]));
    CHECK_MESSAGE(worst < 2e-4f, "a latent differs by %g", (double)worst);
    dit_job_destroy(job);
}

static void check_refused(dit_context *context, const dit_job_desc *desc, const char *word) {
    dit_job *job = NULL;
    dit_error err = {0};
    CHECK_MESSAGE(dit_job_create(context, desc, &job, &err) == DIT_ERROR_INVALID_ARGUMENT && strstr(err.message, word),
                  "\"%s\" wanted in: %s", word, err.message);
    dit_job_destroy(job);
}

/* A model that must have both pictures: tokens of both are given, then made by an encoder. Pictures of floats are those
   of bytes. */
static void test_first_and_last(dit_context *context, const dit_image *images, const dit_image *floats) {
    static const float wanted[] = {-1.439954f, -0.887161f, 2.427150f, 0.536604f, -0.605085f, -1.784316f,
                                   -2.029367f, -0.082096f, 1.634232f, 0.628884f, -2.613059f, 1.882661f};
    static float text[2][WORDS * TEXT], seen[2 * SEEN * D], latent[WHOLE], other[WHOLE];
    static uint8_t alone[FRAMES * WIDE * HIGH * 4], given[FRAMES * WIDE * HIGH * 4];
    dit_component parts[3];
    dit_tensor inputs[4];
    dit_model_desc md = {0};
    dit_job_desc desc = {0};
    dit_model *model = NULL;
    dit_model_info info;
    dit_error err = {0};
    folder transformer = {0};
    real_file file;
    bytes whole;
    uint32_t i;
    memset(parts, 0, sizeof parts);
    transformer_of_two(&transformer);
    vision_file(&file, D, 16, PATCH, 2, false);
    whole = file_bytes(&file);
    for (i = 0; i < 2 * WORDS * TEXT; i++)
        text[i / (WORDS * TEXT)][i % (WORDS * TEXT)] = (float)(i * 7 % 11) / 11 - 0.5f;
    for (i = 0; i < 2 * SEEN * D; i++) seen[i] = (float)(i * 3 % 13) / 13 - 0.5f;
    parts[0].role = DIT_ROLE_TRANSFORMER, parts[0].source = folder_source(&transformer);
    parts[1].role = DIT_ROLE_VAE, parts[1].source.path = "tests/fixtures/pipe_wan22_i2v_a14b/vae";
    parts[2].role = DIT_ROLE_IMAGE_ENCODER, parts[2].source = memory_source(&whole);
    inputs[0] = embeds("prompt_embeds", WORDS, TEXT, text[0]);
    inputs[1] = embeds("negative_prompt_embeds", WORDS, TEXT, text[1]);
    inputs[2] = embeds("prompt_embeds_2", 2 * SEEN, D, seen);
    inputs[3] = embeds("negative_prompt_embeds_2", 2 * SEEN, D, seen);
    md.components = parts;
    md.component_count = 2;
    desc.width = WIDE, desc.height = HIGH, desc.frame_count = FRAMES, desc.steps = 2;
    desc.seed = 42;
    desc.shift = 3;
    desc.init_image = images, desc.init_count = 2;
    desc.inputs = inputs, desc.input_count = 4;
    if (CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message)) {
        dit_model_get_info(model, &info);
        CHECK(info.wants_image && info.wants_last_image && !strcmp(info.variant, "flf2v-14b"));
        desc.model = model;
        check_latent(context, &desc, wanted, latent);
        desc.init_image = floats;
        check_latent(context, &desc, wanted, other);
        CHECK(!memcmp(latent, other, sizeof latent));
        desc.init_image = images;
        tokens_of(context->device, &parts[2].source, NULL, &images[0], seen, SEEN, D);
        tokens_of(context->device, &parts[2].source, NULL, &images[1], seen + SEEN * D, SEEN, D);
        CHECK_MESSAGE(make(context, &desc, given, &err), "%s", err.message);
        desc.init_count = 1;
        check_refused(context, &desc, "init_count 2");
        desc.init_count = 2;
        dit_model_destroy(model);
    }
    md.component_count = 3;
    if (CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message)) {
        desc.model = model;
        desc.input_count = 2;
        CHECK_MESSAGE(make(context, &desc, alone, &err), "%s", err.message);
        CHECK(!memcmp(alone, given, sizeof alone));
        dit_model_destroy(model);
    }
    folder_free(&transformer);
    bytes_free(&whole);
    real_free(&file);
}

/* A model that may have the last picture, too, and has no encoder of pictures. */
static void test_last(dit_context *context, const dit_image *images) {
    static const float wanted[] = {-0.895496f, -0.391702f, 1.313937f,  -0.518641f, 0.849268f, -0.349550f,
                                   -1.211254f, -1.254725f, -0.034799f, -0.851381f, 1.000322f, 1.845280f};
    static float latent[WHOLE];
    dit_model_desc md = {0};
    dit_job_desc desc = {0};
    dit_model *model = NULL;
    dit_model_info info;
    dit_error err = {0};
    md.source.path = "tests/fixtures/pipe_wan22_i2v_a14b";
    if (!CHECK_MESSAGE(dit_model_load(context, &md, &model, &err) == DIT_OK, "%s", err.message)) return;
    dit_model_get_info(model, &info);
    CHECK(info.wants_image && info.takes_image && info.takes_last_image && !info.wants_last_image);
    desc.model = model;
    desc.prompt = "a fox runs";
    desc.negative_prompt = "low quality";
    desc.width = WIDE, desc.height = HIGH, desc.frame_count = FRAMES, desc.steps = 3;
    desc.seed = 42;
    desc.init_image = images, desc.init_count = 2;
    check_latent(context, &desc, wanted, latent);
    desc.init_count = 3;
    check_refused(context, &desc, "init_count must be 1, or 2");
    desc.init_count = 2, desc.frame_count = 1;
    check_refused(context, &desc, "a single latent frame");
    dit_model_destroy(model);
}

static void test_two_pictures(dit_context *context) {
    static uint8_t pixels[2][WIDE * HIGH * 4];
    static float values[2][WIDE * HIGH * 3];
    dit_image images[2], floats[2];
    uint32_t i, k;
    memset(images, 0, sizeof images);
    memset(floats, 0, sizeof floats);
    for (i = 0; i < 2; i++) {
        for (k = 0; k < sizeof pixels[i]; k++)
            pixels[i][k] = (uint8_t)(i ? k * 11 + k / 192 * 7 + 90 : k * 5 + k / 192 * 3);
        for (k = 0; k < DITI_COUNT(values[i]); k++) values[i][k] = (float)pixels[i][k / 3 * 4 + k % 3] / 255;
        images[i].width = floats[i].width = WIDE;
        images[i].height = floats[i].height = HIGH;
        images[i].rgba = pixels[i];
        floats[i].rgb = values[i];
    }
    test_first_and_last(context, images, floats);
    test_last(context, images);
}

/* --- HunyuanVideo 1.5 of single files, of which the image encoder tells that it moves a picture --- */

/* Headers of a transformer, in a folder whose config.json says so much, and of SigLIP where it is named. */
static bool open_single(const char *config, bool sees, uint64_t budget, dit_model_info *info, dit_error *err) {
    dit_component parts[2];
    dit_model_desc md = {0};
    dit_model *model = NULL;
    folder transformer = {0};
    real_file files[2];
    bytes whole[2];
    uint32_t i;
    memset(parts, 0, sizeof parts);
    memset(info, 0, sizeof *info);
    memset(files, 0, sizeof files);
    files[0].type = DIT_TYPE_F16, files[0].original = true;
    real_hunyuanvideo15(&files[0], 128, 2, 64);
    vision_file(&files[1], 1152, 27, 14, 2, true);
    for (i = 0; i < 2; i++) {
        whole[i] = file_bytes(&files[i]);
        parts[i].source = memory_source(&whole[i]);
        real_free(&files[i]);
    }
    if (config) {
        folder_add(&transformer, "diffusion_pytorch_model.safetensors", whole[0]);
        folder_add_text(&transformer, "config.json", config);
        parts[0].source = folder_source(&transformer);
    }
    parts[0].role = DIT_ROLE_TRANSFORMER, parts[1].role = DIT_ROLE_IMAGE_ENCODER;
    md.components = parts;
    md.component_count = 1 + sees;
    md.weight_budget = budget;
    md.dry_run = true;
    if (dit_model_load(NULL, &md, &model, err) == DIT_OK) dit_model_get_info(model, info);
    dit_model_destroy(model);
    folder_free(&transformer);
    if (!config) bytes_free(&whole[0]);
    bytes_free(&whole[1]);
    return info->hidden > 0;
}

static void test_single_files(void) {
    dit_model_info info, small;
    dit_error err = {0};
    CHECK_MESSAGE(open_single(NULL, false, 0, &info, &err) && !info.wants_image && !strcmp(info.variant, "1.5"),
                  "%s %s", info.variant, err.message);
    CHECK_MESSAGE(open_single(NULL, true, 0, &info, &err) && info.wants_image && !strcmp(info.variant, "i2v-480p") &&
                      info.parameters[DIT_ROLE_IMAGE_ENCODER] && !(info.missing & 1u << DIT_ROLE_IMAGE_ENCODER),
                  "%s %s", info.variant, err.message);
    CHECK_MESSAGE(open_single(NULL, true, info.weight_bytes / 2, &small, &err) &&
                      small.weight_bytes <= info.weight_bytes / 2,
                  "%llu of %llu bytes stay: %s", (unsigned long long)small.weight_bytes,
                  (unsigned long long)info.weight_bytes, err.message);
    CHECK_MESSAGE(open_single("{\"rope_theta\": 256.0}", true, 0, &info, &err) && info.wants_image, "%s", err.message);
    CHECK_MESSAGE(!open_single("{\"task_type\": \"t2v\"}", true, 0, &info, &err) &&
                      strstr(err.message, "an image encoder serves models that read the picture"),
                  "%s", err.message);
}

int main(void) {
    dit_context_desc desc = {0};
    dit_context *context = NULL;
    dit_error err = {0};
    test_vulkan_begin();
    diti_env_init(&env, NULL, NULL, NULL);
    test_single_files();
    desc.overrides = "rung=base";
    if (CHECK_MESSAGE(dit_context_create(&desc, &context, &err) == DIT_OK, "%s", err.message)) {
        test_encoder(context->device, false);
        test_encoder(context->device, true);
        test_heads(context->device);
        test_wan(context);
        test_two_pictures(context);
    }
    dit_context_destroy(context);
    test_vulkan_end();
    return TEST_END("clip_vision");
}
